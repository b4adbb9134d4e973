"""F44: idle connections are the balancer's to close, and a lost answer is found by its key."""

import asyncio
import random
from uuid import uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from tests.factories import eventually, make_job, scalar
from tests.fleet import Fleet
from tests.scenarios.balancer import Balancer, open_balancer
from tests.scenarios.test_requests import send, submit

BALANCER_IDLE_SECONDS = 60  # nginx's upstream keepalive_timeout, and AWS's idle time-out
JITTER_SECONDS = 0.05


async def api_port(fleet: Fleet, **changes: str) -> int:
    """The port of an api process of this test's own."""
    _, url = await asyncio.to_thread(fleet.api, **changes)
    return int(url.rpartition(":")[2])


@pytest.mark.scenario("F44")
def test_by_default_the_api_outlasts_a_balancer() -> None:
    """F44: API keep-alive > balancer idle time by default; less is refused (test_processes)."""
    settings = ApiSettings.model_validate({"database_url": "postgresql://x@y/z"})
    assert settings.api_keep_alive_seconds >= BALANCER_IDLE_SECONDS + 5
    assert settings.balancer_idle_seconds == BALANCER_IDLE_SECONDS
    assert settings.longest_wait == BALANCER_IDLE_SECONDS / 2


async def posts(balancer: Balancer, *, count: int, every: float) -> list[int]:
    """The status of each POST through the balancer, one every so many seconds, give or take."""
    statuses = []
    async with httpx.AsyncClient(base_url=balancer.url, timeout=30) as client:
        for _ in range(count):
            statuses.append((await send(client, submit(), str(uuid4()))).status_code)
            pause = every + random.uniform(-JITTER_SECONDS, JITTER_SECONDS)
            await asyncio.sleep(pause)  # the scenario's own rhythm; nothing is waited for
    return statuses


@pytest.mark.scenario("F44")
@pytest.mark.parametrize(
    ("keep_alive", "idle", "every", "count"),
    [
        pytest.param(2, 1, 1.0, 8, id="scaled"),
        pytest.param(75, 60, 5.0, 24, id="defaults", marks=pytest.mark.long),
    ],
)
async def test_no_post_meets_a_connection_that_is_being_closed(
    fleet: Fleet, probes: AsyncEngine, *, keep_alive: int, idle: int, every: float, count: int
) -> None:
    """F44: one POST every 5.00 ± 0.05 s (20 min there; 2 min here, and 8 s with a 1 s balancer).

    No 502, and the kept connections are really used.
    """
    port = await api_port(
        fleet,
        CHOT_API_KEEP_ALIVE_SECONDS=str(keep_alive),
        CHOT_BALANCER_IDLE_SECONDS=str(idle),
    )
    async with open_balancer(port, idle=idle) as balancer:
        # A pair of quick ones, so that a connection is kept and used whatever the rhythm.
        assert await posts(balancer, count=2, every=JITTER_SECONDS) == [202] * 2
        assert await posts(balancer, count=count, every=every) == [202] * count
        assert balancer.reused >= 1
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == count + 2


async def test_the_balancer_of_these_tests_would_tell(fleet: Fleet, probes: AsyncEngine) -> None:
    """An api that closes first, as one that does not know its balancer does: the client gets 502."""
    port = await api_port(fleet, CHOT_API_KEEP_ALIVE_SECONDS="2", CHOT_BALANCER_IDLE_SECONDS="1")
    assert probes is not None
    async with open_balancer(port, idle=60) as balancer:
        assert await posts(balancer, count=1, every=JITTER_SECONDS) == [202]
        ((_, (reader, _)),) = balancer.kept

        async def closed() -> bool:
            return reader.at_eof()

        await eventually(closed)
        assert await posts(balancer, count=1, every=JITTER_SECONDS) == [502]


async def test_no_wait_is_longer_than_the_balancers_patience(
    fleet: Fleet, probes: AsyncEngine
) -> None:
    """`?wait=30` behind a balancer that calls two seconds silence: answered after one."""
    port = await api_port(fleet, CHOT_API_KEEP_ALIVE_SECONDS="3", CHOT_BALANCER_IDLE_SECONDS="2")
    job_id = await make_job(probes)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=15) as client:
        answer = await client.get(f"/v1/jobs/{job_id}", params={"wait": "30"})
    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    assert answer.elapsed.total_seconds() < 10, "half of the balancer's time, on a slow machine"


@pytest.mark.scenario("F44")
async def test_an_answer_lost_after_the_commit_is_found_by_its_key(
    fleet: Fleet, probes: AsyncEngine
) -> None:
    """F44: the connection drops after the commit, before the reply; the retry gets the same job."""
    port = await api_port(fleet)
    async with (
        open_balancer(port, idle=60) as balancer,
        httpx.AsyncClient(base_url=balancer.url, timeout=30) as client,
    ):
        body, key = submit(), str(uuid4())
        balancer.lose_answers = 1
        with pytest.raises(httpx.TransportError):
            await send(client, body, key)
        assert balancer.lost == 1
        job_id = await scalar(probes, "SELECT id FROM chot.jobs")
        again = await send(client, body, key)
    assert (again.status_code, again.json()["id"]) == (202, str(job_id))
    assert again.headers["idempotency-replayed"] == "true"
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1
