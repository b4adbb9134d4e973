"""Ledgers for tests: a company that has adopted a chart, documents, and entries by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.kinds.registry import load_kinds, mirror_kinds
from tests.costing_books import Books, open_books
from tests.factories import claimed_job, execute, scalar
from worker.lease import HeldLease

DAY = date(2026, 1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of an entry: debit or credit, never both."""

    account: str
    debit: int = 0
    credit: int = 0
    party: str | None = None
    store: str | None = "R1"
    item: str | None = None
    brand: str | None = "RED"
    day: date | None = None


def cash_sale(amount: int = 100, *, store: str = "R1", brand: str = "RED") -> tuple[Line, ...]:
    """Cash for goods, without VAT: the shortest entry that balances."""
    return (
        Line(account="1111", debit=amount, store=store, brand=brand),
        Line(account="5111", credit=amount, store=store, brand=brand),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry before it has a number."""

    document_id: int
    lines: Sequence[Line]
    entry_id: int
    day: date = DAY
    version: int = 1
    role: str = "main"
    kind: str = "normal"
    reverses: int | None = None
    series: str = "NKC"
    brand: str | None = "RED"
    memo: str | None = None


async def open_ledger(app: AsyncEngine, read: AsyncEngine, *, template: str = "TT200") -> Books:
    """As open_books(); ACME has adopted the chart of that template, and probes may post."""
    books = await open_books(app, read)
    async with app.begin() as conn:
        await mirror_kinds(conn, load_kinds("tests.probes.kinds"), default_max_attempts=5)
    await execute(app, "SELECT books.adopt_chart('ACME', :template)", template=template)
    return books


async def poster(books: Books) -> HeldLease:
    """A job that runs; entries may be written under its fence."""
    return await claimed_job(books.app)


async def document(
    books: Books, number: str, *, day: date = DAY, type_: str = "manual", status: str = "draft"
) -> int:
    """A document of ACME without lines; its id."""
    return int(
        await scalar_of(
            books,
            """INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand,
                      store, status, content_hash)
               VALUES ('ACME', :type, :number, :day, :day, 'RED', 'R1', :status, '')
               RETURNING id""",
            type=type_,
            number=number,
            day=day,
            status=status,
        )
    )


async def scalar_of(books: Books, statement: str, **binds: Any) -> Any:
    """The one value that a statement answers, committed."""
    async with books.app.begin() as conn:
        return await conn.scalar(text(statement), binds)


async def entry(books: Books, lines: Sequence[Line], **facts: Any) -> Entry:
    """An entry with an id of its own, of a fresh document unless one is given."""
    entry_id = await scalar(books.app, "SELECT nextval('books.gl_entries_id_seq')")
    if "document_id" not in facts:
        day = facts.get("day", DAY)
        number = f"E{entry_id}"
        facts["document_id"] = await document(books, number, day=day, status="posted")
    return Entry(lines=lines, entry_id=entry_id, **facts)


INSERT_LINE = text("""
    INSERT INTO books.gl_lines (entry_id, line_no, company, posting_date, account, debit, credit,
                                party, store, item, brand)
    VALUES (:entry_id, :line_no, :company, :day, :account, :debit, :credit, :party, :store, :item,
            :brand)""")
APPEND = text("""
    SELECT a.entry_id, a.entry_no FROM books.append_entries(:company, :job_id, :fence,
        ARRAY(SELECT CAST(ROW(e.entry_id, e.document_id, e.version, e.role, e.kind, e.reverses,
                              e.day, e.brand, e.series, 1, e.memo) AS books.new_entry)
                FROM jsonb_to_recordset(CAST(:entries AS jsonb)) AS e (entry_id bigint,
                     document_id bigint, version integer, role text, kind text, reverses bigint,
                     day date, brand text, series text, memo text))) AS a""")


async def write_lines(
    conn: AsyncConnection, entries: Sequence[Entry], *, company: str = "ACME"
) -> None:
    """The lines of these entries, numbered from 1."""
    binds = [
        {
            "company": company,
            "entry_id": each.entry_id,
            "line_no": number,
            "day": line.day or each.day,
            "account": line.account,
            "debit": line.debit,
            "credit": line.credit,
            "party": line.party,
            "store": line.store,
            "item": line.item,
            "brand": line.brand,
        }
        for each in entries
        for number, line in enumerate(each.lines, 1)
    ]
    if binds:
        await conn.execute(INSERT_LINE, binds)


async def append(
    conn: AsyncConnection, held: HeldLease, entries: Sequence[Entry]
) -> dict[int, int]:
    """Append entries whose lines are written; their numbers by their ids."""
    binds = {
        "company": "ACME",
        "job_id": held.lease.job_id,
        "fence": held.lease.fence,
        "entries": _rows(entries),
    }
    found = await conn.execute(APPEND, binds)
    return {row.entry_id: row.entry_no for row in found}


async def post(books: Books, held: HeldLease, *entries: Entry) -> dict[int, int]:
    """Lines and entries in one transaction, committed; their numbers by their ids."""
    async with books.app.begin() as conn:
        await write_lines(conn, entries)
        return await append(conn, held, entries)


RUNNING_JOB = """
    INSERT INTO chot.jobs (id, kind, company, queue, state, attempt, fence, max_attempts,
           lease_token, lease_expires_at, worker_id, available_at, fingerprint, on_duplicate,
           payload_version, principal, deployment_id)
    SELECT chot.uuid7(), k.name, 'ACME', k.queue, 'running', 1, 1, 5, gen_random_uuid(),
           clock_timestamp() + interval '1 hour', 'w', clock_timestamp(),
           sha256(CAST(CAST(:n AS text) AS bytea)), 'join', 1, 'test', d.deployment_id
      FROM (SELECT * FROM chot.kinds ORDER BY name LIMIT 1) k CROSS JOIN chot.deployment d
    RETURNING id"""
NEXT_ID = "SELECT nextval('books.gl_entries_id_seq')"


async def write_entry(owner: AsyncEngine, *, company: str = "ACME", brand: str = "RED") -> int:
    """An entry of that brand by owner's hand, where no worker is about; its id."""
    async with owner.begin() as conn:
        await conn.execute(text("SELECT books.adopt_chart(:c, 'TT200')"), {"c": company})
        entry_id = int(await conn.scalar(text(NEXT_ID)) or 0)
        job_id = await conn.scalar(text(RUNNING_JOB), {"n": f"entry {entry_id}"})
        made = text("""
            INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand,
                   status, content_hash)
            VALUES (:company, 'manual', :number, :day, :day, :brand, 'posted', '')
            RETURNING id""")
        facts = {"company": company, "number": f"E{entry_id}", "day": DAY, "brand": brand}
        document_id = int(await conn.scalar(made, facts) or 0)
        lines = cash_sale(brand=brand)
        written = Entry(document_id=document_id, lines=lines, entry_id=entry_id, brand=brand)
        await write_lines(conn, [written], company=company)
        binds = {"company": company, "job_id": job_id, "fence": 1, "entries": _rows([written])}
        await conn.execute(APPEND, binds)
        # The job was only there for its fence.
        await conn.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        await conn.execute(text("DELETE FROM chot.jobs WHERE id = :id"), {"id": job_id})
    return entry_id


def _rows(entries: Sequence[Entry]) -> str:
    rows = [
        {each.name: getattr(entry, each.name) for each in fields(entry) if each.name != "lines"}
        for entry in entries
    ]
    return json.dumps(rows, default=str)
