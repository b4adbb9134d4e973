"""Outbox and relay: publish after commit only.

take (one statement: the rows whose turn it is, a take token, next_send_at pushed) → send outside
any transaction, ten at a time → delete exactly the ids that SQS took, by token. A crash after the
send repeats the message; a crash before it leaves the row. Never zero times.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import is_unreachable
from shared.logs import alert, log
from shared.messages import JobMessage
from shared.publishing import AGEING_SECONDS, take
from shared.sqs import BATCH, TRANSPORT_ERRORS, EntryFailure, Outgoing, SendResult, SqsClient
from shared.telling import told
from shared.tracing import spans
from shared.types import JobId

AT_ONCE = 4
# Rows of a batch that SQS has answered do not wait longer than that for the others of their round.
DELETE_SECONDS = 1.0
# So many jobs that end are waited for, or for so long: each leaves a place in its window.
ENOUGH_ROOM = 2 * BATCH
ROOM_SECONDS = 0.02
LONGEST_BACKOFF_SECONDS = 5.0
# The send at which a refused entry calls a human: sooner where SQS says that the fault is ours.
ALERT_AT = 3
ALERT_OURS_AT = 2

# Jobs are marked in id order, and one that is being claimed at this moment is left out.
DELETE_SENT = text("""
    WITH sent AS (
        DELETE FROM chot.outbox WHERE id = ANY(:ids) AND take_token = :token RETURNING job_id),
    marked AS MATERIALIZED (
        SELECT j.id FROM chot.jobs j
         WHERE j.id IN (SELECT job_id FROM sent) AND j.state = 'pending'
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE chot.jobs j SET published_at = clock_timestamp(), publishes = publishes + 1
      FROM marked WHERE j.id = marked.id AND j.state = 'pending'""")

# A failed entry keeps the wait that its take has set, and leaves its place in the window to
# another; an invalid one is put aside for good.
NOTE_FAILURE = text("""
    UPDATE chot.outbox
       SET last_error = :error, take_token = NULL,
           quarantined_at = CASE WHEN :invalid THEN clock_timestamp() END
     WHERE id = :id AND take_token = :token""")

# The transport failed, not the entries: they lose neither their place in their brand's backlog,
# nor their turn, nor a count.
PUT_BACK = text("""
    UPDATE chot.outbox o
       SET next_send_at = least(clock_timestamp(), (
               SELECT j.available_at FROM chot.jobs j WHERE j.id = o.job_id)),
           sends = sends - 1, take_token = NULL
     WHERE id = ANY(:ids) AND take_token = :token""")

# Whether anything is due now that a take might have, and when the next row after that will be.
NEXT = """
    SELECT coalesce(bool_or(next.due AND NOT q.paused), false) AS due,
           extract(epoch FROM min(next.at) - clock_timestamp())::double precision AS seconds
      FROM chot.queues q CROSS JOIN generate_series(0, 9) AS p (priority)
     CROSS JOIN LATERAL (
           SELECT (SELECT min(o.next_send_at) FROM chot.outbox o
                    WHERE o.queue = q.name AND o.priority = p.priority
                      AND o.quarantined_at IS NULL) <= statement_timestamp() AS due,
                  (SELECT min(o.next_send_at) FROM chot.outbox o
                    WHERE o.queue = q.name AND o.priority = p.priority
                      AND o.quarantined_at IS NULL
                      AND o.next_send_at > statement_timestamp()) AS at) AS next"""
SECONDS_TO_NEXT = text(NEXT)


Sent = tuple[Sequence[Row[Any]], SendResult]


class Relay:
    """Publishes committed outbox rows; woken in-process after a commit, polls as a net.

    `engine` must be in autocommit: each step is one statement. Several relays may run at once.
    `look` asks NEXT, and maybe more, in a statement of somebody else's.

    Model: actions relay_publish, relay_crash.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        sqs: SqsClient,
        *,
        poll_seconds: float,
        ageing_seconds: float = AGEING_SECONDS,
        look: Callable[[AsyncConnection], Awaitable[Row[Any]]] | None = None,
    ) -> None:
        self._engine = engine
        self._look_by = look or _look
        self._sqs = sqs
        self._poll_seconds = poll_seconds
        self._ageing_seconds = ageing_seconds
        self._woken = asyncio.Event()
        self._room = 0  # places that were left since the last wake
        self._staged = False  # it was woken for a commit, not for a place
        self._failures = 0
        self._unreached: str | None = None  # the queue that SQS did not answer for

    @property
    def failures(self) -> int:
        """Rounds that failed in a row, by SQS or by the database; 0 means all is well.

        An outage ends with what is published after it, or, with nothing to publish, with a look
        that succeeds while SQS answers for the queue it was away for.
        """
        return self._failures

    def wake(self) -> None:
        """Say that something was committed to the outbox."""
        self._staged = True
        self._woken.set()

    def room(self) -> None:
        """Say that a job has ended: its window may have room. On the relay's own loop.

        Heard a moment later than a wake, together with other jobs that end.
        """
        self._room += 1
        if self._room >= ENOUGH_ROOM:
            self._has_room()
        elif self._room == 1:
            asyncio.get_running_loop().call_later(ROOM_SECONDS, self._has_room)

    def _has_room(self) -> None:
        if self._room:
            self._room = 0
            self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Flush until `stop`; errors of the world are waited out, never raised.

        Unless something was committed, or waits as it knows, it looks first, in a short statement.
        """
        takes = True
        while not stop.is_set():
            takes, self._staged = takes or self._staged, False
            self._woken.clear()
            try:
                while takes and (await self._round())[1] and not stop.is_set():
                    pass
                if takes and self._woken.is_set():
                    continue
                due, seconds = await self._look()
                if due and not takes:
                    takes = True
                    continue
                if self._failures and await self._is_over():
                    self._failures = 0
                await self._wait(min(self._poll_seconds, seconds), stop)
                takes = due or seconds < self._poll_seconds
            except Exception as error:  # noqa: BLE001 - one odd row must not end the relay
                if not (isinstance(error, TRANSPORT_ERRORS) or is_unreachable(error)):
                    log.exception("relay.failed")
                self._failures += 1
                takes = True
                log.warning("relay.waits", error=told(error), failures=self._failures)
                await self._wait(self._backoff(), stop, wakeable=False)

    async def flush(self) -> bool:
        """Publish one round of rows whose turn it is; True while there may be more.

        Raises the transport's error after the rows it hit have been put back.
        """
        published, more = await self._round()
        return more or published > 0

    async def _round(self) -> tuple[int, bool]:
        """How many rows were taken, and whether more were there at that moment."""
        token = uuid4()
        async with self._engine.connect() as conn:
            taken = await take(conn, token, ageing_seconds=self._ageing_seconds)
            rows = taken.rows
        if not rows:
            return 0, taken.more
        await self._send(rows, token)
        self._failures, self._unreached = 0, None
        return len(rows), taken.more

    async def _send(self, rows: Sequence[Row[Any]], token: UUID) -> None:
        """Send all; what SQS took is deleted together, what was not sent is put back."""
        turn = asyncio.Semaphore(AT_ONCE)
        broken = asyncio.Event()
        sending = [
            asyncio.create_task(self._publish(queue, listed, turn, broken))
            for queue, listed in _batches(rows)
        ]
        left, errors = set(sending), list[BaseException]()
        try:
            while left:
                answered, left = await asyncio.wait(left, timeout=DELETE_SECONDS)
                errors += [error for each in answered if (error := each.exception()) is not None]
                ended = [each.result() for each in answered if each.exception() is None]
                await self._end([sent for sent in ended if sent is not None], token)
        finally:
            for each in left:
                each.cancel()
        if errors:
            unsent = [
                row.id
                for each, (_, listed) in zip(sending, _batches(rows), strict=True)
                for row in listed
                if each.exception() is not None or each.result() is None
            ]
            await self._put_back(unsent, token)
            raise errors[0]

    async def _publish(
        self,
        queue: str,
        rows: Sequence[Row[Any]],
        turn: asyncio.Semaphore,
        broken: asyncio.Event,
    ) -> Sent | None:
        """What SQS said of these rows; None where they were not sent, since others could not be."""
        async with turn:
            if broken.is_set():
                return None
            messages = [_outgoing(row) for row in rows]
            try:
                with spans().send(queue, [row.trace for row in rows]):
                    return rows, await self._sqs.send(queue, messages)
            except BaseException as error:
                broken.set()
                if isinstance(error, TRANSPORT_ERRORS):
                    self._unreached = queue
                raise

    async def _end(self, answered: Sequence[Sent], token: UUID) -> None:
        sent = list[int]()
        failed = list[tuple[Row[Any], EntryFailure]]()
        for rows, result in answered:
            sent += [row.id for row in rows if str(row.id) in result.sent]
            failed += [
                (row, result.failed[id_]) for row in rows if (id_ := str(row.id)) in result.failed
            ]
        if not (sent or failed):
            return
        async with self._engine.connect() as conn:
            if sent:
                await conn.execute(DELETE_SENT, {"ids": sent, "token": token})
            for row, failure in failed:
                await self._note(conn, row, failure, token)

    async def _note(
        self, conn: AsyncConnection, row: Row[Any], failure: EntryFailure, token: UUID
    ) -> None:
        error = f"{failure.code}: {failure.message}"[:2000]
        binds = {"id": row.id, "token": token, "error": error, "invalid": failure.invalid}
        await conn.execute(NOTE_FAILURE, binds)
        patience = ALERT_OURS_AT if failure.ours else ALERT_AT
        if failure.invalid or row.sends >= patience:
            alert(
                "outbox.entry_refused",
                job_id=str(row.job_id),
                queue=row.queue,
                error=error,
                sends=row.sends,
                quarantined=failure.invalid,
            )

    async def _put_back(self, ids: list[int], token: UUID) -> None:
        async with self._engine.connect() as conn:
            await conn.execute(PUT_BACK, {"ids": ids, "token": token})

    async def _look(self) -> tuple[bool, float]:
        """Whether anything is due, and in how many seconds more will be."""
        async with self._engine.connect() as conn:
            row = await self._look_by(conn)
        return row.due, self._poll_seconds if row.seconds is None else max(0.0, row.seconds)

    async def _is_over(self) -> bool:
        """Whether SQS answers again; the database has just answered a look.

        Nothing due proves nothing: another relay may hold the rows, and fail with them.
        """
        if self._unreached is not None:
            try:
                await self._sqs.find(self._unreached)
            except TRANSPORT_ERRORS:
                return False
            self._unreached = None
        return True

    def _backoff(self) -> float:
        return random.uniform(0, min(LONGEST_BACKOFF_SECONDS, 0.1 * 2.0 ** min(self._failures, 10)))

    async def _wait(self, seconds: float, stop: asyncio.Event, *, wakeable: bool = True) -> None:
        waits = [asyncio.ensure_future(stop.wait())]
        if wakeable:
            waits.append(asyncio.ensure_future(self._woken.wait()))
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


async def _look(conn: AsyncConnection) -> Row[Any]:
    return (await conn.execute(SECONDS_TO_NEXT)).one()


def _batches(rows: Sequence[Row[Any]]) -> list[tuple[str, list[Row[Any]]]]:
    by_queue: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        by_queue[row.queue].append(row)
    return [
        (queue, listed[start : start + BATCH])
        for queue, listed in by_queue.items()
        for start in range(0, len(listed), BATCH)
    ]


def _outgoing(row: Row[Any]) -> Outgoing:
    message = JobMessage(
        job_id=JobId(row.job_id),
        kind=row.kind,
        brand=row.brand,
        trace=row.trace,
        deployment_id=row.deployment_id,
    )
    return Outgoing(entry_id=str(row.id), body=message.to_body(), group=row.brand)
