"""CPU work beside the event loop: while a large body is judged, everybody else is served.

One thread, not a pool: Python runs one of them at a time anyway, and each more would only take
turns from the loop. What waits for it is bounded, so that a flood gets its answer at once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from api.problems import Problem, ProblemRaised

SMALL_BYTES = 16 * 1024  # judged in about a millisecond, which a thread's switch would cost, too
MOST_WAITING = 32
P = ParamSpec("P")
T = TypeVar("T")


class OffLoop:
    """Runs what takes a body's size in time; a small body right here, a large one in the thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large bodies")
        self._waiting = 0

    async def run(self, size: int, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """The result of `work`, or its error; ProblemRaised when too many wait for the thread.

        A caller that goes away leaves work that has begun to its end: nothing hangs on it.
        """
        if size <= SMALL_BYTES:
            return work(*args, **named)
        if self._waiting >= MOST_WAITING:
            detail = "too many large bodies at this moment; send it again"
            raise ProblemRaised(Problem(slug="overloaded", detail=detail))
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            # In the request's own context: jobs that are read there are of its trace.
            own = copy_context()
            return await loop.run_in_executor(self._thread, lambda: own.run(work, *args, **named))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drop what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
