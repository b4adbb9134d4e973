"""The ledger: entries, the proof of their chain, and reports on what they have moved."""

from datetime import date
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from api.authentication import Caller
from api.cost_pages import LARGEST_ID, Code, Cursor, Name, minor_digits_of, refuse_unknown_place
from api.cursors import as_number, read_cursor, refused_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.ledger_place import (
    AccountCode,
    Day,
    SpanQuery,
    read_after,
    span_members,
    span_of,
    write_after,
)
from api.ledger_views import (
    ChainView,
    EntrySummary,
    EntryView,
    GeneralLedgerView,
    JournalView,
    TrialBalanceView,
    chain_view,
    entry_summary,
    entry_view,
    ledger_lines,
    moved_line,
    trial_balance_view,
)
from api.problems import Problem, ProblemRaised, field_problem
from api.queries import Limit, digits_only
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.costs.shown import scaled
from shared.ledger.entries import list_entries, read_entry, read_lines, verify_chain
from shared.ledger.reports import (
    OfAccount,
    accounts_below,
    general_ledger,
    journal,
    opening_of,
    trial_balance,
    turnover_of,
)

router = keyed_router(prefix="/v1/ledger", tags=["ledger"])
EntryId = Annotated[int, Path(ge=1, le=LARGEST_ID), BeforeValidator(digits_only(18))]
Number = Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(digits_only(18))]
Level = Annotated[int, Field(ge=1, le=10), BeforeValidator(digits_only(2))]


class EntriesQuery(BaseModel):
    """Which entries: those that have a line of this account, store and party."""

    model_config = ConfigDict(extra="forbid")

    company: Code = Field(examples=["SAMPLE"])
    date_from: Day = None
    date_to: Day = None
    account: AccountCode | None = None
    store: Name = None
    party: Name = None
    series: Name = None
    document: Number | None = Field(None, description="id of the document", examples=[1])
    cursor: Cursor = None
    limit: Limit = 50


class EntryPage(BaseModel):
    """Entries, newest first; `next_cursor` is null at the end."""

    entries: list[EntrySummary]
    next_cursor: str | None


class ChainQuery(BaseModel):
    """Which numbers of the entry's series."""

    model_config = ConfigDict(extra="forbid")

    first: Number | None = Field(None, description="else 50 before the entry", examples=[1])
    limit: Limit = 100


class BalanceQuery(SpanQuery):
    """Which days, and how deep."""

    level: Level | None = Field(
        None, description="1: the shortest codes, with all that is below them", examples=[1]
    )


class LedgerQuery(SpanQuery):
    """Which account, with those below it, over which days; and which of its lines."""

    account: AccountCode
    store: Name = None
    party: Name = None
    item: Name = None
    cursor: Cursor = None
    limit: Limit = 50


class JournalQuery(SpanQuery):
    """Which days."""

    cursor: Cursor = None
    limit: Limit = 50


@router.get(
    "/entries",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": EntryPage}},
)
async def entries(query: Annotated[EntriesQuery, Query()], resources: Ready, who: Who) -> Response:
    """List entries, newest first; an account with some brands sees its lines of them."""
    before = None if query.cursor is None else _entry_before(query.cursor)
    filters = {
        "since": query.date_from,
        "until": query.date_to,
        "account": query.account,
        "store": query.store,
        "party": query.party,
        "series": query.series,
        "document": query.document,
    }
    async with resources.reading() as conn:
        rows = await list_entries(
            conn, who.scope, query.company, filters, before=before, limit=query.limit + 1
        )
        if not rows:
            await refuse_unknown_place(conn, who.scope, query.company, None)
    page = rows[: query.limit]
    following = None
    if len(rows) > query.limit:
        following = write_cursor(page[-1]["posting_date"].isoformat(), str(page[-1]["id"]))
    shown = [entry_summary(row) for row in page]
    return json_response({"entries": shown, "next_cursor": following})


def _entry_before(cursor: str) -> tuple[date, int]:
    day, number = read_cursor(cursor, keys=2)
    try:
        return date.fromisoformat(day), as_number(number, cursor)
    except ValueError:
        raise refused_cursor(cursor) from None


@router.get(
    "/entries/{entry_id}",
    response_class=Response,
    responses=problems("entry-not-found") | {200: {"model": EntryView}},
)
async def show(entry_id: EntryId, resources: Ready, who: Who) -> Response:
    """Show an entry with its lines, what it takes back and what has taken it back."""
    async with resources.reading() as conn:
        row = await read_entry(conn, entry_id, who.scope)
        if row is None:
            raise ProblemRaised(_entry_not_found(entry_id))
        lines = await read_lines(conn, entry_id, who.scope)
    return json_response(entry_view(row, lines))


@router.get(
    "/entries/{entry_id}/chain",
    response_class=Response,
    responses=problems("entry-not-found") | {200: {"model": ChainView}},
)
async def chain(
    entry_id: EntryId, query: Annotated[ChainQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Prove the chain that the entry stands in: each hash is made anew from the rows."""
    async with resources.reading() as conn:
        row = await read_entry(conn, entry_id, who.scope)
        if row is None:
            raise ProblemRaised(_entry_not_found(entry_id))
        first = query.first or max(1, row["entry_no"] - 50)
        links, last_no = await verify_chain(conn, row, first=first, limit=query.limit)
    return json_response(chain_view(row, links, last_no))


def _entry_not_found(entry_id: int) -> Problem:
    return Problem(slug="entry-not-found", detail=f"ledger entry {entry_id} is unknown here")


@router.get(
    "/trial-balance",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": TrialBalanceView}},
)
async def balance(query: Annotated[BalanceQuery, Query()], resources: Ready, who: Who) -> Response:
    """Trial balance: each account with opening, debits, credits and closing of the days."""
    return json_response(await read_balance(query, resources, who))


async def read_balance(query: BalanceQuery, resources: Resources, who: Caller) -> dict[str, Any]:
    """What TrialBalanceView describes; ProblemRaised for unknown books."""
    async with resources.reading() as conn:
        span = await span_of(conn, who.scope, query)
        digits = await minor_digits_of(conn, query.company)
        rows = await trial_balance(conn, span, level=query.level)
    return span_members(span) | trial_balance_view(rows, digits)


@router.get(
    "/general-ledger",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": GeneralLedgerView}},
)
async def ledger(query: Annotated[LedgerQuery, Query()], resources: Ready, who: Who) -> Response:
    """General ledger of an account: every line by day, with the balance after it."""
    after, carried = read_after(query.cursor, more=1)
    async with resources.reading() as conn:
        span = await span_of(conn, who.scope, query)
        digits = await minor_digits_of(conn, query.company)
        codes = await accounts_below(conn, query.company, query.account)
        if not codes:
            rule = f"must be an account of {query.company}: GET /v1/ledger/accounts lists them"
            raise ProblemRaised(field_problem("invalid-request", "account", rule, query.account))
        asked = OfAccount(
            span=span, accounts=codes, store=query.store, party=query.party, item=query.item
        )
        opening = await opening_of(conn, asked)
        turnover = await turnover_of(conn, asked)
        rows = await general_ledger(conn, asked, after, limit=query.limit + 1)
    page = rows[: query.limit]
    lines, reached = ledger_lines(page, carried[0] if carried else opening, digits)
    moved = {name: int(turnover[name]) for name in ("debit", "credit")}
    sums = moved | {"opening": opening, "closing": opening + moved["debit"] - moved["credit"]}
    answer: dict[str, Any] = {name: scaled(value, digits) for name, value in sums.items()}
    more = write_after(page[-1], str(reached)) if len(rows) > query.limit else None
    told = {"account": query.account, "lines": lines, "next_cursor": more}
    return json_response(span_members(span) | answer | told)


@router.get(
    "/journal",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": JournalView}},
)
async def general_journal(
    query: Annotated[JournalQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Journal: every line of every entry by day."""
    after, _ = read_after(query.cursor)
    async with resources.reading() as conn:
        span = await span_of(conn, who.scope, query)
        digits = await minor_digits_of(conn, query.company)
        rows = await journal(conn, span, after, limit=query.limit + 1)
    page = rows[: query.limit]
    more = write_after(page[-1]) if len(rows) > query.limit else None
    lines = [moved_line(row, digits) for row in page]
    return json_response(span_members(span) | {"lines": lines, "next_cursor": more})
