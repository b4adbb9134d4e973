"""What the world of groups remembers: the group's row, the children, the join, and transactions.

A child that is pending may be claimed: its message is left to the first world. The join's message
is not, since it is staged by the last ending.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from shared.model.state import ABSENT, PENDING, RUNNING

ACTIVE = frozenset({PENDING, RUNNING})
OPEN, SEALED, CANCELLING, ENDED = "open", "sealed", "cancelling", "ended"
Policy = Literal["fail_fast", "finish", "join"]

Pc = Literal["idle", "running", "ending", "looked", "owing"]
Purpose = Literal[
    "", "claim", "complete", "fail", "reap", "bury", "cancel", "spawn", "append", "seal",
    "cancel_group", "stop_member", "end_join", "redrive_child", "redrive_group",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """How large the world is: `children` at most, the first `appended` are there from the start."""

    workers: int = 2
    children: int = 2
    appended: int = 2
    policy: Policy = "finish"
    sealed: bool = False  # from the start, as spawn() makes a group
    crashes: int = 0
    stops: int = 0
    expiries: int = 0
    losses: int = 0
    fails: int = 0
    buries: int = 0
    cancels: int = 0
    group_cancels: int = 0
    spawns: int = 0
    redrives: int = 0
    child_redrives: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot end well: the last worker must not be stopped for ever."""
        if self.workers <= self.stops:
            raise ValueError("a stop may last for ever: there must be more workers than stops")


class Left(NamedTuple):
    """What may still happen; each is counted down."""

    crashes: int
    stops: int
    expiries: int
    losses: int
    fails: int
    buries: int
    cancels: int
    group_cancels: int
    spawns: int
    redrives: int
    child_redrives: int

    @classmethod
    def of(cls, bounds: GroupBounds) -> "Left":
        """Everything that the bounds allow."""
        return cls(*(getattr(bounds, name) for name in cls._fields))

    def spend(self, name: str) -> "Left | None":
        """The budget after one more of `name`; None when it is used up."""
        count = int(getattr(self, name))
        return self._replace(**{name: count - 1}) if count else None


class Group(NamedTuple):
    """The group's row. `starts` counts how often this generation has started or ended its join.

    `whole`: no more children are to come from a client. `join_due`: the join must not run, and
    maintenance has yet to end it.
    """

    state: str = OPEN
    whole: bool = False
    remaining: int = 0
    failed: bool = False
    cancelled: bool = False
    join_due: bool = False
    starts: int = 0


class Job(NamedTuple):
    """A child, or the join: the last in the tuple. `messages` are the join's only."""

    state: str = ABSENT
    lease: bool = False
    messages: int = 0
    lost: bool = False


class Actor(NamedTuple):
    """A worker, or one of those who write without a worker: client, operator, maintenance.

    `group` and `row`: which locks its open transaction holds. `saw` is a mutant's stale snapshot:
    whether the end of its job would be the last of a sealed group.
    """

    pc: Pc = "idle"
    job: int = -1
    purpose: Purpose = ""
    owns: bool = False
    stopped: bool = False
    group: bool = False
    row: bool = False
    saw: bool = False


class State(NamedTuple):
    """The whole world; `others` are client, operator and maintenance."""

    workers: tuple[Actor, ...]
    others: tuple[Actor, ...]
    group: Group
    jobs: tuple[Job, ...]
    left: Left


IDLE = Actor()
CLIENT, OPERATOR, KEEPER = 0, 1, 2
# How moves name them: numbers above those of workers.
FIRST_OTHER = 100
NAMES = ("a client", "an operator", "maintenance")


def initial(bounds: GroupBounds) -> State:
    """The group is there, with its first children and its join; all faults still to come."""
    children = tuple(
        Job(state=PENDING if number < bounds.appended else ABSENT)
        for number in range(bounds.children)
    )
    return State(
        (IDLE,) * bounds.workers,
        (IDLE,) * len(NAMES),
        Group(
            state=SEALED if bounds.sealed else OPEN,
            whole=bounds.sealed,
            remaining=bounds.appended,
        ),
        (*children, Job(state=PENDING)),
        Left.of(bounds),
    )
