"""A database that restarts, is read-only for a while, or has no connection left to give."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from dev.processes import Child
from shared.database import is_unreachable, open_engine
from shared.outages import tell_outages
from tests.factories import eventually, fetch, make_job, scalar
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import all_reached, exited, working
from tests.scenarios.looking import api_of
from tests.scenarios.own_server import onlooker, own_fleet, own_server
from tests.scenarios.traffic import Traffic, written_once
from tests.services import Database

NORMAL_SECONDS = 30.0
RUNNING = "SELECT count(*) FROM chot.jobs WHERE state = 'running'"


@pytest.mark.scenario("F32")
@pytest.mark.parametrize("how", ["read-only", "shut down"])
async def test_a_server_that_steps_down_costs_the_connection_at_once(
    database: Database, how: str
) -> None:
    """F32: 25006 or 57P01 is an outage, and the very next use is on another connection."""
    engine = tell_outages(open_engine(database.app_url, pool_size=1, application_name="writer"))
    admin = open_engine(database.superuser_url, pool_size=0, application_name="admin")
    pid_now = text("SELECT pg_backend_pid()")
    write = text("CREATE TEMPORARY TABLE anything (n integer)")
    async with engine.connect() as conn:
        before = await conn.scalar(pid_now)
        if how == "read-only":
            await conn.execute(text("SET default_transaction_read_only = on"))
            await conn.commit()
        else:
            async with admin.connect() as superuser:
                await superuser.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": before})
        with pytest.raises(DBAPIError) as refused:
            await conn.execute(write)
    assert is_unreachable(refused.value)
    async with engine.connect() as conn:
        assert await conn.scalar(pid_now) != before
        await conn.execute(write)
    await engine.dispose()


@pytest.mark.scenario("F32")
@pytest.mark.long
async def test_a_failover_under_load_loses_and_doubles_nothing(
    services_home: Path, queue_prefix: str, sqs_endpoint: str, tmp_path: Path
) -> None:
    """F32: 20 running jobs and 10 submits a second; an immediate restart; read-only for a while.

    60 s of read-only are 5 here: longer than a lease, so that every job has lost its own. "Normal
    speed" is told by two things: within 30 s of the last change no submit is refused any more, and
    a job submitted then ends within 30 s more. No rate before and after is compared.
    """
    async with (
        own_server(services_home / f"own-{secrets.token_hex(4)}") as own,
        onlooker(own) as looking,
        own_fleet(own, queue_prefix, sqs_endpoint, tmp_path) as fleet,
    ):
        workers = [fleet.worker(CHOT_CONCURRENCY="10") for _ in range(2)]
        await working(*workers)
        running = [await make_job(looking, chunks=24, seconds=0.5) for _ in range(20)]
        await eventually(lambda: _count(looking, RUNNING, 20), seconds=30)
        async with api_of(fleet) as http:
            traffic = Traffic(http)
            posting = asyncio.create_task(traffic.run(rate=10, seconds=25))
            await own.restart()
            await eventually(lambda: _back(traffic), seconds=30)
            await own.configure("default_transaction_read_only", "on")
            await eventually(lambda: _ready_is(http, 503), seconds=15)
            await asyncio.sleep(5)  # how long nothing can be written
            assert (await http.get("/readyz")).status_code == 503
            await own.configure("default_transaction_read_only", None)
            writable = monotonic()
            await eventually(lambda: _ready_is(http, 200), seconds=NORMAL_SECONDS)
            await posting
            assert {status for _, _, status, _ in traffic.answers} == {202, 503}
            assert traffic.last(503) - writable < NORMAL_SECONDS
            assert await traffic.submit() == 202
            await all_reached(looking, traffic.accepted[-1:], "succeeded", seconds=NORMAL_SECONDS)
        await all_reached(looking, [*running, *traffic.accepted], "succeeded", seconds=90)
        await written_once(looking, running, chunks=24)
        await written_once(looking, traffic.accepted, chunks=1)
        failed = "SELECT count(*) FROM chot.attempts WHERE outcome = 'failed'"
        assert await scalar(looking, failed) == 0, "an outage is nobody's failure"
        assert all(child.alive for child in fleet.children)


async def _count(engine: Any, query: str, wanted: int) -> bool:
    return bool(await scalar(engine, query) == wanted)


async def _back(traffic: Traffic) -> bool:
    """Whether the newest answers are good again, after one that was not."""
    bad = max((at for at, _, status, _ in traffic.answers if status != 202), default=0.0)
    return bad > 0 and sum(at > bad for at, _, status, _ in traffic.answers if status == 202) >= 5


async def _ready_is(http: Any, status: int) -> bool:
    return bool((await http.get("/readyz")).status_code == status)


# Twice as many processes as the server has connections for

BUDGET = {"CHOT_CONCURRENCY": "4", "CHOT_POOL_SIZE": "11"}
PER_PROCESS = 11 + 4 + 1  # the pool, one reader a slot, the heartbeat


def connections_of(child: Child, port: int) -> int:
    """Sockets of the process that are connected to that port of this machine."""
    inodes = set()
    for link in Path(f"/proc/{child.pid}/fd").glob("*"):
        try:
            inodes.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
        except OSError:
            continue
    peer, established = f"0100007F:{port:04X}", "01"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[2] == peer and row[3] == established and row[9] in inodes for row in rows)


@contextmanager
def watched_budgets(fleet: Fleet, port: int) -> Iterator[dict[str, int]]:
    """The most connections that each worker ever had, looked at every 50 ms."""
    most: dict[str, int] = {}

    async def look() -> None:
        while True:
            for child in fleet.workers:
                if child.alive:
                    now = connections_of(child, port)
                    most[child.name] = max(most.get(child.name, 0), now)
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        yield most
    finally:
        looking.cancel()


def refused_for_lack(child: Child) -> int:
    """How often the process was told that there are too many connections (53300)."""
    told = ("too many clients", "connection slots are reserved", "too many connections")
    return sum(any(words in str(line) for words in told) for line in log_lines(child))


@pytest.mark.scenario("F34")
@pytest.mark.long
async def test_twice_the_planned_workers_cost_no_lease_and_no_process(
    services_home: Path, queue_prefix: str, sqs_endpoint: str, tmp_path: Path
) -> None:
    """F34 (b): max_connections 40 has room for two workers; three times two more come at once.

    They and others of their release take what is left, to the last connection: the new ones are
    refused while they start, and the old ones whenever their pools want one more.
    """
    async with (
        own_server(services_home / f"own-{secrets.token_hex(4)}", max_connections="40") as own,
        onlooker(own) as looking,
        own_fleet(own, queue_prefix, sqs_endpoint, tmp_path) as fleet,
    ):
        with watched_budgets(fleet, own.server.port) as most:
            old = [fleet.worker(**BUDGET) for _ in range(2)]
            await working(*old)
            jobs = [await make_job(looking, chunks=4, hold_seconds=0.8) for _ in range(40)]
            for _ in range(3):
                async with nothing_left(own.database.app_url):
                    new = [fleet.worker(**BUDGET) for _ in range(2)]
                    await eventually(lambda: _all_refused(new), seconds=40)  # noqa: B023 - awaited here
                    await asyncio.sleep(fleet.lease)  # an overlap takes its time
                assert all(worker.alive for worker in [*old, *new]), "no crash loop"
                await working(*new)
                for worker in old:
                    worker.send(signal.SIGTERM)
                for worker in old:
                    assert await exited(worker, seconds=60) == 0
                old = new
            await all_reached(looking, jobs, "succeeded", seconds=120)
        assert all(worker.alive for worker in old), "no crash loop"
        assert max(most.values()) <= PER_PROCESS, most
        assert len(most) == 8
        lost = await fetch(looking, "SELECT id FROM chot.jobs WHERE lost_leases > 0")
        assert lost == [], "no lease was lost"
        await written_once(looking, jobs, chunks=4)
        failed = "SELECT count(*) FROM chot.attempts WHERE outcome = 'failed'"
        assert await scalar(looking, failed) == 0


@asynccontextmanager
async def nothing_left(url: str) -> AsyncIterator[None]:
    """Take every connection that the server has left to give, and give them back."""
    taken: list[asyncpg.Connection] = []
    try:
        while len(taken) < 100:
            try:
                taken.append(await asyncpg.connect(url))
            except asyncpg.TooManyConnectionsError:
                break
        yield
    finally:
        await asyncio.gather(*(each.close() for each in taken))


async def _all_refused(workers: list[Child]) -> bool:
    return all(refused_for_lack(each) > 0 for each in workers)
