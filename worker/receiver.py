"""Receiver: one a queue. Asks SQS for at most the free slots, claims, and starts the attempts.

It asks on while it claims: what a receive brings meanwhile is claimed together, in one statement.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
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
from shared.sqs import BATCH, TRANSPORT_ERRORS, Delivery, SqsClient
from shared.telling import told
from shared.types import JobId
from worker.claim import Claimant, claim_jobs, share_inputs
from worker.dead_letter import bury_message
from worker.deliveries import Deliveries
from worker.lease import HeldLease
from worker.presence import QueuePresence
from worker.settle import (
    Bury,
    ClaimAgain,
    Delete,
    HandBack,
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
# As many at once as slots free up in a moment, so that messages come by the ten under load.
GATHER_SECONDS = 0.02
MOST_CLAIMS = 100


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
        self._claiming = 0  # deliveries that are being claimed: each may take a slot
        self._received: list[tuple[Delivery, float]] = []
        self._claims: asyncio.Task[None] | None = None
        self._failed: Exception | None = None
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

    @property
    def _room(self) -> int:
        """Slots that nothing received may still take."""
        return max(0, self.presence.free_slots - self._claiming - len(self._received))

    async def run(self, stop: asyncio.Event) -> None:
        """Receive until `stop`; an open long poll is left to end, what it brings is handed back."""
        try:
            while not stop.is_set():
                if self._room == 0:
                    await self._wait(stop, None)
                    continue
                try:
                    await self._gather(stop)
                    await self._receive(stop)
                except Exception as error:  # noqa: BLE001 - one odd message must not end the queue
                    await self._back_off(error, stop)
            if self._claims is not None:
                await asyncio.wait({self._claims})
        finally:
            if self._claims is not None:
                self._claims.cancel()

    async def _back_off(self, error: Exception, stop: asyncio.Event) -> None:
        if not (isinstance(error, TRANSPORT_ERRORS) or is_unreachable(error)):
            log.error("receive.failed", queue=self.queue, exc_info=error)
        self._failures += 1
        log.warning("receive.waits", queue=self.queue, error=told(error))
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

    async def _gather(self, stop: asyncio.Event) -> None:
        """While slots are ending one by one, wait a moment for more of them."""
        enough = min(BATCH, self.presence.slots // 4)
        until = monotonic() + GATHER_SECONDS
        while self._room < enough and not stop.is_set() and monotonic() < until:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(until - monotonic()):
                    await self._changed.wait()

    async def _receive(self, stop: asyncio.Event) -> None:
        if (failed := self._failed) is not None:
            self._failed = None
            raise failed
        if self._room == 0:
            return
        began = monotonic()
        visibility = self._claimant.timing.visibility
        deliveries = await self._sqs.receive(
            self.queue,
            most=self._room,
            wait_seconds=self._poll_seconds,
            visibility_seconds=round(visibility),
        )
        self.presence.received_at = monotonic()
        if not deliveries:
            # Nothing was there at any moment since the poll began: that is what it proves.
            self.presence.empty_receive_at = began
            if self._claims is None:
                self._failures = 0
            return
        self._received += [(delivery, monotonic()) for delivery in deliveries]
        if self._claims is None:
            self._claims = asyncio.create_task(self._claim_all(stop), name=f"claims {self.queue}")

    async def _claim_all(self, stop: asyncio.Event) -> None:
        """Claim what has been received, until nothing has been meanwhile."""
        try:
            while self._received:
                batch, self._received = self._received[:MOST_CLAIMS], self._received[MOST_CLAIMS:]
                deliveries = [delivery for delivery, _ in batch]
                if stop.is_set() or self.held_back:
                    await self._deliveries.put_off(dict.fromkeys(deliveries, 0))
                else:
                    await self._claim(deliveries, received_at=batch[0][1])
                    self._failures = 0
        except Exception as error:  # noqa: BLE001 - told to run(), which waits before it asks again
            self._failed = error
            self._received.clear()  # what was not looked at comes back by itself
        finally:
            self._claims = None
            self._changed.set()

    async def _claim(self, deliveries: Sequence[Delivery], received_at: float) -> None:
        self._claiming = len(deliveries)
        try:
            ours = await self._sorted_out(deliveries)
            if not ours:
                return
            claimed = await claim_jobs(self._engine, self._claimant, list(ours))
            share_inputs(self._engine, claimed)
            for held in claimed:
                self._begin(held, ours.pop(held.lease.job_id), received_at)
            if ours:
                await self._settle(ours, received_at)
        finally:
            self._claiming = 0
            self._changed.set()

    def _begin(self, held: HeldLease, delivery: Delivery | None, received_at: float) -> None:
        held.delivery, held.received_at, held.visible_set_at = delivery, received_at, received_at
        self._claiming -= 1
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
            rows = await read_missed(conn, list(missed), self._claimant.worker_id)
            settled = {
                job_id: settle(delivery, rows.get(job_id), self._claimant)
                for job_id, delivery in missed.items()
            }
            leaves = [job_id for job_id, how in settled.items() if not isinstance(how, HandBack)]
            if leaves:
                await leave_window(conn, self.queue, leaves)
        put_off: dict[Delivery, int] = {}
        for job_id, delivery in missed.items():
            seconds = await self._apply(job_id, delivery, settled[job_id], received_at)
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
            case PutOff() | HandBack():
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
