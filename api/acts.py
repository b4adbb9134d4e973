"""Jobs that are acts (Kind.approval): who may submit one, and with whose approval."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.approving import require_given
from api.authentication import Caller
from api.problems import Problem, ProblemRaised, field_problem
from api.resources import Resources
from shared.access import Role
from shared.audit import Action
from shared.jobs.acts import act_target, note_act
from shared.jobs.enqueue import Accepted, Submit
from shared.kinds import Kind


def strange_approval(kind: Kind, approval: object) -> Problem | None:
    """The problem of a job that brings an approval where none is ever asked for."""
    if approval is None or kind.approval is not None:
        return None
    rule = f"is of no use: a job of kind {kind.name} asks for no approval"
    return field_problem("invalid-request", "approval", rule, approval)


def refuse_act(checked: Submit | Problem, kinds: Mapping[str, Kind], who: Caller) -> None:
    """ProblemRaised for an act of an account without role operate."""
    if not isinstance(checked, Submit) or kinds[checked.kind].approval is None:
        return
    if not who.has(Role.OPERATE):
        more = {"role": Role.OPERATE.value, "route": "POST /v1/jobs"}
        detail = f"POST /v1/jobs with kind {checked.kind} asks for role operate"
        raise ProblemRaised(Problem(slug="forbidden", detail=detail, more=more))


def act_among_many(checked: Submit | Problem, kinds: Mapping[str, Kind]) -> Problem | None:
    """The problem of an act in a batch: each is asked for, and approved, by itself."""
    if not isinstance(checked, Submit) or kinds[checked.kind].approval is None:
        return None
    rule = "is submitted by POST /v1/jobs alone, one by one: it is an act that may ask for approval"
    return field_problem("invalid-request", "kind", rule, checked.kind)


async def note_if_act(
    conn: AsyncConnection,
    resources: Resources,
    job: Submit,
    accepted: Accepted,
    approval_id: UUID | None,
) -> None:
    """Use the approval of a new job that is an act, and write down who asked and who approved.

    ProblemRaised where it does not count, or none is there and one is asked for; the transaction is
    then rolled back, and the job with it. A job that was there already uses none.
    """
    name = resources.kinds[job.kind].approval
    if name is None or not accepted.created:
        return
    action = Action(name)
    target = await act_target(conn, job)
    assert target is not None, "chot.enqueue() has taken it"
    requester = job.principal or ""
    approval = await require_given(
        conn, resources.settings, action, target, approval_id, requester=requester
    )
    await note_act(conn, action, job, job_id=accepted.job_id, target=target, approval=approval)
