"""Fan-out over real api processes: what the database sees of those who listen, and the end."""

import asyncio
import resource
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import make_job, scalar
from tests.fleet import Fleet, open_fleet
from tests.protocol.api.listener import Listener, listening
from tests.protocol.api.test_read_and_act import run, succeed
from tests.services import Database

LOOK_SECONDS = 0.5
# The commits of a database, as its statistics have them: each statement of an api's loops is one.
COMMITS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = :name"


@pytest.fixture
def fleet(
    probes: AsyncEngine,
    database: Database,
    queue_prefix: str,
    sqs_endpoint: str,
    tmp_path: Path,
) -> Iterator[Fleet]:
    """Starts apis on this test's database."""
    assert probes is not None, "the kinds are known before any api starts"
    with open_fleet(database, queue_prefix, sqs_endpoint, tmp_path) as opened:
        yield opened


async def port_of(fleet: Fleet, **changes: str) -> int:
    """The port of an api process of this test's own."""
    _, url = await asyncio.to_thread(fleet.api, **changes)
    return int(url.rpartition(":")[2])


async def commits_a_second(engine: AsyncEngine, database: Database, seconds: float) -> float:
    """What the database is asked by its clients in these seconds, ourselves included.

    Statistics arrive within a second; so the first and the last are read that much later.
    """
    name = database.name
    await asyncio.sleep(1.1)
    before, began = await scalar(engine, COMMITS, name=name), monotonic()
    await asyncio.sleep(seconds)
    after = await scalar(engine, COMMITS, name=name)
    return float(after - before) / (monotonic() - began)


async def listen_and_end(
    fleet: Fleet, engine: AsyncEngine, database: Database, *, listeners: int, seconds: float
) -> None:
    """So many listeners of ten jobs at one api: the same load as none, and all hear the end."""
    port = await port_of(fleet, CHOT_LIVE_SECONDS=str(LOOK_SECONDS))
    jobs = [await make_job(engine) for _ in range(10)]
    for job_id in jobs:
        await run(engine, str(job_id))
    idle = await commits_a_second(engine, database, seconds)
    async with AsyncExitStack() as stack:
        mine: list[Listener] = []
        for n in range(0, listeners, 50):
            mine += await asyncio.gather(
                *(
                    stack.enter_async_context(listening(port, jobs[each % 10]))
                    for each in range(n, min(n + 50, listeners))
                )
            )
        firsts = await asyncio.gather(*(each.event() for each in mine))
        assert all(event is not None and event.job["state"] == "running" for event in firsts)
        busy = await commits_a_second(engine, database, seconds)
        # One look an interval, whoever listens; half a query more for what else may happen.
        assert busy - idle <= 1 / LOOK_SECONDS + 0.5, (idle, busy)
        for job_id in jobs:
            await succeed(engine, str(job_id), "{}")
        async with asyncio.timeout(30):
            heard = await asyncio.gather(*(each.to_the_end() for each in mine))
    assert {events[-1].name for events in heard} == {"end"}
    assert {events[-1].job["state"] for events in heard} == {"succeeded"}
    assert len(heard) == listeners


async def test_sixty_listeners_are_one_query_an_interval(
    fleet: Fleet, probes: AsyncEngine, database: Database
) -> None:
    """At a real process, by PostgreSQL's own count."""
    await listen_and_end(fleet, probes, database, listeners=60, seconds=0.8)


@pytest.mark.long
@pytest.mark.alone
async def test_five_hundred_listeners_are_one_query_an_interval(
    fleet: Fleet, probes: AsyncEngine, database: Database
) -> None:
    """And all five hundred hear the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    try:
        await listen_and_end(fleet, probes, database, listeners=500, seconds=10.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_an_api_that_ends_lets_its_listeners_go_to_another(
    fleet: Fleet, probes: AsyncEngine
) -> None:
    """SIGTERM ends streams at once, without an `end`; the id they have is good at any api."""
    child, url = await asyncio.to_thread(fleet.api)
    other = await port_of(fleet)
    job_id = await make_job(probes)
    async with listening(int(url.rpartition(":")[2]), job_id) as mine:
        first = await mine.event()
        assert first is not None
        began = monotonic()
        child.send(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await mine.event() is None
        assert monotonic() - began < 2
    assert await asyncio.to_thread(child.wait, 10) == 0
    async with asyncio.timeout(10), listening(other, job_id, last_id=first.id) as again:
        await run(probes, str(job_id))
        event = await again.event()
    assert event is not None
    assert (event.name, event.job["state"]) == ("state", "running")
