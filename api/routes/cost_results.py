"""What cost runs have found, and could not find: results, errors, differences of a preview."""

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import Caller
from api.cost_pages import (
    DIFFERENCES_STAND,
    ERRORS_STAND,
    Code,
    Cursor,
    Name,
    Period,
    ResultsQuery,
    RunId,
    brands_of,
    minor_digits_of,
    refuse_unknown_place,
    require_rows,
    required_run,
)
from api.cost_views import (
    AccountDifference,
    DifferenceView,
    ErrorView,
    ResultView,
    difference_view,
    error_view,
    result_view,
)
from api.cursors import as_number, read_code_cursor, write_code_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.costs.rows import (
    FIRST,
    Wanted,
    active_results,
    count_active,
    differences_by_account,
    named_movements,
    run_differences,
    run_errors,
    run_results,
)

router = keyed_router(prefix="/v1", tags=["costs"])


class ResultPage(BaseModel):
    """Results in the order of brand, item and pool; `next_cursor` is null at the end."""

    company: str
    period: str
    currency_digits: int = Field(description="digits of values after the point")
    results: list[ResultView]
    next_cursor: str | None


class ActiveItems(BaseModel):
    """How many items the period has results of; of a failed one its run has errors instead."""

    total: int
    failed: int
    stale: int
    late: int = Field(description="movements have come for them that no result holds yet")


class CostPage(ResultPage):
    """The results that hold for a period now, whichever run found each."""

    items: ActiveItems


class ErrorPage(BaseModel):
    """Why items could not be costed, with the movements that cause it."""

    errors: list[ErrorView]
    next_cursor: str | None


class ErrorsQuery(BaseModel):
    """Filters of a run's errors."""

    model_config = ConfigDict(extra="forbid")

    item: Name = None
    code: Name = Field(None, examples=["NEGATIVE_STOCK"])
    cursor: Cursor = None
    limit: Limit = 50


class CostsQuery(ResultsQuery):
    """Which active results."""

    company: Code = Field(examples=["SAMPLE"])
    period: Period


class DifferencesQuery(BaseModel):
    """Filters of a preview's differences."""

    model_config = ConfigDict(extra="forbid")

    item: Name = None
    account: Name = None
    cursor: Cursor = None
    limit: Limit = 50


class DifferencePage(BaseModel):
    """Differences in the order of item, brand and account, and the sums of all of them."""

    accounts: list[AccountDifference]
    differences: list[DifferenceView]
    next_cursor: str | None


@router.get(
    "/cost-runs/{run_id}/results",
    response_class=Response,
    responses=problems("cost-run-not-found", "cost-run-building", "cost-run-gone")
    | {200: {"model": ResultPage}},
)
async def results(
    run_id: RunId, query: Annotated[ResultsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Show what a run found: opening, in, out and closing of each item in each pool.

    A run whose rows are being computed, or are gone, has none to show: 409 or 410, never a part.
    """
    return json_response(await read_results(run_id, query, resources, who))


async def read_results(
    run_id: int, query: ResultsQuery, resources: Resources, who: Caller
) -> dict[str, Any]:
    """What ResultPage describes; ProblemRaised where this caller finds no whole run."""
    after = _after(query.cursor)
    async with resources.transaction() as conn:
        run = await required_run(conn, run_id, who)
        wanted = Wanted(
            company=run["company"],
            period=run["period"],
            brands=brands_of(run, who.scope),
            item=query.item,
            pool=query.pool,
            store=query.store,
        )
        rows = await run_results(conn, run_id, wanted, after=after, limit=query.limit + 1)
        await require_rows(conn, run)
    place = {"company": run["company"], "period": run["period"]}
    return place | _page(rows, query, run["minor_digits"])


def _after(cursor: str | None) -> Any:
    return FIRST if cursor is None else tuple(read_code_cursor(cursor, keys=3))


def _page(rows: Any, query: ResultsQuery, minor_digits: int) -> dict[str, Any]:
    page, more = rows[: query.limit], len(rows) > query.limit
    shown = [result_view(row, minor_digits=minor_digits, digits=query.digits) for row in page]
    last = [page[-1][name] for name in ("brand", "item", "pool")] if more else []
    following = write_code_cursor(*last) if more else None
    return {"currency_digits": minor_digits, "results": shown, "next_cursor": following}


@router.get(
    "/cost-runs/{run_id}/errors",
    response_class=Response,
    responses=problems("cost-run-not-found", "cost-run-building", "cost-run-gone")
    | {200: {"model": ErrorPage}},
)
async def errors(
    run_id: RunId, query: Annotated[ErrorsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Show which items a run could not cost, why, and the movements that cause it."""
    return json_response(await read_errors(run_id, query, resources, who))


async def read_errors(
    run_id: int, query: ErrorsQuery, resources: Resources, who: Caller
) -> dict[str, Any]:
    """What ErrorPage describes; ProblemRaised where this caller finds no whole run."""
    after = _error_after(query.cursor)
    async with resources.transaction() as conn:
        run = await required_run(conn, run_id, who)
        brands = brands_of(run, who.scope)
        wanted = Wanted(
            company=run["company"], period=run["period"], brands=brands, item=query.item
        )
        rows = await run_errors(
            conn, run_id, wanted, code=query.code, after=after, limit=query.limit + 1
        )
        page = rows[: query.limit]
        ids = sorted({each for row in page for each in row["movement_ids"]})
        movements = await named_movements(conn, wanted, ids) if ids else {}
        await require_rows(conn, run, ERRORS_STAND)
    last = page[-1] if len(rows) > query.limit else None
    key = None if last is None else (last["brand"], last["item"], str(last["number"]))
    shown = [error_view(row, movements, minor_digits=run["minor_digits"]) for row in page]
    return {"errors": shown, "next_cursor": None if key is None else write_code_cursor(*key)}


def _error_after(cursor: str | None) -> tuple[str, str, int]:
    if cursor is None:
        return ("", "", 0)
    brand, item, number = read_code_cursor(cursor, keys=3)
    return brand, item, as_number(number, cursor)


@router.get(
    "/cost-runs/{run_id}/differences",
    response_class=Response,
    responses=problems("cost-run-not-found", "cost-run-building", "cost-run-gone", "not-a-preview")
    | {200: {"model": DifferencePage}},
)
async def differences(
    run_id: RunId, query: Annotated[DifferencesQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Show what a preview would change, against the results that were active when it ended."""
    return json_response(await read_differences(run_id, query, resources, who))


async def read_differences(
    run_id: int, query: DifferencesQuery, resources: Resources, who: Caller
) -> dict[str, Any]:
    """What DifferencePage describes; ProblemRaised where this caller finds no preview's."""
    item, brand, account = _after(query.cursor)
    async with resources.transaction() as conn:
        run = await required_run(conn, run_id, who)
        brands = brands_of(run, who.scope)
        wanted = Wanted(
            company=run["company"], period=run["period"], brands=brands, item=query.item
        )
        rows = await run_differences(
            conn,
            run_id,
            wanted,
            account=query.account,
            after=(item, brand, account),
            limit=query.limit + 1,
        )
        accounts = await differences_by_account(conn, run_id, brands)
        await require_rows(conn, run, DIFFERENCES_STAND)
    page, more = rows[: query.limit], len(rows) > query.limit
    key = [page[-1][name] for name in ("item", "brand", "account")] if more else []
    digits = run["minor_digits"]
    return {
        "accounts": [difference_view(each, minor_digits=digits) for each in accounts],
        "differences": [difference_view(each, minor_digits=digits) for each in page],
        "next_cursor": write_code_cursor(*key) if more else None,
    }


@router.get(
    "/costs",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": CostPage}},
)
async def costs(query: Annotated[CostsQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show what holds for a period now: the active result of each item, whichever run found it.

    Each page is of one moment; a run that is activated between two pages changes what follows.
    """
    after = _after(query.cursor)
    wanted = Wanted(
        company=query.company,
        period=query.period,
        brands=who.scope.brands,
        item=query.item,
        pool=query.pool,
        store=query.store,
    )
    async with resources.transaction() as conn:
        if not who.scope.covers_company(query.company):
            await refuse_unknown_place(conn, who.scope, query.company, query.period)
        rows = await active_results(conn, wanted, after=after, limit=query.limit + 1)
        counted = await count_active(conn, wanted)
        if not rows:
            await refuse_unknown_place(conn, who.scope, query.company, query.period)
        minor_digits = await minor_digits_of(conn, query.company)
    items = {"total": counted["items"]} | {
        name: counted[name] for name in ("failed", "stale", "late")
    }
    place = {"company": query.company, "period": query.period}
    return json_response(place | _page(rows, query, minor_digits) | {"items": items})
