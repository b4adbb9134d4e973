"""Reports on the ledger: trial balance, general ledger of an account, journal.

Amounts are minor units. Whoever has some brands only gets the lines of these, and sums of them.
Call them in a transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import PLAN_EACH

OF_BRANDS = """(CAST(:brands AS text[]) IS NULL
        OR l.brand = ANY (CAST(:brands AS text[])))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Whose lines, of which days (both included); `brands` None: all of the company's."""

    company: str
    since: date
    until: date
    brands: Sequence[str] | None = None

    def binds(self) -> dict[str, Any]:
        """What the statements here are bound to."""
        brands = None if self.brands is None else list(self.brands)
        return {
            "company": self.company,
            "since": self.since,
            "until": self.until,
            "brands": brands,
        }


PERIOD_DAYS = text("""
    SELECT starts_on, ends_on FROM books.periods WHERE company = :company AND period = :period""")


async def days_of(conn: AsyncConnection, company: str, period: str) -> tuple[date, date] | None:
    """First and last day of a period; None where the company has no such one."""
    found = await conn.execute(PERIOD_DAYS, {"company": company, "period": period})
    row = found.one_or_none()
    return None if row is None else (row.starts_on, row.ends_on)


# Summed by account first, from its index alone; what is above an account is a question of codes.
TRIAL_BALANCE = text(f"""
    WITH summed AS MATERIALIZED (
        SELECT l.account,
               coalesce(sum(l.debit) FILTER (WHERE l.posting_date < :since), 0)
                   - coalesce(sum(l.credit) FILTER (WHERE l.posting_date < :since), 0) AS opening,
               coalesce(sum(l.debit) FILTER (WHERE l.posting_date >= :since), 0) AS debit,
               coalesce(sum(l.credit) FILTER (WHERE l.posting_date >= :since), 0) AS credit
          FROM books.gl_lines l
         WHERE l.company = :company AND l.posting_date <= :until AND {OF_BRANDS}
         GROUP BY l.account),
    placed AS (
        SELECT coalesce((SELECT a.code FROM books.gl_accounts a
                          WHERE a.company = :company AND starts_with(s.account, a.code)
                          ORDER BY length(a.code)
                         OFFSET CAST(:level AS integer) - 1 LIMIT 1), s.account) AS account,
               s.opening, s.debit, s.credit, s.opening + s.debit - s.credit AS closing
          FROM summed s)
    SELECT p.account, a.name, a.name_vi, a.kind,
           sum(greatest(p.opening, 0)) AS opening_debit,
           sum(greatest(-p.opening, 0)) AS opening_credit,
           sum(p.debit) AS debit, sum(p.credit) AS credit,
           sum(greatest(p.closing, 0)) AS closing_debit,
           sum(greatest(-p.closing, 0)) AS closing_credit
      FROM placed p
      LEFT JOIN books.gl_accounts a ON a.company = :company AND a.code = p.account
     GROUP BY p.account, a.name, a.name_vi, a.kind
    HAVING bool_or(p.opening <> 0 OR p.debit <> 0 OR p.credit <> 0)
     ORDER BY p.account""")
DEEPEST = 20
BALANCES = (
    "opening_debit",
    "opening_credit",
    "debit",
    "credit",
    "closing_debit",
    "closing_credit",
)


async def trial_balance(
    conn: AsyncConnection, span: Span, *, level: int | None = None
) -> Sequence[RowMapping]:
    """Each account with what it began with, what moved, and what it ends with.

    An account is on one side, the one its balance lies on; with a `level` (1: the shortest codes)
    accounts below it are summed up, both sides kept. An account without a line is not there.
    """
    binds = span.binds() | {"level": DEEPEST if level is None else level}
    return (await conn.execute(TRIAL_BALANCE, binds)).mappings().all()


def totals_of(rows: Sequence[RowMapping]) -> dict[str, int]:
    """The sums of all rows; debits are credits in each pair, in the books of a whole company."""
    return {name: int(sum(row[name] for row in rows)) for name in BALANCES}


ACCOUNTS_BELOW = text("""
    SELECT code FROM books.gl_accounts
     WHERE company = :company AND starts_with(code, :account) ORDER BY code""")


async def accounts_below(conn: AsyncConnection, company: str, account: str) -> list[str]:
    """The account and those whose codes begin with its; empty where there is no such account."""
    found = await conn.execute(ACCOUNTS_BELOW, {"company": company, "account": account})
    codes = [row.code for row in found]
    return codes if account in codes else []


_OF_ACCOUNT = f"""l.company = :company AND l.account = ANY (CAST(:accounts AS text[]))
       AND {OF_BRANDS}
       AND (CAST(:store AS text) IS NULL OR l.store = CAST(:store AS text))
       AND (CAST(:party AS text) IS NULL OR l.party = CAST(:party AS text))
       AND (CAST(:item AS text) IS NULL OR l.item = CAST(:item AS text))"""
OPENING = text(f"""
    SELECT CAST(coalesce(sum(l.debit), 0) - coalesce(sum(l.credit), 0) AS numeric)
      FROM books.gl_lines l WHERE {_OF_ACCOUNT} AND l.posting_date < :since""")
TURNOVER = text(f"""
    SELECT coalesce(sum(l.debit), 0) AS debit, coalesce(sum(l.credit), 0) AS credit,
           count(*) AS lines
      FROM books.gl_lines l
     WHERE {_OF_ACCOUNT} AND l.posting_date >= :since AND l.posting_date <= :until""")
# The other side is looked up once an entry and side: an entry of ten thousand lines would be read
# ten thousand times for its own page.
GENERAL_LEDGER = text(f"""
    WITH page AS MATERIALIZED (
        SELECT l.posting_date, l.entry_id, l.line_no, e.entry_no, e.series, e.kind, e.document_id,
               d.type, d.doc_no, l.account, l.debit, l.credit, l.party, l.store, l.item, l.brand,
               coalesce(l.memo, e.memo, d.memo) AS memo
          FROM books.gl_lines l
          JOIN books.gl_entries e ON e.id = l.entry_id
          JOIN books.documents d ON d.id = e.document_id
         WHERE {_OF_ACCOUNT} AND l.posting_date >= :since AND l.posting_date <= :until
           AND (l.posting_date, l.entry_id, l.line_no) > (CAST(:day_after AS date),
                CAST(:entry_after AS bigint), CAST(:line_after AS integer))
         ORDER BY l.posting_date, l.entry_id, l.line_no LIMIT :most),
    others AS MATERIALIZED (
        SELECT s.entry_id, s.is_debit,
               ARRAY(SELECT DISTINCT o.account FROM books.gl_lines o
                      WHERE o.entry_id = s.entry_id AND (o.debit > 0) <> s.is_debit
                      ORDER BY o.account) AS contra
          FROM (SELECT DISTINCT entry_id, debit > 0 AS is_debit FROM page) s)
    SELECT p.*, o.contra
      FROM page p JOIN others o ON o.entry_id = p.entry_id AND o.is_debit = (p.debit > 0)
     ORDER BY p.posting_date, p.entry_id, p.line_no""")
JOURNAL = text(f"""
    SELECT l.posting_date, l.entry_id, l.line_no, e.entry_no, e.series, e.kind, e.document_id,
           d.type, d.doc_no, l.account, a.name, a.name_vi, l.debit, l.credit, l.party, l.store,
           l.item, l.brand, coalesce(l.memo, e.memo, d.memo) AS memo
      FROM books.gl_entries e
      JOIN books.gl_lines l ON l.entry_id = e.id
      JOIN books.gl_accounts a ON a.company = l.company AND a.code = l.account
      JOIN books.documents d ON d.id = e.document_id
     WHERE e.company = :company AND e.posting_date >= :since AND e.posting_date <= :until
       AND {OF_BRANDS}
       AND (e.posting_date, e.id) >= (CAST(:day_after AS date), CAST(:entry_after AS bigint))
       AND (e.posting_date, e.id, l.line_no)
         > (CAST(:day_after AS date), CAST(:entry_after AS bigint), CAST(:line_after AS integer))
     ORDER BY e.posting_date, e.id, l.line_no LIMIT :most""")
COUNT_JOURNAL = text(f"""
    SELECT count(*) FROM books.gl_lines l
     WHERE l.company = :company AND l.posting_date >= :since AND l.posting_date <= :until
       AND {OF_BRANDS}""")


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """The line that a page begins after."""

    day: date = date.min
    entry_id: int = 0
    line_no: int = 0

    def binds(self) -> dict[str, Any]:
        """What a page's statement is bound to."""
        return {
            "day_after": self.day,
            "entry_after": self.entry_id,
            "line_after": self.line_no,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAccount:
    """Whose general ledger: accounts (one, or one with those below it), and which of its lines."""

    span: Span
    accounts: Sequence[str]
    store: str | None = None
    party: str | None = None
    item: str | None = None

    def binds(self) -> dict[str, Any]:
        """What its statements are bound to."""
        own = {"store": self.store, "party": self.party, "item": self.item}
        return self.span.binds() | own | {"accounts": list(self.accounts)}


async def opening_of(conn: AsyncConnection, asked: OfAccount) -> int:
    """Debits less credits before the first day."""
    binds = asked.binds()
    del binds["until"]
    return int(await conn.scalar(OPENING, binds) or 0)


async def turnover_of(conn: AsyncConnection, asked: OfAccount) -> RowMapping:
    """Debits and credits of the days, and how many lines they are."""
    return (await conn.execute(TURNOVER, asked.binds())).mappings().one()


async def general_ledger(
    conn: AsyncConnection, asked: OfAccount, after: After, *, limit: int
) -> Sequence[RowMapping]:
    """The next lines by day and entry; `contra` are the accounts on the other side (đối ứng)."""
    binds = asked.binds() | after.binds() | {"most": limit}
    await conn.execute(PLAN_EACH)
    return (await conn.execute(GENERAL_LEDGER, binds)).mappings().all()


async def journal(
    conn: AsyncConnection, span: Span, after: After, *, limit: int
) -> Sequence[RowMapping]:
    """The next lines of all accounts by day and entry."""
    binds = span.binds() | after.binds() | {"most": limit}
    await conn.execute(PLAN_EACH)
    return (await conn.execute(JOURNAL, binds)).mappings().all()
