"""Session locks: advisory locks that a stranger's transaction may leave on its connection.

All else of its session is undone in the transaction itself (shared.database.undo_session()). These
are not: let go before COMMIT, they would guard effects that are not there yet, and a commit of
their own after each transaction would be one commit more for every job. So who uses the connection
next begins with letting them go (set_limits()), and where nobody does within a moment, the pool
does.
"""

import asyncio
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

RESTING_SECONDS = 0.5
ANSWER_SECONDS = 5.0
MAY_HOLD_LOCKS = "may hold a stranger's locks"
ANSWERED_AT = "answered_at"  # by monotonic(); of a pool's record, as the one above
LET_GO = "SELECT pg_advisory_unlock_all()"


class RestingConnections:
    """The connections of one pool that came back with what may be a stranger's locks.

    None of them is used by two at once: who is given one that is letting go waits until it has.
    """

    def __init__(self) -> None:
        # By the asyncpg connection, the one longest here first: since when, and its record.
        self._since: dict[Any, tuple[float, Any]] = {}
        self._letting_go: dict[Any, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, engine: Engine) -> None:
        """Before whatever else listens to its pool: it may ask the connection something."""
        event.listen(engine, "checkout", self._given_out)
        event.listen(engine, "checkin", self._came_back)

    def _came_back(self, adapted: Any, record: Any) -> None:
        if record.info.pop(MAY_HOLD_LOCKS, False) and adapted is not None:
            self._since[adapted.driver_connection] = monotonic(), record
            self._look_later()

    def _given_out(self, adapted: Any, _record: Any, _fairy: Any) -> None:
        """Nobody gets one whose end the driver has already seen; that costs no question."""
        driver = adapted.driver_connection
        self._since.pop(driver, None)
        if (letting_go := self._letting_go.get(driver)) is not None:
            adapted.run_async(lambda _: asyncio.wait({letting_go}))
        if driver.is_closed():
            raise DisconnectionError("closed while it lay in the pool")

    def _look_later(self) -> None:
        if self._timer is None and self._since:
            due = next(iter(self._since.values()))[0] + RESTING_SECONDS
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - monotonic()), self._look)

    def _look(self) -> None:
        self._timer = None
        long_ago = monotonic() - RESTING_SECONDS
        for driver, (since, record) in list(self._since.items()):
            if since <= long_ago:
                del self._since[driver]
                task = asyncio.create_task(_let_go(driver), name="session locks")
                self._letting_go[driver] = task
                task.add_done_callback(partial(self._has_let_go, driver, record))
        self._look_later()

    def _has_let_go(self, driver: Any, record: Any, _task: "asyncio.Task[None]") -> None:
        del self._letting_go[driver]
        record.info[ANSWERED_AT] = monotonic()  # or it is closed, and the record gets a new one


async def _let_go(driver: Any) -> None:
    """A connection that does not answer in time is thrown away, and its locks with it."""
    if driver.is_closed():
        return
    try:
        await driver.execute(LET_GO, timeout=ANSWER_SECONDS)
    except Exception:  # noqa: BLE001 - whatever the driver calls it
        driver.terminate()
