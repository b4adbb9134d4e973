"""Redrive: dead → pending by an operator's word; the budget is raised, history is kept."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.redrive import NotDead, RedriveAnswer, Redriven, TwinActive, redrive_job
from shared.types import JobId, JobState
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
    scalar,
    submitted,
)
from tests.probes.handlers import HANDLERS
from tests.protocol.exits import claimed_for, leave, outbox_of
from worker.claim import claim_jobs
from worker.cleanup import clean_up_one
from worker.lease import HeldLease
from worker.reaper import reap_expired

KINDS = {each.kind: each for each in HANDLERS}


async def dead_job(engine: AsyncEngine, how: str = "fail_permanently") -> HeldLease:
    """A dead job that has been cleaned up after."""
    held = await claimed_for(engine, how)
    await leave(engine, held, how)
    assert await clean_up_one(engine, KINDS, TIMING)
    return held


async def redrive(engine: AsyncEngine, job_id: JobId) -> RedriveAnswer:
    """Redrive one job in its own transaction."""
    async with engine.begin() as conn:
        return await redrive_job(conn, job_id)


@pytest.mark.parametrize("how", ["fail_permanently", "fail_last", "release_last", "reap_last"])
async def test_a_redriven_job_has_a_fresh_budget_and_its_history(
    probes: AsyncEngine, how: str
) -> None:
    """Counters only grow: the limit rises above what was used up, whatever used it up."""
    held = await dead_job(probes, how)
    before = await job_row(probes, held.lease.job_id)
    assert await redrive(probes, held.lease.job_id) == Redriven()
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.finished_at, row.started_at) == ("pending", None, None)
    assert (row.attempt, row.fence, row.lost_leases) == (
        before.attempt,
        before.fence,
        before.lost_leases,
    )
    assert row.max_attempts > before.max_attempts
    assert await outbox_of(probes) == [(row.id, "probe.write", "RED")]
    await execute(
        probes,
        """UPDATE chot.queues SET alone_worker = 'b',
                  alone_until = clock_timestamp() + interval '1 hour'""",
    )
    runs = 0
    while (await job_row(probes, held.lease.job_id)).state == "pending":
        await leave(probes, await claimed_again(probes, row.id, worker="b"), "retry")
        await execute(probes, "UPDATE chot.jobs SET available_at = clock_timestamp()")
        runs += 1
    # One limit stands for both budgets, so the other one may come out a little larger.
    assert runs == (6 if how == "reap_last" else 5), "the budget of its kind, once more"


async def test_lost_leases_get_a_fresh_budget_too(probes: AsyncEngine) -> None:
    """A job that its workers' deaths had buried may lose its kind's number of leases again."""
    job_id = await make_job(probes)
    await execute(
        probes,
        """UPDATE chot.queues SET alone_worker = 'a',
                  alone_until = clock_timestamp() + interval '1 hour'""",
    )
    assert await _lose_until_dead(probes, job_id) == 10
    assert await clean_up_one(probes, KINDS, TIMING)
    assert await redrive(probes, job_id) == Redriven()
    assert await _lose_until_dead(probes, job_id) == 10


async def _lose_until_dead(engine: AsyncEngine, job_id: JobId) -> int:
    lost = 0
    while await claim_jobs(autocommit(engine), claimant("a"), [job_id]):
        await expire_lease(engine, job_id)
        async with autocommit(engine).connect() as conn:
            lost += await reap_expired(conn)
    assert (await job_row(engine, job_id)).state == "dead"
    return lost


async def test_only_a_dead_job_is_redriven(probes: AsyncEngine) -> None:
    """Anything else is answered with the state it has; an unknown job with nothing."""
    pending = await make_job(probes)
    assert await redrive(probes, pending) == NotDead(JobState.PENDING)
    for how, state in (("complete", JobState.SUCCEEDED), ("cancel", JobState.CANCELLED)):
        held = await claimed_job(probes)
        assert await redrive(probes, held.lease.job_id) == NotDead(JobState.RUNNING)
        await leave(probes, held, how)
        assert await redrive(probes, held.lease.job_id) == NotDead(state)
    fresh = await scalar(probes, "SELECT chot.uuid7()")
    assert await redrive(probes, fresh) is None


async def test_a_twin_that_is_active_blocks_only_itself(probes: AsyncEngine) -> None:
    """⚑ Row by row: in one transaction, the others are redriven all the same."""
    blocked, free = [await dead_job(probes) for _ in range(2)]
    number = await scalar(
        probes,
        "SELECT payload -> 'number' FROM chot.job_payloads WHERE job_id = :i",
        i=blocked.lease.job_id,
    )
    twin = await submitted(probes, number=number)
    assert twin.created
    async with probes.begin() as conn:
        assert await redrive_job(conn, blocked.lease.job_id) == TwinActive(twin.job_id)
        assert await redrive_job(conn, free.lease.job_id) == Redriven()
    assert (await job_row(probes, free.lease.job_id)).state == "pending"
    assert (await job_row(probes, blocked.lease.job_id)).state == "dead"


async def test_two_operators_redrive_a_job_once(probes: AsyncEngine) -> None:
    """One of them does it, the other is told that it is pending; one message waits."""
    for _ in range(10):
        held = await dead_job(probes)
        answers = await asyncio.gather(*(redrive(probes, held.lease.job_id) for _ in range(4)))
        assert sorted(map(repr, answers)).count(repr(Redriven())) == 1
        assert {each for each in answers if each != Redriven()} == {NotDead(JobState.PENDING)}
        waiting = await fetch(
            probes, "SELECT 1 FROM chot.outbox WHERE job_id = :i", i=held.lease.job_id
        )
        assert len(waiting) == 1


async def test_a_redrive_and_a_submit_of_the_same_work_race(probes: AsyncEngine) -> None:
    """Thirty races: one active job at the end, and whoever lost is told its id."""
    for _ in range(30):
        held = await dead_job(probes)
        number = await scalar(
            probes,
            "SELECT payload -> 'number' FROM chot.job_payloads WHERE job_id = :i",
            i=held.lease.job_id,
        )
        answer, accepted = await asyncio.gather(
            redrive(probes, held.lease.job_id), submitted(probes, number=number)
        )
        if answer == Redriven():
            assert (accepted.job_id, accepted.created) == (held.lease.job_id, False)
        else:
            assert accepted.created
            assert answer == TwinActive(accepted.job_id)
