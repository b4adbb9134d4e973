"""Two processes, one key: at once, one after the other, while the first still works. C18 to C21, C30 to C32, C36."""

import asyncio
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import Asked, delete_expired_keys
from shared.jobs.cancel import cancel_job
from shared.types import JobId
from tests.conformance.calls import (
    EXPIRE,
    REPLAYED,
    assert_fresh,
    assert_replays,
    count,
    keys_stored,
    new_key,
    repeated,
    settled,
)
from tests.conformance.world import (
    HOLD_JOBS,
    holding,
    plant,
    pull_out,
    until_blocked,
    until_held,
)
from tests.factories import execute, scalar
from tests.protocol.api.app import note, post, problem_of

CALLERS = 50


async def ended(engine: AsyncEngine, answer: httpx.Response) -> None:
    """The job of that answer is active no more."""
    async with engine.begin() as conn:
        assert await cancel_job(conn, JobId(UUID(answer.json()["id"])))


@pytest.mark.scenario("F39")
@pytest.mark.case("C18")
async def test_fifty_identical_requests_each_repeated_as_told_make_one_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Each caller ends with a 2xx of the same bytes; on the way there were only 202 and 409."""
    body, key, seen = note(), new_key(), list[int]()
    got = await asyncio.gather(
        *(repeated(pair[n % 2], body, key, seen=seen) for n in range(CALLERS))
    )
    assert set(seen) <= {202, 409}, seen
    assert [answer.status_code for answer in got] == [202] * CALLERS
    assert len({answer.content for answer in got}) == 1
    assert sum(REPLAYED not in answer.headers for answer in got) == 1
    assert await count(engine, body) == (1, 1)
    assert await keys_stored(engine, key) == 1


@pytest.mark.case("C18", "C20")
async def test_fifty_at_once_while_the_first_is_held_get_its_answer_in_the_end(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The same, with the first request provably in its transaction when the others come."""
    body, key, seen = note(), new_key("held"), list[int]()
    async with holding(engine):
        first = asyncio.create_task(post(pair[0], body, key=key))
        await until_held(engine)
        callers = [
            asyncio.create_task(repeated(pair[n % 2], body, key, seen=seen))
            for n in range(1, CALLERS)
        ]
        async with asyncio.timeout(10):
            while len(seen) < len(callers):  # noqa: ASYNC110 - every one has been answered once
                await asyncio.sleep(0.01)
        assert set(seen) == {409}
        assert not first.done()
    answers = await asyncio.gather(*callers)
    assert_fresh(await first)
    for answer in answers:
        assert_replays(answer, await first)
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C19")
async def test_one_key_with_two_bodies_makes_one_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """One is accepted; the other is 422, at once or after its 409. Ten times."""

    async def once() -> None:
        bodies, key = [note(), note()], new_key()
        got = await asyncio.gather(
            *(repeated(client, body, key) for client, body in zip(pair, bodies, strict=True))
        )
        won = [answer.status_code for answer in got].index(202)
        problem_of(got[1 - won], 422, "idempotency-key-reused")
        assert await count(engine, bodies[won]) == (1, 1)
        assert await count(engine, bodies[1 - won]) == (0, 0)
        assert_replays(await post(pair[1 - won], bodies[won], key=key), got[won])

    await asyncio.gather(*(once() for _ in range(10)))


@pytest.mark.scenario("F39")
@pytest.mark.case("C20")
async def test_a_twin_in_progress_is_answered_at_once_and_later_replays(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """409 from either process while the first has not ended; another body is told the same."""
    body, key = note(), new_key("held")
    async with holding(engine):
        first = asyncio.create_task(post(pair[0], body, key=key))
        await until_held(engine)
        for client in pair:
            for asked in (body, note()):
                refused = await post(client, asked, key=key)
                problem_of(refused, 409, "idempotency-key-in-progress")
                assert refused.headers["retry-after"] == "1"
        assert not first.done(), "the twins have waited for it"
    assert_fresh(await first)
    for client in pair:
        assert_replays(await post(client, body, key=key), await first)
    assert await count(engine, body) == (1, 1)


@pytest.mark.scenario("F39")
@pytest.mark.case("C21")
@pytest.mark.parametrize(
    ("failure", "slug"), [("40P01", "busy"), ("terminated", "database-unavailable")]
)
async def test_when_the_first_rolls_back_the_second_executes_as_the_first(
    pair: list[httpx.AsyncClient], engine: AsyncEngine, failure: str, slug: str
) -> None:
    """By a deadlock, or because its server process was ended: nothing of it is left."""
    body, key = note(), new_key("held")
    if failure == "40P01":
        await plant(engine, key, failure)
    async with holding(engine):
        first = asyncio.create_task(post(pair[0], body, key=key))
        server_process = await until_held(engine)
        problem_of(await post(pair[1], body, key=key), 409, "idempotency-key-in-progress")
        if failure == "terminated":
            await scalar(engine, "SELECT pg_terminate_backend(:pid)", pid=server_process)
    refused = await first
    problem_of(refused, 503, slug)
    assert int(refused.headers["retry-after"]) >= 1
    assert await count(engine, body) == (0, 0)
    await pull_out(engine, key)
    assert_fresh(await settled(pair[1], body, key))
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C30")
async def test_an_expired_key_is_taken_over_by_one_request(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """No reaper needed: two at once, to two processes, and the record is the new one's."""
    body, key = note(), new_key()
    first = await post(pair[0], body, key=key)
    await ended(engine, first)
    await execute(engine, EXPIRE, key=key)
    got = await asyncio.gather(*(repeated(pair[n % 2], body, key) for n in range(8)))
    assert {answer.status_code for answer in got} == {202}
    assert len({answer.content for answer in got}) == 1
    assert sum(REPLAYED not in answer.headers for answer in got) == 1
    assert got[0].json()["id"] != first.json()["id"]
    assert (await count(engine, body))[0] == 2
    assert await keys_stored(engine, key) == 1


@pytest.mark.case("C31")
async def test_an_expired_key_may_carry_another_body(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """A new job, not 422; and from then on it is the new body's key."""
    old, new, key = note(), note(), new_key()
    assert_fresh(await post(pair[0], old, key=key))
    await execute(engine, EXPIRE, key=key)
    answer = await post(pair[1], new, key=key)
    assert_fresh(answer)
    assert_replays(await post(pair[0], new, key=key), answer)
    problem_of(await post(pair[0], old, key=key), 422, "idempotency-key-reused")
    assert (await count(engine, old), await count(engine, new)) == ((1, 1), (1, 1))


@pytest.mark.scenario("F41")
@pytest.mark.case("C32")
async def test_a_row_that_the_reaper_deletes_under_a_request_is_written_anew(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The request has met the expired row and waits for the reaper; then there is none: no 500."""
    old, new, key = note(), note(), new_key()
    assert_fresh(await post(pair[0], old, key=key))
    await execute(engine, EXPIRE, key=key)
    async with engine.connect() as reaper:
        assert await delete_expired_keys(reaper, asyncio.Event()) >= 1
        request = asyncio.create_task(post(pair[1], new, key=key))
        await until_blocked(engine)
        await reaper.commit()
    assert_fresh(await request)
    assert_replays(await post(pair[0], new, key=key), await request)
    assert await keys_stored(engine, key) == 1


@pytest.mark.case("C36")
async def test_a_submit_whose_twin_ends_between_two_looks_makes_a_new_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The INSERT has met an active twin, the look that follows finds none: it starts again."""
    body, keys = note(), [new_key(), new_key()]
    first = await post(pair[0], body, key=keys[0])
    async with holding(engine, HOLD_JOBS):
        second = asyncio.create_task(post(pair[1], body, key=keys[1]))
        await until_held(engine)
        await ended(engine, first)
    assert assert_fresh(await second) != first.json()["id"]
    assert_replays(await post(pair[0], body, key=keys[1]), await second)
    assert_replays(await post(pair[1], body, key=keys[0]), first)
    assert (await count(engine, body))[0] == 2


@pytest.mark.case("C36")
async def test_submits_that_race_with_the_end_of_their_twin_are_never_lost(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The job is cancelled while six more ask for the same work: the old job or one new, no 5xx."""
    for _ in range(10):
        body = note()
        first = await post(pair[0], body, key=new_key())
        cancel = pair[1].post(first.json()["links"]["cancel"])
        asked = (post(pair[n % 2], body, key=new_key()) for n in range(6))
        stopped, *got = await asyncio.gather(cancel, *asked)
        assert stopped.status_code == 200
        assert {answer.status_code for answer in got} <= {200, 202}
        fresh = {answer.json()["id"] for answer in got} - {first.json()["id"]}
        assert len(fresh) == sum(answer.json()["created"] for answer in got) <= 1
        assert (await count(engine, body))[0] == 1 + len(fresh)


async def test_the_same_work_under_fifty_keys_makes_one_job(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The active fingerprint decides across processes; a duplicate is no error."""
    body = note()
    got = await asyncio.gather(*(post(pair[n % 2], body, key=new_key()) for n in range(CALLERS)))
    assert sorted({answer.status_code for answer in got}) == [200, 202]
    assert len({answer.json()["id"] for answer in got}) == 1
    assert sum(answer.json()["created"] for answer in got) == 1
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C20")
async def test_a_finished_key_replays_whoever_holds_its_lock(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """The lock is for requests that have no answer yet; an old transaction delays no replay."""
    body, key = note(), new_key()
    first = await post(pair[0], body, key=key)
    async with engine.connect() as other:
        await other.execute(
            text("SELECT pg_advisory_xact_lock(:lock)"),
            {"lock": Asked(principal="api", key=key, digests={}).lock},
        )
        assert_replays(await post(pair[1], body, key=key), first)
        await other.rollback()
