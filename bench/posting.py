"""A hundred thousand sales: posted chunk by chunk, as one, and inserted plainly, line for line.

The plain INSERT writes what posting writes of a sale into a table with the ledger's indexes, 1,000
documents a transaction: nothing is looked at, numbered, chained or noted. What posting takes beyond
it is what it does. Both on one server, one after the other.
"""

import asyncio
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from bench.running import LONGEST_SECONDS, Bench, BenchFailed, ended
from shared.database import transaction
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.posting import POSTING_POST

DOCUMENTS = 100_000
CHUNK = 1_000
MODES = ("per_document", "atomic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """One way to write the same lines; seconds as the database's clock has them."""

    way: str
    documents: int
    lines: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json and for the table."""
        return asdict(self)


PLACES = (
    "INSERT INTO books.companies (code, name) VALUES ($1, $1)",
    "INSERT INTO books.brands (company, code, name) VALUES ($1, 'B', 'B')",
    "INSERT INTO books.stores (company, code, brand, name) VALUES ($1, 'S', 'B', 'S')",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ($1, '2026-01', '2026-01-01', '2026-01-31')""",
    "SELECT books.adopt_chart($1, 'TT200')",
)
SALES = """
    WITH made AS (
        INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
               party, total, vat_total, content_hash)
        SELECT $1, 'sale', 'S' || n, '2026-01-05', DATE '2026-01-01' + n % 31, 'B', 'S', 'C1',
               330, 30, ''
          FROM generate_series(1, CAST($2 AS integer)) n RETURNING id)
    INSERT INTO books.document_lines (document_id, line_no, item, net, vat)
    SELECT id, k, 'A', 100, 10 FROM made, generate_series(1, 3) k"""
PLAIN_TABLE = """
    CREATE TABLE books.bench_lines (LIKE books.gl_lines INCLUDING DEFAULTS INCLUDING INDEXES)"""
PLAIN = """
    INSERT INTO books.bench_lines (entry_id, line_no, debit, credit, posting_date, company, brand,
                                   account, party, store, item)
    SELECT d.id, row_number() OVER (PARTITION BY d.id), x.debit, x.credit, d.posting_date,
           d.company, d.brand, x.account, d.party, d.store, x.item
      FROM (SELECT * FROM books.documents d WHERE d.company = $1 AND d.id > $2
             ORDER BY d.id LIMIT $3) d
     CROSS JOIN LATERAL (
           SELECT '131' AS account, d.total AS debit, 0 AS credit, NULL AS item
            UNION ALL
           SELECT '5111', 0, l.net, l.item FROM books.document_lines l WHERE l.document_id = d.id
            UNION ALL
           SELECT '33311', 0, d.vat_total, NULL) x"""


async def measure_posting(bench: Bench, documents: int = DOCUMENTS) -> list[Posted]:
    """Every way, each on documents of a company of its own."""
    found = [await _post(bench, f"POST{n}", documents, mode) for n, mode in enumerate(MODES)]
    return [*found, await _insert(bench, "POST0", documents)]


async def _load(bench: Bench, company: str, documents: int) -> None:
    for statement in PLACES:
        await bench.superuser.execute(statement, company)
    await bench.superuser.execute(SALES, company, documents)


async def _post(bench: Bench, company: str, documents: int, mode: str) -> Posted:
    await _load(bench, company, documents)
    payload = {"types": ["sale"], "mode": mode, "chunk_documents": CHUNK}
    job = Submit(kind=POSTING_POST.name, company=company, brand=None, payload=payload)
    async with transaction(bench.app) as conn:
        job_id = (await enqueue(conn, job)).job_id
    async with asyncio.timeout(LONGEST_SECONDS):
        row = await ended(bench, job_id)
    query = "SELECT count(*) FROM books.gl_lines WHERE company = $1"
    lines = await bench.superuser.fetchval(query, company)
    if lines != 5 * documents:
        raise BenchFailed(f"{documents} documents of {company} have {lines} lines in the ledger")
    seconds = round(float(row["seconds"]), 2)
    return Posted(way=mode, documents=documents, lines=lines, seconds=seconds)


async def _insert(bench: Bench, company: str, documents: int) -> Posted:
    await bench.superuser.execute(PLAIN_TABLE)
    last, began = 0, monotonic()
    while True:
        await bench.superuser.execute(PLAIN, company, last, CHUNK)
        newest = await bench.superuser.fetchval("SELECT max(entry_id) FROM books.bench_lines")
        if newest == last:
            break
        last = newest
    seconds = round(monotonic() - began, 2)
    lines = await bench.superuser.fetchval("SELECT count(*) FROM books.bench_lines")
    await bench.superuser.execute("DROP TABLE books.bench_lines")
    return Posted(way="plain INSERT", documents=documents, lines=lines, seconds=seconds)
