"""A key belongs to an account, and what the account may do is asked before it is looked up. C15 to C17, C41."""

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.authentication import CACHE_SECONDS
from shared.access import Role
from shared.api_keys import key_id_of, revoke_key
from tests.conformance.calls import (
    REPLAYED,
    assert_fresh,
    assert_replays,
    count,
    keys_stored,
    new_key,
)
from tests.factories import eventually, fetch
from tests.protocol.api.app import note, post, problem_of
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, bearer, make_key


@pytest.mark.scenario("F40")
@pytest.mark.case("C15")
async def test_the_same_key_of_another_account_is_another_key(
    pair: list[httpx.AsyncClient], engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Same key, same body: each company has its job, and of one work each account its own answer."""
    key, body = new_key(), note()
    theirs = body | {"company": "OTHER"}
    one, two, three = [
        await make_key(owner_engine, Role.SUBMIT, scope=scope, principal=name)
        for scope, name in ((ACME, "shop-1"), (OTHER, "shop-2"), (ACME, "shop-3"))
    ]
    first = await post(pair[0], body, key=key, headers=bearer(one))
    foreign = await post(pair[1], theirs, key=key, headers=bearer(two))
    assert assert_fresh(first) != assert_fresh(foreign)
    same = await post(pair[1], body, key=key, headers=bearer(three))
    assert (same.status_code, same.json()["duplicate"]) == (200, "joined")
    assert REPLAYED not in same.headers
    for caller, asked, answer in ((one, body, first), (two, theirs, foreign), (three, body, same)):
        assert_replays(await post(pair[0], asked, key=key, headers=bearer(caller)), answer)
    assert await count(engine, body) == await count(engine, theirs) == (1, 1)
    rows = await fetch(
        engine,
        "SELECT principal FROM chot.idempotency_keys WHERE key = :key ORDER BY 1",
        key=key,
    )
    assert [row.principal for row in rows] == ["shop-1", "shop-2", "shop-3"]


@pytest.mark.scenario("F40")
@pytest.mark.case("C16", "C17")
async def test_an_account_that_lost_its_right_gets_no_replay(
    pair: list[httpx.AsyncClient], engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """No role: 403. Another brand's: as if it were not there. Revoked: 401. Its next key replays."""
    name, key, body = new_key("shop"), new_key(), note()
    whole = await make_key(owner_engine, Role.SUBMIT, scope=ACME, principal=name)
    first = await post(pair[0], body, key=key, headers=bearer(whole))
    assert_fresh(first)
    reader = await make_key(owner_engine, Role.READ, scope=ACME, principal=name)
    problem_of(await post(pair[0], body, key=key, headers=bearer(reader)), 403, "forbidden")
    blue = await make_key(owner_engine, Role.SUBMIT, scope=BLUE, principal=name)
    problem_of(await post(pair[0], body, key=key, headers=bearer(blue)), 422, "unknown-brand")
    async with owner_engine.begin() as conn:
        assert await revoke_key(conn, str(key_id_of(whole))) is not None
    # The other process has never seen this key; the first one believes it for five seconds more.
    problem_of(await post(pair[1], body, key=key, headers=bearer(whole)), 401, "unauthorized")

    async def refused() -> bool:
        return (await post(pair[0], body, key=key, headers=bearer(whole))).status_code == 401

    await eventually(refused, seconds=CACHE_SECONDS + 2, every=0.25)
    renewed = await make_key(owner_engine, Role.SUBMIT, scope=RED, principal=name)
    assert_replays(await post(pair[1], body, key=key, headers=bearer(renewed)), first)
    assert await count(engine, body) == (1, 1)
    assert await keys_stored(engine, key) == 1


@pytest.mark.case("C41")
async def test_a_status_says_when_to_ask_again_and_only_to_whom_it_concerns(
    pair: list[httpx.AsyncClient], owner_engine: AsyncEngine
) -> None:
    """200 with Retry-After while active, without after the end, 404 for everybody else."""
    made = await post(pair[0], note(), key=new_key())
    url = made.headers["location"]
    active = await pair[1].get(url)
    assert (active.status_code, active.json()["state"]) == (200, "pending")
    assert int(active.headers["retry-after"]) >= 1
    foreign = await make_key(owner_engine, Role.READ, Role.OPERATE, scope=OTHER, principal="other")
    problem_of(await pair[1].get(url, headers=bearer(foreign)), 404, "job-not-found")
    refused = await pair[1].post(made.json()["links"]["cancel"], headers=bearer(foreign))
    problem_of(refused, 404, "job-not-found")
    assert (await pair[0].post(made.json()["links"]["cancel"])).status_code == 200
    ended = await pair[1].get(url)
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
    assert "retry-after" not in ended.headers
    problem_of(await pair[1].get(url, headers=bearer(foreign)), 404, "job-not-found")
