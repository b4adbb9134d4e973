"""Neighbours: what one handler does to its connection or its progress stays its own affair."""

import os
from dataclasses import replace

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import is_unreachable
from shared.errors import PermanentError
from shared.outages import tell_outages
from shared.types import WorkerId
from tests.factories import TIMING, autocommit, claimed_job, fetch, job_row, scalar
from tests.services import Database
from worker.fence import fenced_transaction
from worker.heartbeat import Heart
from worker.lease import HeldLease, Progress, progress_of
from worker.presence import Presence

STAMP = text("INSERT INTO probe.stamps (job_id, attempt, what) VALUES (:job_id, 1, 'here')")


async def _stamp(engine: AsyncEngine, held: HeldLease) -> None:
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        await tx.connection.execute(STAMP, {"job_id": held.lease.job_id})


@pytest.mark.parametrize(
    "setting",
    [
        "SET default_transaction_read_only = on",
        "SET search_path = nowhere",
        "SET lock_timeout = '1ms'",
        "SET synchronous_commit = off",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SELECT pg_advisory_lock(4711)",
    ],
)
async def test_a_handlers_session_settings_do_not_reach_the_next_job(
    probes: AsyncEngine, single: AsyncEngine, setting: str
) -> None:
    """The pool hands out a restored connection after a handler has had it."""
    first, second = await claimed_job(probes), await claimed_job(probes)
    async with fenced_transaction(single, first, TIMING, completes=False) as tx:
        await tx.connection.execute(text(setting))
    await _stamp(single, second)
    async with single.connect() as conn:
        row = (
            await conn.execute(
                text("""
                    SELECT current_setting('default_transaction_read_only') AS read_only,
                           current_setting('synchronous_commit') AS durable,
                           current_setting('lock_timeout') AS lock,
                           current_setting('default_transaction_isolation') AS isolation,
                           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                               AND pid = pg_backend_pid()) AS locks""")
            )
        ).one()
    assert row == ("off", "on", "4s", "read committed", 0)


async def test_dropped_statements_cost_no_other_job_its_connection(
    probes: AsyncEngine, single: AsyncEngine
) -> None:
    """DEALLOCATE ALL spoils the connection: at the first sign it is thrown away, uncharged."""
    tell_outages(single)
    first, second = await claimed_job(probes), await claimed_job(probes)
    await _stamp(single, await claimed_job(probes))

    async def spoil() -> None:
        async with fenced_transaction(single, first, TIMING, completes=False) as tx:
            await tx.connection.execute(text("DEALLOCATE ALL"))
            await tx.connection.execute(STAMP, {"job_id": first.lease.job_id})

    with pytest.raises(DBAPIError) as spoilt:
        await spoil()
    assert is_unreachable(spoilt.value)
    await _stamp(single, second)


@pytest.mark.parametrize("checkpoint", ["text", [1], 5])
async def test_a_checkpoint_that_is_no_object_is_refused_at_once(
    probes: AsyncEngine, checkpoint: object
) -> None:
    """The next attempt would fail far from the cause."""
    held = await claimed_job(probes)
    with pytest.raises(PermanentError, match="must be a JSON object"):
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            tx.checkpoint = checkpoint  # type: ignore[assignment] # what a handler may do
    assert (await job_row(probes, held.lease.job_id)).checkpoint_no == 0


@pytest.mark.parametrize("done", [1.5, "3", True, None])
def test_progress_that_is_no_count_is_an_error_of_its_handler(done: object) -> None:
    """It is raised where it was reported, not where the heartbeat carries it."""
    with pytest.raises(TypeError, match="done"):
        progress_of(done, None, "", "")  # type: ignore[arg-type] # what a handler may do


def test_progress_beyond_the_column_is_cut_to_it() -> None:
    """Neither too large nor negative counts can stop a renewal."""
    assert progress_of(10**30, -5, "", "") == Progress(done=2**63 - 1, total=0)


async def test_a_refused_progress_does_not_keep_the_others_from_renewal(
    probes: AsyncEngine, database: Database, queue_prefix: str
) -> None:
    """The batched renewal is repeated without progress: leases matter more."""
    held = [await claimed_job(probes) for _ in range(3)]
    held[1].progress = replace(Progress(done=1), done=10**30)
    heart = Heart(
        database_url=database.app_url,
        queue_prefix=queue_prefix,
        timing=TIMING,
        presence=Presence(
            worker_id=WorkerId("a"), host="h", pid=os.getpid(), code_version="t", kinds={}
        ),
        visibility_cap_seconds=43_200,
        exit_grace_seconds=60,
    )
    async with autocommit(probes).connect() as conn:
        renewed = await heart._renew(conn, held)
    assert renewed == {each.lease.job_id for each in held}


@pytest.mark.parametrize(
    "word", ["COMMIT", "  end", "ROLLBACK", "begin", "Start Transaction", "PREPARE TRANSACTION 'x'"]
)
async def test_no_word_that_ends_a_transaction_passes(probes: AsyncEngine, word: str) -> None:
    """COMMIT; BEGIN would leave effects beside the fence and a transaction that looks sound."""
    held = await claimed_job(probes)

    async def say_it() -> None:
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await tx.connection.execute(STAMP, {"job_id": held.lease.job_id})
            await tx.connection.execute(text(word))

    with pytest.raises(RuntimeError, match="context"):
        await say_it()
    assert await fetch(probes, "SELECT 1 FROM probe.stamps") == []


async def test_savepoints_are_a_handlers_own(probes: AsyncEngine) -> None:
    """ROLLBACK TO ends no transaction, nor does a nested block."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
        await tx.connection.execute(text("SAVEPOINT here"))
        await tx.connection.execute(STAMP, {"job_id": held.lease.job_id})
        await tx.connection.execute(text("ROLLBACK TO SAVEPOINT here"))
        async with tx.connection.begin_nested():
            await tx.connection.execute(STAMP, {"job_id": held.lease.job_id})
    assert len(await fetch(probes, "SELECT 1 FROM probe.stamps")) == 1


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
async def test_a_handler_cannot_end_its_transaction_by_itself(
    probes: AsyncEngine, ending: str
) -> None:
    """What it committed would stand beside the fence; nothing of it stays."""
    held = await claimed_job(probes)

    async def end_it() -> None:
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await tx.connection.execute(STAMP, {"job_id": held.lease.job_id})
            await getattr(tx.connection, ending)()

    with pytest.raises(RuntimeError, match="context"):
        await end_it()
    assert await fetch(probes, "SELECT 1 FROM probe.stamps") == []


async def test_a_connection_that_cannot_be_restored_is_thrown_away(
    probes: AsyncEngine, single: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the driver calls it: the next job gets another connection."""
    first, second = await claimed_job(probes), await claimed_job(probes)
    pid = await scalar(single, "SELECT pg_backend_pid()")

    async def broken(_driver: object, *, timeout: float) -> None:  # noqa: ASYNC109 - asyncpg's own
        raise asyncpg.InternalClientError(f"cannot switch to state 12 in {timeout} s")

    monkeypatch.setattr(asyncpg.Connection, "reset", broken)
    with pytest.raises(ZeroDivisionError):
        async with fenced_transaction(single, first, TIMING, completes=False):
            raise ZeroDivisionError
    await _stamp(single, second)
    assert await scalar(single, "SELECT pg_backend_pid()") != pid
    assert len(await fetch(probes, "SELECT 1 FROM probe.stamps")) == 1
