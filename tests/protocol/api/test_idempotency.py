"""Idempotency-Key from inside: looks and locks, versions of the digest, the reaper.

What a client can see of it, case by case, is in tests/conformance.
"""

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import (
    DIGESTS,
    REAP_BATCH,
    Answer,
    Asked,
    Fresh,
    KeyReused,
    ask,
    delete_expired_keys,
    replay_or_begin,
    store_answer,
)
from api.settings import ApiSettings
from shared.types import JobId
from tests.factories import autocommit, eventually, execute, fetch, scalar
from tests.protocol.api.app import note, post, serving
from tests.protocol.sessions import until_waiting

SOME = {1: b"d" * 32}
COUNT_KEYS = "SELECT count(*) FROM chot.idempotency_keys"


async def test_the_answer_stored_while_we_tried_the_lock_is_seen(engine: AsyncEngine) -> None:
    """⚑ The second look is a statement of its own, begun after the lock was ours."""
    asked = Asked(principal="api", key="k", digests=SOME)
    answer = Answer(status=202, headers={}, body=b"first", job_id=JobId(UUID(int=1)))
    storing, looked = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with engine.begin() as conn:
            assert isinstance(await replay_or_begin(conn, asked), Fresh)
            storing.set()
            await looked.wait()
            await store_answer(conn, asked, answer, hours=72)

    async def second() -> Answer:
        await storing.wait()
        async with engine.begin() as conn:
            found = await FirstLook(conn, looked, task).run(asked)
        assert isinstance(found, Answer)
        return found

    task = asyncio.create_task(first())
    assert (await second()).body == b"first"
    await task


class FirstLook:
    """Lets the first transaction commit between the second's first look and its lock."""

    def __init__(self, conn: Any, looked: asyncio.Event, first: asyncio.Task[None]) -> None:
        self._conn = conn
        self._looked = looked
        self._first = first

    async def run(self, asked: Asked) -> Any:
        """replay_or_begin() on a connection that is us."""
        return await replay_or_begin(self, asked)  # type: ignore[arg-type] # a connection in all it uses

    async def execute(self, *given: Any) -> Any:
        """Look; the first look lets the other transaction go on."""
        return await self._conn.execute(*given)

    async def scalar(self, *given: Any) -> Any:
        """Try the lock, once the other transaction has committed."""
        self._looked.set()
        await self._first
        return await self._conn.scalar(*given)


async def test_a_live_answer_is_never_written_over(engine: AsyncEngine) -> None:
    """Should a lock ever fail, the transaction does too, and the first answer stays."""
    asked = Asked(principal="api", key="k", digests=SOME)
    answer = Answer(status=202, headers={}, body=b"first", job_id=JobId(UUID(int=1)))
    async with engine.begin() as conn:
        await store_answer(conn, asked, answer, hours=72)
    with pytest.raises(AssertionError):
        async with engine.begin() as conn:
            await store_answer(conn, asked, answer, hours=72)
    assert await scalar(engine, "SELECT body FROM chot.idempotency_keys") == b"first"


async def stored(engine: AsyncEngine, asked: Asked, body: bytes) -> None:
    """An answer in today's version."""
    answer = Answer(status=202, headers={}, body=body, job_id=None)
    async with engine.begin() as conn:
        await store_answer(conn, asked, answer, hours=72)


async def found_by(engine: AsyncEngine, asked: Asked) -> Any:
    """What the same request, or another, finds."""
    async with engine.begin() as conn:
        return await replay_or_begin(conn, asked)


async def test_a_record_is_compared_in_the_version_it_was_written_in(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next release writes version 2: what version 1 stored replays to the same request only."""

    def asked(body: dict[str, Any], key: str = "old") -> Asked:
        return ask("api", key, method="POST", route="/v1/jobs", body=body)

    await stored(engine, asked({"n": 1}), b"old")
    newer = {**DIGESTS, 2: lambda *given: DIGESTS[1](*given)[::-1]}
    monkeypatch.setattr("api.idempotency.DIGESTS", newer)
    monkeypatch.setattr("api.idempotency.DIGEST_VERSION", 2)
    assert (await found_by(engine, asked({"n": 1}))).body == b"old"
    assert isinstance(await found_by(engine, asked({"n": 2})), KeyReused)
    await stored(engine, asked({"n": 1}, "new"), b"new")
    rows = await fetch(engine, "SELECT key, digest_version FROM chot.idempotency_keys ORDER BY 2")
    assert [tuple(row) for row in rows] == [("old", 1), ("new", 2)]
    assert (await found_by(engine, asked({"n": 1}, "new"))).body == b"new"
    # An api that does not know the version yet cannot say that it is the same request.
    monkeypatch.setattr("api.idempotency.DIGESTS", DIGESTS)
    assert isinstance(await found_by(engine, asked({"n": 1}, "new")), KeyReused)


MANY_KEYS = """
    INSERT INTO chot.idempotency_keys (principal, key, request_digest, digest_version, status,
                                       headers, body, expires_at)
    SELECT 'api', n::text, decode(repeat('00', 32), 'hex'), 1, 202, '{}', '',
           clock_timestamp() + CASE WHEN n <= 2500 THEN -1 ELSE 1 END * interval '1 hour'
      FROM generate_series(1, 2510) AS n"""


async def test_the_reaper_deletes_expired_keys_only_and_in_batches(engine: AsyncEngine) -> None:
    """A live key stays, whatever its age; no statement takes more than a thousand."""
    await execute(engine, MANY_KEYS)
    async with autocommit(engine).connect() as conn:
        batches = Batches(conn)
        assert await delete_expired_keys(batches, asyncio.Event()) == 2500  # type: ignore[arg-type] # a connection in all it uses
    assert batches.sizes == [REAP_BATCH, REAP_BATCH, 500]
    assert await scalar(engine, COUNT_KEYS) == 10


async def test_the_reaper_stops_between_two_batches(engine: AsyncEngine) -> None:
    """A process that ends does not first delete a million rows."""
    await execute(engine, MANY_KEYS)
    stop = asyncio.Event()
    async with autocommit(engine).connect() as conn:
        assert await delete_expired_keys(Batches(conn, stop), stop) == REAP_BATCH  # type: ignore[arg-type] # a connection in all it uses
    assert await scalar(engine, COUNT_KEYS) == 1510


class Batches:
    """A connection that notes how many rows each statement took, and may ask to stop."""

    def __init__(self, conn: Any, stop: asyncio.Event | None = None) -> None:
        self._conn = conn
        self._stop = stop
        self.sizes: list[int] = []

    async def execute(self, *given: Any) -> Any:
        """As the connection does."""
        done = await self._conn.execute(*given)
        self.sizes.append(done.rowcount)
        if self._stop is not None:
            self._stop.set()
        return done


async def test_a_request_that_is_cancelled_ends_its_transaction(
    client: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """As a server does that stops and waits no longer: the transaction is whole, the retry replays."""
    body = note()
    async with owner_engine.connect() as blocker:
        await blocker.execute(text("LOCK TABLE chot.outbox IN ACCESS EXCLUSIVE MODE"))
        request = asyncio.create_task(post(client, body, key="k"))
        await until_waiting(engine)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await blocker.rollback()
    await eventually(lambda: scalar(engine, COUNT_KEYS))
    again = await post(client, body, key="k")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1


async def test_keys_are_kept_as_long_as_configured(
    settings: ApiSettings, engine: AsyncEngine
) -> None:
    """The published policy is what the row says."""
    longer = settings.model_copy(update={"idempotency_hours": 100})
    async with serving(longer) as client:
        await post(client, note(), key="k")
    kept = "SELECT expires_at - created_at > interval '99 hours' FROM chot.idempotency_keys"
    assert await scalar(engine, kept)
