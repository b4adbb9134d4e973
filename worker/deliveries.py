"""Deliveries: deletes are gathered into batches of ten; all of it only courtesy to SQS."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from time import monotonic
from typing import Any

from shared.logs import log
from shared.sqs import BATCH, TRANSPORT_ERRORS, Delivery, SqsClient
from shared.telling import told

GATHER_SECONDS = 0.1
AT_ONCE = 4


class Deliveries:
    """Deletes and puts off. A failure is logged: the message comes back and ends as a miss.

    Model: action delete_message.
    """

    def __init__(self, sqs: SqsClient) -> None:
        self._sqs = sqs
        self._done: list[Delivery] = []
        self._changed = asyncio.Event()

    def delete(self, delivery: Delivery) -> None:
        """Delete it soon, together with others."""
        self._done.append(delivery)
        self._changed.set()

    async def put_off(self, seconds: Mapping[Delivery, int]) -> None:
        """Hide each delivery for so many seconds; 0 hands it back at once."""
        by_queue: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in seconds:
            by_queue[delivery.queue].append(delivery)
        for queue, listed in by_queue.items():
            try:
                await self._sqs.extend(queue, {each.handle: seconds[each] for each in listed})
            except TRANSPORT_ERRORS as error:
                log.warning("delivery.not_put_off", queue=queue, error=told(error))

    async def run(self, stop: asyncio.Event) -> None:
        """Delete what has gathered, until `stop` and everything is gone."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                await self._gathered(stopping)
                await self._delete(whole=self._has_batch and not stop.is_set())
        finally:
            stopping.cancel()
        await self.flush()

    @property
    def _has_batch(self) -> bool:
        """Whether some queue has as many as one call takes."""
        return max(Counter(each.queue for each in self._done).values(), default=0) >= BATCH

    async def _gathered(self, stopping: "asyncio.Future[Any]") -> None:
        """Return once there is a whole batch, or something for as long as it may wait."""
        until: float | None = None
        while not (self._has_batch or stopping.done()):
            if self._done and until is None:
                until = monotonic() + GATHER_SECONDS
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                return
            self._changed.clear()
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait(
                {changed, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            changed.cancel()

    async def flush(self) -> None:
        """Delete everything gathered so far."""
        await self._delete(whole=False)

    async def _delete(self, *, whole: bool) -> None:
        """Delete what has gathered; `whole`: what makes no batch of its queue goes on gathering."""
        by_queue: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in self._done:
            by_queue[delivery.queue].append(delivery)
        self._done, batches = [], []
        for queue, listed in by_queue.items():
            for start in range(0, len(listed), BATCH):
                batch = listed[start : start + BATCH]
                if whole and len(batch) < BATCH:
                    self._done += batch
                else:
                    batches.append((queue, batch))
        for start in range(0, len(batches), AT_ONCE):
            some = batches[start : start + AT_ONCE]
            await asyncio.gather(*(self._delete_batch(queue, batch) for queue, batch in some))

    async def _delete_batch(self, queue: str, batch: list[Delivery]) -> None:
        try:
            await self._sqs.delete(queue, [each.handle for each in batch])
        except TRANSPORT_ERRORS as error:
            log.warning("delivery.not_deleted", queue=queue, error=told(error))
