"""One attempt of a migration: begin or go on, prepare, batch after batch, check, complete.

A batch is one fenced transaction: what the task does to its rows, the cursor behind them, the
counters and the fence commit together or not at all. A batch whose data fails is halved until the
row is found; that row is set aside and the cursor moves over it. So no row is done twice, whatever
happens to the worker, and none keeps the others from being done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic
from typing import Any, NoReturn
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from shared.errors import Conflict, PermanentError, RetryableError, Yield
from shared.kinds.migration import MigrationRunPayload
from worker.context import JobContext
from worker.fence import FencedTransaction
from worker.migrations.failures import BatchFailed, code_of, judge, said
from worker.migrations.load import Wait, find_wait, is_paused
from worker.migrations.statements import Rows
from worker.migrations.steering import Steering
from worker.migrations.task import Applied, Batch, Key, Reject, Run, Task
from worker.records.migration_runs import (
    Standing,
    Tried,
    add_batches,
    add_rejects,
    advance,
    failed_rows,
    first_rejects,
    note_wait,
)
from worker.settings import MigrationSettings

LOOK_EVERY_SECONDS = 1.0
SHOWN_REJECTS = 20
SET_TIMEOUT = text("SELECT set_config('statement_timeout', CAST(:ms AS text), true)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows of a try: how many, and the key of the last."""

    rows: int
    key: Key


@dataclass(slots=True, kw_only=True)
class Batches:
    """The batches of one attempt, from the run's cursor to its upper bound."""

    context: JobContext
    payload: MigrationRunPayload
    task: Task
    run: Run
    rows: Rows
    standing: Standing
    settings: MigrationSettings = field(default_factory=MigrationSettings)
    began: float = field(default_factory=monotonic)
    looked_at: float | None = None
    tries: list[Tried] = field(default_factory=list)
    found: Found | None = None
    steering: Steering = field(init=False)

    def __post_init__(self) -> None:
        self.steering = Steering(
            size=self.standing.batch_size,
            target_ms=self.payload.target_ms,
            largest=self.task.largest_batch,
        )

    async def work(self) -> None:
        """Until the upper bound; Yield, Snooze or an error ends the attempt before."""
        while await self._batch():
            self.refuse_too_many()
            self.between()

    def between(self) -> None:
        """Hand the run back between two batches when the worker drains, or it has run for long."""
        self.context.yield_if_asked()
        if monotonic() - self.began > self.settings.migration_interrupt_seconds:
            raise Yield("a run interrupts itself, so that no delivery is kept for hours")

    def refuse_too_many(self) -> None:
        """PermanentError once more rows were set aside than may be."""
        refuse_too_many(self.payload, self.standing, self.run.job_id)

    async def _batch(self) -> bool:
        """Try a batch; False: there is nothing after the cursor."""
        began, limit = monotonic(), self.steering.limit
        self.found, wait, after = None, None, None
        try:
            async with self.context.transaction() as tx:
                await self.set_timeout(tx.connection)
                wait = await self.find_wait(tx)
                if wait is None:
                    self.found = await self._next(tx.connection, limit)
                    if self.found is None:
                        return False
                    after = await self._do(tx, self.found, began)
        except BatchFailed as failed:
            await self._failed(failed, began, limit)
            return True
        except Conflict as conflict:
            self._met_locks(conflict, began, limit)
            return True
        if wait is not None:
            self.wait(wait)
        if after is not None:
            self._went_well(after, began)
        return True

    async def find_wait(self, tx: FencedTransaction) -> Wait | None:
        """What keeps the run from going on; said in this very commit, which is then all it is.

        So the job has a new checkpoint each time, and is never charged for waiting.
        """
        if await is_paused(tx.connection, self.run.job_id):
            wait = Wait(reason="paused")
        elif self.looked_at is not None and monotonic() - self.looked_at < LOOK_EVERY_SECONDS:
            return None
        else:
            tables = [self.rows.source.table, *self.task.writes]
            found = await find_wait(tx.connection, self.settings, tables, self.payload.window)
            self.looked_at = monotonic()
            if found is None:
                return None
            wait = found
            await note_wait(tx.connection, self.run.job_id, wait.reason)
        self.tell(tx, self.standing, f"waits: {wait.reason}")
        return wait

    def wait(self, wait: Wait) -> NoReturn:
        """End the attempt: after the transaction that told the reason."""
        if wait.reason == "paused":
            raise Yield("paused")
        words = f"the migration waits: {wait.reason}"
        if wait.until is not None:
            self.context.snooze(words, until=wait.until)
        self.context.snooze(words, after=timedelta(seconds=self.settings.migration_wait_seconds))

    async def _next(self, conn: AsyncConnection, limit: int) -> Found | None:
        """The next rows, at most so many; BatchFailed when that alone takes too long."""
        statement = self.rows.boundary(self.standing.cursor)
        binds = self.rows.binds(self.standing.cursor, self.rows.upper) | {"most": limit}
        try:
            row = (await conn.execute(statement, binds)).one_or_none()
        except DBAPIError as error:
            cause = judge(error)
            if cause is None or cause == "rows":
                raise
            raise BatchFailed(cause, error) from error
        if row is None:
            return None
        if row.distinct_keys != row.rows:
            raise PermanentError(
                f"KEY_NOT_UNIQUE: {row.rows} rows of task {self.payload.task} have "
                f"{row.distinct_keys} keys: its joins multiply rows",
                code="KEY_NOT_UNIQUE",
            )
        return Found(rows=row.rows, key=tuple(row.key))

    async def _do(self, tx: FencedTransaction, found: Found, began: float) -> Standing:
        applied = await self._apply(tx.connection, found)
        rejects = list(applied.rejects)
        self._refuse_strange(rejects, found.rows)
        counts = dict(self.standing.counts)
        for outcome, rows in applied.counts.items():
            counts[outcome] = counts.get(outcome, 0) + rows
        ok = Tried(
            size=self.steering.limit,
            rows=found.rows,
            ms=_ms(began),
            outcome="ok",
            key_from=self.standing.cursor,
            key_to=found.key,
        )
        return await self._move(tx, found, rejects, counts, ok)

    def _refuse_strange(self, rejects: Sequence[Reject], rows: int) -> None:
        """PermanentError for rejects that are not of the batch's rows: of a row that is set aside
        under another key nobody would know what has become of it.
        """
        parts = len(self.rows.columns)
        strange = [each.key for each in rejects if each.key and len(each.key) != parts]
        if strange:
            said = f"the key {strange[0]} of a row, and a key has {parts} parts"
        elif failed_rows(rejects) > rows:
            said = f"{failed_rows(rejects)} rejects of a batch of {rows} rows"
        else:
            return
        raise PermanentError(
            f"REJECTS_STRANGE: apply() of task {self.payload.task} answers {said}",
            code="REJECTS_STRANGE",
        )

    async def _apply(self, conn: AsyncConnection, found: Found) -> Applied:
        """What the task does, deferred constraints included; in a dry run taken back again."""
        cursor = self.standing.cursor
        batch = Batch(
            run=self.run,
            rows=found.rows,
            key_from=cursor,
            key_to=found.key,
            source=self.rows.tables,
            where=self.rows.where(cursor, found.key),
            binds=self.rows.binds(cursor, found.key),
        )
        return await self.applied(conn, batch)

    async def applied(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """What the task has done to the batch; BatchFailed for what its rows are to blame for."""
        try:
            if not self.payload.dry_run:
                return await self._applied(conn, batch)
            savepoint = await conn.begin_nested()
            applied = await self._applied(conn, batch)
            await savepoint.rollback()
        except Exception as error:
            cause = judge(error)
            if cause is None:
                raise
            raise BatchFailed(cause, error) from error
        return applied

    async def set_timeout(self, conn: AsyncConnection) -> None:
        """Bound each statement of the transaction."""
        await conn.execute(SET_TIMEOUT, {"ms": f"{self.steering.timeout_ms}ms"})

    async def _applied(self, conn: AsyncConnection, batch: Batch) -> Applied:
        applied = await self.task.apply(conn, batch)
        try:
            await driver_connection(conn)
        except AssertionError:  # what follows would be committed statement by statement
            raise PermanentError(
                f"TASK_COMMITS: apply() of task {self.payload.task} has ended the transaction that "
                "it was lent: what it did to this batch is not fenced",
                code="TASK_COMMITS",
            ) from None
        await conn.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        return applied

    async def _move(
        self,
        tx: FencedTransaction,
        found: Found,
        rejects: list[Reject],
        counts: dict[str, int],
        tried: Tried,
    ) -> Standing:
        """Cursor, counters, rejects and tries with this transaction; the standing it leads to."""
        before, conn, job_id = self.standing, tx.connection, self.run.job_id
        tries, failed = [*self.tries, tried], failed_rows(rejects)
        await advance(
            conn,
            job_id,
            before=None if before.cursor is None else list(before.cursor),
            key=list(found.key),
            fence=self.run.fence,
            rows=found.rows,
            failed=failed,
            counts=counts,
            failed_tries=len(self.tries),
            batch_size=self.steering.size,
            ms=tried.ms,
            efficiency=self.steering.efficiency(tried.ms),
        )
        await add_batches(conn, job_id, self.run.fence, tries)
        if rejects:
            await add_rejects(conn, job_id, rejects)
        after = replace(
            before,
            cursor=found.key,
            counts=counts,
            done=before.done + found.rows,
            failed=before.failed + failed,
            batches=before.batches + 1,
            failed_tries=before.failed_tries + len(self.tries),
        )
        self.tell(tx, after, f"batches of {self.steering.size}{_set_aside(after.failed)}")
        return after

    def tell(self, tx: FencedTransaction, standing: Standing, message: str) -> None:
        """Checkpoint and progress of a commit that leads to this standing."""
        tx.checkpoint = {"task": self.payload.task, "done": standing.done}
        total = None if standing.total is None else max(standing.total, standing.done)
        tx.progress(standing.done, total, unit="rows", message=message)

    def _went_well(self, after: Standing, began: float) -> None:
        assert self.found is not None, "it has committed"
        self.standing, self.tries = after, []
        self.steering.went_well(self.found.rows, _ms(began))

    async def _failed(self, failed: BatchFailed, began: float, limit: int) -> None:
        """Make the next try smaller, or set the row aside that was all of this one."""
        rows = None if self.found is None else self.found.rows
        match failed.cause:
            case "conflict":
                self._met_locks(failed, began, limit)
            case "timeout":
                self._note("timeout", failed, began, limit)
                if not self.steering.timed_out(rows):
                    await self._give_up(failed)
            case "rows":
                assert self.found is not None, "rows failed that were found"
                if self.steering.failed(self.found.rows):
                    await self._set_aside(failed, began)
                else:
                    self._note("split", failed, began, limit)

    def _met_locks(self, error: Exception, began: float, limit: int) -> None:
        self._note("conflict", error, began, limit)
        if not self.steering.met_locks():
            raise Conflict(f"a batch has lost its fight for locks again and again: {said(error)}")

    async def _give_up(self, failed: BatchFailed) -> None:
        """One row alone takes longer than any batch may: set aside, if it is known which."""
        if self.found is not None:
            await self._set_aside(failed, monotonic())
            return
        raise RetryableError(
            f"finding one row of task {self.payload.task} takes longer than "
            f"{self.steering.timeout_ms / 1000:g} s: its condition needs an index"
        ) from failed.error

    async def _set_aside(self, failed: BatchFailed, began: float) -> None:
        assert self.found is not None, "it is known which row it is"
        found = self.found
        timeout = failed.cause == "timeout"
        code = "TIMEOUT" if timeout else code_of(failed.error)
        reject = Reject(code=code, rule=str(failed), key=found.key)
        tried = Tried(
            size=1,
            rows=1,
            ms=_ms(began),
            outcome="rejected",
            key_from=self.standing.cursor,
            key_to=found.key,
            error=str(failed),
        )
        async with self.context.transaction() as tx:
            after = await self._move(tx, found, [reject], dict(self.standing.counts), tried)
        self.standing, self.tries = after, []

    def _note(self, outcome: str, error: Exception, began: float, limit: int) -> None:
        """A try that was rolled back is told with the next one that commits."""
        found = self.found
        tried = Tried(
            size=limit,
            rows=0 if found is None else found.rows,
            ms=_ms(began),
            outcome=outcome,
            key_from=self.standing.cursor,
            key_to=None if found is None else found.key,
            error=said(error),
        )
        self.tries = [*self.tries, tried][-100:]


def _ms(began: float) -> int:
    return round((monotonic() - began) * 1000)


def _set_aside(failed: int) -> str:
    return f", {failed:,} rows set aside" if failed else ""


def refuse_too_many(payload: MigrationRunPayload, standing: Standing, job_id: UUID) -> None:
    """PermanentError TOO_MANY_REJECTS once the run has set aside more rows than it may."""
    total = max(standing.total or 0, standing.done)
    share = standing.failed * 100 > total * payload.max_reject_percent
    if not share and standing.failed <= payload.max_rejects:
        return
    limit = f"{payload.max_reject_percent} % of {total:,}" if share else f"{payload.max_rejects:,}"
    rows = "1 row" if standing.failed == 1 else f"{standing.failed:,} rows"
    kept = "nothing was written" if payload.dry_run else "what was done stays done"
    raise PermanentError(
        f"TOO_MANY_REJECTS: {rows} could not be taken, more than {limit}; {kept}, "
        f"GET /v1/migrations/{job_id}/rejects names the rows: put them right and run it again, or "
        "allow more (max_reject_percent, max_rejects)",
        code="TOO_MANY_REJECTS",
        details={"rows_done": standing.done, "rows_failed": standing.failed, "rows_total": total},
    )


async def reject_facts(conn: AsyncConnection, run: Run) -> list[dict[str, Any]]:
    """The first rejects of the run, for its result."""
    return await first_rejects(conn, run.job_id, SHOWN_REJECTS)
