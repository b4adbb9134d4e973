"""Locks under concurrency: eight claimers on connections of their own, in parts and ranges."""

import asyncio
import random
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine, sqlstate_of
from shared.types import JobId
from tests.factories import TIMING, autocommit, expire_lease, fetch
from tests.protocol.locking import (
    claimer,
    conflicts,
    is_waiting,
    leave_locked,
    locked_job,
    locks,
    net,
    staged,
    try_claim,
    waiting,
)
from tests.protocol.locking import running as running_job
from tests.services import Database
from worker.claim import claim_jobs
from worker.lease import HeldLease
from worker.reaper import reap_guarded

__all__ = ["locks"]
CLAIMERS = 8
PERIODS = ((None, None), ("2026-08", None), (None, "2026-08"), ("2026-07", "2026-07"))
TAKE = text("""
    DELETE FROM chot.outbox WHERE id = (
        SELECT id FROM chot.outbox WHERE next_send_at <= clock_timestamp()
         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING job_id""")
EXITS = ("complete", "retry", "release", "cancel", "reap", "lapse")


class Fleet:
    """Claimers that take what is staged, run it for a moment and end it in some way."""

    def __init__(self, url: str, jobs: list[JobId], seed: int) -> None:
        self.engines = [open_engine(url, pool_size=2) for _ in range(CLAIMERS)]
        self.left = set(jobs)
        self.lapsed: list[HeldLease] = []
        self.met: list[Any] = []
        self.chance = random.Random(seed)

    def note(self, error: DBAPIError) -> None:
        """A lock that was waited for too long is tried again; a deadlock there must never be."""
        if sqlstate_of(error) != "55P03":
            raise error

    async def run(self) -> None:
        """Until every job has ended."""
        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            for n, engine in enumerate(self.engines):
                tasks.create_task(self._claim_on(engine, f"w{n}"))
            tasks.create_task(self._reap())
        for engine in self.engines:
            await engine.dispose()

    async def _claim_on(self, engine: AsyncEngine, name: str) -> None:
        while self.left:
            async with engine.begin() as conn:
                taken = (await conn.execute(TAKE)).all()
            if not taken:
                await asyncio.sleep(0.01)
                continue
            await self._one(engine, name, taken[0].job_id)

    async def _one(self, engine: AsyncEngine, name: str, job_id: JobId) -> None:
        while True:
            try:
                held = await try_claim(engine, job_id, worker=name)
            except DBAPIError as error:
                self.note(error)
                continue
            if held is not None:
                await self._hold(engine, held)
            elif not await self._done_or_waits(engine, job_id):
                continue  # its row was held for a moment
            return

    async def _done_or_waits(self, engine: AsyncEngine, job_id: JobId) -> bool:
        rows = await fetch(
            engine,
            """SELECT j.state, bool_or(l.waiting) AS waiting FROM chot.jobs j
                 JOIN chot.job_locks l ON l.job_id = j.id WHERE j.id = :i GROUP BY j.id""",
            i=job_id,
        )
        return rows[0].state != "pending" or bool(rows[0].waiting)

    async def _hold(self, engine: AsyncEngine, held: HeldLease) -> None:
        self.met += await conflicts(engine)
        await asyncio.sleep(self.chance.uniform(0, 0.01))
        how = self.chance.choice(EXITS)
        if held.lease.fence > 1:  # a second lost lease would make it run alone
            how = self.chance.choice(("complete", "cancel", "release"))
        if how == "lapse":  # its worker is frozen: nobody ends it, and it holds on
            await expire_lease(engine, held.lease.job_id)
            self.lapsed.append(held)
            return
        await self._leave(engine, held, "release" if how == "retry" else how)

    async def _leave(self, engine: AsyncEngine, held: HeldLease, how: str) -> None:
        while True:
            try:
                await leave_locked(engine, held, how)
            except DBAPIError as error:
                self.note(error)
                continue
            break
        if how in {"complete", "cancel"}:
            self.left.discard(held.lease.job_id)

    async def _reap(self) -> None:
        while self.left:
            await asyncio.sleep(0.05)
            if self.lapsed:
                held = self.lapsed.pop(0)
                self.met += await conflicts(self.engines[0])
                await reap_guarded(self.engines[0], TIMING)
                assert not await leave_locked(self.engines[0], held, "complete"), "a zombie"


async def test_eight_claimers_never_meet_a_conflict_and_leave_nobody_waiting(
    locks: AsyncEngine, database: Database
) -> None:
    """On parts and ranges, with every way to end; a lapsed lease holds until it is reaped.

    Nothing but the exits wakes here: the net is not asked.
    """
    chance = random.Random(7)
    jobs = []
    for _ in range(24):
        kind = chance.choice(("locked.write", "locked.write", "locked.read", "locked.two"))
        start, end = chance.choice(PERIODS)
        payload: dict[str, Any] = {
            "part": chance.choice((None, "x", "y", "z")),
            "start": start,
            "end": end,
        }
        if kind == "locked.two":
            payload["other"] = "stock"
        root = chance.choice(("books", "books", "stock"))
        jobs.append(await locked_job(locks, kind, root=root, **payload))
    fleet = Fleet(database.app_url, jobs, seed=7)
    await fleet.run()
    assert fleet.met == []
    states = await fetch(locks, "SELECT DISTINCT state FROM chot.jobs")
    assert {row.state for row in states} <= {"succeeded", "cancelled"}
    assert await fetch(locks, "SELECT 1 FROM chot.job_locks WHERE waiting") == []


@pytest.mark.parametrize(
    "pair", [("locked.write", "locked.write"), ("locked.write", "locked.read")]
)
async def test_of_two_claims_at_once_one_wins(
    locks: AsyncEngine, database: Database, pair: tuple[str, str]
) -> None:
    """⚑ Checked in the statement that claims, both would win nearly always."""
    engines = [open_engine(database.app_url, pool_size=1) for _ in range(CLAIMERS)]
    for round_no in range(12):
        root = f"r{round_no}"
        jobs = [await locked_job(locks, pair[n % 2], root=root) for n in range(CLAIMERS)]
        claims = await asyncio.gather(
            *(
                claim_jobs(autocommit(engine), claimer(), [job_id], wait=True)
                for engine, job_id in zip(engines, jobs, strict=True)
            )
        )
        won = [held for each in claims for held in each]
        assert await conflicts(locks) == []
        assert won
        lost = set(jobs) - {held.lease.job_id for held in won}
        assert all([await is_waiting(locks, job_id) for job_id in lost])
    for engine in engines:
        await engine.dispose()


async def test_the_net_is_quiet_when_everybody_is_woken(locks: AsyncEngine) -> None:
    """It finds nobody that the exits have not found."""
    holder = await running_job(locks)
    first = await waiting(locks)
    await leave_locked(locks, holder, "complete")
    assert await net(locks) == 0
    assert await staged(locks) == [first]
