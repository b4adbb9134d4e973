"""Maintenance: the loops that make sure that what must happen does, each on its own period."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import DBAPIError

from shared.alerts.evaluator import open_alerting
from shared.groups.stop import stop_groups
from shared.jobs.locks import wake_waiters
from shared.logs import log
from shared.sqs import TRANSPORT_ERRORS, SqsClient
from shared.telling import told
from shared.watch import Watch
from worker.attempt import Runner
from worker.cleanup import clean_up_one
from worker.dead_letter import import_dead_letters
from worker.presence import PRUNE
from worker.reaper import BATCH as REAP_BATCH
from worker.reaper import reap_expired, reap_guarded
from worker.reconciler import restage_lost
from worker.retention import Retention
from worker.settings import WorkerSettings


class Maintenance:
    """Reaper, reconciler, cleanup, import of SQS's own dead letters, retention, watch, alerts.

    Every worker runs them; each step is one conditional statement (or one locked row), so that
    any number of them may meet. `wake_relay` is called when something was staged.
    """

    def __init__(
        self,
        runner: Runner,
        sqs: SqsClient,
        *,
        queues: list[str],
        settings: WorkerSettings,
        wake_relay: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._sqs = sqs
        self._queues = queues
        self._settings = settings
        self._watch = Watch(settings.limits)
        self._retention = Retention(
            archive_after_days=settings.archive_after_days,
            archive_keep_days=settings.archive_keep_days,
            audit_keep_days=settings.audit_keep_days,
            files_bucket=settings.files_bucket,
        )
        self._wake_relay = wake_relay
        self._cleanup_due = asyncio.Event()
        self._group_due = asyncio.Event()
        self._wakes = {"cleanup": self._cleanup_due, "groups": self._group_due}

    def cleanup_due(self) -> None:
        """Say that a job has just died or been cancelled here."""
        self._cleanup_due.set()

    def group_due(self) -> None:
        """Say that a member of a group has just ended here."""
        self._group_due.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run all loops until `stop`."""
        often, seldom = self._settings.reaper_seconds, self._settings.reconciler_seconds
        settings, engine = self._settings, self._runner.engines.auto
        async with (
            open_alerting(engine, settings, deployment=settings.queue_prefix) as alerting,
            asyncio.TaskGroup() as tasks,
        ):
            for name, period, step in (
                ("reaper", often, self._reap),
                ("reconciler", seldom, self._reconcile),
                ("groups", often, self._stop_groups),
                ("cleanup", often, self._clean_up),
                ("dead_letters", seldom, self._import),
                ("watch", seldom, self._look),
                ("alerts", settings.alert_seconds, alerting.step),
                ("retention", self._settings.retention_seconds, self._retain),
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
                log.warning("maintenance.waits", loop=name, error=told(error))
            except Exception:  # noqa: BLE001 - one broken cleanup must not end the reaper
                log.exception("maintenance.failed", loop=name)
            waits = [asyncio.ensure_future(stop.wait())]
            if name in self._wakes:
                waits.append(asyncio.ensure_future(self._wakes[name].wait()))
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
        if await reap_guarded(self._runner.engines.app, self._runner.timing):
            self._wake_relay()
            self._cleanup_due.set()
        async with self._runner.engines.auto.connect() as conn:
            if await wake_waiters(conn):
                self._wake_relay()

    async def _reconcile(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            if await restage_lost(conn, self._settings.reconciler_seconds):
                self._wake_relay()
            await conn.execute(PRUNE)

    async def _stop_groups(self) -> None:
        self._group_due.clear()
        if await stop_groups(self._runner.engines.app, self._runner.timing):
            self._wake_relay()
            self._cleanup_due.set()

    async def _clean_up(self) -> None:
        self._cleanup_due.clear()
        runner = self._runner
        while await clean_up_one(runner.engines.app, runner.handlers, runner.timing):
            pass

    async def _look(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            await self._watch.look(conn)

    async def _retain(self) -> None:
        await self._retention.step(self._runner.engines.auto)

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
