"""Keys that expire under running loops, and a credential endpoint that has its own bad days."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import eventually, job_row, make_job
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import all_reached, effects, fenced, reached, said, working
from tests.scenarios.credentials_stand_in import Credentials, How, open_credentials
from tests.scenarios.looking import api_of, post_job
from tests.sqs_proxy import SqsProxy

TOKEN_SECONDS = 1.0
STEADY_SECONDS = 0.25


@pytest.fixture
def credentials(tmp_path: Path, sqs_proxy: SqsProxy) -> Iterator[Credentials]:
    """The container's endpoint; the SQS proxy refuses the keys that it has let expire."""
    with open_credentials(tmp_path / "token") as opened:
        sqs_proxy.key_expired = opened.refuses
        yield opened


@asynccontextmanager
async def tokens_replaced(credentials: Credentials) -> AsyncIterator[None]:
    """Replace the token file again and again while the block runs."""

    async def forever() -> None:
        while True:
            await asyncio.sleep(TOKEN_SECONDS)
            credentials.replace_token()

    task = asyncio.create_task(forever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled(), "the tokens were replaced until the end"


@asynccontextmanager
async def steady_jobs(engine: AsyncEngine) -> AsyncIterator[list[JobId]]:
    """Submit a small job four times a second while the block runs."""
    ids: list[JobId] = []

    async def forever() -> None:
        while True:
            ids.append(await make_job(engine))
            await asyncio.sleep(STEADY_SECONDS)

    task = asyncio.create_task(forever())
    try:
        yield ids
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled(), "jobs came until the end"


def sqs_errors(fleet: Fleet) -> list[dict[str, Any]]:
    """What the worker has said of SQS being away."""
    events = {
        "receive.waits",
        "relay.waits",
        "visibility.not_extended",
        "delivery.not_deleted",
        "maintenance.waits",
    }
    return [
        line for child in fleet.children for line in log_lines(child) if line["event"] in events
    ]


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.scenario("F30")
async def test_keys_that_expire_cost_no_job_and_no_restart(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, credentials: Credentials
) -> None:
    """F30: steady jobs and a long one over many keys and tokens; the endpoint fails once.

    Its 15 minutes are 20 seconds here: keys are good for 4 s (of 120), the token file is replaced
    every second (of 60), the endpoint fails for 5 s (of 30), so that SQS really refuses old keys.
    Botocore's own waits between its tries are what they are, hence a visibility of 16 s.
    """
    settings = {"CHOT_CONCURRENCY": "4", "CHOT_VISIBILITY_SECONDS": "16"}
    worker = fleet.worker(**settings, **credentials.environment())
    async with tokens_replaced(credentials), steady_jobs(probes) as steady:
        await working(worker)
        long_job = await make_job(probes, chunks=45, seconds=0.4)
        await fenced(probes, long_job, 1)
        await eventually(lambda: _holds(len(credentials.issued) >= 6))  # the second keys of three
        assert credentials.strangers == 0, "each request carried the file's token of then"
        credentials.how = "error"
        await asyncio.sleep(5)  # the outage's own length
        credentials.how, healed = "works", monotonic()
        assert any("ExpiredToken" in line["error"] for line in sqs_errors(fleet))
        extended = sqs_proxy.asked["ChangeMessageVisibilityBatch"]
        await reached(probes, steady[-1], "succeeded", seconds=10)
        assert monotonic() - healed <= 10
        errors = len(sqs_errors(fleet))
        row = await reached(probes, long_job, "succeeded")
        assert len(sqs_errors(fleet)) == errors, "errors ended with the first keys"
    assert sqs_proxy.asked["ChangeMessageVisibilityBatch"] > extended
    assert (row.attempt, row.fence, row.lost_leases) == (1, 1, 0)
    assert await effects(probes, long_job) == [(chunk, 1) for chunk in range(45)]
    await all_reached(probes, steady, "succeeded")
    for job_id in steady:
        assert await effects(probes, job_id) == [(0, 1)]
    missed = {line["job_id"] for line in fleet.events(worker, "claim.missed")}
    assert str(long_job) not in missed, "its visibility was extended in time, before and after"
    assert worker.alive


async def _holds(condition: bool) -> bool:  # noqa: FBT001 - it is all there is
    return condition


ODD: tuple[How, ...] = ("no key", "expired", "no date")


@pytest.mark.scenario("F30")
async def test_odd_answers_of_the_endpoint_end_no_loop(
    probes: AsyncEngine, fleet: Fleet, credentials: Credentials
) -> None:
    """F30: what botocore raises raw of them is an outage, too, also where a job's end is told.

    Keys are stated to end in a minute, so that every call has to ask for new ones. The token file
    gets a newline as well, and is gone for a while.
    """
    credentials.stated = timedelta(minutes=1)
    worker = fleet.worker(**credentials.environment())
    await working(worker)
    for how in ODD:
        job_id = await make_job(probes, chunks=2, seconds=0.4)
        await fenced(probes, job_id, 1)
        credentials.how = how
        await reached(probes, job_id, "succeeded")
        await _asked_again(credentials, 2)
        credentials.how = "works"
    job_id = await make_job(probes, chunks=2, seconds=0.4)
    await fenced(probes, job_id, 1)
    credentials.replace_token(ending="\n")
    await reached(probes, job_id, "succeeded")
    errors = len(sqs_errors(fleet))
    await eventually(lambda: _holds(len(sqs_errors(fleet)) > errors))
    credentials.token_file.unlink()
    errors = len(sqs_errors(fleet))
    await eventually(lambda: _holds(len(sqs_errors(fleet)) > errors))
    credentials.replace_token()
    last = await make_job(probes)
    row = await reached(probes, last, "succeeded", seconds=10)
    assert row.attempt == 1
    assert worker.alive


async def _asked_again(credentials: Credentials, times: int) -> None:
    asked = credentials.asked
    await eventually(lambda: _holds(credentials.asked >= asked + times))


@pytest.mark.scenario("F30", "F29")
@pytest.mark.parametrize("how", ["error", pytest.param("silent", marks=pytest.mark.long)])
async def test_processes_that_start_without_credentials_take_jobs_and_wait(
    probes: AsyncEngine, fleet: Fleet, credentials: Credentials, how: How
) -> None:
    """F30: a restart while the endpoint fails; the api takes jobs, the worker waits, then all runs."""
    credentials.how = how
    worker = fleet.worker(**credentials.environment())
    async with api_of(fleet, **credentials.environment()) as http:
        job_id = await post_job(http)
        await said(worker, "startup.waits")
        assert (await job_row(probes, job_id)).state == "pending"
        credentials.how = "works"
        row = await reached(probes, job_id, "succeeded")
    assert row.attempt == 1
    assert worker.alive
