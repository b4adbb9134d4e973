"""Groups: the counter is the truth at every end, and the join runs once, after all of them."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import EnqueueRefused
from shared.groups.fill import Member, open_group
from shared.groups.group import GroupRefused, Policy, WorkActive
from shared.groups.stop import cancel_group, stop_groups
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from tests.factories import TIMING, execute, expire_lease, fetch, job_row, make_job, scalar
from tests.protocol.exits import EXITS, prepare
from tests.protocol.groups import (
    append,
    claim,
    held_by,
    members,
    messages,
    opened,
    probe,
    seal,
    sealed,
    show,
    stop,
)
from worker.lease import HeldLease
from worker.outcome import Failed, Released, complete_job, fail_job, release_job
from worker.reaper import reap_guarded


async def leave(engine: AsyncEngine, held: HeldLease, how: str) -> bool:
    """Leave `running` in this way, as the platform does it for a member: its group locked first."""
    if how.startswith("reap"):
        await expire_lease(engine, held.lease.job_id)
        return await reap_guarded(engine, TIMING) == 1
    async with engine.begin() as conn:
        match how:
            case "cancel":
                return await cancel_job(conn, held.lease.job_id)
            case "complete":
                return await complete_job(conn, held, '{"ok": true}')
            case "retry" | "fail_last" | "fail_permanently":
                permanent = how == "fail_permanently"
                failed = Failed(error="told to", code="TOLD", permanent=permanent)
                return await fail_job(conn, held, failed) is not None
            case _:
                return await release_job(conn, held, Released(reason="told to")) is not None


async def end(engine: AsyncEngine, job_id: Any, how: str = "complete") -> None:
    """Run one member to its end."""
    held = await held_by(engine, job_id)
    assert await leave(engine, await prepare(engine, held, how), how)


@pytest.mark.parametrize("how", EXITS)
async def test_each_end_counts_exactly_once(probes: AsyncEngine, how: str) -> None:
    """Whoever ends a member: the row says so in the same commit; a retry or a release is no end."""
    group_id, (one, _) = await sealed(probes, 2, policy=Policy.JOIN)
    held = await prepare(probes, await held_by(probes, one), how)
    assert await leave(probes, held, how)
    state = EXITS[how][0]
    group = await show(probes, group_id)
    assert group.remaining == (2 if state == "pending" else 1)
    assert not await leave(probes, held, how), "the same end comes once"
    assert (await show(probes, group_id)).remaining == group.remaining


async def test_the_last_end_stages_the_join(probes: AsyncEngine) -> None:
    """In its own statement; the join may be claimed then, and ends like any job."""
    group_id, ids = await sealed(probes, 3)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    for job_id in ids:
        await end(probes, job_id)
    group = await show(probes, group_id)
    assert (group.state, group.outcome, group.join_state) == ("ended", "succeeded", "pending")
    assert await messages(probes, join) == 1
    held = await held_by(probes, join)
    assert held.job.joins == group_id
    async with probes.begin() as conn:
        assert await complete_job(conn, held, None)
    assert (await show(probes, group_id)).join_state == "succeeded"


async def test_before_the_last_end_the_join_is_nobodys(probes: AsyncEngine) -> None:
    """Until then it is pending, without a message, and nobody may claim it."""
    group_id, ids = await sealed(probes, 3)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    for job_id in ids:
        assert await messages(probes, join) == 0
        assert await claim(probes, join) is None
        await end(probes, job_id)


async def test_members_run_while_the_group_is_open_and_its_end_waits_for_the_seal(
    probes: AsyncEngine,
) -> None:
    """All members that there are have ended: more may come until it is sealed."""
    group_id = await opened(probes)
    (one,) = await members(probes, group_id, 1)
    await end(probes, one)
    group = await show(probes, group_id)
    assert (group.state, group.remaining) == ("open", 0)
    await members(probes, group_id, 1)
    assert (await show(probes, group_id)).total == 2
    assert await seal(probes, group_id)
    assert not await seal(probes, group_id), "the second seal changes nothing"
    assert (await show(probes, group_id)).state == "sealed"


@pytest.mark.parametrize("join", [True, False])
async def test_a_sealed_empty_group_ends_at_once(probes: AsyncEngine, *, join: bool) -> None:
    """Nothing was to be done: the join runs on that."""
    group_id, _ = await sealed(probes, 0, join=join)
    group = await show(probes, group_id)
    assert (group.state, group.outcome, group.total) == ("ended", "succeeded", 0)
    assert await messages(probes, group.join_job_id) == int(join)


async def test_a_group_of_ended_members_ends_with_its_seal(probes: AsyncEngine) -> None:
    """The seal comes last here, and stages the join."""
    group_id = await opened(probes)
    for job_id in await members(probes, group_id, 2):
        await end(probes, job_id)
    await seal(probes, group_id)
    group = await show(probes, group_id)
    assert (group.state, await messages(probes, group.join_job_id)) == ("ended", 1)


POLICIES: dict[str, tuple[str, str, str]] = {
    # policy → state of the group after one of three died, its outcome, the join's end
    "fail_fast": ("cancelling", "failed", "dead"),
    "finish": ("sealed", "failed", "dead"),
    "join": ("sealed", "succeeded", "pending"),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_what_a_death_means_is_the_policys(probes: AsyncEngine, policy: str) -> None:
    """Cancel the rest; or let it finish, and bury the join; or let the join see what happened."""
    state, outcome, join = POLICIES[policy]
    group_id, (one, two, three) = await sealed(probes, 3, policy=Policy(policy))
    running = await held_by(probes, two)
    await end(probes, one, "fail_permanently")
    group = await show(probes, group_id)
    assert group.state == state
    assert (await claim(probes, three) is None) == (policy == "fail_fast")
    await stop_groups(probes, TIMING)
    if policy == "fail_fast":
        assert not await leave(probes, running, "complete"), "it was cancelled under its owner"
        row = await job_row(probes, three)
        error = await scalar(probes, "SELECT error FROM chot.job_outputs WHERE job_id = :i", i=two)
        assert (row.state, row.cleanup_due, error["code"]) == ("cancelled", False, "GROUP_FAILED")
    else:
        assert await leave(probes, running, "complete")
        (held,) = [await _running(probes, three)]
        assert await leave(probes, held, "complete")
    await stop_groups(probes, TIMING)
    group = await show(probes, group_id)
    assert (group.state, group.outcome, group.join_state) == ("ended", outcome, join)
    if join == "dead":
        error = await _error(probes, group.join_job_id)
        assert error["code"] == "GROUP_FAILED"
        assert "1 of its group's 3 members died" in error["message"]
        assert await messages(probes, group.join_job_id) == 0


async def _running(engine: AsyncEngine, job_id: Any) -> HeldLease:
    """The claim of a job that is running already, or a new one."""
    row = await job_row(engine, job_id)
    if row.state == "pending":
        return await held_by(engine, job_id)
    await expire_lease(engine, job_id)
    return await held_by(engine, job_id, "b")


async def _error(engine: AsyncEngine, job_id: UUID | None) -> Any:
    return await scalar(engine, "SELECT error FROM chot.job_outputs WHERE job_id = :i", i=job_id)


async def test_a_cancelled_group_ends_each_member_and_its_join(probes: AsyncEngine) -> None:
    """Marked at once: no member is claimed any more; maintenance ends them, running ones too."""
    group_id, ids = await sealed(probes, 205)
    running = await held_by(probes, ids[0])
    await end(probes, ids[1])
    assert await stop(probes, group_id)
    group = await show(probes, group_id)
    assert (group.state, group.outcome) == ("ended", "cancelled")
    assert (group.succeeded, group.cancelled) == (1, 204)
    assert not await leave(probes, running, "complete")
    await stop_groups(probes, TIMING)
    assert (await show(probes, group_id)).join_state == "cancelled"
    assert (await _error(probes, ids[-1]))["code"] == "GROUP_CANCELLED"
    assert not await stop(probes, group_id), "it has ended"
    acts = await fetch(probes, "SELECT action FROM chot.audit WHERE action LIKE 'group.%'")
    assert [row.action for row in acts] == ["group.open", "group.seal", "group.cancel"]


@pytest.mark.parametrize("state", ["sealed", "cancelling", "ended"])
async def test_a_closed_group_takes_no_member(probes: AsyncEngine, state: str) -> None:
    """A counter that rose again behind the join would never be believed."""
    group_id, _ = await sealed(probes, 0 if state == "ended" else 1)
    if state == "cancelling":
        async with probes.begin() as conn:
            assert await cancel_group(conn, group_id)
    with pytest.raises(GroupRefused, match=state):
        await append(probes, group_id, [probe()])
    assert (await show(probes, group_id)).state == state


async def test_a_repeated_append_counts_nothing_twice(probes: AsyncEngine) -> None:
    """Whatever became of the members meanwhile, running, succeeded or dead: they are its twins."""
    group_id = await opened(probes)
    jobs = [probe() for _ in range(4)]
    first = await append(probes, group_id, [*jobs, jobs[0]])
    ids = [each.job_id for each in first if isinstance(each, Member)]
    assert [each.created for each in first if isinstance(each, Member)] == [True] * 4 + [False]
    assert ids[4] == ids[0]
    await held_by(probes, ids[1])
    await end(probes, ids[2])
    await end(probes, ids[3], "fail_permanently")
    again = await append(probes, group_id, jobs)
    assert [each.state for each in again if isinstance(each, Member)] == [
        "pending",
        "running",
        "succeeded",
        "dead",
    ]
    assert [each.job_id for each in again if isinstance(each, Member)] == ids[:4]
    assert not any(each.created for each in again if isinstance(each, Member))
    assert (await show(probes, group_id)).total == 4


async def test_an_item_that_cannot_be_a_member_spoils_no_other_one(probes: AsyncEngine) -> None:
    """Work that is active outside is refused by its job's id, bad values in their own words."""
    outside = await make_job(probes, number=10**6)
    group_id = await opened(probes)
    answers = await append(
        probes,
        group_id,
        [
            probe(number=10**6),
            Submit(kind="probe.none", company="ACME", payload={}),
            Submit(kind="probe.write", company="ACME", payload={}),
            probe(),
        ],
    )
    active, unknown, bad, good = answers
    assert isinstance(active, WorkActive)
    assert active.job_id == outside
    assert isinstance(unknown, EnqueueRefused)
    assert isinstance(bad, EnqueueRefused)
    assert (unknown.code, bad.code, bad.field) == ("CH001", "CH002", "payload.number")
    assert isinstance(good, Member)
    assert (await show(probes, group_id)).total == 1
    assert (await job_row(probes, outside)).group_id is None


@pytest.mark.parametrize("kind", ["probe.merge", "probe.follow"])
async def test_a_member_is_not_given_another_payload(probes: AsyncEngine, kind: str) -> None:
    """A kind that merges would lose the second one silently; the same one is the same member."""
    group_id = await opened(probes)
    job = probe(kind, number=7, items=["a"])
    await append(probes, group_id, [job])
    same, other = await append(probes, group_id, [job, probe(kind, number=7, items=["b"])])
    assert isinstance(same, Member)
    assert not same.created
    assert isinstance(other, EnqueueRefused)
    assert (other.code, other.field) == ("CH011", "payload")


async def test_a_members_follow_up_is_no_member(probes: AsyncEngine) -> None:
    """It was asked for by somebody else, and the join does not wait for it."""
    group_id = await opened(probes)
    (one,) = await append(probes, group_id, [probe("probe.follow", number=9)])
    assert isinstance(one, Member)
    held = await held_by(probes, one.job_id)
    async with probes.begin() as conn:
        await enqueue(conn, probe("probe.follow", number=9, note="more"))
    await seal(probes, group_id)
    assert await leave(probes, held, "complete")
    assert (await show(probes, group_id)).state == "ended"
    follow = await fetch(
        probes,
        "SELECT group_id, joins FROM chot.jobs WHERE state = 'pending' AND kind = 'probe.follow'",
    )
    assert [tuple(row) for row in follow] == [(None, None)]


async def test_a_join_must_be_a_new_job(probes: AsyncEngine) -> None:
    """Somebody else's job is not made to wait for this group."""
    active = await make_job(probes, number=5)
    with pytest.raises(WorkActive) as refused:
        async with probes.begin() as conn:
            await open_group(conn, company="ACME", brand="RED", join=probe(number=5))
    assert refused.value.job_id == active
    assert (await job_row(probes, active)).joins is None
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 0


@pytest.mark.parametrize(("whose", "brand"), [("NONE", None), ("ACME", "NONE")])
async def test_a_group_of_nobody_is_refused(
    probes: AsyncEngine, whose: str, brand: str | None
) -> None:
    """A company, and a brand of it, that exist."""
    with pytest.raises(EnqueueRefused) as refused:
        async with probes.begin() as conn:
            await open_group(conn, company=whose, brand=brand)
    assert refused.value.field == ("brand" if brand else "company")


async def test_the_counter_cannot_go_below_nothing(probes: AsyncEngine) -> None:
    """An end that was counted twice would be an error, not a join that starts too early."""
    group_id, _ = await sealed(probes, 1)
    with pytest.raises(IntegrityError):
        await execute(
            probes,
            "UPDATE chot.groups SET remaining = -1, succeeded = 2 WHERE id = :g",
            g=group_id,
        )


async def test_a_join_that_was_cancelled_is_not_staged(probes: AsyncEngine) -> None:
    """The group goes on without it."""
    group_id, (one,) = await sealed(probes, 1)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    async with probes.begin() as conn:
        assert await cancel_job(conn, join)
    await end(probes, one)
    assert (await show(probes, group_id)).state == "ended"
    assert await messages(probes, join) == 0
