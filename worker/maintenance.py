"""Maintenance: the loops that make sure that what must happen does, each on its own period."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import DBAPIError

from shared.logs import log
from shared.sqs import TRANSPORT_ERRORS, SqsClient
from worker.attempt import Runner
from worker.cleanup import clean_up_one
from worker.dead_letter import import_dead_letters
from worker.presence import PRUNE
from worker.reaper import BATCH as REAP_BATCH
from worker.reaper import reap_expired
from worker.reconciler import restage_lost


class Maintenance:
    """Reaper, reconciler, cleanup, import of SQS's own dead letters.

    Every worker runs them; each step is one conditional statement (or one locked row), so that
    any number of them may meet. `wake_relay` is called when something was staged.
    """

    def __init__(
        self,
        runner: Runner,
        sqs: SqsClient,
        *,
        queues: list[str],
        reaper_seconds: float,
        reconciler_seconds: float,
        wake_relay: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._sqs = sqs
        self._queues = queues
        self._reaper_seconds = reaper_seconds
        self._reconciler_seconds = reconciler_seconds
        self._wake_relay = wake_relay
        self._cleanup_due = asyncio.Event()

    def cleanup_due(self) -> None:
        """Say that a job has just died or been cancelled here."""
        self._cleanup_due.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run all loops until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            for name, period, step in (
                ("reaper", self._reaper_seconds, self._reap),
                ("reconciler", self._reconciler_seconds, self._reconcile),
                ("cleanup", self._reaper_seconds, self._clean_up),
                ("dead_letters", self._reconciler_seconds, self._import),
            ):
                tasks.create_task(self._forever(name, period, step, stop), name=name)

    async def _forever(
        self,
        name: str,
        period: float,
        step: Callable[[], Awaitable[None]],
        stop: asyncio.Event,
    ) -> None:
        while not stop.is_set():
            try:
                await step()
            except (*TRANSPORT_ERRORS, DBAPIError) as error:
                log.warning("maintenance.waits", loop=name, error=str(error))
            except Exception:  # noqa: BLE001 - one broken cleanup must not end the reaper
                log.exception("maintenance.failed", loop=name)
            waits = [asyncio.ensure_future(stop.wait())]
            if name == "cleanup":
                waits.append(asyncio.ensure_future(self._cleanup_due.wait()))
            await asyncio.wait(
                waits,
                timeout=period * random.uniform(0.8, 1.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            for wait in waits:
                wait.cancel()

    async def _reap(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            reaped = await reap_expired(conn)
            while reaped:
                self._wake_relay()
                self._cleanup_due.set()
                reaped = await reap_expired(conn) if reaped == REAP_BATCH else 0

    async def _reconcile(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            if await restage_lost(conn, self._reconciler_seconds):
                self._wake_relay()
            await conn.execute(PRUNE)

    async def _clean_up(self) -> None:
        self._cleanup_due.clear()
        runner = self._runner
        while await clean_up_one(runner.engines.app, runner.handlers, runner.timing):
            pass

    async def _import(self) -> None:
        for queue in self._queues:
            try:
                await import_dead_letters(self._runner.engines.auto, self._sqs, queue)
            except TRANSPORT_ERRORS as error:
                if not is_missing_queue(error):
                    raise


def is_missing_queue(error: BaseException) -> bool:
    """True when SQS says that there is no such queue: a deployment without a dead-letter queue."""
    return "NonExistentQueue" in str(error) or "QueueDoesNotExist" in str(error)
