"""What the cases ask, and what they count afterwards: one job, one message, one stored answer."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import fetch, scalar
from tests.protocol.api.app import post, problem_of

REPLAYED = "idempotency-replayed"
EXPIRE = """UPDATE chot.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'
             WHERE key = :key"""


def new_key(what: str = "k") -> str:
    """A key that no other test uses; one that begins with `held` stops at the gate."""
    return f"{what}-{uuid4()}"


def assert_replays(again: httpx.Response, first: httpx.Response) -> None:
    """The same status, bytes and place, marked as a replay."""
    assert again.status_code == first.status_code, again.text
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers[REPLAYED] == "true"


def assert_fresh(answer: httpx.Response) -> str:
    """202 with a new job, no replay; answers the job's id."""
    assert answer.status_code == 202, answer.text
    assert REPLAYED not in answer.headers
    assert answer.json()["created"] is True
    return str(answer.json()["id"])


async def count(engine: AsyncEngine, body: Mapping[str, Any]) -> tuple[int, int]:
    """How many jobs and how many outbox rows there are of this work."""
    rows = await fetch(
        engine,
        """SELECT count(DISTINCT j.id) AS jobs, count(o.id) AS messages
             FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
             LEFT JOIN chot.outbox o ON o.job_id = j.id
            WHERE j.company = :company AND j.kind = :kind AND p.payload ->> 'number' = :number""",
        company=body["company"],
        kind=body["kind"],
        number=str(body["payload"]["number"]),
    )
    return rows[0].jobs, rows[0].messages


async def keys_stored(engine: AsyncEngine, key: str) -> int:
    """How many accounts have an answer under this key."""
    return int(
        await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys WHERE key = :k", k=key)
    )


async def repeated(
    client: httpx.AsyncClient, body: Mapping[str, Any], key: str, *, seen: list[int] | None = None
) -> httpx.Response:
    """POST, and again whenever the answer is 409 and says when; `seen` takes the statuses."""
    async with asyncio.timeout(20):
        while True:
            answer = await post(client, body, key=key)
            if seen is not None:
                seen.append(answer.status_code)
            if answer.status_code != 409:
                return answer
            problem_of(answer, 409, "idempotency-key-in-progress")
            await asyncio.sleep(int(answer.headers["retry-after"]))


async def settled(client: httpx.AsyncClient, body: Mapping[str, Any], key: str) -> httpx.Response:
    """POST until it is neither 409 nor 503; each of them says when to come again."""
    async with asyncio.timeout(20):
        while True:
            answer = await post(client, body, key=key)
            if answer.status_code not in {409, 503}:
                return answer
            assert int(answer.headers["retry-after"]) >= 1
            await asyncio.sleep(0.1)
