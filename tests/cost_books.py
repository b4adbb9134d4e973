"""Costs in the ledger, for tests: goods that are bought and costed, and attempts of posting.costs."""

import asyncio
import json
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import UUID

from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.cost_documents import POSTING_COSTS, PostingCostsPayload
from shared.types import JobId, WorkerId
from tests.costing_books import JANUARY, STORE_BRANDS, Books
from tests.factories import TIMING, autocommit, fetch
from tests.posting_books import draft, post
from worker.claim import Claimant, claim_jobs, read_input
from worker.context import JobContext
from worker.handlers.cost_documents import post_costs

DAY = date(2026, 1, 5)


async def bought(
    books: Books,
    number: str,
    qty: int,
    value: int,
    *,
    item: str = "A",
    store: str = "R1",
    day: date = DAY,
) -> int:
    """Goods come in, and their purchase is in the ledger; the movement's id."""
    movement = await books.move(
        "receipt", qty, item=item, store=store, day=day, value=value, doc=number
    )
    line = {"item": item, "qty": qty, "net": value}
    facts = {"day": day, "brand": STORE_BRANDS[store], "store": store, "party": "V1"}
    purchase = await draft(books, "purchase", number, line, total=value, vat_total=0, **facts)
    result = await post(books, documents=[purchase])
    assert result["outcome"] == "succeeded", result
    return movement


async def submit_costs(
    books: Books, period: str = JANUARY, *, brand: str | None = None, **payload: Any
) -> JobId:
    """Submit a job of posting.costs."""
    body = {"period": period} | payload
    PostingCostsPayload.model_validate(body)
    job = Submit(kind=POSTING_COSTS.name, company="ACME", brand=brand, payload=body)
    async with books.app.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def claimed_costs(books: Books, job_id: JobId) -> tuple[JobContext, PostingCostsPayload]:
    """The context and payload of a fresh claim, taking over an expired one."""
    who = Claimant(
        worker_id=WorkerId("coster"),
        code_version="test",
        kinds={POSTING_COSTS.name: POSTING_COSTS},
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
    return context, PostingCostsPayload.model_validate_json(raw)


async def attempt_costs(books: Books, job_id: JobId) -> None:
    """Claim the job and run its handler once; what the handler raises is raised."""
    context, payload = await claimed_costs(books, job_id)
    try:
        await post_costs(context, payload)
    finally:
        await context.close()


async def costs_posted(books: Books, period: str = JANUARY, **payload: Any) -> dict[str, Any]:
    """Submit and run a posting of costs to its end; the job's result."""
    job_id = await submit_costs(books, period, **payload)
    await attempt_costs(books, job_id)
    return await books.result(job_id)


async def stock(books: Books) -> dict[tuple[str, str], int]:
    """The ledger of goods by store and item."""
    query = """
        SELECT l.store, l.item, sum(l.debit - l.credit) AS balance FROM books.gl_lines l
          JOIN books.gl_accounts g ON g.company = l.company AND g.code = l.account AND g.is_stock
         GROUP BY l.store, l.item HAVING sum(l.debit - l.credit) <> 0"""
    return {(r.store, r.item): int(r.balance) for r in await fetch(books.app, query)}


async def worth(books: Books, period: str = JANUARY) -> dict[tuple[str, str], int]:
    """What the goods of every store are worth by the results of the period."""
    query = """
        SELECT b.store, b.item, b.v_closing FROM books.active_results a
          JOIN books.store_balances b
            ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
         WHERE a.company = 'ACME' AND a.period = :period AND NOT a.failed AND b.v_closing <> 0"""
    rows = await fetch(books.app, query, period=period)
    return {(row.store, row.item): row.v_closing for row in rows}


async def accounts(books: Books) -> dict[str, int]:
    """The balance of every account, debits less credits."""
    query = """
        SELECT account, sum(debit - credit) AS balance FROM books.gl_lines GROUP BY account
        HAVING sum(debit - credit) <> 0"""
    return {row.account: int(row.balance) for row in await fetch(books.app, query)}


async def documents(books: Books, status: str = "posted") -> dict[str, int]:
    """Cost documents by number, with what they debit in all."""
    query = """
        SELECT d.doc_no, sum(l.net) FILTER (WHERE l.side = 'debit') AS debit
          FROM books.documents d JOIN books.document_lines l ON l.document_id = d.id
         WHERE d.type = 'cost' AND d.status = :status GROUP BY d.doc_no ORDER BY d.doc_no"""
    rows = await fetch(books.app, query, status=status)
    return {row.doc_no: int(row.debit) for row in rows}


async def entries(books: Books, job_id: UUID | None = None) -> list[tuple[str, int]]:
    """Kind and number of every cost entry, in order."""
    query = """
        SELECT kind, entry_no FROM books.gl_entries WHERE role = 'cost'
           AND (CAST(:job_id AS uuid) IS NULL OR job_id = :job_id) ORDER BY entry_no"""
    return [(row.kind, row.entry_no) for row in await fetch(books.app, query, job_id=job_id)]
