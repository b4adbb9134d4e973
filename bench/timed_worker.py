"""`python -m bench.timed_worker`: the worker itself, with a watch around each step of a cost run.

The steps are the handler's own functions, found by their names: one that is gone is an error here,
not a phase that looks free. Phases overlap: together they are more than the run. Seconds go to the
file that BENCH_PHASES names, a line a run.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

from worker import offload
from worker.__main__ import main
from worker.handlers import costing, costing_chunks

# What each phase is made of; `compute` is the child process with the way there and back.
STEPS = {
    "list": (costing, ("_begin",)),
    "read": (costing_chunks, ("next_items", "load_units")),
    "write": (costing_chunks, ("_write",)),
    "settle": (costing, ("_settle",)),
    "activate": (costing, ("_complete",)),
}
LAST = "_complete"
ASK = "_ask"  # once it is this call's turn

_spent: dict[str, float] = {}


def _watched(
    phase: str, function: Callable[..., Awaitable[Any]], *, last: bool
) -> Callable[..., Awaitable[Any]]:
    async def watched(*args: Any, **named: Any) -> Any:
        began = monotonic()
        try:
            return await function(*args, **named)
        finally:
            _spent[phase] = _spent.get(phase, 0.0) + monotonic() - began
            if last:
                _tell()

    return watched


def _tell() -> None:
    with Path(os.environ["BENCH_PHASES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({phase: round(spent, 3) for phase, spent in _spent.items()}) + "\n")
    _spent.clear()


def watch() -> None:
    """Put the watches on, in this process."""
    for phase, (module, names) in STEPS.items():
        for name in names:
            function = getattr(module, name)
            setattr(module, name, _watched(phase, function, last=name == LAST))
    asked = getattr(offload.Child, ASK)
    setattr(offload.Child, ASK, _watched("compute", asked, last=False))


if __name__ == "__main__":
    watch()
    sys.exit(main())
