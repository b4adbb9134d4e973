"""Posting for tests: documents of a company with a chart, and attempts of posting jobs."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text

from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.posting import POSTING_POST, PostingPayload
from shared.types import JobId, WorkerId
from tests.costing_books import Books
from tests.factories import TIMING, autocommit, execute, expire_lease, fetch, scalar
from worker.claim import Claimant, claim_jobs, read_input
from worker.cleanup import clean_up_one
from worker.context import JobContext
from worker.handlers.posting import HANDLERS, run_posting

DAY = date(2026, 1, 5)
KINDS = {each.kind: each for each in HANDLERS}

DRAFT = text("""
    INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
           to_store, party, account, currency, fc_rate, fc_total, fc_vat_total, total, vat_total,
           memo, content_hash)
    SELECT d.company, d.type, d.doc_no, d.day, d.day, d.brand, d.store, d.to_store, d.party,
           d.account, d.currency, d.fc_rate, d.fc_total, d.fc_vat_total, d.total, d.vat_total,
           d.memo, ''
      FROM jsonb_to_record(CAST(:document AS jsonb)) AS d (company text, type text,
           doc_no text, day date, brand text, store text, to_store text, party text, account text, currency text,
           fc_rate numeric, fc_total numeric, fc_vat_total numeric, total bigint,
           vat_total bigint, memo text)
    RETURNING id""")
LINES = text("""
    INSERT INTO books.document_lines (document_id, line_no, item, qty_base, net, vat, vat_rate,
           fc_net, fc_vat, side, account, store, party, memo)
    SELECT :id, l.n, l.item, l.qty, l.net, l.vat, l.vat_rate, l.fc_net, l.fc_vat, l.side, l.account,
           l.store, l.party, l.memo
      FROM ROWS FROM (jsonb_to_recordset(CAST(:lines AS jsonb)) AS (item text, qty bigint,
           net bigint, vat bigint, vat_rate numeric, fc_net numeric, fc_vat numeric, side text,
           account text, store text, party text, memo text)) WITH ORDINALITY
           AS l (item, qty, net, vat, vat_rate, fc_net, fc_vat, side, account, store, party, memo,
                 n)""")


async def draft(
    books: Books,
    type_: str,
    number: str,
    *lines: Mapping[str, Any],
    **facts: Any,
) -> int:
    """A draft as an ERP would have put it; its id. Amounts in minor units."""
    document = {"company": "ACME", "type": type_, "doc_no": number, "day": DAY, "brand": "RED"}
    document |= {"store": "R1"} | facts
    async with books.app.begin() as conn:
        binds = {"document": json.dumps(document, default=str)}
        found = int((await conn.execute(DRAFT, binds)).scalar_one())
        await conn.execute(LINES, {"id": found, "lines": json.dumps(lines, default=str)})
    return found


async def sale(books: Books, number: str, net: int = 1000, **facts: Any) -> int:
    """A sale of one line to a customer, with a tenth of VAT."""
    vat = net // 10
    facts = {"party": "C1", "total": net + vat, "vat_total": vat} | facts
    return await draft(books, "sale", number, {"item": "A", "qty": 1, "net": net}, **facts)


async def manual(books: Books, number: str, *legs: tuple[str, int], **facts: Any) -> int:
    """A manual journal: accounts, and what each is debited by."""
    lines = [
        {"account": account, "side": "debit" if net > 0 else "credit", "net": abs(net)}
        for account, net in legs
    ]
    return await draft(books, "manual", number, *lines, **facts)


async def submit(
    books: Books, *, company: str = "ACME", brand: str | None = None, **payload: Any
) -> JobId:
    """Submit a posting job."""
    PostingPayload.model_validate(payload)
    job = Submit(kind=POSTING_POST.name, company=company, brand=brand, payload=payload)
    async with books.app.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def claimed(
    books: Books, job_id: JobId, *, worker: str = "poster", draining: bool = False
) -> tuple[JobContext, PostingPayload]:
    """The context and payload of a fresh claim, taking over an expired one."""
    who = Claimant(
        worker_id=WorkerId(worker),
        code_version="test",
        kinds={POSTING_POST.name: POSTING_POST},
        timing=TIMING,
    )
    auto = autocommit(books.app)
    (held,) = await claim_jobs(auto, who, [job_id], wait=True)
    raw, checkpoint = await read_input(auto, held)
    payload = PostingPayload.model_validate_json(raw)
    drain = asyncio.Event()
    if draining:
        drain.set()
    context = JobContext(
        job=replace(held.job, payload=json.loads(raw)),
        checkpoint=None if checkpoint is None else json.loads(checkpoint),
        _held=held,
        _engines=books.engines,
        _timing=TIMING,
        _draining=drain,
    )
    return context, payload


async def attempt(books: Books, job_id: JobId, **how: Any) -> None:
    """Claim the job and run its handler once; what the handler raises is raised."""
    context, payload = await claimed(books, job_id, **how)
    try:
        await run_posting(context, payload)
    finally:
        await context.close()


async def again(books: Books, job_id: JobId) -> None:
    """The worker is lost, and another attempt takes the job over."""
    await expire_lease(books.app, job_id)
    await attempt(books, job_id)


async def post(books: Books, *, brand: str | None = None, **payload: Any) -> dict[str, Any]:
    """Submit and run a posting to its end; the job's result."""
    job_id = await submit(books, brand=brand, **payload)
    await attempt(books, job_id)
    return await books.result(job_id)


async def post_one(books: Books, document_id: int, **how: Any) -> Any:
    """Post one document; its row in the list."""
    job_id = await submit(books, documents=[document_id], **how)
    await attempt(books, job_id)
    (row,) = await items(books, job_id)
    return row


async def items(books: Books, job_id: UUID) -> Sequence[Any]:
    """The job's list."""
    query = "SELECT * FROM books.posting_items WHERE job_id = :job_id ORDER BY seq"
    return await fetch(books.app, query, job_id=job_id)


async def outcomes(books: Books, job_id: UUID) -> dict[int, str | None]:
    """Outcome by document."""
    return {row.document_id: row.outcome for row in await items(books, job_id)}


async def ledger_of(books: Books, document_id: int) -> list[tuple[str, int]]:
    """Accounts of a document's entry, in the order of its lines, and what each is debited by."""
    query = """
        SELECT l.account, l.debit - l.credit AS debit FROM books.gl_entries e
          JOIN books.gl_lines l ON l.entry_id = e.id
         WHERE e.document_id = :document_id ORDER BY e.id, l.line_no"""
    rows = await fetch(books.app, query, document_id=document_id)
    return [(row.account, row.debit) for row in rows]


async def numbers(books: Books, series: str = "NKC") -> list[int]:
    """Every number that the series has given, in order."""
    query = "SELECT entry_no FROM books.gl_entries WHERE series = :series ORDER BY entry_no"
    return [row.entry_no for row in await fetch(books.app, query, series=series)]


async def status(books: Books, document_id: int) -> str:
    """How a document stands."""
    query = "SELECT status FROM books.documents WHERE id = :id"
    return str(await scalar(books.app, query, id=document_id))


async def revise(books: Books, document_id: int, **facts: Any) -> None:
    """A draft is put again with another content: the next version."""
    sets = "".join(f", {name} = :{name}" for name in facts)
    await execute(
        books.app,
        f"UPDATE books.documents SET version = version + 1{sets} WHERE id = :id",
        id=document_id,
        **facts,
    )


async def close(books: Books, period: str = "2026-01", to: str = "closed") -> None:
    """Set the period's status, as a close does in its end."""
    await execute(
        books.app,
        "UPDATE books.periods SET status = :to, version = version + 1 WHERE period = :period",
        to=to,
        period=period,
    )


async def over(books: Books, job_id: UUID) -> None:
    """The job is cancelled, and cleaned up as a worker's maintenance does."""
    async with books.app.begin() as conn:
        assert await cancel_job(conn, JobId(job_id))
    await clean_up_one(books.app, KINDS, TIMING)
