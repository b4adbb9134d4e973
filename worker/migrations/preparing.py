"""What a task's prepare() works with: fenced transactions, a state of its own, rejects, pauses."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from shared.errors import PermanentError, Yield
from shared.kinds.migration import MigrationRunPayload
from worker.context import JobContext
from worker.fence import FencedTransaction
from worker.migrations.load import is_paused
from worker.migrations.task import Reject, Run
from worker.records.migration_runs import reject_unprepared, save_state
from worker.settings import MigrationSettings


@dataclass(slots=True, kw_only=True)
class Preparing:
    """A Preparation of one attempt."""

    context: JobContext
    payload: MigrationRunPayload
    run: Run
    settings: MigrationSettings = field(default_factory=MigrationSettings)
    began: float = field(default_factory=monotonic)
    _saved: Mapping[str, Any] | None = None
    _told: dict[str, Any] | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[FencedTransaction]:
        """A fenced transaction of the run; see Preparation."""
        self._saved = None
        async with self.context.transaction() as tx:
            tx.checkpoint = {"task": self.payload.task, "phase": "preparing"}
            yield tx
        if self._saved is not None:
            self.run = replace(self.run, state=self._saved)

    async def save(self, tx: FencedTransaction, state: Mapping[str, Any]) -> None:
        """Keep the state with the transaction."""
        await save_state(tx.connection, self.run.job_id, state)
        self._saved = dict(state)

    async def reject(self, tx: FencedTransaction, rejects: Sequence[Reject]) -> None:
        """Keep rows that cannot be taken; PermanentError TOO_MANY_REJECTS rolls these back."""
        if not rejects:
            return
        failed = await reject_unprepared(tx.connection, self.run.job_id, rejects)
        if failed - len(rejects) > self.payload.max_rejects:
            raise PermanentError(
                f"TOO_MANY_REJECTS: more than max_rejects={self.payload.max_rejects:,} rows cannot "
                "be taken, and none of the others was written; "
                f"GET /v1/migrations/{self.run.job_id}/rejects names them",
                code="TOO_MANY_REJECTS",
                details={"rows_failed": failed},
            )

    def progress(self, done: int, total: int | None, *, unit: str, message: str = "") -> None:
        """Say how far it is."""
        self.context.progress(done, total, unit=unit, message=message)

    async def between(self) -> None:
        """End the attempt here if the run is paused, the worker drains, or it has taken long."""
        async with self.context.read() as conn:
            paused = await is_paused(conn, self.run.job_id)
        if paused:
            async with self.context.transaction() as tx:
                tx.checkpoint = {"task": self.payload.task, "phase": "preparing"}
            raise Yield("paused")
        self.context.yield_if_asked()
        if monotonic() - self.began > self.settings.migration_interrupt_seconds:
            raise Yield("a run interrupts itself, so that no delivery is kept for hours")
