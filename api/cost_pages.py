"""Which run, which rows of it, and when there are none to be shown any more."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Caller
from api.bodies import job_url
from api.cost_run_views import run_url
from api.problems import Problem, ProblemRaised, field_problem
from api.queries import Limit, digits_only, refuse_nul
from shared.access import Scope
from shared.costs.runs import read_run, speaking_runs, status_of
from shared.costs.shown import FEWEST_DIGITS, MOST_DIGITS

LARGEST_ID = 10**18 - 1
RunId = Annotated[int, Path(ge=1, le=LARGEST_ID), BeforeValidator(digits_only(18))]
Code = Annotated[str, Field(max_length=100), BeforeValidator(refuse_nul)]
Name = Annotated[str | None, Field(max_length=100), BeforeValidator(refuse_nul)]
PERIOD = r"^[12][0-9]{3}-(0[1-9]|1[0-2])$"
Period = Annotated[str, Field(pattern=PERIOD, examples=["2026-01"])]
Digits = Annotated[
    int,
    Field(ge=FEWEST_DIGITS, le=MOST_DIGITS, description="digits of unit prices that are shown"),
    BeforeValidator(digits_only(9)),
]
Cursor = Annotated[str | None, Field(max_length=2000, description="`next_cursor` of the last page")]


class ResultsQuery(BaseModel):
    """Filters of a list of results, and how prices are shown."""

    model_config = ConfigDict(extra="forbid")

    item: Name = None
    pool: Name = None
    store: Name = Field(None, description="pools that this store lies in")
    digits: Digits = FEWEST_DIGITS
    cursor: Cursor = None
    limit: Limit = 50


def brands_of(run: RowMapping, scope: Scope) -> Sequence[str] | None:
    """The brands of the run whose rows an account of this scope may see; None: all of them."""
    if scope.brands is None or run["brand"] is not None:
        return None
    return scope.brands


async def required_run(conn: AsyncConnection, run_id: int, who: Caller) -> RowMapping:
    """The run's header, if some of it lies in the caller's scope; ProblemRaised else."""
    run = await read_run(conn, run_id, who.scope)
    if run is None:
        raise ProblemRaised(run_not_found(run_id))
    return run


def run_not_found(run_id: object) -> Problem:
    """The 404 of a run, and of a number that is none."""
    return Problem(slug="cost-run-not-found", detail=f"cost run {run_id} is unknown here")


RESULTS_STAND = frozenset({"active"})
ERRORS_STAND = frozenset({"active", "previewed"})
DIFFERENCES_STAND = frozenset({"previewed"})


async def require_rows(
    conn: AsyncConnection, run: RowMapping, stand: frozenset[str] = RESULTS_STAND
) -> None:
    """ProblemRaised unless the run's rows are whole at this moment. Ask after reading some.

    What was read before a run was superseded may be half of it: it is not given out. `stand` are
    the states in which these rows are there.
    """
    status = await status_of(conn, run["id"])
    if status in stand:
        return
    more: dict[str, Any] = {"run_status": status, "job": job_url(run["job_id"])}
    if status == "building":
        detail = f"cost run {run['id']} is being computed; its job tells when it has ended"
        raise ProblemRaised(Problem(slug="cost-run-building", detail=detail, more=more))
    if stand == DIFFERENCES_STAND and not run["dry_run"]:
        detail = f"cost run {run['id']} publishes its results; a preview has differences"
        raise ProblemRaised(Problem(slug="not-a-preview", detail=detail, more=more))
    speaking = await speaking_runs(conn, run["company"], run["period"], None)
    more |= {
        "speaking": [{"id": each, "url": run_url(each)} for each in speaking],
        "costs": f"/v1/costs?company={quote(run['company'])}&period={run['period']}",
    }
    raise ProblemRaised(Problem(slug="cost-run-gone", detail=_gone(run, status), more=more))


def _gone(run: RowMapping, status: str | None) -> str:
    if status == "previewed":
        return f"cost run {run['id']} was a preview: its differences and errors are all it left"
    return (
        f"cost run {run['id']} is {status} and its rows are removed; what holds for period "
        f"{run['period']} now is in `costs`, and the runs that found it are in `speaking`"
    )


COMPANY_IS_KNOWN = text("SELECT EXISTS (SELECT FROM books.companies WHERE code = :company)")
PERIOD_IS_KNOWN = text("""
    SELECT EXISTS (SELECT FROM books.periods WHERE company = :company AND period = :period)""")
MINOR_DIGITS = text("SELECT minor_digits FROM books.companies WHERE code = :company")


async def refuse_unknown_place(
    conn: AsyncConnection, scope: Scope, company: str, period: str | None
) -> None:
    """ProblemRaised for a company outside the scope or that is none, and for a period it has not.

    An empty list would hide the slip.
    """
    known = scope.covers_company(company)
    if not (known and await conn.scalar(COMPANY_IS_KNOWN, {"company": company})):
        rule = "is no company whose results this account may see"
        raise ProblemRaised(field_problem("unknown-company", "company", rule, company))
    binds = {"company": company, "period": period}
    if period is not None and not await conn.scalar(PERIOD_IS_KNOWN, binds):
        rule = f"is no period of company {company}"
        raise ProblemRaised(field_problem("invalid-request", "period", rule, period))


async def minor_digits_of(conn: AsyncConnection, company: str) -> int:
    """Digits of the company's currency after the point."""
    return int(await conn.scalar(MINOR_DIGITS, {"company": company}) or 0)
