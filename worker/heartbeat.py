"""Heartbeat: renews every lease this process holds, on a thread, loop and connection of its own.

A handler that blocks its loop, keeps Python busy or takes every pooled connection cannot starve
it. One statement renews all leases; SQS visibility follows, through a client no long poll shares.
The same thread enforces each lease's local deadline and each kind's hard timeout, even when the
job's own loop hangs: stop, kill the child, and after a grace end the process.
"""

import asyncio
import os
import random
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NoReturn
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import is_unreachable, open_engine
from shared.logs import log
from shared.outages import tell_outages
from shared.settings import LeaseTiming
from shared.signals import note_lag, watch_pool
from shared.sqs import TRANSPORT_ERRORS, SqsClient, open_sqs
from shared.telling import told
from shared.types import WorkerId
from worker.ecs import Protection
from worker.half_open import cut_half_open
from worker.lease import CAUSES_TO_EXIT, HeldLease, read_owners, renew_leases
from worker.liveness import Liveness
from worker.presence import Presence, report_presence
from worker.readiness import Readiness
from worker.served import Served
from worker.signals import HEARTBEATS, LATENESS, LOOP_SILENT
from worker.visibility import extend_deliveries

EXIT_STUCK = 70
WATCH_SECONDS = 0.1
# How long a job that starts waits for ECS, at most; and how long a loop may be silent.
PROTECT_SECONDS = 1.0
SILENT_SECONDS = 10.0
ERRORS = (*TRANSPORT_ERRORS, Exception)  # an error is state here, never the end of the loop


class Heart:
    """The heartbeat's thread. `add` and `remove` may be called from any thread."""

    def __init__(
        self,
        *,
        database_url: str,
        queue_prefix: str,
        timing: LeaseTiming,
        presence: Presence,
        visibility_cap_seconds: float,
        exit_grace_seconds: float,
        liveness: Liveness | None = None,
        readiness: Readiness | None = None,
        agent_uri: str | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self._database_url = database_url
        self._queue_prefix = queue_prefix
        self._timing = timing
        self._presence = presence
        self._visibility_cap_seconds = visibility_cap_seconds
        self._exit_grace_seconds = exit_grace_seconds
        self._held: dict[int, HeldLease] = {}
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._ping: Callable[[Callable[[], None]], object] | None = None
        self._ponged_at = self._answered_at = self._turned_at = monotonic()
        self._is_alive = True
        self._served = None if listening is None else Served(listening, lambda: self._is_alive)
        self._liveness = liveness
        self._readiness = readiness
        self._loop: asyncio.AbstractEventLoop | None = None
        self._protection: Protection | None = None
        if agent_uri is not None:
            self._protection = Protection(
                agent_uri,
                lease=timing.lease,
                linger=timing.heartbeat,
                busy=lambda: bool(self._held),
            )
        self._thread = threading.Thread(target=self._main, name="heartbeat", daemon=True)
        self.beats = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start beating; `loop` is the jobs' loop, whose lag is watched."""
        self._ping = loop.call_soon_threadsafe
        self._thread.start()

    async def stop(self) -> None:
        """Beat no more. The last thing a worker does."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join, 5.0)

    async def first_beat(self, seconds: float) -> bool:
        """Wait until this worker is known to the database; False when the time is over."""
        return await asyncio.to_thread(self._ready.wait, seconds)

    def add(self, held: HeldLease) -> None:
        """Keep this lease alive until it is removed."""
        self._held[id(held)] = held

    def remove(self, held: HeldLease) -> None:
        """Stop renewing; its outcome is stored, or it is lost."""
        self._held.pop(id(held), None)

    async def protect(self) -> None:
        """Before a job starts: have ECS protect this task, or go on without in a second at most."""
        if self._protection is None or self._protection.settled or self._loop is None:
            return
        arming = asyncio.run_coroutine_threadsafe(self._protection.arm(), self._loop)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(arming)), PROTECT_SECONDS)

    @property
    def holding(self) -> list[HeldLease]:
        """The leases held now, without those that have been stopped."""
        return [held for held in tuple(self._held.values()) if held.stopped is None]

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException:  # noqa: BLE001 - and then the process ends
            # Without its heart a worker must not go on: its leases would run out unseen.
            log.exception("heartbeat.died")
            os._exit(EXIT_STUCK)

    async def _run(self) -> None:
        opened = open_engine(
            self._database_url,
            pool_size=1,
            application_name="chot heartbeat",
            connect_timeout=max(0.5, self._timing.heartbeat / 2),
            command_timeout=max(0.5, self._timing.heartbeat * 0.9),
        )
        watch_pool("heartbeat", opened)
        engine = tell_outages(opened).execution_options(isolation_level="AUTOCOMMIT")
        if self._served is not None:
            await self._served.start()
        self._loop = asyncio.get_running_loop()
        beside = [
            asyncio.create_task(self._watch_forever(), name="deadlines"),
            asyncio.create_task(self._extend_forever(), name="visibility"),
        ]
        if self._protection is not None:
            beside.append(asyncio.create_task(self._protection.run_forever(), name="protection"))
        for task in beside:
            task.add_done_callback(_end_with)
        try:
            await self._beat_forever(engine)
        finally:
            for task in beside:
                task.cancel()
            if self._protection is not None:
                await self._protection.leave()
            if self._served is not None:
                self._served.close()
            await engine.dispose()

    async def _beat_forever(self, engine: AsyncEngine) -> None:
        planned = monotonic()
        while not self._stop.is_set():
            began = monotonic()
            try:
                async with asyncio.timeout(self._timing.heartbeat), engine.connect() as conn:
                    await self._beat(conn)
                self._ready.set()
                HEARTBEATS.labels("ok").inc()
                LATENESS.observe(max(0.0, monotonic() - planned))
                planned = began + self._timing.heartbeat
            except ERRORS as error:
                HEARTBEATS.labels("missed").inc()
                log.warning("heartbeat.missed", error=told(error))
            self.beats += 1
            self._turned_at = monotonic()
            # Early by up to a tenth, so that a fleet that was started together spreads out.
            period = self._timing.heartbeat * random.uniform(0.9, 1.0)
            await self._sleep(max(0.05, period - (monotonic() - began)))

    async def _sleep(self, seconds: float) -> None:
        until = monotonic() + seconds
        # The stop comes from another thread, as a plain flag.
        while not self._stop.is_set() and (left := until - monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, WATCH_SECONDS))

    async def _beat(self, conn: AsyncConnection) -> None:
        held = self.holding
        if held:
            began = monotonic()
            renewed = await self._renew(conn, held)
            self._note_renewed(held, renewed, began)
            missing = [each for each in held if each.lease.job_id not in renewed]
            if missing:
                await self._judge_missing(conn, missing)
            if self._ping is not None:
                await cut_half_open(conn, held, self._ping, self._timing.heartbeat)
        await report_presence(conn, self._presence, self._timing.lease)
        if self._readiness is not None:
            self._readiness.beaten()

    async def _renew(self, conn: AsyncConnection, held: Sequence[HeldLease]) -> set[UUID]:
        """Renew all; should a job's progress be refused, the leases matter more than it."""
        try:
            return await renew_leases(conn, held, self._timing.lease)
        except DBAPIError as error:
            if is_unreachable(error):
                raise
            log.error("heartbeat.progress_refused", error=told(error))
            for each in held:
                each.progress = None
            return await renew_leases(conn, held, self._timing.lease)

    def _note_renewed(self, held: Sequence[HeldLease], renewed: set[UUID], began: float) -> None:
        for each in held:
            if each.lease.job_id in renewed and each.stopped is None:
                each.deadline = began + self._timing.lease - self._timing.margin

    async def _judge_missing(self, conn: AsyncConnection, missing: Sequence[HeldLease]) -> None:
        """Lost only if a plain read shows another owner and we are not the ones committing."""
        owners = await read_owners(conn, [each.lease.job_id for each in missing])
        for each in missing:
            owner = owners.get(each.lease.job_id)
            if owner is not None and owner.lease_token == each.lease.token:
                continue  # its row is locked by a commit; the next beat tries again
            if each.committing:
                continue  # our own commit ended it
            if owner is not None and owner.state == "cancelled":
                each.stop("cancelled", "the job was cancelled")
            else:
                where = "gone" if owner is None else f"{owner.state} under fence {owner.fence}"
                each.stop("taken", f"the job is {where}")

    async def _watch_forever(self) -> None:
        lag_limit = self._timing.heartbeat / 4
        while True:
            self._enforce(monotonic())
            self._watch_lag(lag_limit)
            self._tell_liveness(monotonic())
            if self._readiness is not None:
                self._readiness.tell(monotonic(), self._answered_at, tuple(self._held.values()))
            await asyncio.sleep(WATCH_SECONDS)

    def _enforce(self, now: float) -> None:
        for held in tuple(self._held.values()):
            if held.stopped is None and now >= held.deadline:
                held.stop("expired", "the lease could not be renewed in time")
            if held.stopped is None and now >= held.hard_deadline:
                held.stop("timeout", "the hard timeout passed and the job's loop did not answer")
            if held.stopped in CAUSES_TO_EXIT and (
                now >= held.stopped_at + self._exit_grace_seconds
            ):
                log.error("worker.stuck", job_id=str(held.lease.job_id), reason=held.reason)
                held.kill_children()
                os._exit(EXIT_STUCK)

    def _watch_lag(self, limit: float) -> None:
        """Ping the jobs' loop; when it does not answer, say where it stands."""
        if self._ping is None:
            return
        lag = monotonic() - self._ponged_at
        if lag > limit + WATCH_SECONDS:
            log.warning("loop.blocked", seconds=round(lag, 2), frames=_main_stack())
            self._ponged_at = monotonic() + limit  # not again at once
        try:
            self._ping(partial(self._pong, monotonic()))
        except RuntimeError:  # the loop is closed: the worker is leaving
            self._ping = None

    def _pong(self, asked_at: float) -> None:
        self._answered_at = note_lag(asked_at)
        self._ponged_at = max(self._ponged_at, self._answered_at)

    def _tell_liveness(self, now: float) -> None:
        """Alive: this loop beats (well or in vain), and the jobs' loop answers.

        A handler may block the jobs' loop for as long as its kind's hard timeout allows; after
        that, and the grace, this process ends itself. What is left then is wedged.
        """
        limit = max(SILENT_SECONDS, 3 * self._timing.heartbeat)
        until = max((each.hard_deadline for each in tuple(self._held.values())), default=0.0)
        answers = now < max(self._answered_at + limit, until + self._exit_grace_seconds)
        self._is_alive = answers and now < self._turned_at + limit
        LOOP_SILENT.set(max(0.0, now - self._answered_at))
        if self._liveness is not None and self._is_alive:
            self._liveness.touch()

    async def _extend_forever(self) -> None:
        """Extend visibilities beside the beat: SQS may be slow, the leases must not be."""
        period = max(0.2, min(self._timing.heartbeat, self._timing.visibility / 6))
        while True:
            try:
                # One client for as long as it beats: each new one is a session of its own.
                async with open_sqs(self._queue_prefix, pool=2, read_timeout=5) as sqs:
                    await self._extend_with(sqs, period)
            except ERRORS as error:
                log.warning("visibility.not_extended", error=told(error))
                await asyncio.sleep(period)

    async def _extend_with(self, sqs: SqsClient, period: float) -> NoReturn:
        while True:
            try:
                await self._extend(sqs)
            except ERRORS as error:
                log.warning("visibility.not_extended", error=told(error))
            await asyncio.sleep(period)

    async def _extend(self, sqs: SqsClient) -> None:
        await extend_deliveries(
            sqs,
            self.holding,
            visibility_seconds=self._timing.visibility,
            cap_seconds=self._visibility_cap_seconds,
        )


def _end_with(task: "asyncio.Task[None]") -> None:
    """A part of the heart that ends of itself ends the process: nobody would see it otherwise."""
    if not task.cancelled() and (error := task.exception()) is not None:
        try:
            log.error("heartbeat.died", part=task.get_name(), exc_info=error)
        finally:
            os._exit(EXIT_STUCK)


def _main_stack() -> list[str]:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
    if frame is None:
        return []
    return [
        f"{f.filename.rsplit('/', 2)[-1]}:{f.lineno} {f.name}"
        for f in traceback.extract_stack(frame)[-6:]
    ]


def new_worker_id(host: str, pid: int) -> WorkerId:
    """A name that no other process has ever had, the namesake after a restart included."""
    return WorkerId(f"{host}-{pid}-{os.urandom(4).hex()}")
