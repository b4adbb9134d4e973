"""Groups over HTTP: opened, filled and ended, each in one transaction and under its key."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.actions import outdated
from api.acts import act_among_many
from api.approving import require_given
from api.authentication import Caller
from api.batch import Batch, answer_batch, place, refuse_lost_rights, tell_made, without_room
from api.bodies import Code
from api.group_redrive import redrive_in
from api.group_views import (
    OPEN_ROUTE,
    group_active,
    group_not_found,
    group_url,
    group_view,
    twin_active,
)
from api.idempotency import Answer, Asked, ask, store_answer
from api.problems import Problem, ProblemRaised, field_problem, validation_problem
from api.resources import Resources
from api.strict_json import parse_object
from api.submission import begin, check_submit, refusal_problem, refuse_beyond_rights
from shared.access import Scope
from shared.audit import Action
from shared.errors import EnqueueRefused
from shared.groups.fill import Appended, append_each, open_group, seal_group
from shared.groups.group import (
    Group,
    GroupState,
    Policy,
    WorkActive,
    list_members,
    lock_group,
    read_group,
)
from shared.groups.stop import cancel_group
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Accepted, Submit, listed_jobs
from shared.json_text import to_json
from shared.kinds import Kind
from shared.types import TERMINAL, Duplicate, JobState

MEMBERS_PAGE = 500
AT_ONCE = 50  # payloads judged before the others on the event loop get their turn


class JoinBody(BaseModel):
    """The job that starts once, when all members have ended: of the group's company and brand."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Code = Field(examples=["costing.run"])
    payload: dict[str, Any] = Field(description="what the kind's model asks for, at most 256 KiB")
    priority: int | None = Field(None, ge=0, le=9, description="larger first; 5 by default")
    max_attempts: int | None = Field(None, ge=1, le=1000, description="up to the kind's cap")


class GroupBody(BaseModel):
    """A group to open. Without a brand its members may be of any brand of the company."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code = Field(examples=["SAMPLE"])
    brand: Code | None = Field(None, examples=["LUA"])
    policy: Literal["fail_fast", "finish", "join"] = Field(
        "finish",
        description="what a member that dies or is cancelled means: `fail_fast` cancels the "
        "others, `finish` lets them run and buries the join, `join` lets the join run and see",
    )
    join: JoinBody | None = None


async def required(conn: AsyncConnection, group_id: UUID, scope: Scope) -> Group:
    """The group, if it lies in the scope; ProblemRaised else."""
    group = await read_group(conn, group_id, scope=scope)
    if group is None:
        raise ProblemRaised(group_not_found(group_id))
    return group


def read_opening(
    body: bytes, key: str | None, kinds: Mapping[str, Kind], who: Caller
) -> tuple[Asked | None, GroupBody | Problem, Submit | Problem | None]:
    """The request, the group it asks for and its join, or the problem with either.

    Everything that is judged without the database; raises Malformed and ProblemRaised.
    """
    raw = parse_object(body)
    asked = None
    if key is not None:
        asked = ask(who.principal, key, method="POST", route=OPEN_ROUTE, body=raw)
    wanted, join = _opening(raw, kinds, who)
    if asked is None:
        for each in (wanted, join):
            if isinstance(each, Problem):
                raise ProblemRaised(each)
    return asked, wanted, join


def _opening(
    raw: dict[str, Any], kinds: Mapping[str, Kind], who: Caller
) -> tuple[GroupBody | Problem, Submit | Problem | None]:
    try:
        wanted = GroupBody.model_validate(raw)
    except ValidationError as error:
        return validation_problem(error, GroupBody), None
    own = {"company": wanted.company, "brand": wanted.brand}
    # As for a job of this company and brand: before the key is looked up.
    probe = Submit(kind="", payload={}, **own)  # type: ignore[arg-type] # both are texts
    refuse_beyond_rights(raw | {"priority": None}, probe, who)
    if wanted.join is None:
        return wanted, None
    item = {name: value for name, value in raw["join"].items() if value is not None} | own
    join = check_submit(item, kinds, who.principal)
    join = act_among_many(join, kinds) or join
    refuse_beyond_rights(item, join, who)
    return wanted, place(join, "join") if isinstance(join, Problem) else join


async def open_one(
    resources: Resources,
    asked: Asked | None,
    wanted: GroupBody | Problem,
    join: Submit | Problem | None,
    who: Caller,
) -> Answer:
    """Open a group once, with its join; raises ProblemRaised with nothing written."""
    jobs = [join] if isinstance(join, Submit) else []
    async with resources.pending.admit(jobs) as admission, resources.transaction() as conn:
        found = None if asked is None else await begin(conn, asked)
        if found is not None:
            return found
        for each in (wanted, join):
            if isinstance(each, Problem):
                raise ProblemRaised(each)
        assert isinstance(wanted, GroupBody)
        for no_room in (await admission.beyond(conn)).values():
            raise ProblemRaised(no_room)
        group = await _open(conn, wanted, jobs[0] if jobs else None, who)
        for job in jobs:
            admission.made(job)
        answer = Answer(
            status=201,
            headers={"Location": group_url(group.id)},
            body=to_json(group_view(group)).encode(),
            job_id=None,
        )
        if asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, asked, answer, hours=hours)
    return answer


async def _open(
    conn: AsyncConnection, wanted: GroupBody, join: Submit | None, who: Caller
) -> Group:
    probe = Submit(kind="", company=wanted.company, brand=wanted.brand, payload={})
    try:
        group_id = await open_group(
            conn,
            company=wanted.company,
            brand=wanted.brand,
            policy=Policy(wanted.policy),
            principal=who.principal,
            join=join,
        )
    except EnqueueRefused as refused:
        problem = refusal_problem(refused, probe if join is None else join)
        is_own = refused.field in {"company", "brand"}
        raise ProblemRaised(problem if is_own else place(problem, "join")) from None
    except WorkActive as active:
        raise ProblemRaised(twin_active(active)) from None
    group = await read_group(conn, group_id)
    assert group is not None, "it was made in this transaction"
    return group


async def append_batch(resources: Resources, batch: Batch, group_id: UUID, who: Caller) -> Answer:
    """Append once: members, their messages and the answer are committed together or not at all.

    Raises ProblemRaised with nothing written. An item that is refused is part of the answer.
    """
    items = () if isinstance(batch.checked, Problem) else batch.checked
    jobs = [each for each in items if isinstance(each, Submit)]
    async with resources.pending.admit(jobs) as admission, resources.transaction() as conn:
        await required(conn, group_id, who.scope)
        if batch.asked is not None:
            found = await begin(conn, batch.asked)
            if found is not None:
                refuse_lost_rights(found, batch)
                return found
        if isinstance(batch.checked, Problem):
            raise ProblemRaised(batch.checked)
        no_room = await admission.beyond(conn)
        checked = without_room(batch.checked, no_room)
        group = await lock_group(conn, group_id)
        if group is None or group.state != GroupState.OPEN:
            raise ProblemRaised(_closed(group_id, group))
        checked = [_inside(each, group, index) for index, each in enumerate(checked)]
        jobs = [each for each in checked if isinstance(each, Submit)]
        met = await append_each(conn, group_id, listed_jobs(jobs)) if jobs else []
        checked, accepted = _accepted(checked, met)
        if no_room and not any(isinstance(each, Accepted) for each in accepted):
            # Nothing is stored, not even under the key: the same batch may pass later.
            raise ProblemRaised(next(iter(no_room.values())))
        tell_made(admission, checked, accepted)
        answer = await answer_batch(checked, accepted)
        if batch.asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, batch.asked, answer, hours=hours)
    resources.relay.wake()
    return answer


def _closed(group_id: UUID, group: Group | None) -> Problem:
    if group is None:
        return group_not_found(group_id)
    more = {"state": group.state}
    return Problem(slug="group-closed", detail=f"the group is {group.state}", more=more)


def _inside(item: Submit | Problem, group: Group, index: int) -> Submit | Problem:
    """The item, or the problem that it lies outside the group's company and brand."""
    if isinstance(item, Problem):
        return item
    if item.company != group.company:
        rule = f"must be the group's, {group.company}"
        return field_problem("invalid-request", f"jobs[{index}].company", rule, item.company)
    if group.brand is not None and item.brand != group.brand:
        rule = f"must be the group's, {group.brand}"
        return field_problem("invalid-request", f"jobs[{index}].brand", rule, item.brand)
    return item


def _accepted(
    checked: Sequence[Submit | Problem], met: Sequence[Appended]
) -> tuple[Sequence[Submit | Problem], Sequence[Accepted | EnqueueRefused]]:
    """The answers as those of a batch: a member that was there already was joined."""
    answers = iter(met)
    items: list[Submit | Problem] = []
    accepted: list[Accepted | EnqueueRefused] = []
    for index, each in enumerate(checked):
        answer = None if isinstance(each, Problem) else next(answers)
        if isinstance(answer, WorkActive):
            items.append(place(twin_active(answer), f"jobs[{index}]"))
            continue
        items.append(each)
        if isinstance(answer, EnqueueRefused):
            accepted.append(answer)
        elif answer is not None:
            accepted.append(
                Accepted(
                    job_id=answer.job_id,
                    state=answer.state,
                    created=answer.created,
                    duplicate=None if answer.created else Duplicate.JOINED,
                    input_as_of=None,
                )
            )
    return items, accepted


async def sealed_view(resources: Resources, group_id: UUID, scope: Scope) -> dict[str, Any]:
    """Seal, and show; a group that is closed already is shown as it is."""
    async with resources.transaction() as conn:
        await required(conn, group_id, scope)
        await seal_group(conn, group_id)
        group = await required(conn, group_id, scope)
    resources.relay.wake()
    return group_view(group)


async def cancelled_group(resources: Resources, group_id: UUID, scope: Scope) -> dict[str, Any]:
    """Mark the group, and show it; one of which only the join is left has that cancelled.

    ProblemRaised (409) where nothing is left to be cancelled.
    """
    async with resources.transaction() as conn:
        await required(conn, group_id, scope)
        marked = await cancel_group(conn, group_id)
        group = await required(conn, group_id, scope)
        if not marked and group.state == GroupState.ENDED:
            await _cancel_join(conn, group)
            group = await required(conn, group_id, scope)
    resources.relay.wake()
    return group_view(group)


async def _cancel_join(conn: AsyncConnection, group: Group) -> None:
    over = group.join_job_id is None or group.join_state in TERMINAL or group.join_state is None
    if over or group.join_job_id is None or not await cancel_job(conn, group.join_job_id):
        more = {"outcome": group.outcome}
        detail = f"the group has ended: {group.outcome}"
        raise ProblemRaised(Problem(slug="group-ended", detail=detail, more=more))


async def redriven_group(
    resources: Resources, group_id: UUID, who: Caller, approval_id: UUID | None
) -> dict[str, Any]:
    """Redrive what did not succeed, and show the group; ProblemRaised with nothing written."""
    stale = await _outdated_member(resources, group_id, who)
    if stale is not None:
        raise ProblemRaised(stale)
    async with resources.transaction() as conn:
        group = await required(conn, group_id, who.scope)
        if group.state != GroupState.ENDED:
            raise ProblemRaised(group_active(group.state))
        approval = await require_given(
            conn,
            resources.settings,
            Action.GROUP_REDRIVE,
            str(group_id),
            approval_id,
            requester=who.principal,
        )
        await redrive_in(conn, group.id, approval)
        group = await required(conn, group_id, who.scope)
    resources.relay.wake()
    return group_view(group)


async def _outdated_member(resources: Resources, group_id: UUID, who: Caller) -> Problem | None:
    """What today's models have against a member that would run again; page by page."""
    async with resources.reading() as conn:
        await required(conn, group_id, who.scope)
    after = None
    while True:
        async with resources.reading() as conn:
            rows = await list_members(conn, group_id, after=after, limit=MEMBERS_PAGE)
        for number, row in enumerate(rows):
            if row["state"] in {JobState.DEAD, JobState.CANCELLED}:
                stale = outdated(resources, row)
                if stale is not None:
                    detail = f"job {row['id']}: {stale.detail}"
                    return Problem(slug=stale.slug, detail=detail, errors=stale.errors)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        if len(rows) < MEMBERS_PAGE:
            return None
        after = rows[-1]["id"]
