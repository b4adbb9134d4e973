"""Counting: the numbers of /metrics, asked of the database rarely and never for long.

Whoever scrapes, however often: one query an interval, under a statement timeout, and never more
than a twentieth of the time. What cannot be counted now is what was counted last, with its age.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from shared.database import DATABASE_ERRORS
from shared.logs import log
from shared.telling import told

Count = Callable[[], Awaitable[dict[str, Any]]]
SHARE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counts of one moment (`monotonic()` seconds), and how long they took."""

    counts: dict[str, Any]
    at: float
    seconds: float


@dataclass(slots=True)
class Counting:
    """`count` is asked at most once an interval (seconds); its callers share the answer."""

    count: Count
    interval: float
    _last: Counted | None = None
    _again_at: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def counted(self) -> Counted:
        """The counts; raises the database's error only where there are none of any age."""
        async with self._turn:
            if self._last is None or monotonic() >= self._again_at:
                await self._count()
            assert self._last is not None, "counted, or raised"
            return self._last

    async def _count(self) -> None:
        began = monotonic()
        try:
            counts = await self.count()
        except (*DATABASE_ERRORS, TimeoutError) as error:
            self._wait(began)
            if self._last is None:
                raise
            log.warning("metrics.not_counted", error=told(error))
            return
        self._last = Counted(counts=counts, at=began, seconds=self._wait(began))

    def _wait(self, began: float) -> float:
        seconds = monotonic() - began
        self._again_at = began + max(self.interval, SHARE * seconds)
        return seconds
