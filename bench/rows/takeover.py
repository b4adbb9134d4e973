"""How long until another worker has finished the job of one that was killed, or that was stopped.

One owner is killed (SIGKILL); another is stopped (SIGSTOP) inside an open transaction that has
written. From the signal to the success of the next attempt, by the database's clock. A killed
process's connections end with it, so its bound is lease + reaper; a stopped one's transaction
is ended by the server: lease + idle timeout + reaper.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bench.drains import submit_many
from bench.figures import Figure, count, difference
from bench.kinds import HOLD, OPEN
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import Child

MOST_ABOVE = 1.0
LONGEST_SECONDS = 180.0
ONE_SLOT = {"CHOT_CONCURRENCY": "1", "CHOT_QUEUES": "default:1"}
HELD = """
    SELECT j.kind, j.id, w.pid FROM chot.jobs j JOIN chot.workers w ON w.worker_id = j.worker_id
     WHERE j.state = 'running'"""
# Only of a transaction that stands open after its write.
STANDS_OPEN = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'idle in transaction'
       AND usename = 'chot_app' AND backend_xid IS NOT NULL"""
ENDED = """
    SELECT j.id, extract(epoch FROM j.finished_at - $2::timestamptz)::float AS seconds, j.fence,
           (SELECT count(*) FROM bench.effects e WHERE e.job_id = j.id) AS effects
      FROM chot.jobs j WHERE j.id = ANY($1) AND j.state = 'succeeded'"""


@dataclass(slots=True)
class Taking:
    """What a round needs."""

    place: Place
    sizes: Sizes

    @property
    def env(self) -> dict[str, str]:
        """The defaults at a lease of 30 seconds; a shorter one takes the others along."""
        lease = self.sizes["lease"]
        if lease == 30:
            return dict(ONE_SLOT)
        return ONE_SLOT | {
            "CHOT_LEASE_SECONDS": str(lease),
            "CHOT_HEARTBEAT_SECONDS": str(lease / 4),
            "CHOT_VISIBILITY_SECONDS": str(2 * lease),
            "CHOT_REAPER_SECONDS": str(self.sizes["reaper"]),
        }

    @property
    def idle_timeout(self) -> float:
        """As it is derived from the lease."""
        return min(20.0, self.sizes["lease"] * 2 / 3)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Taking]:
    """Each round has a platform of its own: its workers end with it."""
    yield Taking(place, sizes)


async def limit(taking: Taking) -> Measured:
    """What the settings allow for."""
    bound = taking.sizes["lease"] + taking.sizes["reaper"]
    return {"killed": bound, "stopped": bound + taking.idle_timeout}


async def ours(taking: Taking) -> Measured:
    """Two owners lost at the same moment; a third worker has been idle."""
    async with taking.place.platform(**taking.env) as platform:
        workers = [platform.worker(), platform.worker()]
        await submit_many(platform, 1, kind=HOLD, seconds=3600.0)
        await submit_many(platform, 1, kind=OPEN, seconds=3600.0)
        killed, stopped = await _owners(platform, workers)
        platform.worker()
        moment = await platform.superuser.fetchval("SELECT clock_timestamp()")
        killed[1].send(signal.SIGKILL)
        stopped[1].send(signal.SIGSTOP)
        rows = await _ends(platform, [killed[0], stopped[0]], moment)
    if rows[killed[0]]["fence"] < 2 or rows[stopped[0]]["fence"] < 2:
        raise BenchFailed("a job has ended without another claim")
    if rows[stopped[0]]["effects"] != 1:
        raise BenchFailed(f"{rows[stopped[0]]['effects']} effects of the job that was taken over")
    return {name: rows[job[0]]["seconds"] for name, job in _named(killed, stopped).items()}


def _named(killed: Any, stopped: Any) -> Mapping[str, Any]:
    return {"killed": killed, "stopped": stopped}


async def _owners(
    platform: Platform, workers: Sequence[Child]
) -> tuple[tuple[UUID, Child], tuple[UUID, Child]]:
    """The job and the worker of each, once both run and the transaction stands open."""
    by_pid = {worker.pid: worker for worker in workers}
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            held = {row["kind"]: row for row in await platform.superuser.fetch(HELD)}
            if len(held) == 2 and await platform.superuser.fetchval(STANDS_OPEN):
                kill, stop = held[HOLD], held[OPEN]
                return (kill["id"], by_pid[kill["pid"]]), (stop["id"], by_pid[stop["pid"]])
            await asyncio.sleep(0.05)


async def _ends(platform: Platform, ids: Sequence[UUID], moment: object) -> Mapping[UUID, Any]:
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            rows = await platform.superuser.fetch(ENDED, ids, moment)
            if len(rows) == len(ids):
                return {row["id"]: row for row in rows}
            await asyncio.sleep(0.1)


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Above the bound; below 0 is earlier."""
    figures = [
        difference(
            f"owner {name}: above the bound",
            each(ours, name),
            each(limits, name),
            unit="s",
            at_most=MOST_ABOVE,
        )
        for name in ("killed", "stopped")
    ]
    return [
        *figures,
        *(count(f"owner {n}", each(ours, n), unit="s") for n in ("killed", "stopped")),
    ]


ROW = Row(
    name="takeover",
    title="takeover after SIGKILL, and of a SIGSTOPped owner inside an open transaction",
    against="lease + reaper; lease + idle timeout + reaper",
    sizes={
        Scale.TINY: {"rounds": 1, "lease": 3, "reaper": 1},
        Scale.QUICK: {"rounds": 1, "lease": 6, "reaper": 1},
        Scale.USUAL: {"rounds": 1, "lease": 30, "reaper": 5},
        Scale.LONG: {"rounds": 5, "lease": 30, "reaper": 5},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
)
