"""Entries (bút toán): lists of them, one with its lines, and the proof of its chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope
from shared.audit import PLAN_EACH

# Whoever has some brands only sees lines of these, and the entries that have such.
LINE_IN_SCOPE = """(CAST(:scope_brands AS text[]) IS NULL
        OR l.brand = ANY (CAST(:scope_brands AS text[])))"""
OF_COMPANY = """(CAST(:scope_company AS text) IS NULL
        OR e.company = CAST(:scope_company AS text))"""
_ENTRY = f"""
    SELECT e.id, e.company, e.entry_no, e.series, e.fiscal_year, e.posting_date, e.role, e.kind,
           e.brand, e.document_id, e.document_version, d.type, d.doc_no, e.reverses_entry_id,
           r.id AS reversed_by, e.rule_version, e.job_id, e.created_at, e.memo, e.hash,
           s.lines, s.amount, c.minor_digits
      FROM books.gl_entries e
      JOIN books.companies c ON c.code = e.company
      JOIN books.documents d ON d.id = e.document_id
      LEFT JOIN books.gl_entries r ON r.reverses_entry_id = e.id
     CROSS JOIN LATERAL (
           SELECT count(*) AS lines, CAST(coalesce(sum(l.debit), 0) AS bigint) AS amount
             FROM books.gl_lines l WHERE l.entry_id = e.id AND {LINE_IN_SCOPE}) AS s"""
LIST_ENTRIES = text(f"""{_ENTRY}
     WHERE e.company = :company AND {OF_COMPANY}
       AND (CAST(:since AS date) IS NULL OR e.posting_date >= CAST(:since AS date))
       AND (CAST(:until AS date) IS NULL OR e.posting_date <= CAST(:until AS date))
       AND (CAST(:series AS text) IS NULL OR e.series = CAST(:series AS text))
       AND (CAST(:document AS bigint) IS NULL OR e.document_id = CAST(:document AS bigint))
       AND (CAST(:before_id AS bigint) IS NULL
            OR (e.posting_date, e.id) < (CAST(:before_day AS date), CAST(:before_id AS bigint)))
       AND EXISTS (SELECT FROM books.gl_lines l
                    WHERE l.entry_id = e.id AND {LINE_IN_SCOPE}
                      AND (CAST(:store AS text) IS NULL OR l.store = CAST(:store AS text))
                      AND (CAST(:party AS text) IS NULL OR l.party = CAST(:party AS text)))
     ORDER BY e.posting_date DESC, e.id DESC LIMIT :most""")
# Of an account the index has its lines in this very order: the newest are found first, however
# many there are.
LIST_OF_ACCOUNT = text(f"""
    WITH hits AS MATERIALIZED (
        SELECT l.posting_date, l.entry_id
          FROM books.gl_lines l JOIN books.gl_entries e ON e.id = l.entry_id
         WHERE l.company = :company AND {OF_COMPANY} AND l.account = CAST(:account AS text)
           AND {LINE_IN_SCOPE}
           AND (CAST(:since AS date) IS NULL OR l.posting_date >= CAST(:since AS date))
           AND (CAST(:until AS date) IS NULL OR l.posting_date <= CAST(:until AS date))
           AND (CAST(:store AS text) IS NULL OR l.store = CAST(:store AS text))
           AND (CAST(:party AS text) IS NULL OR l.party = CAST(:party AS text))
           AND (CAST(:series AS text) IS NULL OR e.series = CAST(:series AS text))
           AND (CAST(:document AS bigint) IS NULL OR e.document_id = CAST(:document AS bigint))
           AND (CAST(:before_id AS bigint) IS NULL
                OR (l.posting_date, l.entry_id)
                   < (CAST(:before_day AS date), CAST(:before_id AS bigint)))
         GROUP BY l.posting_date, l.entry_id
         ORDER BY l.posting_date DESC, l.entry_id DESC LIMIT :most)
    {_ENTRY}
     WHERE e.id IN (SELECT h.entry_id FROM hits h)
     ORDER BY e.posting_date DESC, e.id DESC""")
FILTERS = ("since", "until", "series", "document", "account", "store", "party")


async def list_entries(
    conn: AsyncConnection,
    scope: Scope,
    company: str,
    filters: Mapping[str, Any],
    *,
    before: tuple[date, int] | None = None,
    limit: int,
) -> Sequence[RowMapping]:
    """Entries of the company newest first; `filters` may hold FILTERS, `amount` is of what is seen.

    `before` is the (day, id) that a page begins after. Call it in a transaction.
    """
    day, number = before or (None, None)
    binds = dict.fromkeys(FILTERS) | dict(filters) | dict(scope.binds())
    binds |= {"company": company, "before_day": day, "before_id": number, "most": limit}
    await conn.execute(PLAN_EACH)
    if binds["account"] is not None:
        return (await conn.execute(LIST_OF_ACCOUNT, binds)).mappings().all()
    del binds["account"]
    return (await conn.execute(LIST_ENTRIES, binds)).mappings().all()


READ_ENTRY = text(f"""{_ENTRY}
     WHERE e.id = CAST(:entry_id AS bigint) AND {OF_COMPANY}
       AND EXISTS (SELECT FROM books.gl_lines l WHERE l.entry_id = e.id AND {LINE_IN_SCOPE})""")
READ_LINES = text(f"""
    SELECT l.line_no, l.account, a.name, a.name_vi, l.debit, l.credit, l.party, l.store, l.item,
           l.qty_base, i.qty_scale, i.base_uom, l.brand, l.currency, l.fc_amount, l.memo
      FROM books.gl_lines l
      JOIN books.gl_accounts a ON a.company = l.company AND a.code = l.account
      LEFT JOIN books.items i ON i.company = l.company AND i.code = l.item
     WHERE l.entry_id = CAST(:entry_id AS bigint) AND {LINE_IN_SCOPE}
     ORDER BY l.line_no""")


async def read_entry(conn: AsyncConnection, entry_id: int, scope: Scope) -> RowMapping | None:
    """An entry of which the scope sees a line; None else."""
    binds = {"entry_id": entry_id, **scope.binds()}
    return (await conn.execute(READ_ENTRY, binds)).mappings().one_or_none()


async def read_lines(conn: AsyncConnection, entry_id: int, scope: Scope) -> Sequence[RowMapping]:
    """Its lines that the scope sees."""
    binds = {"entry_id": entry_id, "scope_brands": scope.binds()["scope_brands"]}
    return (await conn.execute(READ_LINES, binds)).mappings().all()


# The entry before the first one is read along, for its hash.
READ_CHAIN = text("""
    SELECT e.entry_no, e.id, e.hash, e.prev_hash,
           books.chained(e.prev_hash, e.entry_no, books.entry_content(
               e.company, e.fiscal_year, e.job_id,
               CAST(ROW(e.id, e.document_id, e.document_version, e.role, e.kind,
                        e.reverses_entry_id, e.posting_date, e.brand, e.series, e.rule_version,
                        e.memo) AS books.new_entry), d.digest)) AS computed
      FROM books.gl_entries e
      LEFT JOIN LATERAL (SELECT g.digest FROM books.gl_line_digests g
                          WHERE g.entry_id = e.id OFFSET 0) AS d ON true
     WHERE e.company = :company AND e.series = :series AND e.fiscal_year = :fiscal_year
       AND e.entry_no BETWEEN CAST(:first AS bigint) - 1 AND CAST(:last AS bigint)
     ORDER BY e.entry_no""")
READ_HEAD = text("""
    SELECT last_no, last_hash FROM books.gl_series
     WHERE company = :company AND series = :series AND fiscal_year = :fiscal_year""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One number of a chain: its entry, and what is wrong with it.

    CONTENT: it or its lines are not what its hash was made of. LINK: it does not follow the entry
    before. GAP: there is no such entry. HEAD: the series ends otherwise.
    """

    entry_no: int
    entry_id: int | None
    hash: bytes
    broken: str | None


async def verify_chain(
    conn: AsyncConnection, entry: RowMapping, *, first: int, limit: int
) -> tuple[list[Link], int]:
    """The links from number `first` on, each made anew from its rows, and the series' last number.

    In one READ COMMITTED transaction: entries are only added, so what is read stays.
    """
    place = {name: entry[name] for name in ("company", "series", "fiscal_year")}
    head = (await conn.execute(READ_HEAD, place)).one()
    last = min(first + limit - 1, head.last_no)
    rows = await conn.execute(READ_CHAIN, place | {"first": first, "last": last})
    found = {row.entry_no: row for row in rows}
    links = []
    before = found[first - 1].hash if first - 1 in found else b""
    for number in range(first, last + 1):
        row = found.get(number)
        broken = _broken(row, before, head if number == head.last_no else None)
        before = b"" if row is None else row.hash
        entry_id = None if row is None else row.id
        links.append(Link(entry_no=number, entry_id=entry_id, hash=before, broken=broken))
    return links, head.last_no


def _broken(row: Any, before: bytes, head: Any) -> str | None:
    if row is None:
        return "GAP"
    if row.computed != row.hash:
        return "CONTENT"
    if row.prev_hash != before:
        return "LINK"
    return "HEAD" if head is not None and head.last_hash != row.hash else None
