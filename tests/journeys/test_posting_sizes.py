"""A hundred thousand documents by a real worker: in one transaction, or chunk by chunk."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import eventually, execute, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.ledger_books import open_ledger
from tests.posting_books import submit

DOCUMENTS = 100_000
# What a worker may take more of for a hundred times as many documents.
ROOM_KIB = 60 * 1024
OWN = {"CHOT_KIND_MODULES": "", "CHOT_HANDLER_MODULES": "", "CHOT_QUEUES": "posting"}
MANY = """
    WITH made AS (
        INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
               party, total, vat_total, content_hash)
        SELECT 'ACME', 'sale', :name || n, '2026-01-05', DATE '2026-01-01' + n % 31, 'RED', 'R1',
               'C1', 220, 20, ''
          FROM generate_series(1, :many) n RETURNING id)
    INSERT INTO books.document_lines (document_id, line_no, item, net, vat)
    SELECT id, k, 'A', 100, 10 FROM made, generate_series(1, 2) k"""
SOUND = """
    SELECT count(*) = :many AND max(entry_no) = :many AND min(entry_no) = 1
       AND bool_and(prev_hash = coalesce(before, ''))
      FROM (SELECT entry_no, prev_hash, lag(hash) OVER (ORDER BY entry_no) AS before
              FROM books.gl_entries) e"""


def _rss(worker: Child) -> int:
    status = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def _posted(engine: AsyncEngine, worker: Child, job_id: Any) -> int:
    """The most KiB that the worker took until the job had ended well."""
    peak = 0

    async def ended() -> bool:
        nonlocal peak
        peak = max(peak, _rss(worker))
        return (await job_row(engine, job_id)).state not in {"pending", "running"}

    await eventually(ended, seconds=580, every=0.1)
    row = await job_row(engine, job_id)
    assert (row.state, row.attempt, row.lost_leases) == ("succeeded", 1, 0)
    return peak


@pytest.mark.long
@pytest.mark.parametrize("mode", ["per_document", "atomic"])
async def test_a_hundred_thousand_documents_are_posted_at_the_first_attempt(
    fleet: Fleet, engine: AsyncEngine, read_engine: AsyncEngine, mode: str
) -> None:
    """One transaction that lasts longer than a lease of three seconds keeps it all the same."""
    books = await open_ledger(engine, read_engine)
    for name, many in (("A", DOCUMENTS // 100), ("B", DOCUMENTS)):
        await execute(engine, MANY, name=name, many=many)
    worker = await asyncio.to_thread(lambda: fleet.worker(**OWN))
    small = [row.id for row in await fetch(engine, "SELECT id FROM books.documents LIMIT 1000")]
    before = await _posted(engine, worker, await submit(books, documents=small, mode=mode))
    job_id = await submit(books, types=["sale"], mode=mode, chunk_documents=1_000)
    after = await _posted(engine, worker, job_id)
    result = await books.result(job_id)
    assert result["outcomes"] == {"POSTED": DOCUMENTS}
    assert await scalar(engine, SOUND, many=DOCUMENTS + len(small))
    lasted = "SELECT finished_at - started_at FROM chot.jobs WHERE id = :id"
    seconds = (await scalar(engine, lasted, id=job_id)).total_seconds()
    print(f"\n{mode}: {seconds:.1f} s, worker {before:,} -> {after:,} KiB")  # noqa: T201
    assert after - before < ROOM_KIB
