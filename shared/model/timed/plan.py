"""Plan: what a timed trace is played with, and how much of it is allowed."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from shared.model.protections import without
from shared.model.state import Bounds

Fault = Literal["crash", "pause"]
# The whole statement worker.lease.HOLD_FENCE: what it compares, one by one.
FENCE = ("fence_compares_fence", "fence_compares_state", "fence_compares_checkpoint")
MANY = 1_000_000  # faults are bounded by their rates and by the trace's length, not by number

# name → (least, most); seconds, percent, or how many.
LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "workers": (1, 6),
        "jobs": (1, 8),
        "pieces": (1, 5),
        "work": (1, 120),
        "lease": (2, 300),
        "heartbeat": (1, 300),
        "visibility": (2, 600),
        "crash": (0, 100),
        "pause": (0, 100),
        "pause_seconds": (1, 600),
        "duplicate": (0, 100),
        "loss": (0, 100),
        "seed": (0, 999_999),
    }
)


class PlanRefused(ValueError):
    """A plan beyond the limits: `field`, its `value`, and the `rule` that it breaks."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field} {rule}, not {value}")
        self.field = field
        self.value = value
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is played. Times are seconds; crash, pause, duplicate and loss are percent.

    A crash or a pause strikes so many of the pieces of work that are begun, a duplicate or a loss
    so many of the messages that are sent. `fence` False takes HOLD_FENCE away. `faults` are the
    planned ones of a story: (which piece of all that are begun, from 1; what strikes it).
    """

    workers: int = 3
    jobs: int = 4
    pieces: int = 3
    work: int = 12
    lease: int = 30
    heartbeat: int = 8
    visibility: int = 60
    crash: int = 15
    pause: int = 15
    pause_seconds: int = 75
    duplicate: int = 15
    loss: int = 10
    seed: int = 16
    fence: bool = True
    faults: tuple[tuple[int, Fault], ...] = ()

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value: Any = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise PlanRefused(name, value, f"must be a whole number from {least} to {most}")

    @property
    def protections(self) -> frozenset[str]:
        """The model's protections in force."""
        return without(*(() if self.fence else FENCE))

    @property
    def bounds(self) -> Bounds:
        """The model's bounds. Each fault may come as often as this plan's chances have it."""
        return PlayedBounds(
            workers=self.workers,
            jobs=self.jobs,
            chunks=self.pieces,
            max_attempts=3,
            copies=4,
            crashes=MANY,
            pauses=MANY,
            duplicates=MANY,
            losses=MANY,
            doubts=0,
        )

    @property
    def safe(self) -> bool:
        """Whether a real worker would start with these times (docs/guarantees.md)."""
        margin = min(4.0, self.lease * 2 / 15)
        return 3 * self.heartbeat + margin <= min(self.lease, self.visibility)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedBounds(Bounds):
    """Bounds of a trace with time: a pause ends there, so that there may be any number of them."""

    def __post_init__(self) -> None:
        """Nothing: a Plan's limits are narrower."""


NAMES = tuple(field.name for field in fields(Plan))
