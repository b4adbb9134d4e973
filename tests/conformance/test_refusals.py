"""What is refused before the key counts: sizes, types, texts that no database takes. C28, C38, C42, C43."""

import asyncio
import gzip
import json

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from tests.conformance.calls import assert_fresh, count, keys_stored, new_key
from tests.conformance.world import World, client_to
from tests.protocol.api.app import note, post, problem_of
from tests.protocol.api.keys import bearer, make_key

UNSTORABLE = {
    "NUL": '{"kind": "api.note", "company": "ACME", "payload": {"number": 1, "note": "\\u0000"}}',
    "NUL in a name": '{"\\u0000": 1}',
    "lone surrogate": '{"kind": "\\ud800"}',
    "10^400": '{"payload": {"number": 1' + "0" * 400 + "}}",
    "1e400": '{"payload": {"number": 1e400}}',
    "NaN": '{"payload": {"number": NaN}}',
    "10,000 deep": '{"payload": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "33 deep": '{"a":' * 33 + "1" + "}" * 33,
    "cut off": '{"kind": ',
    "a list": "[]",
    "nothing": "",
}


@pytest.mark.case("C38")
async def test_a_body_too_large_or_of_another_type_does_not_use_the_key_up(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """413, announced or not; 415 for another type, another charset, gzip."""
    body, key = note(), new_key()
    large = note(note="x" * 310_000)
    problem_of(await post(pair[0], large, key=key), 413, "too-large")
    text = json.dumps(body)
    for wrong in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
    ):
        refused = await post(pair[0], text, key=key, headers=wrong)
        problem_of(refused, 415, "unsupported-media-type")
    packed = await post(
        pair[0], gzip.compress(text.encode()), key=key, headers={"Content-Encoding": "gzip"}
    )
    problem_of(packed, 415, "unsupported-media-type")
    assert await keys_stored(engine, key) == 0
    assert_fresh(await post(pair[1], body, key=key))
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C28")
async def test_a_request_that_came_too_soon_has_not_touched_its_key(
    later: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """429 and when to come again; then the same request under the same key is the first one."""
    hasty = bearer(await make_key(owner_engine, Role.SUBMIT, Role.READ, principal=new_key("hasty")))
    async with asyncio.timeout(20):
        while True:  # on a busy machine a token may have come back between the two
            while (await later.get("/v1/queues", headers=hasty)).status_code == 200:
                pass
            body, key = note(), new_key()
            refused = await post(later, body, key=key, headers=hasty)
            if refused.status_code == 429:
                break
    problem_of(refused, 429, "rate-limited")
    assert await count(engine, body) == (0, 0)
    assert await keys_stored(engine, key) == 0
    await asyncio.sleep(int(refused.headers["retry-after"]))
    assert_fresh(await post(later, body, key=key, headers=hasty))
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C43")
@pytest.mark.parametrize("text", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_what_no_database_takes_is_the_clients_error(
    pair: list[httpx.AsyncClient], engine: AsyncEngine, text: str
) -> None:
    """400, never 500; and the key is free."""
    key = new_key()
    problem = problem_of(await post(pair[0], text, key=key), 400, "malformed-json")
    assert problem["errors"][0]["rule"]
    assert await keys_stored(engine, key) == 0


@pytest.mark.case("C43")
async def test_a_number_of_a_hundred_digits_is_exact_or_refused(
    pair: list[httpx.AsyncClient],
) -> None:
    """What passes is one and the same request when it comes again; beyond it is 400."""
    body, key = note(anything="?"), new_key()
    text = json.dumps(body).replace('"?"', "1" * 100)
    first = await post(pair[0], text, key=key)
    assert_fresh(first)
    assert (await post(pair[1], text, key=key)).content == first.content
    other = json.dumps(body).replace('"?"', "1" * 99 + "2")
    problem_of(await post(pair[1], other, key=key), 422, "idempotency-key-reused")
    longer = json.dumps(body).replace('"?"', "1" * 101)
    problem_of(await post(pair[1], longer, key=new_key()), 400, "malformed-json")


@pytest.mark.case("C42")
async def test_every_error_is_a_problem_document(
    world: World, pair: list[httpx.AsyncClient]
) -> None:
    """Type, title, status, detail and instance, in exactly this media type; problem_of() looks."""
    client = pair[0]
    made = await post(client, note(), key=new_key())
    url = made.headers["location"]
    nobody = f"{url[:-12]}{'0' * 12}"
    async with client_to(world.urls[0], token=None) as stranger:
        problem_of(await stranger.get(url), 401, "unauthorized")
    problem_of(await post(client, "{"), 400, "malformed-json")
    problem_of(await post(client, note(), key='"'), 400, "malformed-idempotency-key")
    problem_of(await client.get("/nowhere"), 404, "not-found")
    problem_of(await client.get(nobody), 404, "job-not-found")
    problem_of(await client.get("/v1/jobs/7"), 404, "job-not-found")
    problem_of(await client.post("/v1/queues/nowhere/pause"), 404, "queue-not-found")
    wrong_method = await client.delete(url)
    problem_of(wrong_method, 405, "method-not-allowed")
    assert wrong_method.headers["allow"] == "GET"
    every = await client.delete("/v1/jobs")
    problem_of(every, 405, "method-not-allowed")
    assert every.headers["allow"] == "GET, POST"
    problem_of(await client.post(f"{url}/redrive"), 409, "not-dead")
    problem_of(await post(client, note(note="x" * 310_000)), 413, "too-large")
    problem_of(
        await post(client, "x", headers={"Content-Type": "a/b"}), 415, "unsupported-media-type"
    )
    problem_of(await client.get("/v1/jobs?limit=0"), 422, "invalid-request")
    problem_of(await client.get("/v1/jobs?strange=1"), 422, "invalid-request")
