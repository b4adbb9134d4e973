"""What an approval may be of: for each action the target it names, and whose that is."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.actions import job_not_found
from api.authentication import Caller
from api.company_wide import not_of_brands
from api.group_views import group_not_found
from api.period_views import period_not_found
from api.problems import ProblemRaised, field_problem
from shared.audit import Action
from shared.groups.group import read_group
from shared.jobs.read import get_job
from shared.periods import PeriodKey, status_of

ROUTE = "POST /v1/approvals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is approved, as the act itself will name it, and whose it is."""

    name: str
    company: str
    brand: str | None


async def find_target(conn: AsyncConnection, action: Action, target: str, who: Caller) -> Target:
    """The target that is named; ProblemRaised where there is none in the account's scope.

    An act on a whole company is approved by an account of the whole company.
    """
    return await _TARGETS[action](conn, target, who)


async def _job(conn: AsyncConnection, target: str, who: Caller) -> Target:
    job_id = _uuid(target, "job")
    job = await get_job(conn, job_id, scope=who.scope)
    if job is None:
        raise ProblemRaised(job_not_found(job_id))
    return Target(name=str(job_id), company=job["company"], brand=job["brand"])


async def _group(conn: AsyncConnection, target: str, who: Caller) -> Target:
    group_id = _uuid(target, "group")
    group = await read_group(conn, group_id, scope=who.scope)
    if group is None:
        raise ProblemRaised(group_not_found(group_id))
    return Target(name=str(group_id), company=group.company, brand=group.brand)


async def _period(conn: AsyncConnection, target: str, who: Caller) -> Target:
    key = PeriodKey.of_target(target)
    if not (key.company and key.period):
        rule = "must be company and period, such as SAMPLE/2026-01"
        raise ProblemRaised(field_problem("invalid-request", "target", rule, target))
    there = who.scope.covers_company(key.company) and await status_of(conn, key) is not None
    if not there:
        raise ProblemRaised(period_not_found(key))
    if who.scope.brands is not None:
        since = "a period is closed and reopened for all of its brands"
        raise ProblemRaised(not_of_brands(ROUTE, since))
    return Target(name=key.target, company=key.company, brand=None)


def _uuid(target: str, what: str) -> UUID:
    try:
        return UUID(target)
    except ValueError:
        rule = f"must be the id of a {what}"
        problem = field_problem("invalid-request", "target", rule, target)
    raise ProblemRaised(problem)


_TARGETS: Mapping[Action, Callable[[AsyncConnection, str, Caller], Awaitable[Target]]] = {
    Action.JOB_REDRIVE: _job,
    Action.GROUP_REDRIVE: _group,
    Action.PERIOD_CLOSE: _period,
    Action.PERIOD_REOPEN: _period,
}
