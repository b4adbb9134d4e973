"""Doubt: a COMMIT whose answer is lost is neither repeated nor believed; the database is asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    expire_lease,
    fetch,
    job_row,
    make_job,
)
from tests.protocol.frozen import frozen_commits
from tests.protocol.sessions import effects_of, put_effect, waits
from tests.services import Database
from tests.tcp_proxy import Proxy, open_proxy
from worker.claim import claim_jobs
from worker.fence import fenced_transaction
from worker.lease import HeldLease

# A short wait for locks and for a commit that was cancelled; all else as in production.
QUICK = replace(TIMING, lock_timeout=0.3, margin=0.5)
# As the driver sends it; BEGIN says READ COMMITTED.
COMMIT = b"COMMIT;"


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A proxy in front of this test's database."""
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as opened:
        yield opened


@asynccontextmanager
async def behind(proxy: Proxy, database: Database) -> AsyncIterator[AsyncEngine]:
    """Role app's engine through the proxy."""
    server = urlsplit(database.app_url)
    url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
    engine = open_engine(url.geturl(), pool_size=3, application_name="behind the proxy")
    yield engine
    await engine.dispose()


async def commit_effect(engine: AsyncEngine, held: HeldLease, *, completes: bool) -> None:
    """One effect with its checkpoint, or with the completion."""
    async with fenced_transaction(engine, held, QUICK, completes=completes) as tx:
        await put_effect(tx.connection, held)
        tx.checkpoint, tx.result = {"chunks": 1}, {"chunks": 1}


@pytest.mark.parametrize("completes", [False, True])
async def test_a_commit_whose_answer_is_lost_counts_once(
    probes: AsyncEngine, database: Database, proxy: Proxy, *, completes: bool
) -> None:
    """It was committed, the database says so, and the job goes on from there."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose_answer_to(COMMIT)
        committing = asyncio.create_task(commit_effect(engine, held, completes=completes))
        await proxy.until_held()
        proxy.reset()
        proxy.heal()
        (end,) = await asyncio.gather(committing, return_exceptions=True)
        assert end is None, "it was committed"
        assert (held.checkpoint_no, held.completed) == (1, completes)
        if not completes:
            await commit_effect(engine, held, completes=True)
    assert len(await effects_of(probes, held.lease.job_id)) == (1 if completes else 2)
    assert (await job_row(probes, held.lease.job_id)).state == "succeeded"


@pytest.mark.parametrize("completes", [False, True])
async def test_a_commit_that_never_arrived_is_not_assumed(
    probes: AsyncEngine, database: Database, proxy: Proxy, *, completes: bool
) -> None:
    """The database says it was not committed; the same chunk can be written again, once."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose(COMMIT)
        committing = asyncio.create_task(commit_effect(engine, held, completes=completes))
        await proxy.triggered.wait()
        proxy.reset()
        proxy.heal()
        with pytest.raises(DBAPIError):
            await committing
        assert (held.checkpoint_no, held.completed) == (0, False)
        await commit_effect(engine, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


@pytest.mark.parametrize("completes", [False, True])
async def test_a_commit_still_on_its_way_is_waited_for(
    probes: AsyncEngine, database: Database, proxy: Proxy, *, completes: bool
) -> None:
    """The server is in the middle of it: whoever only reads would see that it is not there."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine, frozen_commits(database) as freezer:
        committing = asyncio.create_task(commit_effect(engine, held, completes=completes))
        await freezer.until_stuck("behind the proxy")
        proxy.reset()
        assert await waits(probes, committing), "it asks, and waits for the job's row to tell"
        await freezer.thaw()
        await committing
    assert (held.checkpoint_no, held.completed) == (1, completes)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


@pytest.mark.parametrize("completes", [False, True])
async def test_a_cancel_that_hits_a_commit_which_ends_well(
    probes: AsyncEngine, database: Database, *, completes: bool
) -> None:
    """CancelledError means neither; what is durable is counted, so that nothing repeats it."""
    held = await claimed_job(probes)
    engine = open_engine(database.app_url, pool_size=2, application_name="cancelled")
    async with frozen_commits(database) as freezer:
        committing = asyncio.create_task(commit_effect(engine, held, completes=completes))
        await freezer.until_stuck("cancelled")
        committing.cancel()
        # The COMMIT is left alone for the margin; cancelled then, the server stops waiting for the
        # standby and keeps what is durable.
        with pytest.raises(asyncio.CancelledError):
            await committing
    await engine.dispose()
    assert (held.checkpoint_no, held.completed) == (1, completes)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


@pytest.mark.parametrize("completes", [False, True])
async def test_a_cancel_that_hits_a_commit_which_is_undone(
    probes: AsyncEngine, database: Database, proxy: Proxy, *, completes: bool
) -> None:
    """The same exception, and nothing was stored."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose(COMMIT)
        committing = asyncio.create_task(commit_effect(engine, held, completes=completes))
        await proxy.triggered.wait()
        committing.cancel()
        proxy.reset()
        proxy.heal()
        with pytest.raises(asyncio.CancelledError):
            await committing
    assert (held.checkpoint_no, held.completed) == (0, False)
    assert await effects_of(probes, held.lease.job_id) == []


async def test_a_takeover_in_the_meantime_does_not_hide_the_commit(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """The attempts row keeps what was reached for ever, under fence and token."""
    held = await claimed_job(probes)
    async with behind(proxy, database) as engine:
        proxy.lose_answer_to(COMMIT)
        committing = asyncio.create_task(commit_effect(engine, held, completes=False))
        await proxy.until_held()
        await expire_lease(probes, held.lease.job_id)
        second = await claimed_again(probes, held.lease.job_id, worker="b")
        proxy.reset()
        proxy.heal()
        await committing
    assert (held.checkpoint_no, second.checkpoint_no) == (1, 1)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


async def test_a_claim_whose_answer_is_lost_is_adopted(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """Found again by the token that this worker made, and not claimed a second time."""
    job_id = await make_job(probes)
    async with behind(proxy, database) as engine:
        await claimed_job(engine)  # the connection is open, the statement prepared
        proxy.lose_answer_to(job_id.bytes)
        claiming = asyncio.create_task(claim_jobs(autocommit(engine), claimant("a"), [job_id]))
        await proxy.until_held()
        proxy.reset()
        proxy.heal()
        (held,) = await claiming
    row = await job_row(probes, job_id)
    assert (row.fence, row.attempt, row.state) == (1, 1, "running")
    assert (held.lease.fence, held.lease.token) == (1, row.lease_token)
    await commit_effect(probes, held, completes=True)


async def test_a_claim_in_doubt_that_another_has_taken_over_is_not_ours(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """By the time of the answer the lease was somebody else's."""
    job_id = await make_job(probes)
    async with behind(proxy, database) as engine:
        await claimed_job(engine)
        proxy.lose_answer_to(job_id.bytes)
        claiming = asyncio.create_task(claim_jobs(autocommit(engine), claimant("a"), [job_id]))
        await proxy.until_held()
        await expire_lease(probes, job_id)
        await claimed_again(probes, job_id, worker="b")
        proxy.reset()
        proxy.heal()
        assert await claiming == []


async def test_a_claim_that_never_arrived_has_won_nothing(
    probes: AsyncEngine, database: Database, proxy: Proxy
) -> None:
    """The job is still there for the next delivery."""
    job_id = await make_job(probes)
    async with behind(proxy, database) as engine:
        await claimed_job(engine)
        proxy.lose(job_id.bytes)
        claiming = asyncio.create_task(claim_jobs(autocommit(engine), claimant("a"), [job_id]))
        await proxy.triggered.wait()
        proxy.reset()
        proxy.heal()
        assert await claiming == []
    assert await fetch(probes, "SELECT 1 FROM chot.attempts WHERE job_id = :i", i=job_id) == []
    assert (await job_row(probes, job_id)).state == "pending"
