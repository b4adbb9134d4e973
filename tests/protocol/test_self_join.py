"""A job that has spawned others waits for them, in one commit, and goes on when they have ended."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.errors import LeaseLost
from shared.groups.group import GroupId, Policy, lock_group
from shared.groups.redrive import Again, NotEnded
from shared.groups.stop import stop_groups
from shared.jobs.cancel import cancel_job
from shared.jobs.redrive import JoinRuns, JoinsGroup, Redriven
from shared.types import JobId
from tests.factories import (
    TIMING,
    claimed_job,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
    scalar,
    submitted,
)
from tests.protocol.groups import claim, held_by, messages, sealed, show, stop
from tests.protocol.sessions import lock_job, until_waiting
from tests.protocol.test_attempt import outcome_of, runner
from tests.protocol.test_doubt import COMMIT, behind, proxy
from tests.protocol.test_group_races import committed, completing, in_turn
from tests.protocol.test_group_redrive import again, cleaned, one_again
from tests.protocol.test_groups import end
from tests.protocol.test_spawn import children
from tests.services import Database
from tests.tcp_proxy import Proxy
from worker.attempt import run_attempt
from worker.context import JobContext
from worker.lease import HeldLease
from worker.outcome import Completed, Failed, Lost, Outcome, Released, Waits
from worker.spawn import SELF, Child

__all__ = ["proxy"]  # a fixture

EFFECT = text("""
    INSERT INTO probe.effects (job_id, number, chunk, fence, attempt, pid)
    VALUES (:job_id, 0, :chunk, :fence, :attempt, 0)""")


async def effect(context: JobContext, conn: AsyncConnection, chunk: int) -> None:
    """One effect of this attempt."""
    binds = {"job_id": context.job.id, "chunk": chunk, "fence": context.lease.fence}
    await conn.execute(EFFECT, binds | {"attempt": context.job.attempt})


def splitting(
    asked: Sequence[Child], *, policy: Policy = Policy.FINISH, told: list[UUID] | None = None
) -> Any:
    """A handler that splits itself at its first attempt, and adds up at its second."""

    async def split(context: JobContext, _: Any) -> dict[str, Any] | None:
        if context.checkpoint is None:
            async with context.transaction() as tx:
                await effect(context, tx.connection, 0)
                group_id = await context.spawn(tx, asked, join=SELF, policy=policy)
                tx.checkpoint = {"group": str(group_id)}
                tx.progress(1, 10, unit="parts")
            if told is not None:
                told.append(group_id)
            return None
        group = await context.group()
        assert group is not None
        assert str(group.id) == context.checkpoint["group"]
        async with context.completion() as tx:
            await effect(context, tx.connection, 1)
            tx.result = {"succeeded": group.succeeded, "dead": group.dead}
        return None

    return split


async def attempt(
    engine: AsyncEngine, database: Database, held: HeldLease, asked: Sequence[Child], **more: Any
) -> Outcome:
    """One attempt of a job that splits itself."""
    return await run_attempt(runner(engine, database, write=splitting(asked, **more)), held)


async def waiting(
    engine: AsyncEngine, database: Database, n: int = 2, **more: Any
) -> tuple[JobId, GroupId, list[JobId]]:
    """A job that waits for so many children: its id, the group's, theirs."""
    held = await claimed_job(engine)
    await execute(engine, "DELETE FROM chot.outbox")
    assert isinstance(await attempt(engine, database, held, children(n), **more), Waits)
    return held.lease.job_id, *await group_of(engine, held.lease.job_id)


async def group_of(engine: AsyncEngine, job_id: UUID) -> tuple[GroupId, list[JobId]]:
    """The group that the job waits for, and its members."""
    group_id = GroupId((await job_row(engine, job_id)).joins)
    rows = await fetch(
        engine, "SELECT id FROM chot.jobs WHERE group_id = :g ORDER BY id", g=group_id
    )
    return group_id, [JobId(row.id) for row in rows]


async def chunks_of(engine: AsyncEngine, job_id: UUID) -> list[int]:
    """What the job has written."""
    rows = await fetch(
        engine, "SELECT chunk FROM probe.effects WHERE job_id = :i ORDER BY n", i=job_id
    )
    return [row.chunk for row in rows]


async def test_a_job_waits_for_what_it_has_spawned_and_goes_on_once(
    probes: AsyncEngine, database: Database
) -> None:
    """Pending without a message, uncharged, with its checkpoint; then one claim, one end."""
    job_id, group_id, (one, two) = await waiting(probes, database)
    row = await job_row(probes, job_id)
    assert (row.state, row.attempt, row.interruptions, row.checkpoint_no) == ("pending", 1, 1, 1)
    assert (row.worker_id, row.lease_token, row.progress_total) == (None, None, 10)
    assert await messages(probes, job_id) == 0
    assert await claim(probes, job_id) is None
    group = await show(probes, group_id)
    assert (group.state, group.total, group.join_job_id) == ("sealed", 2, job_id)
    assert await scalar(
        probes, "SELECT outcome FROM chot.attempts WHERE job_id = :i", i=job_id
    ) == ("released")
    await end(probes, one)
    assert await messages(probes, job_id) == 0
    assert await claim(probes, job_id) is None
    await end(probes, two)
    assert await messages(probes, job_id) == 1
    held = await held_by(probes, job_id)
    assert await claim(probes, job_id, "b") is None
    assert isinstance(await attempt(probes, database, held, []), Completed)
    assert await chunks_of(probes, job_id) == [0, 1]
    result = await scalar(probes, "SELECT result FROM chot.job_outputs WHERE job_id = :i", i=job_id)
    assert result == {"succeeded": 2, "dead": 0}


async def test_the_last_two_children_end_at_the_same_moment(
    probes: AsyncEngine, database: Database
) -> None:
    """One message for the job, whichever of them is counted last."""
    job_id, _, ids = await waiting(probes, database)
    one, two = [await held_by(probes, each) for each in ids]
    said = await in_turn(probes, completing(one), committed(probes, completing(two)))
    assert said == (True, True)
    assert await messages(probes, job_id) == 1


async def test_nothing_to_wait_for_is_no_wait(probes: AsyncEngine, database: Database) -> None:
    """A group without members ends in the same commit, and the job is staged at once."""
    job_id, group_id, _ = await waiting(probes, database, 0)
    assert (await show(probes, group_id)).state == "ended"
    assert await messages(probes, job_id) == 1
    held = await held_by(probes, job_id)
    assert isinstance(await attempt(probes, database, held, []), Completed)


async def test_waiting_is_never_charged(probes: AsyncEngine, database: Database) -> None:
    """A job that splits itself again and again has as many attempts left as before."""
    held = await claimed_job(probes)
    await execute(probes, "UPDATE chot.jobs SET max_attempts = 1")

    async def again_and_again(context: JobContext, _: Any) -> None:
        done = (context.checkpoint or {"waits": 0})["waits"]
        async with context.transaction() as tx:
            await context.spawn(tx, [], join=SELF)
            tx.checkpoint = {"waits": done + 1}

    for waits in range(1, 26):
        run = runner(probes, database, write=again_and_again)
        assert isinstance(await run_attempt(run, held), Waits), waits
        held = await held_by(probes, held.lease.job_id)
    assert held.charged_attempts == 1


async def test_a_zombie_neither_spawns_nor_waits(probes: AsyncEngine, database: Database) -> None:
    """Its children go where its effects go; the job stays with whoever has taken it over."""
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    other = await held_by(probes, held.lease.job_id, "b")
    assert isinstance(await attempt(probes, database, held, children(2)), Lost)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.fence, row.joins) == ("running", other.lease.fence, None)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 0


async def test_a_kill_before_the_commit_leaves_nothing_and_after_it_everything(
    probes: AsyncEngine, database: Database
) -> None:
    """⚑ There is no moment in between: spawn and release are one commit."""
    held = await claimed_job(probes)
    job_id = held.lease.job_id
    asked = children(2)
    async with probes.connect() as other:
        await lock_job(other, job_id)
        running = asyncio.ensure_future(attempt(probes, database, held, asked))
        await until_waiting(probes)
        # It has written children and group, and waits for its own row with the fence.
        await fetch(
            probes,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        )
        await other.rollback()
    assert isinstance(await running, Released)
    row = await job_row(probes, job_id)
    assert (row.state, row.joins, await chunks_of(probes, job_id)) == ("pending", None, [])
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 0
    await execute(probes, "UPDATE chot.jobs SET available_at = clock_timestamp()")
    assert isinstance(await attempt(probes, database, await held_by(probes, job_id), asked), Waits)
    # The worker is killed now: its message comes back, and is nobody's.
    assert await claim(probes, job_id, "b") is None
    for each in (await group_of(probes, job_id))[1]:
        await end(probes, each)
    held = await held_by(probes, job_id, "b")
    assert isinstance(await attempt(probes, database, held, []), Completed)
    assert await chunks_of(probes, job_id) == [0, 1]


async def test_a_commit_whose_answer_is_lost_has_made_the_job_wait(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """The database is asked; nothing is spawned twice, nothing is released twice."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose_answer_to(COMMIT)
        running = asyncio.ensure_future(attempt(engine, database, held, children(2)))
        await proxy.until_held()
        proxy.reset()
        proxy.heal()
        assert isinstance(await running, Waits)
    group_id, ids = await group_of(probes, held.lease.job_id)
    assert (await show(probes, group_id)).total == len(ids) == 2
    assert (await job_row(probes, held.lease.job_id)).interruptions == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 1


async def test_a_commit_that_never_arrived_is_done_again(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """Neither group nor wait: the job runs again, uncharged."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose(COMMIT)
        running = asyncio.ensure_future(attempt(engine, database, held, children(2)))
        await proxy.triggered.wait()
        proxy.reset()
        proxy.heal()
        assert isinstance(await running, Released)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.joins) == ("pending", None)
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 0


@pytest.mark.parametrize("policy", [Policy.FINISH, Policy.FAIL_FAST])
async def test_a_child_that_dies_buries_the_job_that_waits(
    probes: AsyncEngine, database: Database, policy: Policy
) -> None:
    """With GROUP_FAILED and the count; what the job has begun is cleaned up after it."""
    job_id, group_id, (one, two) = await waiting(probes, database, policy=policy)
    await end(probes, one, "fail_permanently")
    if policy == Policy.FINISH:
        assert (await job_row(probes, job_id)).state == "pending"
        await end(probes, two)
    await stop_groups(probes, TIMING)
    await stop_groups(probes, TIMING)
    row = await job_row(probes, job_id)
    assert (row.state, row.cleanup_due) == ("dead", True)
    error = await scalar(probes, "SELECT error FROM chot.job_outputs WHERE job_id = :i", i=job_id)
    assert (error["code"], error["group"]) == ("GROUP_FAILED", str(group_id))
    assert (await show(probes, group_id)).state == "ended"


async def test_under_policy_join_the_job_sees_what_became_of_its_children(
    probes: AsyncEngine, database: Database
) -> None:
    """It goes on in any case."""
    job_id, _, (one, two) = await waiting(probes, database, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await end(probes, two)
    held = await held_by(probes, job_id)
    assert isinstance(await attempt(probes, database, held, []), Completed)
    result = await scalar(probes, "SELECT result FROM chot.job_outputs WHERE job_id = :i", i=job_id)
    assert result == {"succeeded": 1, "dead": 1}


async def test_a_redrive_of_the_job_is_one_of_its_group(
    probes: AsyncEngine, database: Database
) -> None:
    """The dead child runs again, and the job once in this generation: from its beginning."""
    job_id, group_id, (one, two) = await waiting(probes, database)
    await end(probes, one, "fail_permanently")
    await end(probes, two)
    await stop_groups(probes, TIMING)
    await cleaned(probes)
    assert await one_again(probes, job_id) == JoinsGroup(group_id)
    said = await again(probes, group_id)
    assert said == Again(generation=2, members=1, join_job_id=job_id)
    assert await claim(probes, job_id) is None
    await execute(probes, "DELETE FROM chot.outbox")
    await end(probes, one)
    assert await messages(probes, job_id) == 1
    held = await held_by(probes, job_id)
    assert isinstance(await attempt(probes, database, held, children(1)), Waits)
    fresh, (child,) = await group_of(probes, job_id)
    assert fresh != group_id
    await end(probes, child)
    assert isinstance(await attempt(probes, database, await held_by(probes, job_id), []), Completed)
    assert await chunks_of(probes, job_id) == [0, 0, 1]


async def test_while_the_job_waits_for_its_next_group_the_one_before_is_not_redriven(
    probes: AsyncEngine, database: Database
) -> None:
    """It is at its work, on what became of that one."""
    job_id, first, (one,) = await waiting(probes, database, 1, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await cleaned(probes)
    held = await held_by(probes, job_id)
    await execute(probes, "UPDATE chot.job_outputs SET checkpoint = NULL")
    assert isinstance(await attempt(probes, database, held, children(1)), Waits)
    assert (await show(probes, first)).join_state == "running"
    assert await again(probes, first) == NotEnded("joining")
    assert await one_again(probes, one) == JoinRuns(job_id)
    second, (child,) = await group_of(probes, job_id)
    await end(probes, child)
    assert isinstance(await attempt(probes, database, await held_by(probes, job_id), []), Completed)
    # Now it is over: of the first group a new job goes on.
    assert await one_again(probes, one) == Redriven()
    assert (await show(probes, first)).join_job_id != job_id
    assert (await show(probes, second)).join_job_id == job_id


async def test_a_join_that_splits_itself_waits_for_its_first_group_again(
    probes: AsyncEngine, database: Database
) -> None:
    """A redrive of the group that it was made for is for the whole of its work."""
    first, (one,) = await sealed(probes, 1, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    join = (await show(probes, first)).join_job_id
    assert join is not None
    held = await held_by(probes, join)
    assert isinstance(await attempt(probes, database, held, children(1)), Waits)
    second, (child,) = await group_of(probes, join)
    await end(probes, child, "fail_permanently")
    await stop_groups(probes, TIMING)
    await cleaned(probes)
    assert (await job_row(probes, join)).state == "dead"
    assert isinstance(await again(probes, first), Again)
    assert (await job_row(probes, join)).joins == first
    await end(probes, one)
    assert await claim(probes, join) is not None
    assert (await show(probes, second)).join_state == "running"


async def test_a_cancel_of_the_job_cancels_what_it_waits_for(
    probes: AsyncEngine, database: Database
) -> None:
    """At once it is cancelled, and no child starts; maintenance ends them."""
    job_id, group_id, (one, two) = await waiting(probes, database)
    running = await held_by(probes, one)
    async with probes.begin() as conn:
        assert await cancel_job(conn, job_id)
    assert (await job_row(probes, job_id)).state == "cancelled"
    assert (await show(probes, group_id)).state == "cancelling"
    assert await claim(probes, two) is None
    await stop_groups(probes, TIMING)
    group = await show(probes, group_id)
    assert (group.state, group.outcome, group.cancelled) == ("ended", "cancelled", 2)
    assert not await committed(probes, completing(running))
    await stop_groups(probes, TIMING)
    assert (await job_row(probes, job_id)).state == "cancelled"
    acts = await fetch(probes, "SELECT action FROM chot.audit WHERE action = 'job.cancel'")
    assert len(acts) == 1


async def test_a_cancel_that_meets_the_commit_cancels_what_it_has_spawned(
    probes: AsyncEngine, database: Database
) -> None:
    """⚑ It saw a job that waits for nobody, then waited for its row: the group is stopped all the
    same.
    """
    held = await claimed_job(probes)
    job_id = held.lease.job_id

    async def cancel() -> bool:
        async with probes.begin() as conn:
            return await cancel_job(conn, job_id)

    async with probes.connect() as other:
        await lock_job(other, job_id)
        running = asyncio.ensure_future(attempt(probes, database, held, children(2)))
        await until_waiting(probes)
        cancelling = asyncio.ensure_future(cancel())
        await until_waiting(probes, 2)
        await other.rollback()
    assert isinstance(await running, Waits), "it came first"
    assert await cancelling
    row = await job_row(probes, job_id)
    assert row.state == "cancelled"
    assert (await show(probes, GroupId(row.joins))).state == "cancelling"


async def test_a_cancel_of_the_group_cancels_the_job(
    probes: AsyncEngine, database: Database
) -> None:
    """As it does any join."""
    job_id, group_id, _ = await waiting(probes, database)
    await stop(probes, group_id)
    await stop_groups(probes, TIMING)
    assert (await job_row(probes, job_id)).state == "cancelled"
    assert (await show(probes, group_id)).outcome == "cancelled"


async def test_a_cancel_waits_for_the_groups_row_first(
    probes: AsyncEngine, database: Database
) -> None:
    """⚑ The group before any job, for all: whoever holds it may lock the job."""
    job_id, group_id, _ = await waiting(probes, database)

    async def cancel() -> bool:
        async with probes.begin() as conn:
            return await cancel_job(conn, job_id)

    async with probes.begin() as conn:
        await lock_group(conn, group_id)
        cancelling = asyncio.ensure_future(cancel())
        await until_waiting(probes)
        await lock_job(conn, job_id)
    assert await cancelling


async def test_a_member_of_a_group_cannot_wait_for_one_of_its_own(
    probes: AsyncEngine, database: Database
) -> None:
    """Nor can a job that completes, nor twice in one transaction."""
    _, (one,) = await sealed(probes, 1)
    held = await held_by(probes, one)
    assert isinstance(await attempt(probes, database, held, children(1)), Failed)
    assert "a member of a group" in (await outcome_of(probes, held))[1]["message"]

    async def completes(context: JobContext, _: Any) -> None:
        async with context.completion() as tx:
            await context.spawn(tx, children(1), join=SELF)

    async def twice(context: JobContext, _: Any) -> None:
        async with context.transaction() as tx:
            await context.spawn(tx, children(1), join=SELF)
            await context.spawn(tx, children(1), join=SELF)

    for run in (completes, twice):
        held = await claimed_job(probes)
        assert isinstance(await run_attempt(runner(probes, database, write=run), held), Failed)
        assert "waits once" in (await outcome_of(probes, held))[1]["message"]


async def test_after_the_commit_nothing_more_is_written(
    probes: AsyncEngine, database: Database
) -> None:
    """The job is nobody's: a handler that goes on finds no transaction."""
    held = await claimed_job(probes)
    raised: list[BaseException] = []

    async def goes_on(context: JobContext, _: Any) -> None:
        async with context.transaction() as tx:
            await context.spawn(tx, children(1), join=SELF)
        try:
            async with context.transaction() as tx:
                await effect(context, tx.connection, 9)
        except (RuntimeError, LeaseLost) as error:
            raised.append(error)

    assert isinstance(await run_attempt(runner(probes, database, write=goes_on), held), Waits)
    assert len(raised) == 1
    assert await chunks_of(probes, held.lease.job_id) == []


async def test_a_drained_worker_hands_the_waiting_job_to_nobody(
    probes: AsyncEngine, database: Database
) -> None:
    """What it waits for goes on elsewhere, and so does the job."""
    held = await claimed_job(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    run = runner(probes, database, write=splitting(children(1)))
    run.draining.set()
    assert isinstance(await run_attempt(run, held), Waits)
    _, (one,) = await group_of(probes, held.lease.job_id)
    child = await held_by(probes, one)

    async def yields(context: JobContext, _: Any) -> None:
        context.yield_if_asked()

    drained = runner(probes, database, write=yields)
    drained.draining.set()
    assert isinstance(await run_attempt(drained, child), Released)
    assert await claim(probes, held.lease.job_id) is None
    await end(probes, one)
    assert await messages(probes, held.lease.job_id) == 1


async def test_a_submit_of_the_same_work_meets_a_job_that_has_begun(
    probes: AsyncEngine, database: Database
) -> None:
    """Its input is read: nothing is merged into it while it waits, a follow-up is left."""
    job_id = await make_job(probes, "probe.merge", number=10**6, items=["a"])
    held = await held_by(probes, job_id)
    merge = splitting(children(1))
    assert isinstance(await run_attempt(runner(probes, database, merge=merge), held), Waits)
    met = await submitted(probes, "probe.merge", number=10**6, items=["b"])
    assert (met.job_id, met.duplicate) == (job_id, "follow_up")
    payload = await scalar(
        probes, "SELECT payload FROM chot.job_payloads WHERE job_id = :i", i=job_id
    )
    assert payload["items"] == ["a"]
