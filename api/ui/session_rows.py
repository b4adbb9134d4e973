"""Looking sessions up: one query at a time, with everybody in it who has asked meanwhile.

Streams of many pages ask for their sessions at the same moments. Each alone would be hundreds of
queries every few seconds; together they are one.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, time
from typing import NamedTuple

from api.authentication import Caller, caller_of
from api.resources import Resources
from shared.database import DATABASE_ERRORS
from shared.sessions import find_sessions, note_since, token_hash_of

MOST_A_QUERY = 1000


class Asked(NamedTuple):
    """The hash of a session's token, and the key that its cookie names."""

    token_hash: bytes
    key_id: str

    @classmethod
    def of(cls, token: str, key_id: str) -> "Asked":
        """What is asked of a cookie's token."""
        return cls(token_hash_of(token), key_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the database said at `at` (monotonic): a row, its key's caller, and for how long.

    `since` is when sessions began to have rows (seconds since the epoch).
    """

    stands: bool
    caller: Caller | None
    left: float
    since: float
    at: float


@dataclass(slots=True, eq=False)
class _Batch:
    asked: set[Asked] = field(default_factory=set)
    task: "asyncio.Task[dict[Asked, Found]]" = field(init=False)


@dataclass(slots=True)
class SessionRows:
    """Asks the database for sessions; `queries` counts how often."""

    resources: Resources
    queries: int = 0
    _next: _Batch | None = None
    _flying: _Batch | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, asked: Asked) -> Found:
        """What is known of it now; raises what the database raises, for all who share the query."""
        if self._flying is not None and asked in self._flying.asked:
            batch = self._flying
        else:
            batch = self._gathering()
            batch.asked.add(asked)
        return (await asyncio.shield(batch.task))[asked]

    def _gathering(self) -> _Batch:
        if self._next is None or len(self._next.asked) >= MOST_A_QUERY:
            batch = self._next = _Batch()
            batch.task = asyncio.create_task(self._look(batch), name="look up sessions")
            batch.task.add_done_callback(_seen)
        return self._next

    async def _look(self, batch: _Batch) -> dict[Asked, Found]:
        async with self._turn:
            if self._next is batch:
                self._next = None
            self._flying = batch
            try:
                return await self._ask(sorted(batch.asked))
            finally:
                self._flying = None

    async def _ask(self, asked: list[Asked]) -> dict[Asked, Found]:
        at = monotonic()  # before the question: what ends after it is not in the answer
        self.queries += 1
        async with self.resources.reading() as conn:
            rows = await find_sessions(conn, asked)
            if any(row.since is None for row in rows.values()):
                # A database that takes no writes must not end the reading.
                with suppress(*DATABASE_ERRORS):
                    await note_since(conn)
        found: dict[Asked, Found] = {}
        for each in asked:
            row = rows[each]
            lasts = [left for left in (row.session_left, row.seconds_left) if left is not None]
            found[each] = Found(
                stands=row.stands,
                caller=None if row.principal is None else caller_of(row, each.key_id),
                left=min(lasts, default=float("inf")),
                since=time() if row.since is None else row.since,
                at=at,
            )
        return found


def _seen(task: "asyncio.Task[dict[Asked, Found]]") -> None:
    if not task.cancelled():
        task.exception()  # seen: where nobody waits any more, nobody else would look
