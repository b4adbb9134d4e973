"""`python -m tests.scenarios.watched_api`: an api that tells of each long step of its event loop.

Measured is the loop's own CPU time, so that a machine with other work makes no step longer.
"""

from asyncio import events
from time import thread_time

from api.__main__ import main
from shared.logs import log

# Twice the scenario's 100 ms, by which the long test judges: a step's own CPU time grows when others
# share its core and its caches, and this test is of every day.
LONG_SECONDS = 0.2
run_step = events.Handle._run


def _watched(handle: events.Handle) -> None:
    began = thread_time()
    run_step(handle)
    took = thread_time() - began
    if took >= LONG_SECONDS:
        log.warning("loop.long_step", seconds=round(took, 3), step=repr(handle)[:500])


if __name__ == "__main__":
    events.Handle._run = _watched  # type: ignore[assignment] # what every loop calls
    main()
