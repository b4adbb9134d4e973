"""Cost runs and postings as an accountant reads them, by the functions of the /v1 routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError
from sqlalchemy import RowMapping

from api.authentication import Caller
from api.bodies import job_view
from api.cost_views import result_view
from api.cursors import write_cursor
from api.problems import Problem, ProblemRaised, validation_problem
from api.resources import Resources
from api.routes.cost_runs import RunsQuery, read_run_view, read_runs
from api.routes.ledger import BalanceQuery, read_balance
from api.routes.ledger_control import ControlQuery, read_control
from api.routes.listing import ListQuery, read_page
from api.routes.outcomes import OutcomesQuery, read_outcomes
from api.routes.periods import PeriodsQuery, read_periods
from api.ui.browser import Language
from api.ui.compared import beside_period_before, costs_changed
from api.ui.decimals import minus
from api.ui.showing import number
from shared.companies import list_companies
from shared.costs.rows import Wanted, run_results
from shared.costs.runs import status_of
from shared.jobs.outcomes import SUCCESSES
from shared.jobs.read import get_job, show_job
from shared.types import JobState

POSTING_KINDS = ("posting.post", "posting.unpost", "posting.costs")
# Problems that are an ordinary sight on a run's page: its rows are not there, and why.
ROWS_AWAY = frozenset({"cost-run-building", "cost-run-gone", "not-a-preview"})
LOOK_BACK = 50
FIRST_DIFFERENCES = 20


def exact(value: str | None, language: Language) -> str:
    """A decimal as the api writes it, its thousands apart; no digit is lost."""
    if value is None:
        return "–"
    _, _, fraction = value.partition(".")
    return number(Decimal(value), language, len(fraction))


Query = TypeVar("Query", bound=BaseModel)


def read_query(model: type[Query], given: Mapping[str, str]) -> Query:
    """The query that /v1 would read; an empty field of a form says nothing. ProblemRaised else."""
    said = {name: value for name, value in given.items() if value}
    try:
        return model.model_validate(said)
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, model)) from None


# ---- the list


async def choose_company(
    resources: Resources, who: Caller, wanted: str | None
) -> tuple[Sequence[RowMapping], str | None]:
    """The companies that this account sees, and the one that is meant: the first unless named."""
    async with resources.reading() as conn:
        companies = await list_companies(conn, who.scope)
    if wanted or not companies:
        return companies, wanted or None
    return companies, str(companies[0]["code"])


async def list_everything(
    resources: Resources, who: Caller, given: Mapping[str, str]
) -> dict[str, Any]:
    """Periods, cost runs and postings of a company; ProblemRaised for one that is none."""
    company = given["company"]
    periods = await read_periods(read_query(PeriodsQuery, {"company": company}), resources, who)
    runs = await read_runs(read_query(RunsQuery, given), resources, who)
    return {
        "periods": periods["periods"],
        "runs": runs["runs"],
        "next_cursor": runs["next_cursor"],
        "postings": await _postings(resources, who, company),
    }


async def _postings(resources: Resources, who: Caller, company: str) -> list[dict[str, Any]]:
    """The newest jobs of each kind that posts, newest first."""
    found: list[dict[str, Any]] = []
    for kind in POSTING_KINDS:
        query = ListQuery(kind=kind, company=company, limit=FIRST_DIFFERENCES)
        found += (await read_page(query, resources, who))["jobs"]
    return sorted(found, key=lambda job: str(job["id"]), reverse=True)[:LOOK_BACK]


# ---- a cost run


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The published run of the same books and period before this one.

    `totals`: name → (before, now, difference). `alike`: both are of the same items, so that their
    totals can be compared. `readable`: its rows are still there.
    """

    run: Mapping[str, Any]
    totals: Mapping[str, tuple[str | None, str | None, str | None]]
    alike: bool
    readable: bool


async def find_previous(
    resources: Resources, who: Caller, run: Mapping[str, Any]
) -> Previous | None:
    """What this run is compared with; None where it is the first of its period."""
    query = RunsQuery(
        company=run["company"],
        period=run["period"],
        cursor=write_cursor(str(run["id"])),
        limit=LOOK_BACK,
    )
    for other in (await read_runs(query, resources, who))["runs"]:
        published = other["status"] in {"active", "superseded"} and not other["dry_run"]
        if published and other["brand"] == run["brand"]:
            return _compared(await read_run_view(other["id"], resources, who), run)
    return None


def _compared(before: Mapping[str, Any], run: Mapping[str, Any]) -> Previous:
    old, new = before["proof"]["totals"] or {}, run["proof"]["totals"] or {}
    return Previous(
        run=before,
        totals={name: (old.get(name), new[name], minus(new[name], old.get(name))) for name in new},
        alike=before["scope"] == run["scope"] and before["of_brands"] == run["of_brands"],
        readable=before["status"] == "active",
    )


async def results_before(
    resources: Resources, previous: Previous, rows: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What the previous run says of the items of this page, by brand, pool and item.

    Its status is looked at after its rows: a part of a run that goes meanwhile is thrown away.
    `previous` was found for the caller, its brands are those that he may see.
    """
    if not previous.readable or not rows:
        return {}
    run = previous.run
    wanted = Wanted(
        company=run["company"],
        period=run["period"],
        brands=None if run["of_brands"] is None else run["of_brands"],
        items=sorted({row["item"] for row in rows}),
    )
    async with resources.transaction() as conn:
        found = await run_results(conn, run["id"], wanted, limit=len(rows) * LOOK_BACK)
        if await status_of(conn, run["id"]) != "active":
            return {}
    digits = _digits_of(run)
    views = [result_view(row, minor_digits=digits, digits=2) for row in found]
    return {key_of(view): view for view in views}


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a result is of."""
    return row["brand"], row["pool"], row["item"]


def _digits_of(run: Mapping[str, Any]) -> int:
    """Digits after the point of the run's currency, as its totals are written."""
    totals = run["proof"]["totals"] or {"opening": "0"}
    return len(totals["opening"].partition(".")[2])


def changes(
    rows: Sequence[Mapping[str, Any]], before: Mapping[tuple[Any, ...], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each row of a page, with how the cost of what went out and the closing have changed."""
    told = []
    for row in rows:
        old = before.get(key_of(row))
        told.append(
            {
                "row": row,
                "out": None
                if old is None
                else minus(row["out"]["total"]["value"], old["out"]["total"]["value"]),
                "closing": None
                if old is None
                else minus(row["closing"]["value"], old["closing"]["value"]),
            }
        )
    return told


# ---- a posting


async def read_posting(
    resources: Resources, who: Caller, job_id: UUID, given: Mapping[str, str], *, check: bool
) -> dict[str, Any] | None:
    """A posting's job with its documents by outcome, and what the ledger says of its days.

    `check` compares the ledger with the stock, which takes as long as the period is large. None
    where this account sees no such job, or it is no posting.
    """
    async with resources.reading() as conn:
        row = await show_job(conn, job_id, scope=who.scope)
        full = None if row is None else await get_job(conn, job_id, scope=who.scope)
    if row is None or full is None or row["kind"] not in POSTING_KINDS:
        return None
    job = job_view(row, everywhere=who.scope.is_everything)
    payload = full["payload"] if isinstance(full["payload"], Mapping) else {}
    query = read_query(OutcomesQuery, given)
    documents = (
        {"outcomes": [], "next_cursor": None}
        if row["kind"] == "posting.costs"
        else await read_outcomes(job_id, query, resources, who)
    )
    span = span_of(payload)
    balance = await _balance(resources, who, job["company"], span)
    return {
        "job": job,
        "payload": payload,
        "documents": documents["outcomes"],
        "next_cursor": documents["next_cursor"],
        "tally": _tally(job["result"]),
        "span": span,
        "balance": balance,
        "accounts": await _accounts(resources, who, job, _period_of(span)),
        "checkable": _period_of(span) is not None,
        "control": await _control(resources, who, job["company"], span) if check else None,
    }


def _tally(result: Any) -> list[tuple[str, int, bool]]:
    """How many documents ended how: (outcome, documents, whether it is a success)."""
    outcomes = result.get("outcomes") if isinstance(result, Mapping) else None
    if not isinstance(outcomes, Mapping):
        return []
    return [(name, n, name in SUCCESSES) for name, n in sorted(outcomes.items())]


def span_of(payload: Mapping[str, Any]) -> dict[str, str]:
    """The days that a posting names: its period, or from day to day; nothing where it names ids."""
    if payload.get("period"):
        return {"period": str(payload["period"])}
    since, until = payload.get("date_from"), payload.get("date_to")
    if since and until:
        return {"date_from": str(since), "date_to": str(until)}
    return {}


async def _balance(
    resources: Resources, who: Caller, company: str, span: Mapping[str, str]
) -> dict[str, Any] | None:
    if not span:
        return None
    try:
        return await read_balance(
            read_query(BalanceQuery, {"company": company, "level": "1", **span}), resources, who
        )
    except ProblemRaised:
        return None  # of days that are in no period of these books: there is nothing to balance


async def _accounts(
    resources: Resources,
    who: Caller,
    job: Mapping[str, Any],
    period: str | None,
) -> list[dict[str, Any]] | None:
    """By account: of costs what this posting changed, of documents the period beside the last."""
    if period is None or job["state"] != JobState.SUCCEEDED:
        return None
    if job["kind"] == "posting.costs":
        return await costs_changed(resources, who, job, period)
    return await beside_period_before(resources, who, job["company"], period)


async def _control(
    resources: Resources, who: Caller, company: str, span: Mapping[str, str]
) -> dict[str, Any] | None:
    period = _period_of(span)
    if period is None:
        return None
    try:
        query = ControlQuery(company=company, period=period, limit=FIRST_DIFFERENCES)
        return await read_control(query, resources, who)
    except ProblemRaised:
        return None


def _period_of(span: Mapping[str, str]) -> str | None:
    """The period that all of the days lie in."""
    if "period" in span:
        return span["period"]
    since, until = span.get("date_from", "")[:7], span.get("date_to", "")[:7]
    return since if since and since == until else None


def rows_away(problem: Problem) -> Problem | None:
    """The problem, where it only says that a run's rows are not to be shown; None for any other."""
    return problem if problem.slug in ROWS_AWAY else None
