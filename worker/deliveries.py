"""Deliveries: deletes are gathered into batches of ten; all of it only courtesy to SQS."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from shared.logs import log
from shared.sqs import BATCH, TRANSPORT_ERRORS, Delivery, SqsClient
from shared.telling import told

GATHER_SECONDS = 0.1


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
        while not stop.is_set():
            waits = [asyncio.ensure_future(e.wait()) for e in (self._changed, stop)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if len(self._done) < BATCH and not stop.is_set():
                await asyncio.wait(
                    [stopping := asyncio.ensure_future(stop.wait())], timeout=GATHER_SECONDS
                )
                stopping.cancel()
            await self.flush()

    async def flush(self) -> None:
        """Delete everything gathered so far."""
        self._changed.clear()
        done, self._done = self._done, []
        by_queue: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in done:
            by_queue[delivery.queue].append(delivery)
        for queue, listed in by_queue.items():
            try:
                await self._sqs.delete(queue, [each.handle for each in listed])
            except TRANSPORT_ERRORS as error:
                log.warning("delivery.not_deleted", queue=queue, error=told(error))
