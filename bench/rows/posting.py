"""Posting documents of four lines, beside the same rows by INSERT … SELECT into the same tables.

Ours judges, numbers, chains and notes each document; the limit has every row ready in two tables
and writes them for another company with the same drafts: lines, heads, numbers, statuses, as many
documents a transaction as ours, under the same foreign keys, checks and triggers.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from uuid import UUID

from bench.drains import look, submit_many
from bench.figures import Figure, ratio
from bench.kinds import HOLD
from bench.place import Place, Platform
from bench.posting import PLACES
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from bench.work import vacuum, work
from dev.processes import Child
from shared.kinds.posting import CHUNK_DOCUMENTS, POSTING_POST

LINES = 4
MOST = 3.0
SALES = f"""
    WITH made AS (
        INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
               party, total, vat_total, content_hash)
        SELECT $1, 'sale', 'S' || n, '2026-01-05', DATE '2026-01-01' + n * 31 / ($2 + 1), 'B', 'S',
               'C1', {LINES * 110}, {LINES * 10}, ''
          FROM generate_series(1, CAST($2 AS integer)) n RETURNING id)
    INSERT INTO books.document_lines (document_id, line_no, item, net, vat)
    SELECT id, k, 'A', 100, 10 FROM made, generate_series(1, {LINES}) k"""
STAGE = (
    "DROP TABLE IF EXISTS bench.lines, bench.entries",
    """CREATE TABLE bench.entries AS
       SELECT e.*, d.id AS new_document, nextval('books.gl_entries_id_seq') AS new_id
         FROM (SELECT * FROM books.gl_entries WHERE company = '{source}' ORDER BY entry_no) e
         JOIN books.documents o ON o.id = e.document_id
         JOIN books.documents d ON d.company = '{target}' AND d.type = o.type
                               AND d.doc_no = o.doc_no""",
    "CREATE UNIQUE INDEX ON bench.entries (entry_no)",
    """CREATE TABLE bench.lines AS
       SELECT l.*, e.entry_no, e.new_id FROM books.gl_lines l
         JOIN bench.entries e ON e.id = l.entry_id ORDER BY e.entry_no, l.line_no""",
    "CREATE INDEX ON bench.lines (entry_no)",
    "ANALYZE bench.lines, bench.entries",
    """INSERT INTO books.gl_series (company, series, fiscal_year)
       SELECT DISTINCT '{target}', series, fiscal_year FROM bench.entries""",
)
INSERT_LINES = """
    INSERT INTO books.gl_lines (entry_id, line_no, debit, credit, qty_base, posting_date, company,
           brand, account, party, store, item, currency, fc_amount, memo)
    SELECT new_id, line_no, debit, credit, qty_base, posting_date, $1, brand, account, party, store,
           item, currency, fc_amount, memo
      FROM bench.lines WHERE entry_no > $2 AND entry_no <= $3 ORDER BY entry_no, line_no"""
MARK = """
    UPDATE books.documents d
       SET status = 'posted', posted_version = d.version, updated_at = clock_timestamp()
      FROM bench.entries e
     WHERE e.entry_no > $1 AND e.entry_no <= $2 AND d.id = e.new_document"""
NUMBER = """
    UPDATE books.gl_series s SET last_no = $2, last_hash = e.hash
      FROM bench.entries e
     WHERE e.entry_no = $2 AND s.company = $1 AND s.series = e.series
       AND s.fiscal_year = e.fiscal_year"""
INSERT_ENTRIES = """
    INSERT INTO books.gl_entries (id, document_id, entry_no, fence, job_id, document_version,
           rule_version, fiscal_year, posting_date, company, brand, series, role, kind, memo,
           prev_hash, hash)
    SELECT new_id, new_document, entry_no, $5, $4, document_version, rule_version, fiscal_year,
           posting_date, $1, brand, series, role, kind, memo, prev_hash, hash
      FROM bench.entries WHERE entry_no > $2 AND entry_no <= $3 ORDER BY entry_no"""
# The ledger takes rows of a running job alone, under its fence.
HOLDER = "SELECT id, fence FROM chot.jobs WHERE kind = $1 AND state = 'running'"
POSTED = """
    SELECT (SELECT count(*) FROM books.gl_lines WHERE company = $1),
           (SELECT count(*) FROM books.gl_entries WHERE company = $1),
           (SELECT count(*) FROM books.documents WHERE company = $1 AND status = 'posted')"""
HOLDS = f"SELECT count(*) FROM chot.jobs WHERE kind = '{HOLD}' AND state = 'running'"


@dataclass(slots=True)
class Posting:
    """A worker that posts, and a job that runs all the time."""

    platform: Platform
    worker: Child
    documents: int
    holder: tuple[UUID, int] = (UUID(int=0), 0)
    round: int = 0


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Posting]:
    """Drafts come with each round: a company for each side."""
    async with place.platform() as platform:
        worker = platform.worker()
        await submit_many(platform, 1, kind=HOLD, seconds=6 * 3600.0)
        while not await look(platform, HOLDS):
            pass
        row = await platform.superuser.fetchrow(HOLDER, HOLD)
        posting = Posting(platform, worker, sizes["documents"], (row["id"], row["fence"]))
        yield posting


async def ours(posting: Posting) -> Measured:
    """All drafts of a company, by one job."""
    posting.round += 1
    source = await _drafts(posting, "O")
    payload = {"types": ["sale"]}
    ran = await work(posting.platform, posting.worker, POSTING_POST.name, source, payload)
    await _check(posting, source)
    return {"seconds": ran.seconds, "peak": ran.peak_mib}


async def limit(posting: Posting) -> Measured:
    """The rows of ours once more, ready beforehand, for a company with the same drafts."""
    superuser, source = posting.platform.superuser, f"O{posting.round}"
    target = await _drafts(posting, "L")
    for statement in STAGE:
        await superuser.execute(statement.format(source=source, target=target))
    job_id, fence = posting.holder
    began = perf_counter()
    for start in range(0, posting.documents, CHUNK_DOCUMENTS):
        end = min(posting.documents, start + CHUNK_DOCUMENTS)
        async with superuser.transaction():
            await superuser.execute(INSERT_LINES, target, start, end)
            await superuser.execute(MARK, start, end)
            await superuser.execute(NUMBER, target, end)
            await superuser.execute(INSERT_ENTRIES, target, start, end, job_id, fence)
    seconds = perf_counter() - began
    await _check(posting, target)
    return {"seconds": seconds}


async def _drafts(posting: Posting, side: str) -> str:
    company = f"{side}{posting.round}"
    for statement in PLACES:
        await posting.platform.superuser.execute(statement, company)
    await posting.platform.superuser.execute(SALES, company, posting.documents)
    await vacuum(posting.platform)
    return company


async def _check(posting: Posting, company: str) -> None:
    found = await posting.platform.superuser.fetchrow(POSTED, company)
    documents = posting.documents
    if tuple(found) != ((LINES + 2) * documents, documents, documents):
        raise BenchFailed(f"{documents} documents of {company}: lines, entries, posted {found}")


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Time against time."""
    mine, bare = each(ours, "seconds"), each(limits, "seconds")
    return [ratio("time", mine, bare, unit="s", at_most=MOST)]


ROW = Row(
    name="posting",
    title="posting of documents of 4 lines, validate and post",
    against="set-based `INSERT … SELECT` into the same constrained tables",
    sizes={
        Scale.TINY: {"rounds": 1, "documents": 60},
        Scale.QUICK: {"rounds": 1, "documents": 2_000},
        Scale.USUAL: {"rounds": 3, "documents": 10_000},
        Scale.LONG: {"rounds": 3, "documents": 100_000},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    turns=False,
)
