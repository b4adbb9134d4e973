"""Jobs that kill their process (F13)."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.types import JobId
from tests.factories import eventually, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import alerts, all_reached, effects, error_of, outcomes, reached
from tests.scenarios.looking import Audit, Queue, post_job

MEMORY_KIB = 256 * 1024
WATCH_SECONDS = 0.05
MAX_ATTEMPTS = 3
# Design, Job states: a job is buried when it has lost twice its attempts.
LOST_LEASES = 2 * MAX_ATTEMPTS
# A message whose receiver died before its first heartbeat is hidden for the queue's own 60 s.
HIDDEN_SECONDS = 75


class Container:
    """One worker under a memory limit and a restart policy, as an orchestrator would hold it."""

    def __init__(self, fleet: Fleet, **changes: str) -> None:
        self._fleet, self._changes = fleet, changes
        self.deaths: list[int] = []
        self.worker = self._start()

    async def run(self) -> None:
        """Kill the worker when it takes too much; start a new one for each that has died."""
        while True:
            if not self.worker.alive:
                self.deaths.append(self.worker.exit_code or 0)
                self.worker = self._start()
            elif _resident_kib(self.worker.pid) > MEMORY_KIB:
                self.worker.kill()
            await asyncio.sleep(WATCH_SECONDS)

    def _start(self) -> Child:
        return self._fleet.worker(**self._changes)


def _resident_kib(pid: int) -> int:
    """What the process holds of the machine's memory; 0 when it is just gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    return int(found[0]) if found else 0


@pytest.mark.long
@pytest.mark.scenario("F13")
async def test_jobs_that_exit_or_eat_all_memory_are_buried_and_their_neighbours_are_not(
    fleet: Fleet, audit: Audit, http: httpx.AsyncClient, queue: Queue
) -> None:
    """`os._exit(137)` and a job that takes memory until it is killed at 256 MB, with three normal
    jobs on the same worker, which is started again each time. Lease 2 s, three attempts.
    """
    fleet.lease = 2.0
    kind = "probe.misbehave"
    exits = await post_job(http, kind, how="exit", max_attempts=MAX_ATTEMPTS)
    eats = await post_job(http, kind, how="eat_memory", max_attempts=MAX_ATTEMPTS)
    normal = [await post_job(http, chunks=6, seconds=0.5) for _ in range(3)]
    await queue.holds(5)
    container = Container(fleet, CHOT_CONCURRENCY="5")
    restarting = asyncio.create_task(container.run())
    try:
        await all_reached(audit.engine, [exits, eats], "dead", seconds=240)
        await all_reached(audit.engine, normal, "succeeded", seconds=60)
        deaths = len(container.deaths)
        for killer in (exits, eats):
            await _buried(audit, fleet, killer)
        await _neighbours_are_well(audit.engine, normal)
        await _no_run_more(audit.engine, http, queue)
        assert len(container.deaths) == deaths
    finally:
        restarting.cancel()
        await asyncio.wait({restarting})
    assert set(container.deaths) == {137, -signal.SIGKILL}, "each in its own way"


async def _buried(audit: Audit, fleet: Fleet, killer: JobId) -> None:
    """Counted at each claim, before it could kill; dead with its reason; one alert."""
    row = await job_row(audit.engine, killer)
    assert (row.attempt, row.fence, row.lost_leases) == (LOST_LEASES,) * 3
    claims = [each for each in await audit.rows(killer) if _is_claim(each.old_fence, each.fence)]
    assert [each.attempt for each in claims] == list(range(1, LOST_LEASES + 1))
    assert await outcomes(audit.engine, killer) == ["lost_lease"] * LOST_LEASES
    assert (await error_of(audit.engine, killer))["code"] == "WORKER_LOST"
    told = [line["job_id"] for line in alerts(fleet.workers, "job.dead")]
    assert told.count(str(killer)) == 1


def _is_claim(old_fence: int | None, fence: int) -> bool:
    return old_fence is not None and fence > old_fence


async def _neighbours_are_well(engine: AsyncEngine, normal: list[JobId]) -> None:
    """They lose two leases at most (then they run alone), and none of it is charged."""
    for job_id in normal:
        row = await job_row(engine, job_id)
        assert row.lost_leases <= 2
        assert row.attempt - row.lost_leases - row.interruptions == 1
        assert [chunk for chunk, _ in await effects(engine, job_id)] == list(range(6))


async def _no_run_more(engine: AsyncEngine, http: httpx.AsyncClient, queue: Queue) -> None:
    """Reaper and reconciler go round several times while an ordinary job runs."""
    claims = "SELECT count(*) FROM chot.attempts"
    before = await scalar(engine, claims)
    await reached(engine, await post_job(http, chunks=8, seconds=1.0), "succeeded", seconds=60)
    await queue.holds(0, seconds=HIDDEN_SECONDS)
    assert queue.dead == (0, 0)
    await eventually(lambda: _outbox_empty(engine))
    assert await scalar(engine, claims) == before + 1


async def _outbox_empty(engine: AsyncEngine) -> bool:
    return bool(await scalar(engine, "SELECT count(*) FROM chot.outbox") == 0)
