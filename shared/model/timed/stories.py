"""Stories: the small plans of the guided tour, and the one that breaks."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from shared.model.timed.plan import Plan

_QUIET = Plan(
    workers=2,
    jobs=1,
    pieces=2,
    work=8,
    lease=15,
    heartbeat=3,
    visibility=25,
    crash=0,
    pause=0,
    pause_seconds=40,
    duplicate=0,
    loss=0,
)

STORIES: Mapping[str, Plan] = MappingProxyType(
    {
        "normal": _QUIET,
        "crash": replace(_QUIET, faults=((2, "crash"),)),
        "zombie": replace(_QUIET, faults=((2, "pause"),)),
        "nofence": replace(_QUIET, faults=((2, "pause"),), fence=False),
    }
)
