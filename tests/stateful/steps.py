"""What the steps of the machine are made of: who holds what, and how an answer is read."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.errors import Conflict, LeaseLost
from shared.outbox import Relay
from tests.probes.handlers import HANDLERS
from tests.stateful.checks import Checks
from tests.stateful.model import Job, Model
from tests.stateful.world import Queue, World
from worker.lease import HeldLease

KINDS = st.sampled_from(["probe.follow", "probe.merge", "probe.write"])
WORKERS = st.sampled_from(["a", "b", "c"])
ITEMS = st.sampled_from(["x", "y", "z"])
# The first is mostly the one that something can happen to.
WHICH = st.sampled_from((0, 0, 1, 0, 2, 3))
HANDLED = {handler.kind: handler for handler in HANDLERS}
LATER_SECONDS = 3600
LOCKED = "55P03"


@dataclass(slots=True, eq=False)
class Open:
    """An open transaction of a lease: `scope` in its body, or `conn` behind its fence."""

    held: HeldLease
    completes: bool
    scope: Any = None
    conn: AsyncConnection | None = None


class Abandoned(Exception):
    """Ends a body that nobody will finish."""


class Steps(RuleBasedStateMachine):
    """What is open, believed and known while a machine runs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.model = Model()
        self.checks = Checks(world, self.model)
        self.leases: list[HeldLease] = []
        self.bodies: list[Open] = []
        self.fenced: list[Open] = []
        self.queue = Queue()
        self.relay = Relay(world.auto, self.queue, poll_seconds=1)
        world.run(world.clean())

    def teardown(self) -> None:
        """Roll back whatever is open."""
        for body in self.bodies:
            self.world.run(abandon(body))
        for held in self.fenced:
            self.world.run(end(held, commit=False))

    # What rules are made of.

    def job(self, which: int, *states: str) -> Job:
        """One of the jobs: those in these states first, then the newest."""
        likely = [job for job in self.model.jobs if job.state not in states]
        likely += [job for job in self.model.jobs if job.state in states]
        return likely[-1 - which % len(likely)]

    def lease(self, which: int) -> HeldLease:
        """One of the leases that workers believe in: the good ones first, then the newest."""
        good = [held for held in self.leases if self._exits(held)[1] != "lost"]
        likely = [held for held in self.leases if held not in good] + good
        return likely[-1 - which % len(likely)]

    def saw(self, what: str) -> None:
        """Tell the reader of a falsifying example, and count for the reader of a good one."""
        note(f"    → {what}")
        self.world.seen[what] += 1

    async def _locked(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a step answers, or "locked" when it waited for a row in vain."""
        try:
            return await work
        except DBAPIError as error:
            if sqlstate_of(error) != LOCKED:
                raise  # no step breaks a rule of the schema
            return "locked"

    async def _auto(self, work: Callable[[AsyncConnection], Coroutine[Any, Any, Any]]) -> Any:
        async with self.world.auto.connect() as conn:
            return await self._locked(work(conn))

    def _claimed(self, held: HeldLease, worker: str) -> None:
        job = self.model.by_id(held.lease.job_id)
        if job.state == "running":
            self.saw("taken over")
        self.model.claim(job, worker, held.lease.token)
        assert held.lease.fence == job.fence, "the fence grows by one with each claim"
        assert held.checkpoint_no == job.checkpoint_no, "a claim starts at the last checkpoint"
        assert held.charged_attempts == job.charged, "claim and model count alike"
        self.leases.append(held)

    def _expire(self, job: Job) -> None:
        if job.state != "running" or job.locked:
            return
        self.world.run(
            self.world.turn(
                """UPDATE chot.jobs SET lease_expires_at = clock_timestamp() - interval '1 second'
                    WHERE id = :id""",
                id=job.id,
            )
        )
        job.expired = True

    def _exits(self, held: HeldLease, *, at_checkpoint: bool = False) -> tuple[Job, str]:
        job = self.model.by_id(held.lease.job_id)
        ours = job.owned_by(held.lease.fence, held.lease.token)
        if not ours or (at_checkpoint and job.checkpoint_no != held.checkpoint_no):
            return job, "lost"
        return job, "locked" if job.locked else "won"


async def end(mine: Open, *, commit: bool) -> None:
    assert mine.conn is not None, "it was opened"
    await (mine.conn.commit() if commit else mine.conn.rollback())
    await mine.conn.close()


async def close(body: Open) -> str:
    try:
        await body.scope.__aexit__(None, None, None)
    except LeaseLost:
        return "lost"
    except Conflict:
        return "locked"
    return "won"


async def abandon(body: Open) -> None:
    try:
        await body.scope.__aexit__(Abandoned, Abandoned(), None)
    except Abandoned:
        return
