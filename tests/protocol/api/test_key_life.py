"""The life of a key: until when it is believed, how often it is asked for, and where it stands."""

import asyncio
import json
from time import monotonic

import httpx
import pytest
import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from api.authentication import CACHE_SECONDS, Caller, StoredKeys
from shared.access import Role
from shared.api_keys import key_hash_of, key_id_of, new_key, revoke_key
from tests.factories import eventually, execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of
from tests.protocol.api.keys import bearer, make_key


async def revoked(owner_engine: AsyncEngine, key: str) -> None:
    """End the key, as `chot keys revoke` does."""
    async with owner_engine.begin() as conn:
        assert await revoke_key(conn, str(key_id_of(key))) is not None


async def test_a_revoked_or_expired_key_stops_within_seconds(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A good key is believed for CACHE_SECONDS without a question, and no longer."""
    lost, late = [await make_key(owner_engine, Role.READ, days=1) for _ in range(2)]
    for key in (lost, late):
        assert (await guarded.get("/v1/jobs", headers=bearer(key))).status_code == 200
    await revoked(owner_engine, lost)
    await execute(
        owner_engine,
        "UPDATE chot.api_keys SET expires_at = clock_timestamp() WHERE key_id = :id",
        id=key_id_of(late),
    )

    async def stopped() -> bool:
        answers = [await guarded.get("/v1/jobs", headers=bearer(key)) for key in (lost, late)]
        return {answer.status_code for answer in answers} == {401}

    await eventually(stopped, seconds=CACHE_SECONDS + 5)


async def test_an_expiry_ends_the_cache_too(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """What the cache holds is never good for longer than the key."""
    key = await make_key(owner_engine, Role.READ, days=1)
    await execute(
        owner_engine,
        "UPDATE chot.api_keys SET expires_at = clock_timestamp() + interval '1500 milliseconds'",
    )
    began = monotonic()
    assert (await guarded.get("/v1/jobs", headers=bearer(key))).status_code == 200

    async def stopped() -> bool:
        return (await guarded.get("/v1/jobs", headers=bearer(key))).status_code == 401

    await eventually(stopped)
    assert monotonic() - began < CACHE_SECONDS


async def test_a_burst_of_requests_asks_for_its_key_once(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No query a request: one look-up serves all that wait for it, and the seconds after it."""
    asked: list[str] = []
    look_up = StoredKeys._look_up

    async def counted(self: StoredKeys, key_id: str, shown: bytes) -> Caller | None:
        asked.append(key_id)
        return await look_up(self, key_id, shown)

    monkeypatch.setattr(StoredKeys, "_look_up", counted)
    key = await make_key(owner_engine, Role.READ)
    got = await asyncio.gather(*(guarded.get("/v1/jobs", headers=bearer(key)) for _ in range(50)))
    assert {answer.status_code for answer in got} == {200}
    assert len(asked) <= 2  # two, should the burst take longer than the cache lasts
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    problem_of(await guarded.get("/v1/jobs", headers=bearer(wrong)), 401, "unauthorized")
    assert asked[-1] == key_id_of(key), "a wrong secret is never believed from memory"


async def test_last_used_is_written_once_a_minute(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """By the first use; a use in the same minute leaves it; a wrong secret is no use at all."""
    key = await make_key(owner_engine, Role.READ)
    wrong = f"{key[:18]}{new_key()[18:]}"
    problem_of(await guarded.get("/v1/jobs", headers=bearer(wrong)), 401, "unauthorized")
    read = "SELECT last_used_at FROM chot.api_keys"
    assert await scalar(owner_engine, read) is None
    await guarded.get("/v1/jobs", headers=bearer(key))
    first = await scalar(owner_engine, read)
    assert first is not None
    touch = "SELECT chot.touch_api_key(:id)"
    await execute(engine, touch, id=key_id_of(key))
    assert await scalar(owner_engine, read) == first
    await execute(
        owner_engine, "UPDATE chot.api_keys SET last_used_at = last_used_at - interval '61 seconds'"
    )
    await execute(engine, touch, id=key_id_of(key))
    assert await scalar(owner_engine, read) > first


@pytest.mark.scenario("F55")
async def test_a_key_stands_in_no_log_and_no_table(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Logs name account and public id; the table has the hash; role app cannot read it."""
    key = await make_key(owner_engine, Role.SUBMIT, principal="shop-1")
    secret = key.split("_", 2)[2]  # which may hold an underscore itself
    with structlog.testing.capture_logs() as lines:
        made = await post(guarded, note(), headers=bearer(key))
        problem_of(await guarded.get("/v1/jobs", headers=bearer(key)), 403, "forbidden")
        problem_of(await guarded.get("/v1/jobs", headers=bearer(key + "x")), 401, "unauthorized")
    told = [line for line in lines if line["event"] == "http.request"]
    assert [line.get("principal") for line in told] == ["shop-1", "shop-1", None]
    assert [line.get("key") for line in told] == [key_id_of(key), key_id_of(key), None]
    assert secret not in json.dumps(lines, default=str) + made.text
    (row,) = await fetch(owner_engine, "SELECT k::text AS said, key_hash FROM chot.api_keys k")
    assert secret not in row.said
    assert bytes(row.key_hash) == key_hash_of(key)
    assert await scalar(engine, "SELECT has_table_privilege('chot.api_keys', 'SELECT')") is False
    for what in ("SELECT", "INSERT", "UPDATE"):
        may = "SELECT has_any_column_privilege('chot.api_keys', :what)"
        assert await scalar(engine, may, what=what) is False
    may = "SELECT has_column_privilege('chot_read', 'chot.api_keys', 'key_hash', 'SELECT')"
    assert await scalar(engine, may) is False
