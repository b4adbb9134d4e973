"""Unposting for tests: attempts of posting.unpost, and what the ledger has of a document."""

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.unposting import POSTING_UNPOST, UnpostingPayload
from shared.types import JobId, WorkerId
from tests.costing_books import Books
from tests.factories import TIMING, autocommit, expire_lease, fetch, scalar
from tests.posting_books import items
from worker.claim import Claimant, claim_jobs, read_input
from worker.context import JobContext
from worker.handlers.unposting import run_unposting

REASON = "wrong customer"


async def submit(
    books: Books, *, company: str = "ACME", brand: str | None = None, **payload: Any
) -> JobId:
    """Submit an unposting."""
    payload = {"reason": REASON} | payload
    UnpostingPayload.model_validate(payload)
    job = Submit(kind=POSTING_UNPOST.name, company=company, brand=brand, payload=payload)
    async with books.app.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def claimed(books: Books, job_id: JobId) -> tuple[JobContext, UnpostingPayload]:
    """The context and payload of a fresh claim, taking over an expired one."""
    who = Claimant(
        worker_id=WorkerId("unposter"),
        code_version="test",
        kinds={POSTING_UNPOST.name: POSTING_UNPOST},
        timing=TIMING,
    )
    auto = autocommit(books.app)
    (held,) = await claim_jobs(auto, who, [job_id], wait=True)
    raw, checkpoint = await read_input(auto, held)
    context = JobContext(
        job=replace(held.job, payload=json.loads(raw)),
        checkpoint=None if checkpoint is None else json.loads(checkpoint),
        _held=held,
        _engines=books.engines,
        _timing=TIMING,
        _draining=asyncio.Event(),
    )
    return context, UnpostingPayload.model_validate_json(raw)


async def attempt(books: Books, job_id: JobId) -> None:
    """Claim the job and run its handler once; what the handler raises is raised."""
    context, payload = await claimed(books, job_id)
    try:
        await run_unposting(context, payload)
    finally:
        await context.close()


async def again(books: Books, job_id: JobId) -> None:
    """The worker is lost, and another attempt takes the job over."""
    await expire_lease(books.app, job_id)
    await attempt(books, job_id)


async def unpost(books: Books, *, brand: str | None = None, **payload: Any) -> dict[str, Any]:
    """Submit and run an unposting to its end; the job's result."""
    job_id = await submit(books, brand=brand, **payload)
    await attempt(books, job_id)
    return await books.result(job_id)


async def unpost_one(books: Books, document_id: int, **how: Any) -> Any:
    """Unpost one document; its row in the list."""
    job_id = await submit(books, documents=[document_id], **how)
    await attempt(books, job_id)
    (row,) = await items(books, job_id)
    return row


async def standing(books: Books, document_id: int) -> tuple[str, int]:
    """Status and version of a document."""
    query = "SELECT status, version FROM books.documents WHERE id = :id"
    (row,) = await fetch(books.app, query, id=document_id)
    return row.status, row.version


async def entries_of(books: Books, document_id: int) -> list[tuple[str, int, int]]:
    """Kind, version and number of every entry of a document, in the order of the ledger."""
    query = """
        SELECT kind, document_version, entry_no FROM books.gl_entries
         WHERE document_id = :id ORDER BY entry_no"""
    rows = await fetch(books.app, query, id=document_id)
    return [(row.kind, row.document_version, row.entry_no) for row in rows]


async def balances(books: Books, document_id: int) -> dict[str, int]:
    """What a document leaves on each account, where that is not nothing."""
    query = """
        SELECT l.account, sum(l.debit - l.credit) AS balance FROM books.gl_entries e
          JOIN books.gl_lines l ON l.entry_id = e.id WHERE e.document_id = :id
         GROUP BY l.account HAVING sum(l.debit - l.credit) <> 0"""
    return {row.account: int(row.balance) for row in await fetch(books.app, query, id=document_id)}


# Each document that is posted is in the ledger once more than it was taken back; others are not.
ASTRAY = """
    SELECT d.id FROM books.documents d
      LEFT JOIN books.gl_entries e ON e.document_id = d.id
     GROUP BY d.id, d.status
    HAVING count(e.id) FILTER (WHERE e.kind = 'normal')
           - count(e.id) FILTER (WHERE e.kind = 'reversal')
           <> CASE WHEN d.status = 'posted' THEN 1 ELSE 0 END"""


async def astray(books: Books) -> list[int]:
    """Documents whose status is not what the ledger says; none of them is a transfer."""
    return [row.id for row in await fetch(books.app, ASTRAY)]


async def gapless(books: Books, series: str = "NKC") -> bool:
    """Every number of the series is given once, and none is left out."""
    query = """
        SELECT count(*) = coalesce(max(entry_no), 0) FROM books.gl_entries WHERE series = :s"""
    return bool(await scalar(books.app, query, s=series))


async def job_of(books: Books, job_id: UUID) -> Any:
    """The job's row."""
    (row,) = await fetch(books.app, "SELECT * FROM chot.jobs WHERE id = :id", id=job_id)
    return row
