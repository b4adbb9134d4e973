"""The schedule: which fault hits what, when and for how long; all of it from one seed."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

QUIET_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault: `at` and `seconds` count from the start of the schedule."""

    at: float
    fault: str
    target: str
    seconds: float
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What happens to one target: one fault at a time, with a pause between two."""

    faults: Sequence[str]
    pause: tuple[float, float]


# Shortest and longest duration of each fault, in leases (3 s): what outlives a lease and what
# does not are different faults.
DURATIONS: Mapping[str, tuple[float, float]] = {
    "kill": (0.05, 0.7),
    "stop": (0.3, 2.5),
    "drain": (0.1, 0.2),
    "clock": (1.0, 3.0),
    "pg_cut": (0.1, 1.5),
    "pg_black_hole": (0.3, 2.5),
    "pg_mute": (0.3, 1.5),
    "pg_lost_commit": (0.5, 1.5),
    "pg_restart": (0.05, 0.5),
    "pg_kill_backends": (0.05, 0.1),
    "pg_frozen_commit": (0.3, 1.3),
    "stop_in_transaction": (1.2, 2.5),
    "block_loop": (0.3, 1.5),
    "kill_child": (0.1, 0.2),
    "hog_pool": (0.5, 1.2),
    "poison": (0.1, 0.2),
    "sqs_lose": (1.0, 3.0),
    "sqs_late": (1.0, 3.0),
    "sqs_duplicate": (1.0, 3.0),
    "sqs_reorder": (1.0, 3.0),
    "sqs_partial": (0.5, 2.0),
    "sqs_throttle": (0.5, 2.0),
    "sqs_stale": (1.0, 3.0),
    "sqs_black_hole": (0.5, 2.0),
    "sqs_cap": (1.0, 3.0),
    "sqs_swallow": (1.0, 3.0),
    "sqs_slow": (0.5, 2.0),
}
WIRE = ("pg_cut", "pg_black_hole", "pg_mute", "pg_lost_commit")
WORKER = Lane(faults=("kill", "kill", "stop", "stop", "drain", "clock", *WIRE), pause=(2.0, 8.0))
API = Lane(faults=("kill", "stop", *WIRE), pause=(4.0, 12.0))
DATABASE = Lane(faults=("pg_restart", "pg_kill_backends", "pg_frozen_commit"), pause=(6.0, 14.0))
JOBS = Lane(
    faults=("stop_in_transaction", "block_loop", "kill_child", "hog_pool", "poison"),
    pause=(2.0, 6.0),
)
SQS = Lane(faults=tuple(name for name in DURATIONS if name.startswith("sqs_")), pause=(0.5, 3.0))
FAULTS = tuple(DURATIONS)


def make_schedule(
    rng: random.Random,
    *,
    seconds: float,
    lease: float,
    workers: int,
    apis: int,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> list[Step]:
    """The steps in order of time. The same generator state and arguments give the same steps."""
    lanes: dict[str, Lane] = {
        **{f"worker {n}": WORKER for n in range(1, workers + 1)},
        **{f"api {n}": API for n in range(1, apis + 1)},
        "database": DATABASE,
        "jobs": JOBS,
        "sqs": SQS,
    }
    steps: list[Step] = []
    for target, lane in lanes.items():
        # Each lane has a generator of its own: leaving faults out of one changes no other.
        dice = random.Random(rng.getrandbits(64))
        chosen = [f for f in lane.faults if (not only or f in only) and f not in without]
        if chosen:
            steps += _lane(dice, target, chosen, lane.pause, seconds=seconds, lease=lease)
    return sorted(steps, key=lambda step: (step.at, step.target))


def _lane(
    dice: random.Random,
    target: str,
    faults: Sequence[str],
    pause: tuple[float, float],
    *,
    seconds: float,
    lease: float,
) -> list[Step]:
    steps: list[Step] = []
    at = QUIET_SECONDS + dice.uniform(0, pause[1] / 2)
    while True:
        fault = dice.choice(faults)
        low, high = DURATIONS[fault]
        lasts = round(lease * dice.uniform(low, high), 2)
        detail = _detail(dice, fault)
        if at + lasts > seconds:
            return steps
        step = Step(at=round(at, 2), fault=fault, target=target, seconds=lasts, detail=detail)
        steps.append(step)
        at += lasts + dice.uniform(*pause)


def _detail(dice: random.Random, fault: str) -> dict[str, Any]:
    """What else a fault has to decide; every one draws as much, so that none moves another."""
    choice, share = dice.randrange(1_000_000), dice.random()
    match fault:
        case "clock":
            return {"hours": dice.choice((-5, -1, 3, 26))}
        case "pg_lost_commit":
            return {"lost_for_good": share < 0.5}
        case "pg_kill_backends":
            return {"share": round(0.2 + 0.8 * share, 2)}
        case "poison":
            return {"how": "exit" if share < 0.3 else "permanent", "number": choice}
        case "sqs_partial":
            return {"share": round(0.2 + 0.4 * share, 2), "dice": choice}
        case _:
            return {"every": 2 + choice % 3}
