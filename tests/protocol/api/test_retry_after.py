"""Retry-After over HTTP: by when a job is due, what it has run, and what its estimate leaves."""

from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import execute
from tests.protocol.api.test_read_and_act import made, run, succeed


async def wait_told(client: httpx.AsyncClient, job_id: str) -> int:
    """What the header says of a job that is active."""
    answer = await client.get(f"/v1/jobs/{job_id}")
    return int(answer.headers["retry-after"])


@pytest.mark.parametrize(
    ("due_in", "expected"),
    [(40, {39, 40}), (3600, {60}), (-1, {1}), (-200, {20, 21}), (-9000, {60})],
)
async def test_a_job_that_waits(
    client: httpx.AsyncClient, engine: AsyncEngine, *, due_in: int, expected: set[int]
) -> None:
    """For its time: until then. For its turn: a tenth of how long it has waited."""
    job_id = await made(client)
    await execute(
        engine,
        """UPDATE chot.jobs SET available_at = clock_timestamp() + make_interval(secs => :due_in)
            WHERE id = :id""",
        id=UUID(job_id),
        due_in=due_in,
    )
    assert await wait_told(client, job_id) in expected


@pytest.mark.parametrize(
    ("going_for", "expected"), [(1, {1}), (100, {10, 11}), (300, {30, 31}), (7200, {60})]
)
async def test_a_job_that_runs_without_an_estimate(
    client: httpx.AsyncClient, engine: AsyncEngine, *, going_for: int, expected: set[int]
) -> None:
    """A tenth of what this attempt has run; what an earlier one has run does not count."""
    job_id = await made(client)
    await run(engine, job_id)
    await started(engine, job_id, going_for)
    assert await wait_told(client, job_id) in expected


@pytest.mark.parametrize(
    ("left", "going_for", "expected"),
    [(60, 300, {29, 30, 31}), (60, 5, {5, 6}), (3, 300, {1, 2}), (9000, 300, {60})],
)
async def test_a_job_that_runs_and_says_when_it_will_be_done(
    client: httpx.AsyncClient,
    engine: AsyncEngine,
    *,
    left: int,
    going_for: int,
    expected: set[int],
) -> None:
    """Half of what is left, and no more than it has run."""
    job_id = await made(client)
    await run(engine, job_id)
    await started(engine, job_id, going_for)
    await execute(
        engine,
        """UPDATE chot.jobs SET progress_done = 0, progress_total = :left, progress_rate = 1,
                  progress_at = clock_timestamp(), progress_fence = fence WHERE id = :id""",
        id=UUID(job_id),
        left=left,
    )
    shown = (await client.get(f"/v1/jobs/{job_id}")).json()["progress"]
    assert shown["rate"] == 1.0
    assert shown["eta"] > shown["moved_at"]
    assert await wait_told(client, job_id) in expected
    await succeed(engine, job_id, "{}")
    ended = await client.get(f"/v1/jobs/{job_id}")
    assert "retry-after" not in ended.headers
    assert ended.json()["progress"]["eta"] is None


async def started(engine: AsyncEngine, job_id: str, ago: int) -> None:
    """Set the open attempt's start back."""
    await execute(
        engine,
        """UPDATE chot.attempts SET started_at = clock_timestamp() - make_interval(secs => :ago)
            WHERE job_id = :id""",
        id=UUID(job_id),
        ago=ago,
    )
