"""Cancel and redrive: conditional transitions, each in a transaction of its own."""

from typing import Any, assert_never
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.approving import use_given
from api.authentication import Caller
from api.bodies import job_url, job_view
from api.group_redrive import redrive_in
from api.group_views import group_active
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.submission import payload_problem
from shared.access import Scope
from shared.audit import Action
from shared.errors import Busy
from shared.groups.group import GroupState
from shared.groups.renew import Gone
from shared.jobs.cancel import cancel_job
from shared.jobs.pace import Row
from shared.jobs.read import get_job, show_job
from shared.jobs.redrive import (
    CleanupPending,
    GroupStops,
    JoinRuns,
    JoinsGroup,
    NotDead,
    RedriveAnswer,
    Redriven,
    TwinActive,
    redrive_job,
)
from shared.json_text import to_json
from shared.types import TERMINAL, JobId, JobState

TRIES = 3


def job_not_found(job_id: UUID) -> Problem:
    """The 404 of a job, and of an id that is none."""
    return Problem(slug="job-not-found", detail=f"job {job_id} is unknown here")


async def cancelled_view(resources: Resources, job_id: UUID, scope: Scope) -> dict[str, Any] | None:
    """Cancel, then show the job in its final state, whichever it is; None when there is none."""
    for _ in range(TRIES):  # a redrive may come between "too late" and the look at the state
        async with resources.transaction() as conn:
            # A job's company and brand never change: what is in scope now stays so.
            if await show_job(conn, job_id, scope=scope) is None:
                return None
            won = await cancel_job(conn, JobId(job_id))
            row = await show_job(conn, job_id)
        if won:
            resources.relay.wake()  # a follow-up may have become a job
        if row is None:
            return None
        if row["state"] in TERMINAL:
            return job_view(row, everywhere=scope.is_everything)
    raise Busy(f"job {job_id} changes its state again and again")


class _Refused(Exception):
    """Rolls the transaction back, and with it an approval that was used for nothing."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.slug)
        self.problem = problem


async def redrive_one(
    resources: Resources, job_id: UUID, who: Caller, approval_id: UUID | None = None
) -> Problem | None:
    """Redrive one job; the problem says why not, and None means it is pending again.

    An approval is used in the same transaction, whether this api asks for one or not; a redrive
    that is refused uses none.
    """
    try:
        async with resources.transaction() as conn:
            await _redrive_or_roll_back(conn, resources, job_id, who, approval_id)
    except _Refused as refused:
        return refused.problem
    resources.relay.wake()
    return None


async def _redrive_or_roll_back(
    conn: AsyncConnection,
    resources: Resources,
    job_id: UUID,
    who: Caller,
    approval_id: UUID | None,
) -> None:
    problem = await _redrive(conn, resources, job_id, who, approval_id)
    if problem is not None:
        raise _Refused(problem)


async def _redrive(
    conn: AsyncConnection,
    resources: Resources,
    job_id: UUID,
    who: Caller,
    approval_id: UUID | None,
) -> Problem | None:
    row = await get_job(conn, job_id, scope=who.scope)
    if row is None:
        return job_not_found(job_id)
    if row["state"] != JobState.DEAD:
        return _not_dead(row["state"])
    stale = outdated(resources, row)
    if stale is not None:
        return stale
    approval = await use_given(
        conn,
        resources.settings,
        Action.JOB_REDRIVE,
        str(job_id),
        approval_id,
        requester=who.principal,
        # What it was approved for was that one run; this one selects anew.
        does=resources.kinds[row["kind"]].approval,
    )
    if isinstance(approval, Problem):
        return approval
    answer = await redrive_job(conn, JobId(job_id), approval=approval)
    if isinstance(answer, JoinsGroup):
        # Whoever gives it back gives back what it waits for, or it would never start.
        try:
            await redrive_in(conn, answer.group_id, approval)
        except ProblemRaised as raised:
            return raised.problem
        return None
    return _refusal(job_id, answer)


def _refusal(job_id: UUID, answer: RedriveAnswer) -> Problem | None:
    match answer:
        case Redriven():
            return None
        case NotDead():
            return _not_dead(answer.state)
        case CleanupPending():
            return Problem(slug="cleanup-pending", detail="ask again in a moment")
        case TwinActive():
            twin = str(answer.job_id)
            more = {"twin": {"id": twin, "status_url": job_url(twin)}}
            detail = f"job {twin} does this work already"
            return Problem(slug="twin-active", detail=detail, more=more)
        case GroupStops():
            return group_active(GroupState.CANCELLING)
        case JoinRuns():
            return group_active("joining")
        case Gone():
            return Problem(slug="members-archived", detail=str(answer))
        case JoinsGroup() | None:
            return job_not_found(job_id)
    assert_never(answer)


def _not_dead(state: str) -> Problem:
    return Problem(slug="not-dead", detail=f"the job is {state}", more={"state": state})


def outdated(resources: Resources, row: Row) -> Problem | None:
    """What today's model has against the payload; a newer model than ours is not ours to judge."""
    kind = resources.kinds.get(row["kind"])
    if kind is None:
        detail = f"kind {row['kind']} is no longer known"
        return Problem(slug="payload-outdated", detail=detail)
    if row["payload_version"] > kind.version:
        return None
    found = payload_problem(kind, to_json(row["payload"]))
    if found is None:
        return None
    return Problem(slug="payload-outdated", detail=found.detail, errors=found.errors)
