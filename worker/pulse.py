"""Pulse: whether anything is due, asked in one statement by whoever looks first.

The relay looks every two seconds while it idles; what maintenance wants to know is asked along. A
relay that is busy, or that cannot send, does not look: then maintenance does, on its own period.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.outbox import NEXT

LOOK = text(f"""
    SELECT outbox.due, outbox.seconds,
           EXISTS (SELECT FROM chot.jobs e
                    WHERE e.state = 'running' AND e.lease_expires_at <= clock_timestamp())
               AS reaper,
           EXISTS (SELECT FROM chot.job_locks l WHERE l.waiting AND l.woken_at IS NULL)
               AS waiters,
           EXISTS (SELECT FROM chot.groups g WHERE g.state = 'cancelling' OR g.join_due) AS groups,
           EXISTS (SELECT FROM chot.jobs j
                    WHERE j.cleanup_due AND j.kind = ANY(CAST(:kinds AS text[]))) AS cleanup
      FROM ({NEXT}) AS outbox""")


class Pulse:
    """`found` is told the answer, whoever has asked; `looked_at` is when, in monotonic seconds."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = list(kinds)
        self.found: Callable[[Row[Any]], None] | None = None
        self.looked_at = float("-inf")

    async def look(self, conn: AsyncConnection) -> Row[Any]:
        """Ask; in autocommit. A time that passes while it asks is not lost: it began before."""
        began = monotonic()
        row = (await conn.execute(LOOK, {"kinds": self._kinds})).one()
        self.looked_at = began
        if self.found is not None:
            self.found(row)
        return row
