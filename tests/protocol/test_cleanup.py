"""Cleanup: what a dead or cancelled job left half-built goes once, before any redrive."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.redrive import CleanupPending, Redriven, redrive_job
from tests.factories import (
    TIMING,
    claimed_job,
    execute,
    fetch,
    job_row,
    scalar,
)
from tests.probes.handlers import HANDLERS
from tests.protocol.exits import leave
from tests.protocol.sessions import until_waiting
from worker.cleanup import clean_up_one
from worker.context import CleanupContext
from worker.fence import fenced_transaction
from worker.handlers import Handler
from worker.lease import HeldLease

KINDS = {each.kind: each for each in HANDLERS}
STAMP = text("INSERT INTO probe.stamps VALUES (:i, 1, 'half built')")


async def left_behind(engine: AsyncEngine, how: str = "fail_permanently") -> HeldLease:
    """A job that committed a chunk and then ended in this way."""
    held = await claimed_job(engine, kind="probe.misbehave", how="raise")
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        await tx.connection.execute(STAMP, {"i": held.lease.job_id})
        tx.checkpoint = {"chunks": 1}
    await leave(engine, held, how)
    return held


def with_cleanup(run: Callable[[CleanupContext], Awaitable[None]]) -> dict[str, Handler]:
    """Handlers whose probe.misbehave is cleaned up by this function."""

    async def never(*_: Any) -> None:
        raise AssertionError("a cleanup runs no job")

    return {"probe.misbehave": Handler(kind="probe.misbehave", run=never, cleanup=run)}


@pytest.mark.parametrize("how", ["fail_permanently", "cancel", "reap_last"])
async def test_what_was_left_behind_is_removed_once(probes: AsyncEngine, how: str) -> None:
    """The kind's rows, the checkpoint and the flag go in one commit."""
    held = await left_behind(probes, "fail_permanently" if how == "reap_last" else how)
    assert (await job_row(probes, held.lease.job_id)).cleanup_due
    assert await clean_up_one(probes, KINDS, TIMING)
    assert not await clean_up_one(probes, KINDS, TIMING)
    row = await job_row(probes, held.lease.job_id)
    assert (row.cleanup_due, row.checkpoint_no) == (False, 1)
    assert await fetch(probes, "SELECT 1 FROM probe.stamps") == []
    assert await scalar(probes, "SELECT checkpoint FROM chot.job_outputs") is None


async def test_a_job_that_never_ran_or_succeeded_needs_none(probes: AsyncEngine) -> None:
    """Nothing was begun, or everything is wanted."""
    done = await left_behind(probes, "complete")
    assert not (await job_row(probes, done.lease.job_id)).cleanup_due
    assert not await clean_up_one(probes, KINDS, TIMING)
    assert len(await fetch(probes, "SELECT 1 FROM probe.stamps")) == 1


async def test_a_redrive_waits_for_it_and_starts_from_nothing(probes: AsyncEngine) -> None:
    """Half-built rows of the dead attempts never meet those of the new one."""
    held = await left_behind(probes)
    async with probes.begin() as conn:
        assert await redrive_job(conn, held.lease.job_id) == CleanupPending()
    assert await clean_up_one(probes, KINDS, TIMING)
    async with probes.begin() as conn:
        assert await redrive_job(conn, held.lease.job_id) == Redriven()
    assert await scalar(probes, "SELECT checkpoint FROM chot.job_outputs") is None


async def test_the_job_is_locked_while_it_is_cleaned_up(probes: AsyncEngine) -> None:
    """Nobody redrives it in the middle; who tries waits and then finds it clean."""
    held = await left_behind(probes)
    redriving: list[asyncio.Task[Any]] = []

    async def slow(context: CleanupContext) -> None:
        assert context.checkpoint == {"chunks": 1}
        assert (context.job.id, context.job.payload["how"]) == (held.lease.job_id, "raise")
        await execute(probes, "UPDATE chot.kinds SET max_attempts = 4")  # others are not held up
        redriving.append(asyncio.create_task(_lock_then_redrive(probes, held)))
        await until_waiting(probes)

    assert await clean_up_one(probes, with_cleanup(slow), TIMING)
    assert await redriving[0] == Redriven()


async def _lock_then_redrive(engine: AsyncEngine, held: HeldLease) -> Any:
    async with engine.begin() as conn:
        await conn.execute(
            text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"),
            {"i": held.lease.job_id},
        )
        return await redrive_job(conn, held.lease.job_id)


async def test_two_workers_do_not_clean_up_the_same_job(probes: AsyncEngine) -> None:
    """The second passes over the locked row and finds nothing else to do."""
    await left_behind(probes)
    ran: list[bool] = []

    async def meet(_: CleanupContext) -> None:
        ran.append(True)
        async with asyncio.timeout(3):
            assert not await clean_up_one(probes, KINDS, TIMING)

    assert await clean_up_one(probes, with_cleanup(meet), TIMING)
    assert ran == [True]


async def test_a_cleanup_that_fails_leaves_everything_to_the_next(probes: AsyncEngine) -> None:
    """Its rows, the flag and the checkpoint are one transaction."""
    held = await left_behind(probes)

    async def half(context: CleanupContext) -> None:
        await context.connection.execute(text("DELETE FROM probe.stamps"))
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await clean_up_one(probes, with_cleanup(half), TIMING)
    assert (await job_row(probes, held.lease.job_id)).cleanup_due
    assert len(await fetch(probes, "SELECT 1 FROM probe.stamps")) == 1
    assert await scalar(probes, "SELECT checkpoint FROM chot.job_outputs") == {"chunks": 1}
    assert await clean_up_one(probes, KINDS, TIMING)
    assert await fetch(probes, "SELECT 1 FROM probe.stamps") == []


async def test_one_that_always_fails_keeps_no_other_waiting(probes: AsyncEngine) -> None:
    """It goes behind the others each time."""
    broken, *others = [await left_behind(probes) for _ in range(4)]

    async def sometimes(context: CleanupContext) -> None:
        if context.job.id == broken.lease.job_id:
            raise ZeroDivisionError

    failures = 0
    for _ in range(2):
        try:
            while await clean_up_one(probes, with_cleanup(sometimes), TIMING):
                pass
        except ZeroDivisionError:
            failures += 1
    assert failures == 2
    left = await fetch(probes, "SELECT id FROM chot.jobs WHERE cleanup_due")
    assert [row.id for row in left] == [broken.lease.job_id]
    assert len(others) == 3


async def test_a_kind_this_worker_does_not_know_is_left(probes: AsyncEngine) -> None:
    """Its rows mean nothing here; a worker that knows it will come."""
    held = await left_behind(probes)
    unknowing = {"probe.write": KINDS["probe.write"]}
    assert not await clean_up_one(probes, unknowing, TIMING)
    assert (await job_row(probes, held.lease.job_id)).cleanup_due


async def test_a_kind_without_cleanup_only_loses_its_checkpoint(probes: AsyncEngine) -> None:
    """There is nothing half-built, and a redrive starts from nothing all the same."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
        tx.checkpoint = {"chunks": 1}
    await leave(probes, held, "fail_permanently")
    assert await clean_up_one(probes, KINDS, TIMING)
    assert await scalar(probes, "SELECT checkpoint FROM chot.job_outputs") is None


async def test_the_flag_stands_on_inactive_jobs_only(probes: AsyncEngine) -> None:
    """A running job can never be cleaned up under its worker: the schema says so."""
    held = await claimed_job(probes)
    flag = "UPDATE chot.jobs SET cleanup_due = true WHERE id = :i"
    with pytest.raises(DBAPIError, match="jobs_cleanup_check"):
        await execute(probes, flag, i=held.lease.job_id)
