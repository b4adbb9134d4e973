"""Maintenance: the loops that make sure that what must happen does, each on its own period."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from sqlalchemy import Row
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
from worker.pulse import Pulse
from worker.reaper import BATCH as REAP_BATCH
from worker.reaper import reap_expired, reap_guarded
from worker.reconciler import restage_lost
from worker.retention import Retention
from worker.settings import WorkerSettings

# Periods until the next look of what has found nothing and may come late; the first time, and then.
FIRST_IDLE = 3
LONGEST_IDLE = 5
# Workers that are gone for a day are removed at one look in so many.
PRUNES = 0.1


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
        pulse: Pulse,
    ) -> None:
        self._runner = runner
        self._pulse = pulse
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
        self._due = {name: asyncio.Event() for name in ("reaper", "waiters", "groups", "cleanup")}
        self._not_before = dict.fromkeys(self._due, float("-inf"))
        pulse.found = self._note

    def cleanup_due(self) -> None:
        """Say that a job has just died or been cancelled here."""
        self._due["cleanup"].set()

    def group_due(self) -> None:
        """Say that a member of a group has just ended here."""
        self._due["groups"].set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run all loops until `stop`."""
        seldom = self._settings.reconciler_seconds
        settings, engine = self._settings, self._runner.engines.auto
        async with (
            open_alerting(engine, settings, deployment=settings.queue_prefix) as alerting,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._look_often(stop), name="looks")
            for name, period, step in (
                ("reaper", None, self._reap),
                ("waiters", None, self._wake_waiters),
                ("reconciler", seldom, self._reconcile),
                ("groups", None, self._stop_groups),
                ("cleanup", None, self._clean_up),
                ("dead_letters", seldom, self._import),
                ("watch", seldom, self._look),
                ("alerts", settings.alert_seconds, alerting.step),
                ("retention", self._settings.retention_seconds, self._retain),
            ):
                tasks.create_task(self._forever(name, period, step, stop), name=name)

    async def _forever(
        self,
        name: str,
        period: float | None,
        step: Callable[[], Awaitable[bool | None]],
        stop: asyncio.Event,
    ) -> None:
        """Each period, or whenever it is due. One that had nothing to do (False) waits longer."""
        due, idle = self._due.get(name), 0
        while not stop.is_set():
            if due is not None:
                waits = [asyncio.ensure_future(each.wait()) for each in (due, stop)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
                if stop.is_set():
                    return
                due.clear()
            try:
                idle = 0 if await step() is not False else LONGEST_IDLE if idle else FIRST_IDLE
            except (*TRANSPORT_ERRORS, DBAPIError) as error:
                log.warning("maintenance.waits", loop=name, error=told(error))
            except Exception:  # noqa: BLE001 - one broken cleanup must not end the reaper
                log.exception("maintenance.failed", loop=name)
            if period is not None:
                await _stops(stop, max(1, idle) * period * random.uniform(0.8, 1.0))

    async def _look_often(self, stop: asyncio.Event) -> None:
        """Look unless the relay has: what is due is found a period after the last look at most."""
        period = self._settings.reaper_seconds
        while not stop.is_set():
            age = monotonic() - self._pulse.looked_at
            left = period * random.uniform(0.8, 1.0) - age
            if left <= 0:
                try:
                    async with self._runner.engines.auto.connect() as conn:
                        await self._pulse.look(conn)
                except (*TRANSPORT_ERRORS, DBAPIError) as error:
                    log.warning("maintenance.waits", loop="looks", error=told(error))
                    left = period
                except Exception:  # noqa: BLE001 - a pool that is used up must end no worker
                    log.exception("maintenance.failed", loop="looks")
                    left = period
            await _stops(stop, max(0.0, left))

    def _note(self, row: Row[Any]) -> None:
        """What somebody has found is due. What may go on being so waits its period."""
        now = monotonic()
        for name, due in self._due.items():
            if getattr(row, name) and now >= self._not_before[name]:
                due.set()
                if name != "reaper":
                    self._not_before[name] = now + self._settings.reaper_seconds * 0.8

    async def _reap(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            reaped = await reap_expired(conn)
            while reaped:
                self._wake_relay()
                self._due["cleanup"].set()
                reaped = await reap_expired(conn) if reaped == REAP_BATCH else 0
        if await reap_guarded(self._runner.engines.app, self._runner.timing):
            self._wake_relay()
            self._due["cleanup"].set()

    async def _wake_waiters(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            if await wake_waiters(conn):
                self._wake_relay()

    async def _reconcile(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            if await restage_lost(conn, self._settings.reconciler_seconds):
                self._wake_relay()
            if random.random() < PRUNES:
                await conn.execute(PRUNE)

    async def _stop_groups(self) -> None:
        if await stop_groups(self._runner.engines.app, self._runner.timing):
            self._wake_relay()
            self._due["cleanup"].set()

    async def _clean_up(self) -> None:
        runner = self._runner
        while await clean_up_one(runner.engines.app, runner.handlers, runner.timing):
            pass

    async def _look(self) -> None:
        async with self._runner.engines.auto.connect() as conn:
            await self._watch.look(conn)

    async def _retain(self) -> bool:
        return await self._retention.step(self._runner.engines.auto)

    async def _import(self) -> bool:
        found = 0
        for queue in self._queues:
            try:
                found += await import_dead_letters(self._runner.engines.auto, self._sqs, queue)
            except TRANSPORT_ERRORS as error:
                if not is_missing_queue(error):
                    raise
        return found > 0


async def _stops(stop: asyncio.Event, seconds: float) -> None:
    """Return after so many seconds, or when it stops."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


def is_missing_queue(error: BaseException) -> bool:
    """True when SQS says that there is no such queue: a deployment without a dead-letter queue."""
    return "NonExistentQueue" in str(error) or "QueueDoesNotExist" in str(error)
