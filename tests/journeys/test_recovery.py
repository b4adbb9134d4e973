"""Recovery: what a crash or SQS itself has lost is found again, and nothing is sent too often."""

import asyncio
import signal
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.outbox import Relay
from shared.sqs import open_sqs
from tests.factories import autocommit, eventually, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, fenced
from tests.sqs_proxy import SqsProxy


async def publish(engine: AsyncEngine, prefix: str) -> None:
    """Empty the outbox into SQS from here, while no process of the fleet does."""
    async with open_sqs(prefix, pool=4) as client:
        relay = Relay(autocommit(engine), client, poll_seconds=1)
        while await relay.flush():
            pass


async def submit_over_http(url: str, count: int) -> list[UUID]:
    """POST so many probe jobs; their ids."""
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        answers = await asyncio.gather(
            *(
                client.post(
                    "/v1/jobs",
                    json={
                        "kind": "probe.write",
                        "company": "ACME",
                        "brand": "RED",
                        "payload": {"number": 10_000_000 + n},
                    },
                )
                for n in range(count)
            )
        )
    assert {answer.status_code for answer in answers} == {202}
    return [UUID(answer.json()["id"]) for answer in answers]


@pytest.mark.scenario("F19")
async def test_what_one_process_committed_another_one_publishes(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """SQS is gone, the api accepts, and is killed between commit and publish; a worker sends."""
    api, url = await asyncio.to_thread(fleet.api)
    sqs_proxy.black_hole()
    ids = await submit_over_http(url, 20)
    api.send(signal.SIGKILL)
    sqs_proxy.heal()
    assert await scalar(probes, "SELECT count(*) FROM chot.outbox") == 20
    fleet.worker()
    await all_reached(probes, ids, "succeeded")
    assert await scalar(probes, "SELECT count(*) FROM probe.effects") == 20


@pytest.mark.scenario("F22")
async def test_a_purged_queue_is_filled_again_but_never_flooded(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """Purge: the reconciler publishes anew. All slots busy: each waiting job is sent once only."""
    ids = [await make_job(probes) for _ in range(20)]
    await publish(probes, fleet.prefix)
    sqs.purge_queue(QueueUrl=queue_urls["default"])
    fleet.worker(CHOT_CONCURRENCY="2", CHOT_RECONCILER_SECONDS="0.5")
    await all_reached(probes, ids, "succeeded")
    busy = [await make_job(probes, chunks=1, seconds=4.0) for _ in range(2)]
    for job_id in busy:
        await fenced(probes, job_id, 1)
    before = sqs_proxy.accepted_entries
    waiting = [await make_job(probes) for _ in range(30)]

    async def published() -> bool:
        return bool(await scalar(probes, "SELECT count(*) FROM chot.outbox") == 0)

    await eventually(published)
    await all_reached(probes, [*busy, *waiting], "succeeded")
    assert sqs_proxy.accepted_entries - before == 30, "each job was published exactly once"
