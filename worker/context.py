"""What a handler gets: its job, its checkpoint, and the only way to write an effect."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import connected
from shared.errors import Snooze, Yield
from shared.groups.group import (
    Group,
    MemberOutcome,
    Policy,
    list_members,
    member_outcome,
    read_group,
)
from shared.outages import answered_within
from shared.settings import LeaseTiming
from shared.types import ClaimedJob, Lease
from worker.fence import FencedTransaction, fenced_transaction
from worker.lease import HeldLease, progress_of
from worker.offload import Child as ChildProcess
from worker.spawn import Child, Joins, asked_spawn

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The worker's pools: `app` for effects, `auto` (app in autocommit) for protocol statements,
    `read` for what a handler merely looks at.
    """

    app: AsyncEngine
    auto: AsyncEngine
    read: AsyncEngine


@dataclass(slots=True, kw_only=True)
class JobContext:
    """One attempt as its handler sees it."""

    job: ClaimedJob
    checkpoint: dict[str, Any] | None
    _held: HeldLease
    _engines: Engines
    _timing: LeaseTiming
    _draining: asyncio.Event
    _child: ChildProcess = field(init=False)

    def __post_init__(self) -> None:
        self._child = ChildProcess(self._held)

    @property
    def lease(self) -> Lease:
        """The lease this attempt runs under; write its fence beside effects to trace them."""
        return self._held.lease

    @property
    def should_yield(self) -> bool:
        """True once the worker drains: reach a checkpoint, then call yield_if_asked()."""
        return self._draining.is_set()

    def yield_if_asked(self) -> None:
        """Hand the job back, uncharged, when the worker drains. Call it between chunks."""
        if self.should_yield:
            raise Yield("the worker drains")

    def snooze(
        self,
        message: str = "asked to be run again later",
        *,
        after: timedelta | None = None,
        until: datetime | None = None,
    ) -> NoReturn:
        """Hand the job back to be run again after a time, or at an instant: raises Snooze.

        Uncharged, as often as 20 times at one checkpoint; what is committed stays.
        """
        raise Snooze(message, after=after, until=until)

    def progress(
        self, done: int, total: int | None = None, *, unit: str = "", message: str = ""
    ) -> None:
        """Report progress; the next heartbeat or checkpoint carries it. Never goes backwards."""
        before = self._held.progress
        if before is None or done >= before.done:
            told = progress_of(done, total, unit, message)
            self._held.progress = told
            self._held.note_pace(told.done)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[FencedTransaction]:
        """Commit the body's writes, its checkpoint and the fence together, or none of them.

        Raises LeaseLost when the job is no longer ours, Conflict when locks could not be had
        (both end the attempt: let them pass). One at a time; READ COMMITTED.
        """
        async with fenced_transaction(
            self._engines.app, self._held, self._timing, completes=False
        ) as tx:
            yield tx
        if tx.checkpoint is not None:
            self.checkpoint = tx.checkpoint

    @asynccontextmanager
    async def completion(self) -> AsyncIterator[FencedTransaction]:
        """As transaction(), and the job succeeds in the same commit; set `tx.result` in it.

        The handler must return right after it.
        """
        async with fenced_transaction(
            self._engines.app, self._held, self._timing, completes=True
        ) as tx:
            yield tx

    async def spawn(
        self,
        tx: FencedTransaction,
        children: Sequence[Child],
        *,
        join: Child | Joins | None = None,
        policy: Policy = Policy.FINISH,
    ) -> UUID:
        """Ask for jobs that are there once `tx` has committed, and never otherwise.

        A new group of them, sealed, with a `join` that starts once when all have ended. Without a
        join a job that is a member of a group itself adds them to that group. Answers the group's
        id. They are written right before the fence: what breaks a rule is a PermanentError there
        (SPAWN_REFUSED), work that another job does already a RetryableError.

        With `join=SELF` the job itself goes on once they have ended: the commit of `tx` hands it
        back, uncharged, and the handler must return right after it. The next attempt starts from
        the checkpoint of that commit. ValueError in a completion(), twice in one transaction, and
        for a member of a group.
        """
        if join is Joins.SELF and (tx._completes or tx._waits):  # noqa: SLF001 - its other half
            raise ValueError("spawn: a job waits once, in a transaction() and in no completion()")
        spawn = await asked_spawn(tx.connection, self.job, children, join=join, policy=policy)
        tx._spawns.append(spawn)  # noqa: SLF001 - its other half
        group_id = spawn.group_id or self.job.group_id
        assert group_id is not None, "it is a new group, or the job's own"
        return group_id

    async def group(self) -> Group | None:
        """The group that the job joins, or is a member of, with its counts; None without one."""
        if self._group_id is None:
            return None
        async with self.read() as conn:
            return await read_group(conn, self._group_id)

    async def members(self, *, page: int = 500) -> AsyncIterator[MemberOutcome]:
        """Every member of that group by its id, with what became of it.

        Read by pages, each a moment of its own: of an ended group all are of one.
        """
        after = None
        while self._group_id is not None:
            async with self.read() as conn:
                rows = await list_members(conn, self._group_id, after=after, limit=page)
            for row in rows:
                yield member_outcome(row)
            if len(rows) < page:
                break
            after = rows[-1]["id"]

    @property
    def _group_id(self) -> UUID | None:
        return self.job.joins or self.job.group_id

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection that can only read (role read, a READ ONLY transaction)."""
        async with connected(self._engines.read, self._held.drivers, strangers=True) as conn:
            async with answered_within(self._timing.statement):
                await conn.execute(text("SET TRANSACTION READ ONLY"))
            yield conn

    async def offload(self, function: Callable[..., T], *args: Any) -> T:
        """Run a module-level function in a killable child process; arguments are pickled.

        Raises what the function raises, and ChildDied (retryable) when the process is killed.
        """
        self._held.require()
        return await self._child.call(function, *args)

    async def close(self) -> None:
        """End the child process. The attempt does it; a handler need not."""
        await self._child.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupContext:
    """What a kind's cleanup gets: the job, and a connection whose transaction holds its row."""

    job: ClaimedJob
    checkpoint: dict[str, Any] | None
    connection: AsyncConnection
