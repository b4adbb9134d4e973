"""Cancels and retries that race with start and finish (F10), and handlers told to stop (F09)."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.types import JobId
from tests.factories import eventually, execute, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    all_reached,
    children_of,
    effects,
    fenced,
    reached,
    working,
)
from tests.scenarios.looking import TERMINAL, Audit, post_job

FEW = (25, 6, 6)
MANY = (300, 100, 100)


@pytest.mark.scenario("F10")
@pytest.mark.parametrize(
    "counts", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"]
)
async def test_cancels_and_retries_race_with_start_and_finish(
    fleet: Fleet, audit: Audit, http: httpx.AsyncClient, counts: tuple[int, int, int]
) -> None:
    """Both steps: cancel 0 to 200 ms after the POST, redrive what runs, cancel what succeeded."""
    cancels, retries, late = counts
    await working(*[fleet.worker() for _ in range(4)])
    rng = random.Random(10)
    raced = [await _race(audit.engine, http, rng) for _ in range(cancels)]
    for _ in range(retries):
        running = await post_job(http, chunks=1, seconds=2.0)
        await fenced(audit.engine, running, 1)
        assert (await _refused(http, running, "redrive"))["state"] == "running"
    done = [await post_job(http) for _ in range(late)]
    await all_reached(audit.engine, done, "succeeded")
    for job_id in done:
        row, rows = await job_row(audit.engine, job_id), await audit.rows(job_id)
        problem = await _refused(http, job_id, "cancel")
        assert problem["state"] == "succeeded"
        assert await job_row(audit.engine, job_id) == row
        assert await audit.rows(job_id) == rows
    await eventually(lambda: _nothing_runs(audit.engine), seconds=60)
    kinds = Counter([await _one_end(audit, each) for each in raced])
    assert kinds["cancelled"], "some were early enough"
    assert kinds["succeeded"] or counts == FEW, "and of so many, some were too late"
    assert await audit.left_a_terminal_state() == []
    assert await scalar(audit.engine, "SELECT count(*) FROM chot.jobs WHERE fence > 1") == 0
    assert all(worker.alive for worker in fleet.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """A job, and what the cancel said: the effects that were there after its answer."""

    job_id: JobId
    cancelled: bool
    effects: list[tuple[int, int]]


async def _race(engine: AsyncEngine, http: httpx.AsyncClient, rng: random.Random) -> Raced:
    job_id = await post_job(http, chunks=4, seconds=rng.uniform(0, 0.03))
    await asyncio.sleep(rng.uniform(0, 0.2))
    answer = await http.post(f"/v1/jobs/{job_id}/cancel")
    assert answer.status_code in {200, 409}, answer.text
    if answer.status_code == 409:
        assert answer.json()["state"] == "succeeded"
    else:
        assert answer.json()["state"] == "cancelled"
    written = await effects(engine, job_id)
    return Raced(job_id=job_id, cancelled=answer.status_code == 200, effects=written)


async def _refused(http: httpx.AsyncClient, job_id: JobId, what: str) -> dict[str, Any]:
    answer = await http.post(f"/v1/jobs/{job_id}/{what}")
    assert answer.status_code == 409, answer.text
    problem: dict[str, Any] = answer.json()
    return problem


async def _nothing_runs(engine: AsyncEngine) -> bool:
    states = await fetch(engine, "SELECT DISTINCT state FROM chot.jobs")
    return {row.state for row in states} <= set(TERMINAL)


async def _one_end(audit: Audit, raced: Raced) -> str:
    """One terminal state, the one that was answered; nothing written after a cancel's answer."""
    states = await audit.states(raced.job_id)
    ends = [new for _, new in states if new in TERMINAL]
    assert ends == ["cancelled" if raced.cancelled else "succeeded"]
    written = await effects(audit.engine, raced.job_id)
    if raced.cancelled:
        assert written == raced.effects
    else:
        assert [chunk for chunk, _ in written] == list(range(4))
    return ends[0]


ROUNDS = 50
HEARTBEAT_SECONDS, GRACE_SECONDS = 0.75, 1.0  # a quarter of the fleet's lease; its kill grace
# As an operator or a failover would take the lease away: another token, and nobody renews it.
REVOKE = """
    UPDATE chot.jobs SET fence = fence + 1, lease_token = gen_random_uuid(), worker_id = 'nobody',
           lease_expires_at = clock_timestamp() - interval '1 second'
     WHERE id = :job_id AND state = 'running'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A worker of two slots whose jobs compute in child processes."""

    engine: AsyncEngine
    fleet: Fleet
    http: httpx.AsyncClient
    worker: Child

    async def stop_one(self, how: str) -> None:
        """Start a job, stop it while its child computes, and hold what must hold."""
        kind = "probe.brief" if how == "times out" else "probe.misbehave"
        job_id = await post_job(
            self.http, kind, how="child_chunks", seconds=60.0, only_first=True, max_attempts=2
        )
        await eventually(lambda: effects(self.engine, job_id), every=0.02)
        written = await self._stop(job_id, how)
        await eventually(
            lambda: self._ended(job_id), seconds=2 * HEARTBEAT_SECONDS + GRACE_SECONDS, every=0.02
        )
        if how == "cancelled":
            assert await effects(self.engine, job_id) == written
            return
        row = await reached(self.engine, job_id, "succeeded")
        now = await effects(self.engine, job_id)
        assert [each for each in now if each[1] == 1] == written, "nothing under the old token"
        assert now[len(written) :] == [(0, row.fence)], "the new owner's one effect"

    async def _stop(self, job_id: JobId, how: str) -> list[tuple[int, int]]:
        """Returns the effects as they stood once the stop had been answered."""
        if how == "cancelled":
            answer = await self.http.post(f"/v1/jobs/{job_id}/cancel")
            assert answer.status_code == 200, answer.text
        elif how == "revoked":
            await execute(self.engine, REVOKE, job_id=job_id)
        else:
            found = await eventually(lambda: self._error(job_id), every=0.02)
            assert found["code"] == "TIMEOUT"
        return [each for each in await effects(self.engine, job_id) if each[1] == 1]

    async def _error(self, job_id: JobId) -> Any:
        return await scalar(
            self.engine,
            "SELECT error FROM chot.attempts WHERE job_id = :id AND fence = 1",
            id=job_id,
        )

    async def _ended(self, job_id: JobId) -> bool:
        lines = self.fleet.events(self.worker, "attempt.ended")
        return any(line["job_id"] == str(job_id) and line["fence"] == 1 for line in lines)

    async def no_child_left(self) -> bool:
        """Whether all child processes have ended."""
        return not children_of(self.worker.pid)


@pytest.mark.scenario("F09")
@pytest.mark.parametrize(
    "rounds", [4, pytest.param(ROUNDS, marks=pytest.mark.long)], ids=["few", "fifty"]
)
async def test_a_handler_that_is_stopped_leaves_no_child_no_effect_and_its_slot(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient, rounds: int
) -> None:
    """Both steps: lease revoked by SQL, cancelled over HTTP, timeout passed, two at a time; then
    ten ordinary jobs that need both slots.
    """
    worker = fleet.worker(CHOT_CONCURRENCY="2")
    await working(worker)
    pool = Pool(engine=probes, fleet=fleet, http=http, worker=worker)
    ways = ("revoked", "cancelled", "times out")
    for number in range(0, rounds, 2):
        pair = (ways[number % 3], ways[(number + 1) % 3])
        await asyncio.gather(*(pool.stop_one(how) for how in pair))
        await eventually(pool.no_child_left, seconds=GRACE_SECONDS)
    ids = [await post_job(http, chunks=1, seconds=0.5) for _ in range(10)]
    await all_reached(probes, ids, "succeeded")
    assert await _most_at_once(probes, ids) == 2
    assert worker.alive


async def _most_at_once(engine: AsyncEngine, ids: list[JobId]) -> int:
    """How many of these jobs ran at the same moment."""
    found: int = await scalar(
        engine,
        """SELECT max(n) FROM (
               SELECT (SELECT count(*) FROM chot.attempts b WHERE b.job_id = ANY(:ids)
                          AND b.started_at <= a.started_at AND b.ended_at > a.started_at) AS n
                 FROM chot.attempts a WHERE a.job_id = ANY(:ids)) AS counts""",
        ids=ids,
    )
    return found
