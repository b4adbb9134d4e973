"""Events of a job over real sockets: what comes, in which form, and what a reconnect gets."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, MutableMapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.authentication import OWNER
from api.bodies import JobSummary
from api.event_stream import EventStream
from api.settings import ApiSettings
from shared.access import Role
from shared.api_keys import key_id_of, revoke_key
from shared.database import open_engine
from tests.factories import eventually, execute
from tests.protocol.api.app import api_settings, note, problem_of
from tests.protocol.api.keys import BLUE, RED, bearer, make_key
from tests.protocol.api.listener import listening, open_listener
from tests.protocol.api.live import Served, counted_looks, served
from tests.protocol.api.test_read_and_act import bury, made, run, succeed
from tests.protocol.api.wire import wire_to
from tests.services import Database

BOUND = 10.0  # what is waited for comes within some tenths of a second


@pytest.fixture
async def live(settings: ApiSettings) -> AsyncIterator[Served]:
    """An api behind real sockets that looks ten times a second."""
    async with served(settings.model_copy(update={"live_seconds": 0.1})) as api:
        yield api


async def shown(live: Served, job_id: str) -> dict[str, Any]:
    """The job as GET shows it, without what only GET shows."""
    job: dict[str, Any] = (await live.client.get(f"/v1/jobs/{job_id}")).json()
    only_there = {"result", "attempts", "locks"}
    return {name: value for name, value in job.items() if name not in only_there}


async def move(engine: AsyncEngine, job_id: str, done: int) -> None:
    """Progress, as a heartbeat writes it."""
    await execute(
        engine,
        """UPDATE chot.jobs SET progress_done = :done, progress_total = 10 WHERE id = :id""",
        id=UUID(job_id),
        done=done,
    )


async def test_a_job_is_told_from_pending_to_its_end(live: Served, engine: AsyncEngine) -> None:
    """The newest state at once, then what changes, by name; after `end` the stream is over."""
    job_id = await made(live.client)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
        assert mine.status == 200
        assert mine.headers["content-type"] == "text/event-stream"
        assert mine.headers["cache-control"] == "no-store"
        assert mine.headers["x-accel-buffering"] == "no"
        first = await mine.event()
        assert first is not None
        assert (first.name, first.job["state"]) == ("state", "pending")
        assert mine.retry in range(1000, 3001)
        await run(engine, job_id)
        second = await mine.event()
        await move(engine, job_id, 3)
        third = await mine.event()
        await succeed(engine, job_id, '{"n": 1}')
        await mine.to_the_end()
    assert second is not None
    assert third is not None
    assert (second.name, second.job["state"]) == ("state", "running")
    assert (third.name, third.job["progress"]["done"]) == ("progress", 3)
    last = mine.events[-1]
    assert (last.name, last.job) == ("end", await shown(live, job_id))
    assert len({event.id for event in mine.events}) == len(mine.events) == 4
    for event in mine.events:
        JobSummary.model_validate(event.job, extra="forbid")


async def test_a_client_that_has_the_newest_gets_no_repeat(
    live: Served, engine: AsyncEngine
) -> None:
    """Its Last-Event-ID is compared as it is; anything else gets the newest state at once."""
    job_id = await made(live.client)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
        first = await mine.event()
    assert first is not None
    async with asyncio.timeout(BOUND), listening(live.port, job_id, last_id=first.id) as again:
        await run(engine, job_id)
        told = await again.event()
    assert told is not None
    assert told.job["state"] == "running"
    for known in (first.id, "x", "0", "end.succeeded.1.1", "é" * 500, f'"{told.id}"', ""):
        async with asyncio.timeout(BOUND), listening(live.port, job_id, last_id=known) as garbage:
            assert await garbage.event() == told, known


async def test_after_the_end_a_reconnect_with_its_id_is_told_not_to_come_again(
    live: Served, engine: AsyncEngine
) -> None:
    """204, which stops an EventSource. Whoever does not have the end gets it, however late."""
    job_id = await made(live.client)
    await run(engine, job_id)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
        running = await mine.event()
    await succeed(engine, job_id, "{}")  # while nobody is connected
    assert running is not None
    async with asyncio.timeout(BOUND), listening(live.port, job_id, last_id=running.id) as again:
        (end,) = await again.to_the_end()
    assert (end.name, end.job["state"]) == ("end", "succeeded")
    async with asyncio.timeout(BOUND), listening(live.port, job_id, last_id=end.id) as over:
        assert (over.status, over.headers.get("content-type")) == (204, None)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as fresh:
        assert await fresh.to_the_end() == [end]


async def test_a_redriven_job_is_told_anew(live: Served, engine: AsyncEngine) -> None:
    """`dead` is an end; the same client may follow what an operator began again."""
    job_id = await bury(live.client, engine)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
        (end,) = await mine.to_the_end()
    assert (end.name, end.job["state"], end.job["error"]) == ("end", "dead", {"message": "boom"})
    assert (await live.client.post(f"/v1/jobs/{job_id}/redrive")).status_code == 202
    async with asyncio.timeout(BOUND), listening(live.port, job_id, last_id=end.id) as again:
        event = await again.event()
    assert event is not None
    assert (event.name, event.job["state"]) == ("state", "pending")


async def test_an_archived_job_has_ended(
    live: Served, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Moved away between the look and the next, it is still told."""
    job_id = await made(live.client)
    await run(engine, job_id)
    await succeed(engine, job_id, "{}")
    await execute(
        owner_engine, "UPDATE chot.jobs SET finished_at = finished_at - interval '9 days'"
    )
    await execute(
        owner_engine,
        """UPDATE chot.jobs SET created_at = created_at - interval '9 days'""",
    )
    await execute(
        engine,
        """SELECT chot.archive_jobs('00000000-0000-0000-0000-000000000000', interval '1 day', 10)""",
    )
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
        (end,) = await mine.to_the_end()
    assert (end.name, end.job) == ("end", await shown(live, job_id))


async def test_what_is_not_there_is_a_problem_before_anything_is_streamed(live: Served) -> None:
    job_id = uuid4()
    problem_of(await live.client.get(f"/v1/jobs/{job_id}/events"), 404, "job-not-found")
    problem_of(await live.client.get("/v1/jobs/7/events"), 404, "job-not-found")
    problem_of(await live.client.get(f"/v1/jobs/{job_id}?wait=5"), 404, "job-not-found")
    assert live.hub.watching == 0


async def test_a_silent_stream_has_heartbeats(settings: ApiSettings) -> None:
    """Comments, which a client's EventSource never sees and a balancer does."""
    quick = settings.model_copy(update={"live_heartbeat_seconds": 0.05})
    async with served(quick) as live:
        job_id = await made(live.client)
        async with asyncio.timeout(BOUND), listening(live.port, job_id) as mine:
            await mine.event()
            waiting = asyncio.create_task(mine.event())

            async def beaten() -> bool:
                return mine.comments >= 3

            await eventually(beaten)
            assert not waiting.done()
            waiting.cancel()


async def test_all_who_listen_cost_one_query_an_interval(live: Served, engine: AsyncEngine) -> None:
    """Forty clients of four jobs, streams and long polls: each look asks once, for four ids.

    And none is asked once they have gone.
    """
    jobs = [await made(live.client) for _ in range(4)]
    with counted_looks() as looks:
        async with AsyncExitStack() as stack, asyncio.timeout(BOUND):
            streams = [
                await stack.enter_async_context(listening(live.port, jobs[n % 4]))
                for n in range(20)
            ]
            polls = [
                asyncio.create_task(live.client.get(f"/v1/jobs/{jobs[n % 4]}?wait=20"))
                for n in range(20)
            ]

            async def all_there() -> bool:
                return live.hub.watching == 40

            await eventually(all_there)
            for stream in streams:
                assert await stream.event() is not None
            looks.clear()
            loop = asyncio.get_running_loop()
            began = loop.time()

            async def ten_looks() -> bool:
                return len(looks) >= 10

            await eventually(ten_looks, every=0.01)
            seconds = loop.time() - began
            assert set(looks) == {4}
            assert len(looks) <= seconds / live.hub.resources.settings.live_seconds + 2
            for job_id in jobs:
                await run(engine, job_id)
                await succeed(engine, job_id, "{}")
            ends = [(await stream.to_the_end())[-1] for stream in streams]
            answers = await asyncio.gather(*polls)
        assert {end.name for end in ends} == {"end"}
        assert {answer.json()["state"] for answer in answers} == {"succeeded"}
        assert live.hub.watching == 0

        async def asleep() -> bool:
            return live.hub.asleep

        await eventually(asleep, seconds=2)
        looks.clear()
        await asyncio.sleep(0.5)  # five intervals in which nothing must happen
        assert looks == []


async def test_a_client_that_hangs_up_frees_its_place(live: Served) -> None:
    """At once, not at the next heartbeat; streams and long polls."""
    job_id = await made(live.client)
    stream = await open_listener(live.port, f"/v1/jobs/{job_id}/events")
    _, poll = await asyncio.open_connection("127.0.0.1", live.port)
    poll.write(f"GET /v1/jobs/{job_id}?wait=25 HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    async def watched_by(clients: int) -> bool:
        return live.hub.watching == clients

    await eventually(lambda: watched_by(2))
    stream.close()
    await eventually(lambda: watched_by(1), seconds=2)
    poll.transport.abort()
    await eventually(lambda: watched_by(0), seconds=2)


async def test_places_are_bounded(settings: ApiSettings, owner_engine: AsyncEngine) -> None:
    """Who comes to a full house is told at once, and may come again; the others go on."""
    keys = [await make_key(owner_engine, Role.ADMIN, principal=name) for name in ("a", "b", "c")]
    changed = {"live_listeners": 2, "api_open": False}
    async with served(settings.model_copy(update=changed)) as live:
        live.client.headers.update(bearer(keys[2]))
        job_id = await made(live.client)
        async with (
            asyncio.timeout(BOUND),
            listening(live.port, job_id, token=keys[0]) as one,
            listening(live.port, job_id, token=keys[1]) as two,
        ):
            assert await one.event() == await two.event() is not None
            assert "\nchot_live_listeners 2.0\n" in (await live.client.get("/metrics")).text
            for path in ("/events", "?wait=5"):
                refused = await live.client.get(f"/v1/jobs/{job_id}{path}")
                problem = problem_of(refused, 503, "overloaded")
                assert "2 clients" in problem["detail"]
                assert refused.headers["retry-after"] == "1"
            assert (await live.client.get(f"/v1/jobs/{job_id}")).status_code == 200


async def test_one_account_takes_half_of_the_places(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """By whichever of its keys; another one still finds a place, and so does it after a while."""
    mine = [await make_key(owner_engine, Role.ADMIN, principal="a") for _ in range(3)]
    other = await make_key(owner_engine, Role.ADMIN, principal="b")
    changed = {"live_listeners": 4, "api_open": False}
    async with served(settings.model_copy(update=changed)) as live, asyncio.timeout(BOUND):
        live.client.headers.update(bearer(mine[2]))
        job_id = await made(live.client)
        async with listening(live.port, job_id, token=mine[0]) as first:
            async with listening(live.port, job_id, token=mine[1]) as second:
                assert await first.event() == await second.event()
                for path in ("/events", "?wait=5"):
                    refused = await live.client.get(f"/v1/jobs/{job_id}{path}")
                    problem = problem_of(refused, 503, "overloaded")
                    assert "2 clients of this account" in problem["detail"]
                async with listening(live.port, job_id, token=other) as stranger:
                    assert await stranger.event() is not None

            async def has_left() -> bool:
                return live.hub.watching == 1

            await eventually(has_left, seconds=2)
            async with listening(live.port, job_id, token=mine[2]) as again:
                assert await again.event() is not None


@dataclass(slots=True)
class SlowClient:
    """A client in place of a socket that is full: each send waits until it is let go."""

    open: asyncio.Event
    sent: list[bytes] = field(default_factory=list)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """As an ASGI server's send, which waits while its socket takes nothing."""
        await self.open.wait()
        self.sent.append(message.get("body", b""))

    async def receive(self) -> MutableMapping[str, Any]:
        """It never hangs up."""
        await asyncio.Event().wait()
        raise AssertionError

    @property
    def ids(self) -> list[bytes]:
        """The ids of the events that have arrived."""
        return re.findall(rb"^id: (.*)$", b"".join(self.sent), re.MULTILINE)


async def test_a_slow_reader_gets_the_newest_and_keeps_nobody_waiting(
    live: Served, engine: AsyncEngine
) -> None:
    """What it has missed is not kept for it; the end reaches it, and the others long before."""
    job_id = await made(live.client)
    await run(engine, job_id)
    slow = SlowClient(asyncio.Event())
    stream = EventStream(live.hub, UUID(job_id), OWNER, None, None)
    async with asyncio.timeout(BOUND), listening(live.port, job_id) as quick:
        telling = asyncio.create_task(stream({}, slow.receive, slow.send))
        for done in range(6):
            await move(engine, job_id, done)
            assert await quick.event() is not None
        await succeed(engine, job_id, "{}")
        await quick.to_the_end()
        assert slow.ids == []
        slow.open.set()
        await telling
    assert len(quick.events) >= 7
    assert slow.ids == [quick.events[-1].id.encode()]


async def test_a_reader_that_takes_nothing_for_two_heartbeats_is_let_go(
    settings: ApiSettings,
) -> None:
    """Its place is somebody else's then."""
    async with served(settings.model_copy(update={"live_heartbeat_seconds": 0.1})) as live:
        job_id = await made(live.client)
        slow = SlowClient(asyncio.Event())
        slow.open.set()
        stream = EventStream(live.hub, UUID(job_id), OWNER, None, None)
        telling = asyncio.create_task(stream({}, slow.receive, slow.send))

        async def told() -> bool:
            return bool(slow.ids)

        await eventually(told)
        slow.open.clear()
        async with asyncio.timeout(BOUND):
            await telling
        assert live.hub.watching == 0


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_key_that_ends_takes_its_stream_and_its_poll_along(
    settings: ApiSettings, owner_engine: AsyncEngine, how: str
) -> None:
    """Within the five seconds in which it ends everywhere; another key of the account goes on."""
    admin = await make_key(owner_engine, Role.ADMIN)
    key = await make_key(owner_engine, Role.READ, scope=RED)
    other = await make_key(owner_engine, Role.READ, scope=RED)
    async with served(settings.model_copy(update={"api_open": False})) as live:
        job_id = (await live.client.post("/v1/jobs", json=note(), headers=bearer(admin))).json()[
            "id"
        ]
        loop = asyncio.get_running_loop()
        async with (
            listening(live.port, job_id, token=key) as mine,
            listening(live.port, job_id, token=other) as others,
        ):
            assert await mine.event() == await others.event() is not None
            poll = asyncio.create_task(
                live.client.get(f"/v1/jobs/{job_id}?wait=25", headers=bearer(key))
            )
            still = asyncio.create_task(others.event())
            await end_key(owner_engine, key, how)
            began = loop.time()
            async with asyncio.timeout(BOUND):
                assert await mine.event() is None
                problem_of(await poll, 401, "unauthorized")
            assert loop.time() - began < 5
            assert not still.done()
            still.cancel()
        refused = await open_listener(live.port, f"/v1/jobs/{job_id}/events", token=key)
        assert refused.status == 401
        refused.close()


async def end_key(owner_engine: AsyncEngine, key: str, how: str) -> None:
    """Revoke it, or let its time be over."""
    key_id = key_id_of(key)
    assert key_id is not None
    if how == "revoked":
        async with owner_engine.begin() as conn:
            assert await revoke_key(conn, key_id) is not None
    else:
        await execute(
            owner_engine,
            """UPDATE chot.api_keys SET expires_at = clock_timestamp() WHERE key_id = :key_id""",
            key_id=key_id,
        )


async def test_a_key_whose_scope_or_role_was_taken_sees_nothing_more(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """The stream ends, the poll is what a new request would be: 404, or 403."""
    admin = bearer(await make_key(owner_engine, Role.ADMIN))

    async def loses(live: Served, job_id: str, change: str) -> int:
        key = await make_key(owner_engine, Role.READ, scope=RED)
        async with listening(live.port, job_id, token=key) as mine:
            await mine.event()
            poll = asyncio.create_task(
                live.client.get(f"/v1/jobs/{job_id}?wait=25", headers=bearer(key))
            )
            await execute(
                owner_engine,
                f"UPDATE chot.api_keys SET {change} WHERE key_id = :key_id",
                key_id=key_id_of(key),
            )
            assert await mine.event() is None
            return (await poll).status_code

    async with served(settings.model_copy(update={"api_open": False})) as live:
        made_job = await live.client.post("/v1/jobs", json=note(), headers=admin)
        job_id = made_job.json()["id"]
        async with asyncio.timeout(BOUND):
            ends = await asyncio.gather(
                loses(live, job_id, "brands = ARRAY['BLUE'], company = 'ACME'"),
                loses(live, job_id, "roles = ARRAY['submit']"),
            )
    assert list(ends) == [404, 403]


async def test_a_foreign_job_has_no_events(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """Also while somebody who may see it is listening: the look is shared, the right is not."""
    red = await make_key(owner_engine, Role.ADMIN, scope=RED)
    blue = await make_key(owner_engine, Role.ADMIN, scope=BLUE)
    async with served(settings.model_copy(update={"api_open": False})) as live:
        answer = await live.client.post("/v1/jobs", json=note(), headers=bearer(red))
        job_id = answer.json()["id"]
        async with asyncio.timeout(BOUND), listening(live.port, job_id, token=red) as mine:
            assert await mine.event() is not None
            for path in ("/events", "?wait=5"):
                told = await live.client.get(f"/v1/jobs/{job_id}{path}", headers=bearer(blue))
                problem_of(told, 404, "job-not-found")


async def test_streams_outlive_an_outage_of_the_database(
    database: Database, company: str, queue_prefix: str, engine: AsyncEngine
) -> None:
    """Heartbeats go on, a newcomer is told 503, and what happened meanwhile is told after it."""
    assert company == "ACME"
    async with wire_to(database.app_url) as wire:
        settings = api_settings(
            database,
            queue_prefix,
            database_url=wire.url,
            live_seconds=0.1,
            live_heartbeat_seconds=0.5,  # twice as long a busy machine may take to send one
        )
        async with served(settings) as live:
            job_id = await made(live.client)
            async with asyncio.timeout(30), listening(live.port, job_id) as mine:
                assert await mine.event() is not None
                waiting = asyncio.create_task(mine.event())
                await wire.cut()
                await run(engine, job_id)
                beats = mine.comments

                async def beaten() -> bool:
                    return mine.comments >= beats + 3

                await eventually(beaten)
                refused = await live.client.get(f"/v1/jobs/{job_id}/events")
                assert refused.status_code == 503, refused.text
                assert not waiting.done()
                await wire.mend()
                event = await waiting
            assert event is not None
            assert event.job["state"] == "running"


async def test_whatever_the_order_the_last_event_is_what_get_shows(
    live: Served, database: Database
) -> None:
    """Clients that come, go and come back at any moment of a job's life, and all see its end.

    Each reconnects with the last id it has, as an EventSource does, until it is told 204.
    """
    other = open_engine(database.app_url, pool_size=4)
    jobs = [await made(live.client) for _ in range(6)]

    async def lived(job_id: str) -> None:
        await run(other, job_id)
        for done in range(8):
            await move(other, job_id, done)
        await succeed(other, job_id, "{}")

    async def follow(job_id: str, patience: int) -> list[str]:
        """Read `patience` events a connection, then hang up and come again."""
        known: str | None = None
        names: list[str] = []
        last: dict[str, Any] = {}
        while True:
            async with listening(live.port, job_id, last_id=known) as mine:
                if mine.status == 204:
                    assert last == await shown(live, job_id)
                    return names
                assert mine.status == 200
                for _ in range(patience):
                    event = await mine.event()
                    if event is None:
                        break
                    assert event.id != known, "nobody is told twice in a row"
                    known, last = event.id, event.job
                    names.append(event.name)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        followers = [
            tasks.create_task(follow(job_id, patience)) for job_id in jobs for patience in (1, 2, 9)
        ]
        for job_id in jobs:
            tasks.create_task(lived(job_id))
    await other.dispose()
    for each in followers:
        names = each.result()
        assert names[-1] == "end"
        assert names.count("end") == 1


async def test_a_long_poll_answers_once_it_has_ended_and_not_before(
    live: Served, engine: AsyncEngine
) -> None:
    """With everything GET shows, and the ETag that it would have."""
    job_id = await made(live.client)
    poll = asyncio.create_task(live.client.get(f"/v1/jobs/{job_id}?wait=20"))
    short = await live.client.get(f"/v1/jobs/{job_id}?wait=0.3")
    assert (short.json()["state"], short.headers["retry-after"]) == ("pending", "1")
    await run(engine, job_id)
    await move(engine, job_id, 4)
    assert not poll.done()
    await succeed(engine, job_id, json.dumps({"n": 1}))
    answer = await poll
    now = await live.client.get(f"/v1/jobs/{job_id}")
    assert (answer.content, answer.headers["etag"]) == (now.content, now.headers["etag"])
    known = {"If-None-Match": answer.headers["etag"]}
    same = await live.client.get(f"/v1/jobs/{job_id}?wait=20", headers=known)
    assert (same.status_code, same.content) == (304, b"")


async def test_a_stopping_process_lets_all_go_at_once(live: Served) -> None:
    """Streams end without an `end`, so that their clients come again; polls answer what is."""
    job_id = await made(live.client)
    async with asyncio.timeout(3), listening(live.port, job_id) as mine:
        await mine.event()
        poll = asyncio.create_task(live.client.get(f"/v1/jobs/{job_id}?wait=20"))

        async def both_wait() -> bool:
            return live.hub.watching == 2

        await eventually(both_wait)
        live.app.state.resources.stopping.set()
        assert await mine.event() is None
        assert (await poll).json()["state"] == "pending"
