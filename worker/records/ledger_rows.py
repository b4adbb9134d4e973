"""The rows of a report on the ledger, page by page, all of one moment."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.reports import (
    BALANCES,
    COUNT_JOURNAL,
    After,
    OfAccount,
    Span,
    accounts_below,
    general_ledger,
    journal,
    opening_of,
    totals_of,
    trial_balance,
    turnover_of,
)

ONE_MOMENT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
OPENING_WORDS = "Opening (Số dư đầu kỳ)"
Page = Sequence[dict[str, Any]]
MINOR_DIGITS = text("SELECT minor_digits, currency FROM books.companies WHERE code = :company")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report as asked for; `account` of a general ledger, `level` of a trial balance."""

    name: str
    span: Span
    account: str | None = None
    level: int | None = None


@dataclass(slots=True)
class Sums:
    """What is true of the whole report: filled while its pages are read."""

    amounts: dict[str, int]


async def begin_moment(conn: AsyncConnection) -> None:
    """Let the transaction, which has read nothing yet, see the books of its first look."""
    await conn.execute(ONE_MOMENT)


async def currency_of(conn: AsyncConnection, company: str) -> tuple[int, str]:
    """Digits after the point, and the code, of the company's currency."""
    row = (await conn.execute(MINOR_DIGITS, {"company": company})).one()
    return row.minor_digits, row.currency


async def count_rows(conn: AsyncConnection, report: Report) -> int | None:
    """How many rows it has; None of a trial balance, which is counted when it is read."""
    if report.name == "journal":
        return int(await conn.scalar(COUNT_JOURNAL, report.span.binds()) or 0)
    if report.name == "general_ledger":
        return int((await turnover_of(conn, await _asked(conn, report)))["lines"]) + 1
    return None


async def _asked(conn: AsyncConnection, report: Report) -> OfAccount:
    assert report.account is not None, "the payload of a general ledger names one"
    codes = await accounts_below(conn, report.span.company, report.account)
    return OfAccount(span=report.span, accounts=codes)


async def read_pages(
    conn: AsyncConnection, report: Report, sums: Sums, *, most: int
) -> AsyncIterator[Page]:
    """Every row in its order, at most so many a page."""
    read = {"journal": _journal, "general_ledger": _general_ledger}.get(report.name, _balances)
    async for page in read(conn, report, sums, most):
        yield page


async def _balances(
    conn: AsyncConnection, report: Report, sums: Sums, _most: int
) -> AsyncIterator[Page]:
    rows = await trial_balance(conn, report.span, level=report.level)
    sums.amounts = totals_of(rows) if rows else dict.fromkeys(BALANCES, 0)
    if rows:
        yield [dict(row) for row in rows]


async def _journal(
    conn: AsyncConnection, report: Report, sums: Sums, most: int
) -> AsyncIterator[Page]:
    sums.amounts = {"debit": 0, "credit": 0}
    after = After()
    while rows := await journal(conn, report.span, after, limit=most):
        page = [dict(row) for row in rows]
        for side in ("debit", "credit"):
            sums.amounts[side] += sum(row[side] for row in page)
        yield page
        after = _after(page[-1])


async def _general_ledger(
    conn: AsyncConnection, report: Report, sums: Sums, most: int
) -> AsyncIterator[Page]:
    asked = await _asked(conn, report)
    balance = await opening_of(conn, asked)
    sums.amounts = {"opening": balance, "debit": 0, "credit": 0, "closing": balance}
    yield [_opening_row(report, balance)]
    after = After()
    while rows := await general_ledger(conn, asked, after, limit=most):
        page = []
        for row in rows:
            balance += row["debit"] - row["credit"]
            page.append(dict(row) | {"balance": balance})
        for side in ("debit", "credit"):
            sums.amounts[side] += sum(row[side] for row in page)
        sums.amounts["closing"] = balance
        yield page
        after = _after(page[-1])


def _after(row: dict[str, Any]) -> After:
    return After(day=row["posting_date"], entry_id=row["entry_id"], line_no=row["line_no"])


def _opening_row(report: Report, balance: int) -> dict[str, Any]:
    """The row that a general ledger begins with."""
    nothing = ("series", "entry_no", "type", "doc_no", "party", "store", "item", "brand")
    told = {"posting_date": report.span.since, "memo": OPENING_WORDS, "account": report.account}
    return (
        dict.fromkeys(nothing) | told | {"contra": [], "debit": 0, "credit": 0, "balance": balance}
    )
