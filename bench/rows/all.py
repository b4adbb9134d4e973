"""Every row in the order of the table. A module is imported when its row is asked for."""

from importlib import import_module
from typing import Any

from bench.row import Row, Scale

MODULES = {
    "submit": "submit",
    "bulk": "bulk",
    "drain": "drain",
    "counts": "counts",
    "effect": "effect",
    "requests": "requests",
    "latency": "latency",
    "idle": "idle",
    "heartbeat": "heartbeat",
    "takeover": "takeover",
    "history": "history",
    "costing": "costing",
    "posting": "posting",
    "import": "importing",
    "startup": "startup",
    "memory": "memory",
}
NAMES = tuple(MODULES)
LONG = ("history", "costing", "posting", "import")
# Mostly waiting, for leases, beats and many jobs: two minutes are too short for them.
NOT_QUICK = frozenset({"heartbeat", "takeover", "history", "memory"})


def row_named(name: str) -> Row[Any]:
    """The row; SystemExit with the names there are for any other."""
    if name not in MODULES:
        raise SystemExit(f"bench: no row {name!r}; there are {', '.join(NAMES)}")
    row: Row[Any] = import_module(f"bench.rows.{MODULES[name]}").ROW
    return row


def rows_of(scale: Scale) -> tuple[str, ...]:
    """What a scale measures when no row is named."""
    if scale is Scale.QUICK:
        return tuple(name for name in NAMES if name not in NOT_QUICK)
    return LONG if scale is Scale.LONG else NAMES
