"""The header: whether it must be there, what a key is, when two are one. C01 to C12."""

import json

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.conformance.calls import (
    REPLAYED,
    assert_fresh,
    assert_replays,
    count,
    keys_stored,
    new_key,
)
from tests.conformance.raw import post_raw
from tests.conformance.world import World
from tests.protocol.api.app import note, post, problem_of

NO_KEYS = [
    b'""',
    b"",
    b"a,b",
    b'"a", "b"',
    b'"a',
    b'"a\\x"',
    b'"a\\"',
    b"a b",
    b"k\xc3\xa9",
    b"k\xe9",
    b'"k\xe9"',
    b'"a"b',
    b"a;b=1",
    b"x" * 256,
    b'"' + b"x" * 256 + b'"',
]


@pytest.mark.case("C01")
async def test_where_a_key_is_required_a_submit_without_one_is_refused(
    later: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Nothing is written, and the description says so, with the number of hours in force."""
    body = note()
    problem = problem_of(await post(later, body), 400, "missing-idempotency-key")
    assert "Idempotency-Key" in problem["detail"]
    assert await count(engine, body) == (0, 0)
    assert_fresh(await post(later, body, key=new_key()))
    described = (await later.get("/openapi.json")).json()
    (header,) = described["paths"]["/v1/jobs"]["post"]["parameters"]
    assert (header["name"], header["required"]) == ("Idempotency-Key", True)
    assert "100 hours" in header["description"]


async def test_where_none_is_required_the_description_says_that(
    pair: list[httpx.AsyncClient],
) -> None:
    """And the retention of this deployment, which is the default's."""
    described = (await pair[0].get("/openapi.json")).json()
    (header,) = described["paths"]["/v1/jobs"]["post"]["parameters"]
    assert header["required"] is False
    assert "72 hours" in header["description"]


@pytest.mark.scenario("F40")
@pytest.mark.case("C02", "C06", "C07", "C08")
async def test_what_is_no_key_is_refused(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Empty, a list, not ASCII, badly quoted, a character too long: 400, never cut or guessed."""
    body = note()
    for wrong in NO_KEYS:
        headers = [(b"Content-Type", b"application/json"), (b"Idempotency-Key", wrong)]
        answer = await pair[0].post("/v1/jobs", content=json.dumps(body), headers=headers)
        problem_of(answer, 400, "malformed-idempotency-key")
    two = [("Content-Type", "application/json"), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    answer = await pair[0].post("/v1/jobs", content=json.dumps(body), headers=two)
    problem_of(answer, 400, "malformed-idempotency-key")
    assert await count(engine, body) == (0, 0)


@pytest.mark.case("C07")
@pytest.mark.parametrize("character", [b"\x01", b"\x00", b"\x7f", b"\x1b"])
async def test_a_control_character_in_a_key_is_refused(
    world: World, engine: AsyncEngine, character: bytes
) -> None:
    """By the server itself where it is no HTTP at all, else by us; 400 either way."""
    body = note()
    status, _ = await post_raw(world.urls[0], body, b"Idempotency-Key: k" + character + b"x")
    assert status == 400
    assert await count(engine, body) == (0, 0)


@pytest.mark.case("C03", "C04", "C05", "C09")
async def test_a_repeated_request_gets_the_same_bytes_and_no_second_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Quoted, bare and with parameters it is one key, whichever process is asked."""
    body, key = note(note="Chốt sổ tháng 1"), new_key()
    first = await post(pair[0], body, key=f'"{key}"')
    job_id = assert_fresh(first)
    assert first.headers["location"] == first.json()["status_url"] == f"/v1/jobs/{job_id}"
    assert int(first.headers["retry-after"]) >= 1
    assert await count(engine, body) == (1, 1)
    for same in (f'"{key}"', key, f'"{key}";a=1', f'"{key}" ; b="x"'):
        for client in pair:
            assert_replays(await post(client, body, key=same), first)
    assert await count(engine, body) == (1, 1)
    assert await keys_stored(engine, key) == 1


@pytest.mark.case("C08")
async def test_keys_that_differ_in_their_last_character_are_two(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """255 characters are all compared, also where each is written as two bytes."""
    long = new_key().ljust(254, "x")
    bodies = [note(), note()]
    for last, body in zip("ab", bodies, strict=True):
        assert_fresh(await post(pair[0], body, key=long + last))
        assert await count(engine, body) == (1, 1)
    escaped = new_key().ljust(255, "\\").replace("\\", r"\\")
    assert_fresh(await post(pair[0], note(), key=f'"{escaped}"'))


@pytest.mark.scenario("F40")
@pytest.mark.case("C10", "C11", "C12")
async def test_form_does_not_matter_but_every_value_does(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Order and white space are no difference; 1.0, composed letters, null and any value are."""
    body, key = note(note="\u00e9", anything=1), new_key()
    first = await post(pair[0], body, key=key)
    assert_fresh(first)
    turned = json.dumps(dict(reversed(body.items())), indent=3, ensure_ascii=False)
    assert_replays(await post(pair[1], turned, key=key), first)
    payload = body["payload"]
    for other in (
        payload | {"anything": 1.0},
        payload | {"note": "e\u0301"},
        payload | {"day": None},
        payload | {"number": payload["number"] + 10_000},
    ):
        answer = await post(pair[1], body | {"payload": other}, key=key)
        problem_of(answer, 422, "idempotency-key-reused")
        assert REPLAYED not in answer.headers
    assert_replays(await post(pair[1], body, key=key), first)
    assert await count(engine, body) == (1, 1)
    assert await count(engine, body | {"payload": {"number": payload["number"] + 10_000}}) == (0, 0)
