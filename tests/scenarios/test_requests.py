"""F39, F40, F41: one key, many requests; one key, several callers; a crash in the middle of one."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role, Scope
from tests.factories import NUMBERS, eventually, execute, fetch, scalar
from tests.fleet import Fleet
from tests.protocol.api.keys import ACME, OTHER, SEED_OTHER, bearer, make_key
from tests.services import Database

RETRY_SECONDS = 10.0
SLOW_INSERT_SECONDS = 2.0
SLOW_COMMIT_SECONDS = 0.5
# A slow statement, and a slow COMMIT: a constraint trigger that is deferred runs inside it.
SLOW = """
    CREATE FUNCTION probe.slow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$;
    {trigger} EXECUTE FUNCTION probe.slow()"""
ON_INSERT = "CREATE TRIGGER slow BEFORE INSERT ON chot.jobs FOR EACH ROW"
ON_COMMIT = """CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON chot.idempotency_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"""


def submit(company: str = "ACME") -> dict[str, Any]:
    """A submit of work that no other is."""
    payload = {"number": next(NUMBERS)}
    return {"kind": "probe.write", "company": company, "brand": "RED", "payload": payload}


async def send(
    client: httpx.AsyncClient, body: dict[str, Any], key: str, *, caller: str | None = None
) -> httpx.Response:
    """POST under a key."""
    headers = {"Idempotency-Key": key} | (bearer(caller) if caller else {})
    return await client.post("/v1/jobs", json=body, headers=headers)


async def slow_down(database: Database, trigger: str, seconds: float) -> None:
    """Make every insert of that table take time, at once or in its COMMIT."""
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(SLOW.format(seconds=seconds, trigger=trigger))
    finally:
        await connection.close()


@asynccontextmanager
async def apis(fleet: Fleet, count: int, **changes: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of so many api processes."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            _, url = await asyncio.to_thread(fleet.api, **changes)
            limits = httpx.Limits(max_connections=None)
            client = httpx.AsyncClient(base_url=url, timeout=60, limits=limits)
            clients.append(await stack.enter_async_context(client))
        yield clients


def judge_race(got: list[httpx.Response]) -> bytes | None:
    """202 with one body, or 409 with a time to come again; answers that body."""
    assert {answer.status_code for answer in got} <= {202, 409}, Counter(got)
    accepted = {answer.content for answer in got if answer.status_code == 202}
    assert len(accepted) <= 1
    for answer in got:
        if answer.status_code == 409:
            assert answer.json()["type"].endswith("/idempotency-key-in-progress")
            assert int(answer.headers["retry-after"]) >= 1
    return accepted.pop() if accepted else None


async def of_the_work(engine: AsyncEngine, body: dict[str, Any]) -> tuple[int, int]:
    """How many jobs and outbox rows there are of this work."""
    row = await fetch(
        engine,
        """SELECT count(DISTINCT j.id) AS jobs, count(o.id) AS rows
             FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
             LEFT JOIN chot.outbox o ON o.job_id = j.id
            WHERE p.payload ->> 'number' = :number""",
        number=str(body["payload"]["number"]),
    )
    return row[0].jobs, row[0].rows


@pytest.mark.scenario("F39")
@pytest.mark.parametrize(
    "keys", [5, pytest.param(100, marks=pytest.mark.long)], ids=["5 keys", "100 keys"]
)
async def test_fifty_at_once_under_one_key_are_one_request(
    fleet: Fleet, probes: AsyncEngine, keys: int
) -> None:
    """F39: keys × 50 identical parallel POSTs to two processes; later each key once more.

    Per key one job and one outbox row, 202 with one body or 409 with Retry-After, no 5xx; the
    later repeat has status and body byte for byte and is marked. (100 keys: the long variant.)
    """
    # SQS is nowhere, so that what is staged stays and can be counted.
    async with apis(fleet, 2, AWS_ENDPOINT_URL_SQS="http://127.0.0.1:9") as clients:
        bodies = {str(uuid4()): submit() for _ in range(keys)}
        first: dict[str, bytes | None] = {}
        for key, body in bodies.items():
            sent = (send(clients[n % 2], body, key) for n in range(50))
            first[key] = judge_race(list(await asyncio.gather(*sent)))
            assert first[key] is not None
        for key, body in bodies.items():
            assert await of_the_work(probes, body) == (1, 1)
            again = await send(random.choice(clients), body, key)
            assert (again.status_code, again.content) == (202, first[key])
            assert again.headers["idempotency-replayed"] == "true"
            assert await of_the_work(probes, body) == (1, 1)


@pytest.mark.scenario("F39")
async def test_a_slow_first_request_makes_no_other_wait_or_fail(
    fleet: Fleet, probes: AsyncEngine, database: Database
) -> None:
    """F39, variant: a trigger slows the first insert (5 s there, 2 s here).

    Its twins are told 409 long before it is done, and repeat until they get its own answer.
    """
    await slow_down(database, ON_INSERT, SLOW_INSERT_SECONDS)
    async with apis(fleet, 2, AWS_ENDPOINT_URL_SQS="http://127.0.0.1:9") as clients:
        body, key = submit(), str(uuid4())
        slow = asyncio.create_task(send(clients[0], body, key))
        await _asleep(probes)
        got = await asyncio.gather(*(send(clients[n % 2], body, key) for n in range(49)))
        assert not slow.done()
        assert {answer.status_code for answer in got} == {409}
        judge_race(list(got))
        answers = await asyncio.gather(
            *(_until_accepted(clients[n % 2], body, key) for n in range(49))
        )
        assert {answer.content for answer in answers} == {(await slow).content}
        assert await of_the_work(probes, body) == (1, 1)


async def _asleep(engine: AsyncEngine) -> None:
    """Wait until a statement of an api sleeps in our trigger."""
    sleeping = """SELECT count(*) FROM pg_stat_activity
        WHERE wait_event = 'PgSleep' AND datname = current_database()"""
    await eventually(lambda: scalar(engine, sleeping), seconds=RETRY_SECONDS)


async def _until_accepted(
    client: httpx.AsyncClient, body: dict[str, Any], key: str, *, every: float | None = None
) -> httpx.Response:
    """Repeat as Retry-After says (or `every` so many seconds) until it is accepted."""
    async with asyncio.timeout(RETRY_SECONDS):
        while True:
            answer = await send(client, body, key)
            if answer.status_code == 202:
                return answer
            judge_race([answer])
            await asyncio.sleep(every or float(answer.headers["retry-after"]))


@pytest.mark.scenario("F40")
async def test_a_key_is_bound_to_its_caller_and_its_request(
    fleet: Fleet, probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """F40: K with A, then with B: 422. K of tenant 2: a job of its own. K on another route: ignored.

    Keys that are empty, too long, not ASCII (composed or not) or badly quoted: 400, nothing stored.
    """
    await execute(owner_engine, SEED_OTHER)
    async with apis(fleet, 1, CHOT_API_OPEN="false") as (client,):
        one, two = [
            await make_key(owner_engine, Role.SUBMIT, Role.OPERATE, scope=scope, principal=name)
            for scope, name in ((ACME, "tenant-1"), (OTHER, "tenant-2"))
        ]
        a, b, theirs = submit(), submit(), submit("OTHER")
        first = await send(client, a, "K", caller=one)
        refused = await send(client, b, "K", caller=one)
        assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (
            422,
            "idempotency-key-reused",
        )
        own = await send(client, theirs, "K", caller=two)
        assert (own.status_code, own.json()["created"]) == (202, True)
        assert "idempotency-replayed" not in own.headers
        assert own.json()["id"] != first.json()["id"]
        again = await send(client, a, "K", caller=one)
        assert (again.status_code, again.content) == (202, first.content)
        url = first.json()["links"]["cancel"]
        other = await client.post(url, headers=bearer(one) | {"Idempotency-Key": "K"})
        assert (other.status_code, other.json()["state"]) == (200, "cancelled")
        await _refuse_bad_keys(client, one)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 2
    rows = await fetch(probes, "SELECT principal, key FROM chot.idempotency_keys ORDER BY 1")
    assert [tuple(row) for row in rows] == [("tenant-1", "K"), ("tenant-2", "K")]


@pytest.mark.scenario("F40")
async def test_the_same_request_of_two_accounts_is_two_answers(
    fleet: Fleet, probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """F40: even where both may do the same work, no account is answered with another's bytes."""
    async with apis(fleet, 1, CHOT_API_OPEN="false") as (client,):
        one, two = [
            await make_key(owner_engine, Role.SUBMIT, scope=Scope(company="ACME"), principal=name)
            for name in ("tenant-1", "tenant-2")
        ]
        body = submit()
        first = await send(client, body, "K", caller=one)
        second = await send(client, body, "K", caller=two)
    assert (first.status_code, second.status_code) == (202, 200)
    assert "idempotency-replayed" not in second.headers
    assert second.json()["duplicate"] == "joined"
    assert await scalar(probes, "SELECT count(*) FROM chot.idempotency_keys") == 2


async def _refuse_bad_keys(client: httpx.AsyncClient, caller: str) -> None:
    for bad in ("", '""', "x" * 256, '"', 'a"b', "caf\u00e9", "cafe\u0301", "a b"):
        headers = [(b"Idempotency-Key", bad.encode())]
        headers += [(name.encode(), value.encode()) for name, value in bearer(caller).items()]
        answer = await client.post("/v1/jobs", json=submit(), headers=headers)
        assert answer.status_code == 400, bad
        assert answer.json()["type"].endswith("/malformed-idempotency-key")


@pytest.mark.scenario("F41")
@pytest.mark.parametrize(
    "points", [2, pytest.param(20, marks=pytest.mark.long)], ids=["2 points", "20 points"]
)
async def test_an_api_killed_in_a_post_leaves_no_key_in_progress(
    fleet: Fleet, probes: AsyncEngine, database: Database, points: int
) -> None:
    """F41: SIGKILL at random points of a POST whose COMMIT is slow; another process, same key.

    202 within 10 s, the same job if it had been committed, one job in all; 409 only while the dead
    request's transaction still ends in the server. (20 points: the long variant.)
    """
    await slow_down(database, ON_COMMIT, SLOW_COMMIT_SECONDS)
    for _ in range(points):
        doomed, url = await asyncio.to_thread(fleet.api)
        body, key = submit(), str(uuid4())
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            asking = asyncio.create_task(send(client, body, key))
            # The point is random: before, in and after the transaction and its COMMIT.
            await asyncio.wait({asking}, timeout=random.uniform(0, 1.5 * SLOW_COMMIT_SECONDS))
            doomed.kill()
            told = (await asyncio.gather(asking, return_exceptions=True))[0]
        async with apis(fleet, 1) as (client,):
            ids = await _ids_of(probes, body)
            began = monotonic()
            answer = await _until_accepted(client, body, key, every=0.2)
            assert monotonic() - began < RETRY_SECONDS
        assert await _ids_of(probes, body) == [answer.json()["id"]]
        assert ids in ([], [answer.json()["id"]])
        if isinstance(told, httpx.Response):
            assert told.content == answer.content


async def _ids_of(engine: AsyncEngine, body: dict[str, Any]) -> list[str]:
    rows = await fetch(
        engine,
        "SELECT job_id FROM chot.job_payloads WHERE payload ->> 'number' = :number",
        number=str(body["payload"]["number"]),
    )
    return [str(row.job_id) for row in rows]


@pytest.mark.scenario("F41")
async def test_retention_that_deletes_a_key_under_its_retries_makes_no_second_job(
    fleet: Fleet, probes: AsyncEngine
) -> None:
    """F41: keys expire and are reaped all the time while K is repeated.

    The answer is a replay, or that the same work is active: one job, no 5xx, never another body.
    """
    async with apis(fleet, 1, CHOT_KEY_REAPER_SECONDS="0.02") as (client,):
        body, key = submit(), str(uuid4())
        first = (await send(client, body, key)).json()["id"]
        seen: Counter[bool] = Counter()
        async with asyncio.timeout(RETRY_SECONDS):
            while min(seen[True], seen[False]) < 5:
                if random.random() < 0.5:
                    await execute(
                        probes,
                        """UPDATE chot.idempotency_keys
                              SET expires_at = clock_timestamp() - interval '1 second'""",
                    )
                got = await asyncio.gather(*(send(client, body, key) for _ in range(3)))
                assert {answer.status_code for answer in got} <= {200, 202, 409}
                accepted = [answer for answer in got if answer.is_success]
                assert {answer.json()["id"] for answer in accepted} <= {first}
                seen.update("idempotency-replayed" in answer.headers for answer in accepted)
    assert await _ids_of(probes, body) == [first]
