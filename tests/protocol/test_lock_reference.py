"""Locks against the slow reference: who runs, waits, may be claimed and is woken, step by step."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.jobs.cancel import cancel_job
from shared.jobs.locks import UNLOCKED
from shared.types import JobId
from tests.factories import execute, fetch
from tests.protocol.lock_reference import Job, Lock, Reference
from tests.protocol.locking import (
    claimer,
    leave_locked,
    locked_job,
    locks,
    net,
    staged,
    try_claim,
)
from tests.services import Database
from worker.lease import HeldLease

__all__ = ["locks"]
ROOTS, PARTS = ("a", "b"), (None, "x", "y")
PERIODS = ((None, None), ("2026-08", None), (None, "2026-07"), ("2026-07-15", "2026-08"))
KINDS = ("locked.write", "locked.read", "locked.both", "locked.two")
SUBMIT = st.tuples(
    st.just("submit"),
    st.sampled_from(KINDS),
    st.sampled_from(ROOTS),
    st.sampled_from(ROOTS),
    st.sampled_from(PARTS),
    st.sampled_from(PERIODS),
    st.sampled_from((3, 5, 5, 5, 8)),
)
ACT = st.tuples(
    st.sampled_from(
        ("claim", "claim", "claim", "complete", "retry", "release", "reap", "cancel", "stop", "go")
    ),
    st.integers(min_value=0, max_value=11),
)
STEPS = st.lists(st.one_of(SUBMIT, ACT, ACT), min_size=6, max_size=24)


def locks_of(kind: str, root: str, other: str, part: str | None, periods: Any) -> tuple[Lock, ...]:
    """What a job of tests.probes.lock_kinds locks."""
    mode = "shared" if kind == "locked.read" else "exclusive"
    mine: list[Lock] = [(root, part, mode, *periods)]
    if kind in {"locked.both", "locked.two"}:
        second = "shared" if kind == "locked.both" else "exclusive"
        mine.append((other, None, second, None, None))
    return tuple(mine)


class Both:
    """The database and the reference, moved together."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.reference = Reference()
        self.ids: list[JobId] = []
        self.held: dict[int, HeldLease] = {}

    async def submit(self, *asked: Any) -> None:
        """The same job in both."""
        kind, root, other, part, periods, priority = asked
        payload = {"root": root, "part": part, "start": periods[0], "end": periods[1]}
        if kind in {"locked.both", "locked.two"}:
            payload["other"] = other
        job_id = await locked_job(self.engine, kind, priority=priority, **payload)
        mine = locks_of(kind, root, other, part, periods)
        self.ids.append(job_id)
        self.reference.jobs.append(Job(len(self.ids) - 1, mine, priority))

    async def act(self, what: str, which: int) -> None:
        """One step with one of the jobs there are."""
        if not self.ids:
            return
        job = self.reference.jobs[which % len(self.ids)]
        acts: dict[str, Callable[[Job], Awaitable[None]]] = {
            "claim": self._claim,
            "cancel": self._cancel,
            "stop": self._stop,
            "go": self._go,
        }
        if what in acts:
            await acts[what](job)
        elif job.state == "running":
            await self._leave(job, what)

    async def _claim(self, job: Job) -> None:
        if job.state != "pending":
            return
        await execute(self.engine, "DELETE FROM chot.outbox WHERE job_id = :i", i=self.ids[job.n])
        held = await try_claim(self.engine, self.ids[job.n])
        assert self.reference.claim(job) == (held is not None), job
        if held is not None:
            self.held[job.n] = held

    async def _leave(self, job: Job, how: str) -> None:
        assert await leave_locked(self.engine, self.held.pop(job.n), how)
        await self._due_again(job)
        self.reference.leave(job, "succeeded" if how == "complete" else "pending")

    async def _due_again(self, job: Job) -> None:
        await execute(
            self.engine,
            """UPDATE chot.jobs SET available_at = clock_timestamp(), lost_leases = 0, attempt = 0,
                      interruptions = 0
                WHERE id = :i""",
            i=self.ids[job.n],
        )
        job.stopped = False

    async def _cancel(self, job: Job) -> None:
        async with self.engine.begin() as conn:
            assert await cancel_job(conn, self.ids[job.n]) == (job.state in {"pending", "running"})
        if job.state in {"pending", "running"}:
            self.reference.leave(job, "cancelled")
            self.held.pop(job.n, None)

    async def _stop(self, job: Job) -> None:
        if job.state == "pending":
            await self._due(job, 3600)
            job.stopped = True
            await net(self.engine)

    async def _go(self, job: Job) -> None:
        if job.state == "pending" and job.stopped:
            await self._due(job, 0)
            job.stopped = False
            await net(self.engine)

    async def _due(self, job: Job, later: float) -> None:
        await execute(
            self.engine,
            """UPDATE chot.jobs SET available_at = clock_timestamp() + make_interval(secs => :later)
                WHERE id = :i""",
            i=self.ids[job.n],
            later=later,
        )

    async def compare(self) -> None:
        """States, waiters, who may run; and nobody who may run is left without a message."""
        rows = await fetch(
            self.engine,
            f"""SELECT j.id, j.state, j.state = 'pending' AND {UNLOCKED} AS unlocked,
                       coalesce((SELECT bool_and(l.waiting) FROM chot.job_locks l
                                  WHERE l.job_id = j.id), false) AS waiting
                  FROM chot.jobs j""",
        )
        found = {row.id: row for row in rows}
        messages = set(await staged(self.engine))
        left = self.reference.left_waiting()
        for job in self.reference.jobs:
            row = found[self.ids[job.n]]
            assert (row.state, row.waiting) == (job.state, job.waiting), job
            if job.state == "pending" and not job.stopped:
                assert row.unlocked == self.reference.may_run(job), job
            assert job.n not in left or row.id in messages, ("left waiting", job)


@pytest.fixture
def own_engine(database: Database, locks: AsyncEngine) -> str:
    """The address of a database that knows the kinds that lock."""
    assert locks is not None
    return database.app_url


@pytest.mark.long
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_the_database_agrees_with_the_reference(own_engine: str, steps: list[Any]) -> None:
    """Whatever is submitted, claimed, ended, cancelled and stopped, in whatever order."""
    asyncio.run(_run(own_engine, steps))


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_the_database_agrees_in_a_few_examples(own_engine: str, steps: list[Any]) -> None:
    """The same, few and always the same ones."""
    asyncio.run(_run(own_engine, steps))


async def _run(url: str, steps: list[Any]) -> None:
    engine = open_engine(url, pool_size=2)
    try:
        # Jobs of an earlier example hold nothing, wait for nothing.
        await execute(
            engine,
            """UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp(),
                      lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
                WHERE state IN ('pending', 'running')""",
        )
        await execute(engine, "UPDATE chot.job_locks SET waiting = false")
        await execute(engine, "DELETE FROM chot.outbox")
        both = Both(engine)
        for step in steps:
            if step[0] == "submit":
                await both.submit(*step[1:])
            else:
                await both.act(*step)
            await both.compare()
    finally:
        await engine.dispose()


def test_the_claimer_knows_what_it_claims() -> None:
    """A claimer that knew none of these kinds would never win, and prove nothing."""
    assert set(KINDS) <= set(claimer().kinds)
