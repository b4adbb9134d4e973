"""Comparisons on the pages of runs: by account with what was posted before, and with other runs."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping

from api.authentication import Caller
from api.cost_pages import minor_digits_of
from api.cost_views import difference_view
from api.problems import ProblemRaised
from api.resources import Resources
from api.routes.cost_runs import RunsQuery, read_runs
from api.routes.ledger import BalanceQuery, read_balance
from api.ui.decimals import minus
from shared.costs.by_account import changed_accounts, posted_by

LOOK_BACK = 50
MOST_JOBS = 5


async def costs_changed(
    resources: Resources, who: Caller, job: Mapping[str, Any], period: str
) -> list[dict[str, Any]]:
    """What a posting of costs has changed, by account, against what stood before it.

    For accounts of the whole company only: the lines are of all its brands.
    """
    if who.scope.brands is not None:
        return []
    async with resources.reading() as conn:
        digits = await minor_digits_of(conn, job["company"])
        rows = await changed_accounts(
            conn, company=job["company"], period=period, job_id=UUID(job["id"])
        )
    return [difference_view(row, minor_digits=digits) | _named(row) for row in rows]


def _named(row: RowMapping) -> dict[str, Any]:
    return {"name": row["name"], "name_vi": row["name_vi"]}


async def beside_period_before(
    resources: Resources, who: Caller, company: str, period: str
) -> list[dict[str, Any]] | None:
    """What moved on each account of the first level in this period, and in the one before.

    None where there is no period before: nothing to compare with.
    """
    try:
        now, before = [
            await read_balance(BalanceQuery(company=company, level=1, period=each), resources, who)
            for each in (period, _before(period))
        ]
    except ProblemRaised:
        return None
    was = {each["account"]: each for each in before["accounts"]}
    here = {each["account"]: each for each in now["accounts"]}
    found = []
    for code in sorted(was.keys() | here.keys()):
        named = here.get(code) or was[code]
        old, new = _moved(was.get(code)), _moved(here.get(code))
        if old != "0" or new != "0":
            amounts = {"before": old, "after": new, "difference": minus(new, old)}
            found.append({name: named[name] for name in ("account", "name", "name_vi")} | amounts)
    return found


def _before(period: str) -> str:
    """The calendar month before a month."""
    first = date.fromisoformat(f"{period}-01")
    return (first - timedelta(days=1)).strftime("%Y-%m")


def _moved(balance: Mapping[str, Any] | None) -> str:
    return "0" if balance is None else minus(balance["debit"], balance["credit"]) or "0"


async def other_runs(
    resources: Resources, who: Caller, run: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """What else there is of a run's books and period: who replaced it, previews, its postings."""
    query = RunsQuery(company=run["company"], period=run["period"], limit=LOOK_BACK)
    runs = [
        each
        for each in (await read_runs(query, resources, who))["runs"]
        if each["id"] != run["id"] and each["brand"] == run["brand"]
    ]
    later = [
        each["id"]
        for each in runs
        if each["id"] > run["id"]
        and each["status"] in {"active", "superseded"}
        and not each["dry_run"]
    ]
    async with resources.reading() as conn:
        jobs = [] if run["dry_run"] else await posted_by(conn, run["id"], most=MOST_JOBS)
    return {
        # The first after it took items away from it first.
        "replaced_by": sorted(later) if run["status"] in {"active", "superseded"} else [],
        "previews": [each["id"] for each in runs if each["dry_run"]],
        "posted_by": [str(job_id) for job_id in jobs] if who.scope.brands is None else [],
    }
