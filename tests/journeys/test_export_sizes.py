"""An export of 100,000 rows by real processes: memory does not grow with the rows, nor on the way."""

import asyncio
import csv
import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openpyxl
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.access import Role
from shared.client import ChotClient
from tests.cost_run_rows import seed_places, sold, write_run
from tests.factories import execute
from tests.fleet import Fleet
from tests.protocol.api.keys import make_key

T = TypeVar("T")
ROWS = 100_000
SMALL = 1_000
# What the pools of a page, a chunk and the buffers on the way may take, whatever the rows are.
ROOM_KIB = 40 * 1024
OWN = {"CHOT_KIND_MODULES": "", "CHOT_HANDLER_MODULES": "", "CHOT_QUEUES": ""}
MORE = """
    INSERT INTO books.pool_results
    SELECT p.run_id, p.q_opening, p.v_opening, p.q_receipt, p.v_receipt, p.q_gain, p.v_gain,
           p.q_sales_return, p.v_sales_return, p.q_issue, p.v_issue, p.q_usage, p.v_usage,
           p.q_purchase_return, p.v_purchase_return, p.q_closing, p.v_closing, p.v_rounding,
           p.v_variance, p.price_num, p.price_den, p.pushes, p.dipped, p.brand, p.item,
           'P' || lpad(n::text, 7, '0')
      FROM books.pool_results p, generate_series(2, :rows) AS n WHERE p.run_id = :run"""


def rss_of(pid: int) -> int:
    """KiB; 0 of one that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    return int(found[0]) if found else 0


def sizes_of(worker: Child, api: Child) -> dict[str, int]:
    """What worker, its child process and the api take now."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return {
        "worker": rss_of(worker.pid),
        "child": max((rss_of(int(pid)) for pid in children), default=0),
        "api": rss_of(api.pid),
    }


async def peaks_while(work: Awaitable[T], worker: Child, api: Child) -> tuple[T, dict[str, int]]:
    """The result, and the most that each process took meanwhile."""
    task = asyncio.ensure_future(work)
    peaks = sizes_of(worker, api)
    while not task.done():
        await asyncio.wait({task}, timeout=0.05)
        now = sizes_of(worker, api)
        peaks = {name: max(peaks[name], now[name]) for name in peaks}
    return task.result(), peaks


async def run_of(engine: AsyncEngine, rows: int, period: str) -> int:
    """A run with so many results."""
    run = await write_run(engine, [sold("RED", "P0000001")], period=period)
    await execute(engine, MORE, run=run, rows=rows)
    return run


async def exported(chot: ChotClient, run: int, form: Any, to: Path) -> dict[str, Any]:
    submitted = await chot.costs.export(run, format=form)
    job = await chot.wait(submitted.id, timeout=300)
    assert job.result is not None, job.error
    await chot.costs.download(job.result["file"]["id"], to)
    return dict(job.result)


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv", "xlsx"])
async def test_memory_does_not_grow_with_the_rows_of_an_export(
    fleet: Fleet, owner_engine: AsyncEngine, tmp_path: Path, form: str
) -> None:
    """Worker, child and api, from the read to the download; not a row or a byte is missing."""
    await seed_places(owner_engine, cents=False)
    key = await make_key(owner_engine, Role.ADMIN)
    worker = fleet.worker(**OWN)
    api, url = await asyncio.to_thread(lambda: fleet.api(CHOT_API_OPEN="false", **OWN))
    small = await run_of(owner_engine, SMALL, "2026-01")
    large = await run_of(owner_engine, ROWS, "2026-02")
    target = tmp_path / f"large.{form}"
    async with ChotClient(url, key) as chot:
        await exported(chot, small, form, tmp_path / "warm")
        _, before = await peaks_while(exported(chot, small, form, tmp_path / "small"), worker, api)
        result, after = await peaks_while(exported(chot, large, form, target), worker, api)
    content = target.read_bytes()
    print(f"\n{form}: {len(content):,} bytes, peaks KiB {before} -> {after}")  # noqa: T201
    assert result["rows"] == ROWS
    assert hashlib.sha256(content).hexdigest() == result["file"]["sha256"]
    grown = {name: after[name] - before[name] for name in after}
    assert max(grown.values()) < ROOM_KIB, (before, after)
    pools = await asyncio.to_thread(_pools, target, form)
    assert pools == [f"P{n:07}" for n in range(1, ROWS + 1)]
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:
        head = await http.head(result["file"]["url"])
        assert head.headers["content-length"] == str(len(content))


def _pools(path: Path, form: str) -> list[str]:
    if form == "csv":
        with path.open(encoding="utf-8", newline="") as source:
            return [row[1] for row in csv.reader(source)][1:]
    book = openpyxl.load_workbook(path, read_only=True)
    rows = book["Results"].iter_rows(min_row=2, min_col=2, max_col=2, values_only=True)
    found = [str(row[0]) for row in rows]
    book.close()
    return found
