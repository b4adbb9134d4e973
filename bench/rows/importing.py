"""Importing a file of movements, beside COPY of the same rows into the same table.

Ours reads the file from the bucket, checks every line against items, stores, periods and what is
there, and merges in fenced batches. The limit is COPY in text, as role app, as many rows a
transaction as a batch has, with the constraints and triggers of the table.
"""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import asyncpg
import httpx

from bench.figures import Figure, count, ratio
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from bench.work import vacuum, work
from dev.processes import Child
from shared.kinds.migration import MIGRATION_RUN

MOST = 2.0
ITEMS = 2_000
BATCH = 20_000
HEAD = "doc_id,doc_line,kind,posting_date,posting_seq,store,item,quantity,value\n"
COLUMNS = (
    *("company", "brand", "item", "store", "kind", "doc_id", "doc_line", "posting_date"),
    *("posting_seq", "qty_base", "value", "job_id"),
)
PLACES = (
    "INSERT INTO books.companies (code, name) VALUES ($1, $1)",
    "INSERT INTO books.brands (company, code, name) VALUES ($1, 'B', 'B')",
    """INSERT INTO books.stores (company, code, brand, name)
       SELECT $1, 'R' || n, 'B', 'S' FROM generate_series(1, 2) n""",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ($1, '2026-01', '2026-01-01', '2026-01-31')""",
    f"""INSERT INTO books.items (company, code, name, base_uom)
        SELECT $1, 'I' || n, 'i', 'cái' FROM generate_series(0, {ITEMS - 1}) AS n""",
)
ROWS = "SELECT count(*) FROM books.stock_movements WHERE company = $1"
TAKE = f"""
    SELECT $2::text, {", ".join(COLUMNS[1:])} FROM books.stock_movements
     WHERE company = $1 ORDER BY id"""


@dataclass(slots=True)
class Importing:
    """Where files are sent, who imports them, and the connection of the limit."""

    platform: Platform
    worker: Child
    url: str
    app: asyncpg.Connection
    lines: int
    round: int = 0


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Importing]:
    """An api that takes files, a worker that reads them."""
    async with place.platform() as platform:
        worker = platform.worker()
        _, port = platform.api()
        app = await asyncpg.connect(platform.database.app_url)
        try:
            yield Importing(platform, worker, f"http://127.0.0.1:{port}", app, sizes["lines"])
        finally:
            await app.close()


async def ours(importing: Importing) -> Measured:
    """One file, of documents that no other round has."""
    importing.round += 1
    company = await _company(importing, "O")
    path = importing.platform.place.home / "movements.csv"
    await asyncio.to_thread(_write, path, importing.lines)
    try:
        file = await _send(importing, company, path)
    finally:
        path.unlink()
    payload = {"task": "import.movements", "params": {"file": file}, "batch_size": BATCH}
    platform, worker = importing.platform, importing.worker
    ran = await work(platform, worker, MIGRATION_RUN.name, company, payload)
    if ran.result["counts"] != {"created": importing.lines}:
        raise BenchFailed(f"of {importing.lines} lines: {ran.result['counts']}")
    return {"seconds": ran.seconds, "peak": ran.peak_mib}


def _write(path: Path, lines: int) -> None:
    with path.open("w", encoding="utf-8") as target:
        target.write(HEAD)
        target.writelines(_lines(lines))


def _lines(lines: int) -> Iterator[str]:
    """Receipts and issues of two shops, four lines a document, in the order of the month."""
    for n in range(lines):
        kind, value = ("issue", "") if n % 2 else ("receipt", str(n % 1_000_000))
        day = 1 + n * 31 // lines
        yield (
            f"PN{n // 4:08d},{n % 4 + 1},{kind},2026-01-{day:02d},{n},R{n // 4 % 2 + 1},"
            f"I{n % ITEMS},{n % 50 + 1},{value}\n"
        )


async def _send(importing: Importing, company: str, path: Path) -> str:
    with path.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    query = f"/v1/files?company={company}&name=movements.csv&sha256={digest}"
    headers = {"Authorization": f"Bearer {importing.platform.key}"}
    async with httpx.AsyncClient(base_url=importing.url, timeout=600, headers=headers) as client:
        answer = await client.post(query, content=_parts(path))
    if answer.is_error:
        raise BenchFailed(f"the file is answered {answer.status_code}: {answer.text[:500]}")
    return str(answer.json()["id"])


async def _parts(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as source:
        while part := source.read(1 << 18):
            yield part


async def limit(importing: Importing) -> Measured:
    """The rows that this round's import has written, for another company of equal items."""
    target = await _company(importing, "L")
    rows = io.BytesIO()
    superuser = importing.platform.superuser
    await superuser.copy_from_query(TAKE, f"O{importing.round}", target, output=rows, format="text")
    lines = rows.getvalue().splitlines(keepends=True)
    parts = [b"".join(lines[at : at + BATCH]) for at in range(0, len(lines), BATCH)]
    began = perf_counter()
    for part in parts:
        await importing.app.copy_to_table(
            "stock_movements",
            schema_name="books",
            columns=COLUMNS,
            source=io.BytesIO(part),
            format="text",
        )
    seconds = perf_counter() - began
    found = await superuser.fetchval(ROWS, target)
    if found != importing.lines:
        raise BenchFailed(f"COPY has brought {found} of {importing.lines} rows")
    return {"seconds": seconds}


async def _company(importing: Importing, side: str) -> str:
    company = f"{side}{importing.round}"
    for statement in PLACES:
        await importing.platform.superuser.execute(statement, company)
    await vacuum(importing.platform)
    return company


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Time against time; the peak of worker and child is told beside."""
    mine, bare = each(ours, "seconds"), each(limits, "seconds")
    return [
        ratio("time", mine, bare, unit="s", at_most=MOST),
        count("peak of worker and child", each(ours, "peak"), unit="MiB"),
    ]


ROW = Row(
    name="import",
    title="import of movements",
    against="COPY into the same table with its constraints",
    sizes={
        Scale.TINY: {"rounds": 1, "lines": 400},
        Scale.QUICK: {"rounds": 1, "lines": 20_000},
        Scale.USUAL: {"rounds": 3, "lines": 200_000},
        Scale.LONG: {"rounds": 1, "lines": 5_000_000},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    turns=False,
)
