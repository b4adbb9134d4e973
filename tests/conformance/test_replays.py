"""What is stored, what is not, and for how long the answer stays what it was. C13, C14, C29 to C40."""

import json
import random
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import Answer, ask, store_answer
from shared.jobs.cancel import cancel_job
from shared.types import JobId
from tests.conformance.calls import (
    REPLAYED,
    assert_fresh,
    assert_replays,
    count,
    keys_stored,
    new_key,
)
from tests.conformance.world import VIETNAMESE_BRAND
from tests.factories import execute
from tests.protocol.api.app import note, post, problem_of

PURGE = (
    "DELETE FROM chot.outbox WHERE job_id = :id",
    "DELETE FROM chot.job_payloads WHERE job_id = :id",
    "DELETE FROM chot.jobs WHERE id = :id",
)


def asked_by_the_token(key: str, body: Any) -> Any:
    """The request as the api stores it for the account of CHOT_TOKEN."""
    return ask("api", key, method="POST", route="/v1/jobs", body=body)


async def cancelled(engine: AsyncEngine, answer: httpx.Response) -> None:
    """The job of that answer has ended."""
    async with engine.begin() as conn:
        assert await cancel_job(conn, JobId(UUID(answer.json()["id"])))


@pytest.mark.case("C13")
async def test_a_key_of_another_route_is_another_request(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The answer stored under one route is not given on another; another method is no route."""
    one, many, key, other = note(), {"jobs": [note()]}, new_key(), new_key()
    first = await post(pair[0], one, key=key)
    assert_fresh(first)
    refused = await batch(pair[1], many, key)
    problem_of(refused, 422, "idempotency-key-reused")
    put = await pair[0].put("/v1/jobs", json=one, headers={"Idempotency-Key": key})
    problem_of(put, 405, "method-not-allowed")
    assert_replays(await post(pair[1], one, key=key), first)
    assert await count(engine, many["jobs"][0]) == (0, 0)
    done = await batch(pair[0], many, other)
    assert (done.status_code, done.json()["created"]) == (200, 1)
    problem_of(await post(pair[1], many["jobs"][0], key=other), 422, "idempotency-key-reused")
    again = await batch(pair[1], many, other)
    assert (again.content, again.headers[REPLAYED]) == (done.content, "true")
    assert await count(engine, many["jobs"][0]) == (1, 1)


@pytest.mark.case("C13")
async def test_the_route_is_part_of_the_request(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Also where the body is the same to the byte, as it will be one day."""
    body = note()
    for method, route in (("POST", "/v1/elsewhere"), ("PUT", "/v1/jobs")):
        key = new_key()
        elsewhere = ask("api", key, method=method, route=route, body=body)
        answer = Answer(status=200, headers={}, body=b"{}", job_id=None)
        async with engine.begin() as conn:
            await store_answer(conn, elsewhere, answer, hours=1)
        problem_of(await post(pair[0], body, key=key), 422, "idempotency-key-reused")
    assert await count(engine, body) == (0, 0)


async def batch(client: httpx.AsyncClient, body: Any, key: str) -> httpx.Response:
    """POST /v1/jobs:batch under a key."""
    return await client.post("/v1/jobs:batch", json=body, headers={"Idempotency-Key": key})


@pytest.mark.case("C14")
async def test_a_member_that_is_there_twice_is_refused_and_not_replayed(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Whichever of the two was meant: also under a key that has an answer."""
    body, key = note(), new_key()
    twice = json.dumps(body).replace('"brand": "RED"', '"brand": "RED", "brand": "RED"')
    problem_of(await post(pair[0], twice, key=key), 400, "malformed-json")
    first = await post(pair[0], body, key=key)
    assert_fresh(first)
    problem_of(await post(pair[1], twice, key=key), 400, "malformed-json")
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C29")
async def test_what_was_refused_does_not_use_the_key_up(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """By the model, by the kind's, or by the database in the transaction: 422 is not stored."""
    body, key = note(), new_key()
    for wrong, slug in (
        ({"priority": 10}, "invalid-request"),
        ({"payload": {"number": "7"}}, "invalid-request"),
        ({"brand": "GREEN"}, "unknown-brand"),
        ({"company": "NOPE"}, "unknown-company"),
        ({"max_attempts": 8}, "invalid-request"),
        ({"kind": "no.such"}, "unknown-kind"),
    ):
        problem_of(await post(pair[0], body | wrong, key=key), 422, slug)
    assert await keys_stored(engine, key) == 0
    assert_fresh(await post(pair[1], body, key=key))
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C33", "C35")
async def test_a_duplicate_is_stored_and_replayed_like_a_new_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Each key keeps its own answer; once the work has ended, a new key starts it again."""
    body, keys = note(), [new_key() for _ in range(3)]
    first = await post(pair[0], body, key=keys[0])
    joined = await post(pair[1], body, key=keys[1])
    assert (joined.status_code, joined.json()["created"]) == (200, False)
    assert joined.json()["id"] == assert_fresh(first)
    assert REPLAYED not in joined.headers
    assert_replays(await post(pair[0], body, key=keys[1]), joined)
    await cancelled(engine, first)
    assert_replays(await post(pair[0], body, key=keys[1]), joined)
    new = await post(pair[0], body, key=keys[2])
    assert assert_fresh(new) != first.json()["id"]
    assert_replays(await post(pair[1], body, key=keys[1]), joined)
    assert (await count(engine, body))[0] == 2


@pytest.mark.case("C34")
async def test_the_answer_outlives_its_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """After the end and after the purge: the same 202. The status is what it is: 200, then 404."""
    body, key = note(), new_key()
    first = await post(pair[0], body, key=key)
    url = first.headers["location"]
    await cancelled(engine, first)
    assert_replays(await post(pair[1], body, key=key), first)
    shown = await pair[1].get(url)
    assert (shown.status_code, shown.json()["state"]) == (200, "cancelled")
    for statement in PURGE:
        await execute(owner_engine, statement, id=first.json()["id"])
    assert_replays(await post(pair[0], body, key=key), first)
    problem_of(await pair[0].get(url), 404, "job-not-found")
    assert await count(engine, body) == (0, 0)


@pytest.mark.case("C37")
async def test_a_retry_across_a_deploy_is_replayed(
    pair: list[httpx.AsyncClient], later: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """To the next release, whose model has a default more and a tighter rule; and back again."""
    body, key = note(note="Chốt sổ tháng 1"), new_key()
    first = await post(pair[0], body, key=key)
    assert_fresh(first)
    assert_replays(await post(later, body, key=key), first)
    again = body | {"payload": body["payload"] | note()["payload"]}
    problem_of(await post(later, again, key=new_key()), 422, "invalid-request")
    young, young_key = note(note="short"), new_key()
    second = await post(later, young, key=young_key)
    assert_fresh(second)
    assert_replays(await post(pair[1], young, key=young_key), second)
    assert (await count(engine, body), await count(engine, young)) == ((1, 1), (1, 1))


@pytest.mark.case("C39")
async def test_an_answer_is_replayed_byte_for_byte_whatever_it_holds(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Letters beyond ASCII as they were sent, and more than a megabyte of bytes that are no text."""
    body, key = note() | {"brand": VIETNAMESE_BRAND}, new_key()
    first = await post(pair[0], body, key=key)
    assert_fresh(first)
    assert VIETNAMESE_BRAND.encode() in first.content
    assert_replays(await post(pair[1], body, key=key), first)
    large_key, large = new_key(), random.randbytes(1_500_000)
    stored = Answer(status=202, headers={"Location": "/x"}, body=large, job_id=None)
    async with engine.begin() as conn:
        await store_answer(conn, asked_by_the_token(large_key, body), stored, hours=1)
    again = await post(pair[1], body, key=large_key)
    assert (again.status_code, again.headers[REPLAYED]) == (202, "true")
    assert again.content == large


@pytest.mark.scenario("F40")
@pytest.mark.case("C40")
async def test_other_methods_and_routes_ignore_the_header(pair: list[httpx.AsyncClient]) -> None:
    """A GET is repeatable by itself, a cancel is conditional: also with what is no key at all."""
    made = await post(pair[0], note(), key=new_key())
    url, cancel = made.json()["status_url"], made.json()["links"]["cancel"]
    for key in ("k", '""', "a b", "x" * 300):
        headers = {"Idempotency-Key": key}
        shown = await pair[0].get(url, headers=headers)
        assert (shown.status_code, shown.json()["state"]) == (200, "pending")
        assert REPLAYED not in shown.headers
        assert (await pair[0].get("/v1/jobs", headers=headers)).status_code == 200
        for method in ("PUT", "DELETE"):
            refused = await pair[0].request(method, url, headers=headers)
            problem_of(refused, 405, "method-not-allowed")
    for client in pair:
        ended = await client.post(cancel, headers={"Idempotency-Key": "k"})
        assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
        assert REPLAYED not in ended.headers
