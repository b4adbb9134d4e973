"""Receiver: one a queue. Asks SQS for at most the free slots, claims, and starts the attempts."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from time import monotonic
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import is_unreachable, sqlstate_of
from shared.errors import PoisonMessage
from shared.logs import alert, log
from shared.messages import parse_message
from shared.publishing import leave_window
from shared.sqs import TRANSPORT_ERRORS, Delivery, SqsClient
from shared.telling import told
from shared.types import JobId
from worker.claim import Claimant, claim_jobs
from worker.dead_letter import bury_message
from worker.deliveries import Deliveries
from worker.lease import HeldLease
from worker.presence import QueuePresence
from worker.settle import (
    Bury,
    ClaimAgain,
    Delete,
    PutOff,
    RunAlone,
    Settlement,
    StageAgain,
    read_missed,
    reason_of,
    settle,
    stage_again,
)
from worker.signals import MISSES

LONGEST_BACKOFF_SECONDS = 5.0
LOCKED_ROW_SECONDS = 2


class Receiver:
    """Feeds the slots of one queue. `start` runs an attempt as a task and frees its slot.

    Never more deliveries are asked for than slots are free, so that none waits unstarted while
    its visibility runs out.

    Model: action receive.
    """

    def __init__(
        self,
        *,
        queue: str,
        presence: QueuePresence,
        engine: AsyncEngine,
        sqs: SqsClient,
        deliveries: Deliveries,
        claimant: Claimant,
        deployment_id: UUID,
        poll_seconds: int,
        start: Callable[["Receiver", HeldLease], None],
        run_alone: Callable[["Receiver", JobId], Awaitable[bool]],
        wake_relay: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.presence = presence
        self._engine = engine
        self._sqs = sqs
        self._deliveries = deliveries
        self._claimant = claimant
        self._deployment_id = deployment_id
        self._poll_seconds = poll_seconds
        self._start = start
        self._run_alone = run_alone
        self._wake_relay = wake_relay
        self._running = 0
        self._changed = asyncio.Event()
        self._failures = 0
        self._strangers: set[UUID] = set()
        self.held_back = False

    def slot_taken(self) -> None:
        """An attempt has started in one of this queue's slots."""
        self._count(+1)

    def slot_freed(self) -> None:
        """An attempt has ended."""
        self._count(-1)

    def hold_back(self, *, on: bool) -> None:
        """Stop (or start) asking for messages while a job runs alone."""
        self.held_back = on
        self._count(0)

    def _count(self, change: int) -> None:
        self._running += change
        assert 0 <= self._running <= self.presence.slots, "a slot is taken once and freed once"
        self.presence.set_free(0 if self.held_back else self.presence.slots - self._running)
        self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Receive until `stop`; an open long poll is left to end, what it brings is handed back."""
        while not stop.is_set():
            if self.presence.free_slots == 0:
                await self._wait(stop, None)
                continue
            try:
                await self._receive(stop)
                self._failures = 0
            except Exception as error:  # noqa: BLE001 - one odd message must not end the queue
                if not (isinstance(error, TRANSPORT_ERRORS) or is_unreachable(error)):
                    log.exception("receive.failed", queue=self.queue)
                self._failures += 1
                said = told(error)
                log.warning("receive.waits", queue=self.queue, error=said)
                grown = min(LONGEST_BACKOFF_SECONDS, 0.2 * 2.0 ** min(self._failures, 10))
                await self._wait(stop, random.uniform(grown / 2, grown))

    async def _wait(self, stop: asyncio.Event, seconds: float | None) -> None:
        self._changed.clear()
        waits = [asyncio.ensure_future(stop.wait())]
        if seconds is None:
            waits.append(asyncio.ensure_future(self._changed.wait()))
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _receive(self, stop: asyncio.Event) -> None:
        began = monotonic()
        visibility = self._claimant.timing.visibility
        deliveries = await self._sqs.receive(
            self.queue,
            most=self.presence.free_slots,
            wait_seconds=self._poll_seconds,
            visibility_seconds=round(visibility),
        )
        self.presence.received_at = monotonic()
        if not deliveries:
            # Nothing was there at any moment since the poll began: that is what it proves.
            self.presence.empty_receive_at = began
        elif stop.is_set() or self.held_back:
            await self._deliveries.put_off(dict.fromkeys(deliveries, 0))
        else:
            await self._claim(deliveries, received_at=monotonic())

    async def _claim(self, deliveries: Sequence[Delivery], received_at: float) -> None:
        ours = await self._sorted_out(deliveries)
        if not ours:
            return
        claimed = await claim_jobs(self._engine, self._claimant, list(ours))
        for held in claimed:
            self._begin(held, ours.pop(held.lease.job_id), received_at)
        if ours:
            await self._settle(ours, received_at)

    def _begin(self, held: HeldLease, delivery: Delivery | None, received_at: float) -> None:
        held.delivery, held.received_at, held.visible_set_at = delivery, received_at, received_at
        self.slot_taken()
        self._start(self, held)

    async def _sorted_out(self, deliveries: Sequence[Delivery]) -> dict[JobId, Delivery]:
        """Deliveries by job; poison is buried, strangers are left alone, twins are deleted."""
        ours: dict[JobId, Delivery] = {}
        for delivery in deliveries:
            try:
                message = parse_message(delivery.body)
            except PoisonMessage as error:
                await bury_message(self._engine, delivery, str(error))
                self._deliveries.delete(delivery)
                continue
            if message.deployment_id != self._deployment_id:
                self._note_stranger(message.deployment_id)
            elif message.job_id in ours:
                self._deliveries.delete(delivery)
            else:
                ours[message.job_id] = delivery
        return ours

    def _note_stranger(self, deployment_id: UUID) -> None:
        if deployment_id not in self._strangers:
            self._strangers.add(deployment_id)
            alert(
                "message.other_deployment",
                queue=self.queue,
                deployment_id=str(deployment_id),
                ours=str(self._deployment_id),
            )

    async def _settle(self, missed: dict[JobId, Delivery], received_at: float) -> None:
        async with self._engine.connect() as conn:
            await leave_window(conn, self.queue, list(missed))
            rows = await read_missed(conn, list(missed), self._claimant.worker_id)
        put_off: dict[Delivery, int] = {}
        for job_id, delivery in missed.items():
            settlement = settle(delivery, rows.get(job_id), self._claimant)
            seconds = await self._apply(job_id, delivery, settlement, received_at)
            if seconds is not None:
                put_off[delivery] = seconds
        await self._deliveries.put_off(put_off)

    async def _apply(
        self, job_id: JobId, delivery: Delivery, settlement: Settlement, received_at: float
    ) -> int | None:
        """Carry one settlement out; seconds to put the delivery off by, None when it is done."""
        log.info("claim.missed", job_id=str(job_id), settled=str(settlement))
        if not isinstance(settlement, ClaimAgain):
            MISSES.labels(reason_of(settlement)).inc()
        match settlement:
            case Delete():
                self._deliveries.delete(delivery)
            case PutOff():
                return settlement.seconds
            case Bury():
                await bury_message(self._engine, delivery, settlement.reason)
                self._deliveries.delete(delivery)
            case StageAgain():
                async with self._engine.connect() as conn:
                    await stage_again(conn, job_id)
                self._deliveries.delete(delivery)
                self._wake_relay()
            case RunAlone():
                await self._run_alone(self, job_id)
                # Put off by a reservation's length in any case: one may end without a claim.
                return ceil(self._claimant.timing.lease)
            case ClaimAgain(locked=locked):
                return await self._claim_again(job_id, delivery, received_at, locked=locked)
        return None

    async def _claim_again(
        self, job_id: JobId, delivery: Delivery, received_at: float, *, locked: bool
    ) -> int | None:
        try:
            claimed = await claim_jobs(
                self._engine, self._claimant, [job_id], wait=True, locked=locked
            )
        except DBAPIError as error:
            if sqlstate_of(error) not in {"55P03", "40P01"}:
                raise
            return _put_off_busy()
        if claimed:
            self._begin(claimed[0], delivery, received_at)
            return None
        if not locked:
            return _put_off_busy()
        async with self._engine.connect() as conn:
            rows = await read_missed(conn, [job_id], self._claimant.worker_id)
        settlement = settle(delivery, rows.get(job_id), self._claimant, refused=True)
        if isinstance(settlement, ClaimAgain):
            return _put_off_busy()
        return await self._apply(job_id, delivery, settlement, received_at)


def _put_off_busy() -> int:
    """Somebody has the job's row at this moment: look again soon."""
    MISSES.labels("busy").inc()
    return LOCKED_ROW_SECONDS
