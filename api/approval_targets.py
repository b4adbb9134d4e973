"""What an approval may be of: for each action the target it names, and whose that is."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.actions import job_not_found
from api.approving import OF_JOBS
from api.authentication import Caller
from api.batch import place
from api.company_wide import not_of_brands
from api.group_views import group_not_found
from api.period_views import period_not_found
from api.problems import Problem, ProblemRaised, field_problem
from api.submission import check_submit, refuse_beyond_rights
from shared.audit import Action
from shared.groups.group import read_group
from shared.jobs.acts import act_target, told_of
from shared.jobs.read import get_job
from shared.kinds import Kind
from shared.periods import PeriodKey, status_of

ROUTE = "POST /v1/approvals"


@dataclass(frozen=True, slots=True)
class Named:
    """What the approver names: a target, or, of an act that is a job, that job."""

    target: str | None
    job: dict[str, Any] | None
    kinds: Mapping[str, Kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is approved, as the act itself will name it, and whose it is.

    `told` is what the audit keeps of a job that is approved before it is there.
    """

    name: str
    company: str
    brand: str | None
    told: Mapping[str, Any] | None = None


async def find_target(conn: AsyncConnection, action: Action, named: Named, who: Caller) -> Target:
    """The target that is named; ProblemRaised where there is none in the account's scope.

    An act on a whole company is approved by an account of the whole company.
    """
    wanted, other = ("job", "target") if action in OF_JOBS else ("target", "job")
    if getattr(named, other) is not None:
        rule = f"is not what {action} is approved by: name {wanted}"
        raise ProblemRaised(field_problem("invalid-request", other, rule))
    if getattr(named, wanted) is None:
        raise ProblemRaised(field_problem("invalid-request", wanted, "is required"))
    if action in OF_JOBS:
        return await _work(conn, action, named, who)
    return await _TARGETS[action](conn, str(named.target), who)


async def _work(conn: AsyncConnection, action: Action, named: Named, who: Caller) -> Target:
    """The work of a job that nobody has submitted yet, judged as its submit will be."""
    raw = named.job or {}
    checked = check_submit(raw, named.kinds, who.principal)
    try:
        refuse_beyond_rights(raw, checked, who)
    except ProblemRaised as raised:
        raise ProblemRaised(place(raised.problem, "job")) from None
    if isinstance(checked, Problem):
        raise ProblemRaised(place(checked, "job"))
    if named.kinds[checked.kind].approval != action:
        rule = f"is no kind whose jobs are {action}"
        raise ProblemRaised(field_problem("invalid-request", "job.kind", rule, checked.kind))
    target = await act_target(conn, checked)
    if target is None:
        rule = "is none whose books there are, or has no such brand"
        raise ProblemRaised(field_problem("unknown-company", "job.company", rule, checked.company))
    return Target(name=target, company=checked.company, brand=checked.brand, told=told_of(checked))


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
