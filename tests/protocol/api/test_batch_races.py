"""Batches of two real processes that share work: no deadlock, one job a work, one answer a key."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import scalar
from tests.protocol.api.test_processes import (  # noqa: F401 - fixtures
    Launch,
    environment,
    launch,
)

JSON = {"Content-Type": "application/json"}
BATCHES = 8
ITEMS = 200
WORKS = 400


@pytest.fixture
async def two(launch: Launch) -> AsyncIterator[list[httpx.AsyncClient]]:  # noqa: F811 - a fixture
    """A client each for two api processes that wait long enough for a row."""
    patient = {"CHOT_LOCK_TIMEOUT_SECONDS": "7.9", "CHOT_API_LOCK_TIMEOUT_SECONDS": "7.9"}
    ports = [launch(**patient)[1] for _ in range(2)]
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60)
            )
            for port in ports
        ]


def items(rng: random.Random, kind: str, first: int) -> list[dict[str, Any]]:
    """Some of the works, in any order, some of them twice."""
    numbers = rng.choices(range(first, first + WORKS), k=ITEMS)
    return [
        {"kind": kind, "company": "ACME", "brand": "RED", "payload": {"number": n}} for n in numbers
    ]


@pytest.mark.parametrize("kind", ["api.note", "api.merge"])
async def test_batches_that_share_work_never_deadlock(
    two: list[httpx.AsyncClient], engine: AsyncEngine, kind: str
) -> None:
    """Eight batches of two hundred in shuffled orders, over two processes, three times."""
    rng = random.Random(20260201)
    for round_no in range(3):
        before = await scalar(engine, "SELECT count(*) FROM chot.jobs")
        first = 10_000 * (round_no + 1)
        sent = [items(rng, kind, first) for _ in range(BATCHES)]
        answers = await asyncio.gather(
            *(
                two[n % 2].post("/v1/jobs:batch", content=json.dumps({"jobs": each}), headers=JSON)
                for n, each in enumerate(sent)
            )
        )
        assert [answer.status_code for answer in answers] == [200] * BATCHES, answers
        wanted = {each["payload"]["number"] for jobs in sent for each in jobs}
        made = Counter[str]()
        job_of: dict[int, str] = {}
        for jobs, answer in zip(sent, answers, strict=True):
            for job, told in zip(jobs, answer.json()["jobs"], strict=True):
                made[told["outcome"]] += 1
                number = job["payload"]["number"]
                assert job_of.setdefault(number, told["job"]["id"]) == told["job"]["id"]
        assert made == {"created": len(wanted), "duplicate": BATCHES * ITEMS - len(wanted)}
        after = await scalar(engine, "SELECT count(*) FROM chot.jobs")
        assert after - before == len(wanted), "one job a work"
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await scalar(engine, deadlocks) == 0


async def test_one_key_is_one_batch_over_two_processes(
    two: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Twenty at once: every 2xx has the same bytes, the others come again, nothing is a 5xx."""
    body = json.dumps({"jobs": items(random.Random(3), "api.note", 1)})
    headers = JSON | {"Idempotency-Key": '"one"'}
    got = await asyncio.gather(
        *(two[n % 2].post("/v1/jobs:batch", content=body, headers=headers) for n in range(20))
    )
    assert {answer.status_code for answer in got} <= {200, 409}
    accepted = [answer for answer in got if answer.status_code == 200]
    assert len({answer.content for answer in accepted}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in accepted) == 1
    again = [await c.post("/v1/jobs:batch", content=body, headers=headers) for c in two]
    assert {answer.content for answer in again} == {accepted[0].content}
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == accepted[0].json()["created"]
