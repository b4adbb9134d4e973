"""Redrive of groups: a new generation of what did not succeed, and its join once more."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.groups.fill import append_jobs
from shared.groups.group import Group, GroupId, Policy, WorkActive, list_members
from shared.groups.redrive import Again, GroupAnswer, NotEnded, NothingFailed, redrive_group
from shared.groups.renew import Gone, NotCleanedUp
from shared.groups.stop import stop_groups
from shared.jobs.redrive import (
    CleanupPending,
    GroupStops,
    JoinRuns,
    JoinsGroup,
    RedriveAnswer,
    Redriven,
    redrive_job,
)
from shared.types import JobId
from tests.factories import TIMING, execute, fetch, job_row, make_job, scalar
from tests.probes.handlers import HANDLERS
from tests.protocol.groups import (
    claim,
    held_by,
    messages,
    opened,
    probe,
    seal,
    sealed,
    show,
    stop,
)
from tests.protocol.test_groups import end
from worker.cleanup import clean_up_one

KINDS = {each.kind: each for each in HANDLERS}


async def again(engine: AsyncEngine, group_id: GroupId) -> GroupAnswer:
    """Redrive the group as a request does: rolled back unless it runs again."""
    async with engine.connect() as conn, conn.begin() as transaction:
        answer = await redrive_group(conn, group_id)
        if not isinstance(answer, Again):
            await transaction.rollback()
        return answer


async def one_again(engine: AsyncEngine, job_id: JobId) -> RedriveAnswer:
    """Redrive one job in its own transaction."""
    async with engine.begin() as conn:
        return await redrive_job(conn, job_id)


async def cleaned(engine: AsyncEngine) -> None:
    """One round of maintenance: groups stopped, leftovers removed."""
    await stop_groups(engine, TIMING)
    while await clean_up_one(engine, KINDS, TIMING):
        pass


async def failed(engine: AsyncEngine, policy: Policy = Policy.FINISH) -> tuple[Group, list[JobId]]:
    """An ended group: the first of three members died, the join was dealt with."""
    group_id, ids = await sealed(engine, 3, policy=policy)
    await end(engine, ids[0], "fail_permanently")
    for job_id in ids[1:]:
        if await claim_is_possible(engine, job_id):
            await end(engine, job_id)
    await cleaned(engine)
    return await show(engine, group_id), ids


async def claim_is_possible(engine: AsyncEngine, job_id: JobId) -> bool:
    """Whether the job's group goes on."""
    state = await scalar(
        engine,
        "SELECT g.state FROM chot.groups g JOIN chot.jobs j ON j.group_id = g.id WHERE j.id = :i",
        i=job_id,
    )
    return bool(state != "cancelling")


async def join_runs_once(engine: AsyncEngine, group_id: UUID) -> JobId:
    """The join has one message, may be claimed, and succeeds."""
    join = (await show(engine, group_id)).join_job_id
    assert join is not None
    assert await messages(engine, join) == 1
    await end(engine, join)
    return join


async def test_a_failed_group_runs_what_failed_and_its_join_in_place(probes: AsyncEngine) -> None:
    """The dead member with a fresh budget, the others not at all; the same join, once."""
    group, (one, two, _) = await failed(probes)
    assert (group.outcome, group.join_state) == ("failed", "dead")
    answer = await again(probes, group.id)
    assert answer == Again(generation=2, members=1, join_job_id=group.join_job_id)
    now = await show(probes, group.id)
    assert (now.state, now.outcome, now.remaining, now.join_state) == ("sealed", None, 1, "pending")
    assert await messages(probes, group.join_job_id) == 0
    assert (await job_row(probes, two)).state == "succeeded"
    await end(probes, one)
    now = await show(probes, group.id)
    assert (now.state, now.outcome, now.generation) == ("ended", "succeeded", 2)
    assert await join_runs_once(probes, group.id) == group.join_job_id
    assert isinstance(await again(probes, group.id), NothingFailed)
    facts = await scalar(probes, "SELECT facts FROM chot.audit WHERE action = 'group.redrive'")
    assert facts == {"generation": 2, "dead": 1, "cancelled": 0}


async def test_cancelled_members_come_back_as_new_jobs(probes: AsyncEngine) -> None:
    """Cancelled is final: a new job takes the place, the old one is a member no more."""
    group, (one, two, three) = await failed(probes, Policy.FAIL_FAST)
    assert (group.dead, group.cancelled, group.join_state) == (1, 2, "dead")
    payloads = await _payloads(probes, group.id)
    answer = await again(probes, group.id)
    assert isinstance(answer, Again)
    assert answer.members == 3
    now = await show(probes, group.id)
    assert (now.total, now.remaining, now.cancelled) == (3, 3, 0)
    assert await _payloads(probes, group.id) == payloads
    for old in (two, three):
        row = await job_row(probes, old)
        assert (row.state, row.group_id) == ("cancelled", None)
    ids = await fetch(probes, "SELECT id FROM chot.jobs WHERE group_id = :g", g=group.id)
    assert one in {row.id for row in ids}
    for row in ids:
        await end(probes, row.id)
    await join_runs_once(probes, group.id)


async def _payloads(engine: AsyncEngine, group_id: UUID) -> list[Any]:
    rows = await fetch(
        engine,
        """SELECT p.payload FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
            WHERE j.group_id = :g ORDER BY p.payload::text""",
        g=group_id,
    )
    return [row.payload for row in rows]


async def test_a_cancelled_group_is_redriven_with_a_new_join(probes: AsyncEngine) -> None:
    """Its join was cancelled with it, and that is final, too."""
    group_id, _ = await sealed(probes, 2)
    first = (await show(probes, group_id)).join_job_id
    await stop(probes, group_id)
    await cleaned(probes)
    answer = await again(probes, group_id)
    assert isinstance(answer, Again)
    assert answer.join_job_id not in {None, first}
    assert first is not None
    assert answer.join_job_id is not None
    old, new = await job_row(probes, first), await job_row(probes, answer.join_job_id)
    assert (old.state, new.state, new.joins) == ("cancelled", "pending", group_id)
    assert (old.kind, old.fingerprint) == (new.kind, new.fingerprint)
    for row in await fetch(probes, "SELECT id FROM chot.jobs WHERE group_id = :g", g=group_id):
        await end(probes, row.id)
    assert await join_runs_once(probes, group_id) == answer.join_job_id


async def test_a_dead_join_alone_runs_again_at_once(probes: AsyncEngine) -> None:
    """Nothing else is to be done: the group has ended again in the same commit."""
    group_id, (one,) = await sealed(probes, 1)
    await end(probes, one)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    await end(probes, join, "fail_permanently")
    assert isinstance(await again(probes, group_id), NotCleanedUp)
    await cleaned(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    assert await one_again(probes, join) == JoinsGroup(group_id), "a join goes with its group"
    assert await again(probes, group_id) == Again(generation=2, members=0, join_job_id=join)
    assert (await show(probes, group_id)).state == "ended"
    assert await join_runs_once(probes, group_id) == join


async def test_a_member_redriven_after_the_join_ran_brings_a_new_join(probes: AsyncEngine) -> None:
    """The counter rises within the redrive's statement; the join that succeeded stays as it was."""
    group, (one, *_) = await failed(probes, Policy.JOIN)
    first = await join_runs_once(probes, group.id)
    assert await one_again(probes, one) == Redriven()
    now = await show(probes, group.id)
    assert (now.state, now.generation, now.remaining, now.dead) == ("sealed", 2, 1, 0)
    assert now.join_job_id not in {None, first}
    await end(probes, one)
    assert await join_runs_once(probes, group.id) != first
    assert (await job_row(probes, first)).state == "succeeded"


async def test_a_member_redriven_before_the_join_ran_is_waited_for(probes: AsyncEngine) -> None:
    """The join may be claimed no longer, and the message it had is a miss."""
    group, (one, *_) = await failed(probes, Policy.JOIN)
    assert group.join_job_id is not None
    assert await one_again(probes, one) == Redriven()
    assert await claim(probes, group.join_job_id) is None
    await execute(probes, "DELETE FROM chot.outbox WHERE job_id = :i", i=group.join_job_id)
    await end(probes, one)
    assert await join_runs_once(probes, group.id) == group.join_job_id


async def test_a_member_is_not_redriven_under_a_join_that_runs(probes: AsyncEngine) -> None:
    """It has begun to read what became of it."""
    group, (one, *_) = await failed(probes, Policy.JOIN)
    assert group.join_job_id is not None
    await held_by(probes, group.join_job_id)
    assert await one_again(probes, one) == JoinRuns(group.join_job_id)
    assert await again(probes, group.id) == NotEnded("joining")
    assert (await show(probes, group.id)).state == "ended"


async def test_a_group_that_is_not_over_is_not_redriven(probes: AsyncEngine) -> None:
    """Nor a member of one that is being cancelled."""
    group_id, (one, two) = await sealed(probes, 2, policy=Policy.FAIL_FAST)
    assert await again(probes, group_id) == NotEnded("sealed")
    await held_by(probes, two)
    await end(probes, one, "fail_permanently")
    assert await one_again(probes, one) == GroupStops(group_id)
    assert await again(probes, group_id) == NotEnded("cancelling")


async def test_a_member_of_a_group_that_goes_on_is_counted_again(probes: AsyncEngine) -> None:
    """Same generation: it had not ended."""
    group_id, (one, _) = await sealed(probes, 2)
    await end(probes, one, "fail_permanently")
    assert await one_again(probes, one) == CleanupPending()
    assert (await show(probes, group_id)).dead == 1
    await cleaned(probes)
    assert await one_again(probes, one) == Redriven()
    group = await show(probes, group_id)
    assert (group.generation, group.remaining, group.dead) == (1, 2, 0)


async def test_all_or_nothing(probes: AsyncEngine) -> None:
    """A member whose work somebody else does by now keeps the whole group as it is."""
    group_id = await opened(probes)
    async with probes.begin() as conn:
        await append_jobs(conn, group_id, [probe(number=70 + n) for n in range(2)])
    await seal(probes, group_id)
    await stop(probes, group_id)
    await cleaned(probes)
    twin = await make_job(probes, number=70)
    before = await show(probes, group_id)
    answer = await again(probes, group_id)
    assert isinstance(answer, WorkActive)
    assert answer.job_id == twin
    assert await show(probes, group_id) == before
    acts = await scalar(probes, "SELECT count(*) FROM chot.audit WHERE action = 'group.redrive'")
    assert acts == 0


async def archived(engine: AsyncEngine) -> int:
    """One walk over the finished jobs; answers how many have moved."""
    walk = """SELECT moved FROM chot.archive_jobs(
                  '00000000-0000-0000-0000-000000000000', interval '1 day', 500)"""
    async with engine.begin() as conn:
        return int(await conn.scalar(text(walk)) or 0)


async def test_members_in_the_archive_do_not_come_back(probes: AsyncEngine) -> None:
    """Said, and nothing done by halves; what succeeded may be there, and is counted."""
    group, ids = await failed(probes, Policy.FAIL_FAST)
    await execute(
        probes,
        "UPDATE chot.jobs SET finished_at = finished_at - interval '9 days', "
        "created_at = created_at - interval '9 days' WHERE state = 'cancelled'",
    )
    assert await archived(probes) == 2
    assert (await show(probes, group.id)).cancelled == 2
    assert isinstance(await again(probes, group.id), Gone)
    assert (await job_row(probes, ids[0])).state == "dead"


async def test_a_join_reads_members_that_are_in_the_archive(probes: AsyncEngine) -> None:
    """What succeeded long before the redrive is a part of what the join makes its result of."""
    group, ids = await failed(probes)
    await execute(
        probes,
        "UPDATE chot.jobs SET finished_at = finished_at - interval '9 days', "
        "created_at = created_at - interval '9 days' WHERE state = 'succeeded'",
    )
    assert await archived(probes) == 2
    assert isinstance(await again(probes, group.id), Again)
    await end(probes, ids[0])
    async with probes.connect() as conn:
        first = await list_members(conn, group.id, after=None, limit=2)
        second = await list_members(conn, group.id, after=first[-1]["id"], limit=2)
    assert [row["id"] for row in (*first, *second)] == sorted(ids)
    assert {row["state"] for row in (*first, *second)} == {"succeeded"}
    assert all(row["payload"]["number"] > 0 for row in (*first, *second))


@pytest.mark.parametrize("state", ["open", "sealed", "joining"])
async def test_members_are_not_archived_before_the_join_has_read_them(
    probes: AsyncEngine, state: str
) -> None:
    """Only of a group that has ended, and whose join has."""
    group_id = await opened(probes)
    async with probes.begin() as conn:
        answers = await append_jobs(conn, group_id, [probe(), probe()])
    one, two = (each.job_id for each in answers)  # type: ignore[union-attr] # they are members
    if state != "open":
        await seal(probes, group_id)
    await end(probes, one)
    if state == "joining":
        await end(probes, two)
    old = (
        "UPDATE chot.jobs SET finished_at = finished_at - interval '9 days', "
        "created_at = created_at - interval '9 days' WHERE state = 'succeeded'"
    )
    await execute(probes, old)
    assert await archived(probes) == 0
    if state == "joining":
        await join_runs_once(probes, group_id)
        assert await archived(probes) == 2
        assert (await show(probes, group_id)).succeeded == 2
