"""What the world of locks remembers: jobs with their locks, and transactions in between.

A message is one that may be received, whether it still stands in the outbox or is in SQS: that
the relay brings it there is shown by the first world. So are fences: who has lost its claim
knows it by `owns`, as its fence would tell it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from shared.model.state import ABSENT, PENDING

ENDED = "ended"  # succeeded, cancelled or dead: nothing is locked any more

Pc = Literal["idle", "received", "checked", "registering", "running", "exiting", "exit_checked"]
Verdict = Literal["", "win", "blocked", "gone"]
Purpose = Literal["", "complete", "release", "reap", "cancel"]


class Lock(NamedTuple):
    """One lock of a job. `cells` is a set of bits: parts and periods overlap where bits do."""

    root: int
    cells: int
    exclusive: bool

    def conflicts(self, other: "Lock") -> bool:
        """Whether two jobs with these locks must not run together."""
        return (
            self.root == other.root
            and bool(self.cells & other.cells)
            and (self.exclusive or other.exclusive)
        )


ALL = 0b11


def write(root: int, cells: int = ALL) -> Lock:
    """An exclusive lock."""
    return Lock(root, cells, exclusive=True)


def read(root: int, cells: int = ALL) -> Lock:
    """A shared lock."""
    return Lock(root, cells, exclusive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBounds:
    """How large the world is. `locks` are by job, and a job's place is its rank: first is first.

    `submitted` jobs are there from the start. `pausable` jobs are of the queue that may be paused.
    """

    locks: tuple[tuple[Lock, ...], ...]
    workers: int = 2
    submitted: int = 0
    copies: int = 1
    pausable: frozenset[int] = frozenset()
    crashes: int = 0
    stops: int = 0
    expiries: int = 0
    losses: int = 0
    duplicates: int = 0
    cancels: int = 0
    releases: int = 0
    pauses: int = 0

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
    duplicates: int
    cancels: int
    releases: int
    pauses: int

    @classmethod
    def of(cls, bounds: LockBounds) -> "Left":
        """Everything that the bounds allow."""
        return cls(*(getattr(bounds, name) for name in cls._fields))

    def spend(self, name: str) -> "Left | None":
        """The budget after one more of `name`; None when it is used up."""
        count = int(getattr(self, name))
        return self._replace(**{name: count - 1}) if count else None


class Job(NamedTuple):
    """A job's row, its waiting, and its messages."""

    state: str = ABSENT
    lease: bool = False  # valid; meaningful while running
    waiting: bool = False  # registered as a waiter: it reserves
    woken: bool = False  # a message was staged for the waiter
    messages: int = 0
    lost: bool = False  # SQS lost a message, and none was staged since
    paused: bool = False


class Actor(NamedTuple):
    """A worker, or the one who reaps and cancels; `held` are the roots its transaction holds."""

    pc: Pc = "idle"
    job: int = -1
    purpose: Purpose = ""
    owns: bool = False
    stopped: bool = False
    held: tuple[int, ...] = ()
    verdict: Verdict = ""
    wakes: tuple[int, ...] = ()


class State(NamedTuple):
    """The whole world. `lines` is kept by a mutant only: by root, who came when."""

    workers: tuple[Actor, ...]
    keeper: Actor
    jobs: tuple[Job, ...]
    lines: tuple[tuple[int, ...], ...]
    left: Left


IDLE = Actor()


def initial(bounds: LockBounds) -> State:
    """Idle workers; the first jobs are submitted, all faults still to come."""
    there, absent = Job(state=PENDING, messages=1), Job()
    jobs = tuple(there if i < bounds.submitted else absent for i in range(len(bounds.locks)))
    roots = 1 + max(lock.root for locks in bounds.locks for lock in locks)
    return State((IDLE,) * bounds.workers, IDLE, jobs, ((),) * roots, Left.of(bounds))
