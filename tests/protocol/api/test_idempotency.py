"""Idempotency-Key: the conformance list (C01 to C43) as far as one process can show it."""

import asyncio
import json
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import (
    Answer,
    Asked,
    Fresh,
    ask,
    delete_expired_keys,
    replay_or_begin,
    store_answer,
)
from api.settings import ApiSettings
from shared.jobs.cancel import cancel_job
from shared.types import JobId
from tests.factories import autocommit, eventually, execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving

DIGESTS = {1: b"d" * 32}
COUNT_JOBS = "SELECT count(*) FROM chot.jobs"
COUNT_KEYS = "SELECT count(*) FROM chot.idempotency_keys"
EXPIRE_KEYS = "UPDATE chot.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'"


def assert_replays(again: httpx.Response, first: httpx.Response) -> None:
    """The same status, bytes and place, marked as a replay."""
    assert again.status_code == first.status_code
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_repeated_request_gets_the_same_bytes_and_no_second_job(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C03, C04, C05, C09: quoted, bare and with parameters it is one key."""
    body = note(note="Chốt sổ tháng 1")
    first = await post(client, body, key='"k-1"')
    assert first.status_code == 202
    assert "idempotency-replayed" not in first.headers
    for same in ('"k-1"', "k-1", '"k-1";a=1'):
        assert_replays(await post(client, body, key=same), first)
    assert await scalar(engine, COUNT_JOBS) == 1
    assert await scalar(engine, "SELECT count(*) FROM chot.job_payloads") == 1


@pytest.mark.scenario("F40")
async def test_a_key_that_is_no_key_is_refused_before_the_database(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C02, C06, C07, C08."""
    for wrong in ('""', "", "a,b", '"a", "b"', '"a', '"a\\x"', "a b", "ké", "x" * 256, '"a"b'):
        raw = [
            (b"Content-Type", b"application/json"),
            (b"Idempotency-Key", wrong.encode("latin-1")),
        ]
        answer = await client.post("/v1/jobs", content=json.dumps(note()), headers=raw)
        problem_of(answer, 400, "malformed-idempotency-key")
    two = [("Content-Type", "application/json"), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    answer = await client.post("/v1/jobs", content=json.dumps(note()), headers=two)
    problem_of(answer, 400, "malformed-idempotency-key")
    assert await scalar(engine, COUNT_JOBS) == 0


async def test_keys_that_differ_in_their_last_character_are_two(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C08: 255 characters are all compared."""
    for last in "ab":
        answer = await post(client, note(), key="x" * 254 + last)
        assert answer.status_code == 202
    assert await scalar(engine, COUNT_JOBS) == 2


@pytest.mark.scenario("F40")
async def test_form_does_not_matter_but_every_value_does(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C10, C11, C12: order and white space are no difference; 1.0, é and null are."""
    body = note(note="\u00e9", anything=1)
    first = await post(client, body, key="k")
    turned = json.dumps(dict(reversed(body.items())), indent=3)
    assert_replays(await post(client, turned, key="k"), first)
    payload = body["payload"]
    for other in (
        payload | {"anything": 1.0},
        payload | {"note": "e\u0301"},
        payload | {"day": None},
        payload | {"number": payload["number"] + 1},
    ):
        answer = await post(client, body | {"payload": other}, key="k")
        problem_of(answer, 422, "idempotency-key-reused")
    assert_replays(await post(client, body, key="k"), first)
    assert await scalar(engine, COUNT_JOBS) == 1


async def test_another_principal_with_the_same_key_sees_nothing(engine: AsyncEngine) -> None:
    """C15: the key belongs to the account."""
    mine = Asked(principal="mine", key="k", digests=DIGESTS)
    answer = Answer(status=202, headers={}, body=b"secret", job_id=JobId(UUID(int=1)))
    async with engine.begin() as conn:
        await store_answer(conn, mine, answer, hours=72)
    theirs = Asked(principal="theirs", key="k", digests=DIGESTS)
    async with engine.begin() as conn:
        assert isinstance(await replay_or_begin(conn, theirs), Fresh)
        found = await replay_or_begin(conn, mine)
    assert isinstance(found, Answer)
    assert (found.body, found.replayed) == (b"secret", True)


def key_lock(key: str) -> int:
    """The advisory lock that a request of the one account takes for this key."""
    return Asked(principal="api", key=key, digests={}).lock


@pytest.mark.scenario("F39")
async def test_a_twin_in_progress_is_answered_at_once_and_later_replays(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C20, C21: 409 while the first has not ended; what comes after depends on how it ended."""
    body = note()
    lock = text("SELECT pg_advisory_xact_lock(:lock)")
    async with engine.connect() as first:
        await first.execute(lock, {"lock": key_lock("k")})
        refused = await post(client, body, key="k")
        problem_of(refused, 409, "idempotency-key-in-progress")
        assert refused.headers["retry-after"] == "1"
        await first.rollback()
    fresh = await post(client, body, key="k")
    assert fresh.status_code == 202
    async with engine.connect() as other:  # a finished key replays whoever holds the lock
        await other.execute(lock, {"lock": key_lock("k")})
        assert_replays(await post(client, body, key="k"), fresh)
        await other.rollback()


async def test_the_answer_stored_while_we_tried_the_lock_is_seen(engine: AsyncEngine) -> None:
    """⚑ The second look is a statement of its own, begun after the lock was ours."""
    asked = Asked(principal="api", key="k", digests=DIGESTS)
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
    asked = Asked(principal="api", key="k", digests=DIGESTS)
    answer = Answer(status=202, headers={}, body=b"first", job_id=JobId(UUID(int=1)))
    async with engine.begin() as conn:
        await store_answer(conn, asked, answer, hours=72)
    with pytest.raises(AssertionError):
        async with engine.begin() as conn:
            await store_answer(conn, asked, answer, hours=72)
    assert await scalar(engine, "SELECT body FROM chot.idempotency_keys") == b"first"


async def test_what_was_refused_does_not_use_the_key_up(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C29: a corrected request may come under the same key."""
    bad = note() | {"priority": 10}
    problem_of(await post(client, bad, key="k"), 422, "invalid-request")
    problem_of(await post(client, note() | {"brand": "GREEN"}, key="k"), 422, "unknown-brand")
    assert await scalar(engine, COUNT_KEYS) == 0
    assert (await post(client, note(), key="k")).status_code == 202


async def test_a_stored_answer_outlives_the_rule_that_allowed_it(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C37: an honest retry after a deploy that tightened a rule is replayed, not refused."""
    body = note()
    first = await post(client, body, key="k")
    await execute(engine, "DELETE FROM chot.idempotency_keys")
    # The same request as it would have been stored when `strange` was still allowed.
    strange = body | {"payload": body["payload"] | {"strange": 1}}
    problem_of(await post(client, strange, key="k"), 422, "invalid-request")
    asked = ask("api", "k", method="POST", route="/v1/jobs", body=strange)
    stored = Answer(
        status=202,
        headers={"Location": first.headers["location"]},
        body=first.content,
        job_id=JobId(UUID(first.json()["id"])),
    )
    async with engine.begin() as conn:
        await store_answer(conn, asked, stored, hours=72)
    assert_replays(await post(client, strange, key="k"), first)


async def test_a_duplicate_is_stored_and_replayed_like_a_new_job(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C33, C34, C35: each key keeps its answer, the work starts again under a new one only."""
    body = note()
    first = await post(client, body, key="k1")
    joined = await post(client, body, key="k2")
    assert (joined.status_code, joined.json()["created"]) == (200, False)
    assert joined.json()["id"] == first.json()["id"]
    async with engine.begin() as conn:
        assert await cancel_job(conn, JobId(UUID(first.json()["id"])))
    assert_replays(await post(client, body, key="k2"), joined)
    assert_replays(await post(client, body, key="k1"), first)
    new = await post(client, body, key="k3")
    assert (new.status_code, new.json()["created"]) == (202, True)
    assert new.json()["id"] != first.json()["id"]


async def test_an_expired_key_is_taken_over_by_one_request(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """C30, C31: same or other body, no reaper needed, and the record is the new one."""
    first = await post(client, note(), key="k")
    await execute(engine, EXPIRE_KEYS)
    body = note()
    answers = await asyncio.gather(*(post(client, body, key="k") for _ in range(8)))
    made = [each for each in answers if each.status_code == 202]
    assert made
    assert {each.status_code for each in answers} <= {202, 409}
    assert len({each.content for each in made}) == 1
    assert made[0].json()["id"] != first.json()["id"]
    assert await scalar(engine, COUNT_KEYS) == 1
    assert await scalar(engine, COUNT_JOBS) == 2


async def test_the_reaper_deletes_expired_keys_only(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A live key stays, whatever its age."""
    await post(client, note(), key="old")
    await execute(engine, EXPIRE_KEYS)
    await post(client, note(), key="live")
    async with autocommit(engine).connect() as conn:
        assert await delete_expired_keys(conn, asyncio.Event()) == 1
    rows = await fetch(engine, "SELECT key FROM chot.idempotency_keys")
    assert [row.key for row in rows] == ["live"]


@pytest.mark.scenario("F41")
async def test_a_takeover_that_waits_for_the_reaper_inserts(engine: AsyncEngine) -> None:
    """C32: the row disappears under the conflict; the answer is stored all the same."""
    asked = Asked(principal="api", key="k", digests=DIGESTS)
    answer = Answer(status=202, headers={}, body=b"old", job_id=JobId(UUID(int=1)))
    async with engine.begin() as conn:
        await store_answer(conn, asked, answer, hours=72)
    await execute(engine, EXPIRE_KEYS)
    async with engine.connect() as reaper, engine.connect() as taker:
        assert await delete_expired_keys(reaper, asyncio.Event()) == 1
        assert isinstance(await replay_or_begin(taker, asked), Fresh)
        new = Answer(status=202, headers={}, body=b"new", job_id=JobId(UUID(int=2)))
        storing = asyncio.create_task(store_answer(taker, asked, new, hours=72))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        await eventually(lambda: scalar(engine, waiting))
        await reaper.commit()
        await storing
        await taker.commit()
    assert await scalar(engine, "SELECT body FROM chot.idempotency_keys") == b"new"


@pytest.mark.scenario("F41")
async def test_a_client_that_goes_away_leaves_a_whole_transaction(
    client: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """C25: the request is cancelled in the middle of its transaction; the retry replays."""
    body = note()
    async with owner_engine.connect() as blocker:
        await blocker.execute(text("LOCK TABLE chot.outbox IN ACCESS EXCLUSIVE MODE"))
        request = asyncio.create_task(post(client, body, key="k"))
        waiting = """SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%chot.enqueue%'"""
        await eventually(lambda: scalar(engine, waiting))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await blocker.rollback()
    await eventually(lambda: scalar(engine, COUNT_KEYS))
    again = await post(client, body, key="k")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert await scalar(engine, COUNT_JOBS) == 1


@pytest.mark.scenario("F40")
async def test_other_methods_and_routes_ignore_the_header(client: httpx.AsyncClient) -> None:
    """C40: a GET is repeatable by itself, a cancel is conditional."""
    made = await post(client, note(), key="k")
    headers = {"Idempotency-Key": "k"}
    assert (await client.get(made.json()["status_url"], headers=headers)).status_code == 200
    cancelled = await client.post(made.json()["links"]["cancel"], headers=headers)
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")


async def test_keys_are_kept_as_long_as_configured(
    settings: ApiSettings, engine: AsyncEngine
) -> None:
    """The published policy is what the row says."""
    longer = settings.model_copy(update={"idempotency_hours": 100})
    async with serving(longer) as client:
        await post(client, note(), key="k")
    kept = "SELECT expires_at - created_at > interval '99 hours' FROM chot.idempotency_keys"
    assert await scalar(engine, kept)
