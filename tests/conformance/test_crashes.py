"""A process that is killed, a database that goes away, a client that does. C22 to C27."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.conformance.calls import (
    assert_fresh,
    assert_replays,
    count,
    keys_stored,
    new_key,
    settled,
)
from tests.conformance.raw import connect, request_bytes
from tests.conformance.world import (
    World,
    client_to,
    holding,
    plant,
    pull_out,
    until_held,
)
from tests.factories import eventually, fetch, offer_slots, scalar
from tests.protocol.api.app import note, post, problem_of, until_ready
from tests.tcp_proxy import Proxy, open_proxy

COUNT_KEYS = "SELECT count(*) FROM chot.idempotency_keys"
Ask = Callable[[], Coroutine[Any, Any, httpx.Response]]
Asking = asyncio.Task[httpx.Response]


@asynccontextmanager
async def started(world: World, **changes: str) -> AsyncIterator[tuple[Child, httpx.AsyncClient]]:
    """An api process of this test's own."""
    child, url = await asyncio.to_thread(world.api, **changes)
    try:
        async with client_to(url) as client:
            yield child, client
    finally:
        child.kill()


@asynccontextmanager
async def wired(world: World) -> AsyncIterator[tuple[Proxy, Child, httpx.AsyncClient]]:
    """One whose way to the database goes through a proxy."""
    at = urlsplit(world.database.app_url)
    assert at.hostname is not None, "the server is reached by TCP"
    async with open_proxy(at.hostname, at.port or 5432) as proxy:
        through = at._replace(netloc=f"{at.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}")
        async with started(world, CHOT_DATABASE_URL=through.geturl()) as (child, client):
            yield proxy, child, client


async def broken_off(request: Asking) -> None:
    """The server died under it."""
    with pytest.raises(httpx.TransportError):
        await request


@pytest.mark.scenario("F41")
@pytest.mark.case("C22")
async def test_a_process_killed_before_the_server_has_its_submit_leaves_nothing(
    world: World, pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """SIGKILL while the statement is still in the network: the retry is a new submit."""
    body, key = note(), new_key("held")
    async with wired(world) as (proxy, doomed, client):
        first = await statement_lost(proxy, partial(post, client, body, key=key))
        doomed.kill()
        await broken_off(first)
        assert_fresh(await settled(pair[0], body, key))
    assert await count(engine, body) == (1, 1)


@pytest.mark.scenario("F41")
@pytest.mark.case("C22", "C21")
async def test_a_process_killed_while_the_server_works_leaves_a_whole_submit(
    world: World, pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """SIGKILL with the job inserted: the twin is told 409 while the server has the rest to do.

    The statement is its own transaction: the server ends it, whoever is left to hear of it.
    """
    body, key = note(), new_key("held")
    async with started(world) as (doomed, client):
        async with holding(engine):
            first = asyncio.create_task(post(client, body, key=key))
            await until_held(engine)
            doomed.kill()
            await broken_off(first)
            problem_of(await post(pair[0], body, key=key), 409, "idempotency-key-in-progress")
        again = await settled(pair[0], body, key)
        assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert await count(engine, body) == (1, 1)


@pytest.mark.scenario("F41")
@pytest.mark.case("C23")
async def test_a_process_killed_after_its_commit_has_made_the_job(
    world: World, pair: list[httpx.AsyncClient], engine: AsyncEngine, sqs: Any
) -> None:
    """SIGKILL before the answer could be sent: the retry replays it, another relay publishes."""
    body, key = note(), new_key("commit")
    async with wired(world) as (proxy, doomed, client):
        first = await answer_lost(proxy, engine, partial(post, client, body, key=key))
        assert not first.done()
        doomed.kill()
        await broken_off(first)
    assert await count(engine, body) == (1, 1)
    again = await post(pair[0], body, key=key)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    await offer_slots(engine, 10_000)
    async with started(world, AWS_ENDPOINT_URL_SQS=world.sqs_endpoint):
        await eventually(lambda: published(engine, body), every=0.1)
        url = sqs.get_queue_url(QueueName=f"{world.fleet.prefix}-default")["QueueUrl"]
        assert await asyncio.to_thread(received, sqs, url, again.json()["id"])
    assert (await count(engine, body))[0] == 1


async def statement_lost(proxy: Proxy, ask: Ask) -> Asking:
    """A request whose one statement stays in the network: the server knows nothing of it."""
    proxy.block("client_to_server")
    asking = asyncio.create_task(ask())
    await proxy.until_held("client_to_server")
    return asking


async def answer_lost(proxy: Proxy, engine: AsyncEngine, ask: Ask) -> Asking:
    """One that the server has committed, while its answer stays in the network."""
    before = await scalar(engine, COUNT_KEYS)
    async with holding(engine):
        asking = asyncio.create_task(ask())
        await until_held(engine)
        proxy.block("server_to_client")

    async def committed() -> bool:
        return int(await scalar(engine, COUNT_KEYS)) > int(before)

    await eventually(committed, every=0.01)
    return asking


async def published(engine: AsyncEngine, body: dict[str, Any]) -> bool:
    """The work's message has left the outbox."""
    return (await count(engine, body))[1] == 0


def received(sqs: Any, url: str, job_id: str) -> bool:
    """Take messages until this job's has come."""
    for _ in range(200):
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        messages = got.get("Messages", [])
        if any(job_id in message["Body"] for message in messages):
            return True
        if not messages:
            return False
    return False


@pytest.mark.scenario("F41", "F44")
@pytest.mark.case("C24")
async def test_a_commit_in_doubt_is_settled_by_the_retry(
    world: World, pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Lost on the way there, or its answer on the way back: 503, then the truth, and one job."""
    async with wired(world) as (proxy, _, client):
        for done in (False, True):
            body, key = note(), new_key("commit" if done else "k")
            ask = partial(post, client, body, key=key)
            if done:
                first = await answer_lost(proxy, engine, ask)
            else:
                first = await statement_lost(proxy, ask)
            proxy.cut()
            refused = await first
            problem_of(refused, 503, "database-unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            answer = await settled(pair[0], body, key)
            assert answer.status_code == 202
            assert ("idempotency-replayed" in answer.headers) is done
            proxy.heal()
            await until_ready(client)
            assert_replays(await settled(client, body, key), answer)
            assert await count(engine, body) == (1, 1)


@pytest.mark.scenario("F41")
@pytest.mark.case("C25")
async def test_a_client_that_goes_away_leaves_a_whole_transaction(
    world: World, pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Its connection is gone in the middle of the transaction, which commits; the retry replays."""
    body, key = note(), new_key("held")
    async with holding(engine):
        _, writer = await connect(world.urls[0])
        writer.write(request_bytes(body, b"Idempotency-Key: " + key.encode()))
        await until_held(engine)
        writer.transport.abort()
        assert await keys_stored(engine, key) == 0
    await eventually(lambda: keys_stored(engine, key), every=0.01)
    again = await post(pair[1], body, key=key)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert await count(engine, body) == (1, 1)


@pytest.mark.scenario("F41")
@pytest.mark.case("C26", "C07")
async def test_without_a_database_nothing_is_stored_and_the_key_works_later(
    world: World, engine: AsyncEngine
) -> None:
    """503 and when to come again. What is no key is refused all the same: nobody is asked."""
    body, key = note(), new_key()
    async with wired(world) as (proxy, _, client):
        proxy.cut()
        for _ in range(3):
            refused = await post(client, body, key=key)
            problem_of(refused, 503, "database-unavailable")
            assert int(refused.headers["retry-after"]) >= 1
        problem_of(await post(client, body, key='"a'), 400, "malformed-idempotency-key")
        assert await keys_stored(engine, key) == 0
        proxy.heal()
        assert_fresh(await settled(client, body, key))
    assert await count(engine, body) == (1, 1)


@pytest.mark.case("C27")
async def test_an_error_of_ours_is_rolled_back_and_not_stored(
    pair: list[httpx.AsyncClient], engine: AsyncEngine
) -> None:
    """Unlike Stripe's v1: a 500 is not replayed, the same key may succeed later."""
    body, key = note(), new_key()
    await plant(engine, key, "22012")
    for client in pair:
        problem = problem_of(await post(client, body, key=key), 500, "internal-error")
        assert "planted" not in str(problem)
        assert await count(engine, body) == (0, 0)
        assert await keys_stored(engine, key) == 0
    await pull_out(engine, key)
    assert_fresh(await post(pair[0], body, key=key))
    rows = await fetch(engine, "SELECT status FROM chot.idempotency_keys WHERE key = :k", k=key)
    assert [row.status for row in rows] == [202]
