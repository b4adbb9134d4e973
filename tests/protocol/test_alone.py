"""Alone: one reservation a queue, expiring like a lease, and never a job without a message."""

import asyncio
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId, WorkerId
from tests.factories import autocommit, execute, fetch, make_job
from worker.alone import free_alone, reserve_alone


async def _reserve(engine: AsyncEngine, worker: str) -> bool:
    async with autocommit(engine).connect() as conn:
        return await reserve_alone(conn, "default", WorkerId(worker), JobId(uuid4()), 30)


async def _free(engine: AsyncEngine, worker: str, job_id: JobId) -> None:
    async with autocommit(engine).connect() as conn:
        await free_alone(conn, "default", WorkerId(worker), job_id)


async def test_of_six_workers_one_reserves_the_queue(probes: AsyncEngine) -> None:
    """The place is won by one conditional UPDATE, and its holder may reserve it again."""
    won = await asyncio.gather(*(_reserve(probes, f"w{n}") for n in range(6)))
    assert sum(won) == 1
    assert await _reserve(probes, f"w{won.index(True)}")


async def test_a_reservation_that_ran_out_is_anybodys(probes: AsyncEngine) -> None:
    """Its holder died with the job that it ran alone."""
    assert await _reserve(probes, "a")
    await execute(
        probes, "UPDATE chot.queues SET alone_until = clock_timestamp() WHERE alone_worker = 'a'"
    )
    assert await _reserve(probes, "b")
    await _free(probes, "a", await make_job(probes))
    assert not await _reserve(probes, "c"), "the one that lost its place gave away another's"


async def test_a_job_that_was_not_run_after_all_gets_its_message_back(
    probes: AsyncEngine,
) -> None:
    """The reservation stood for the message; a drain gives both back, once."""
    job_id = await make_job(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    assert await _reserve(probes, "a")
    for _ in range(2):
        await _free(probes, "a", job_id)
    staged = await fetch(probes, "SELECT job_id FROM chot.outbox")
    assert [row.job_id for row in staged] == [job_id]
