"""What the model remembers: jobs, workers, and how many faults may still happen.

Everything is an immutable tuple, so that a state can be a key. A job carries with it what the
database and SQS hold of it: its row, its attempts, its effects, its outbox rows, its messages.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from shared.types import TERMINAL as TERMINAL_STATES
from shared.types import JobState

ABSENT = "absent"  # not committed yet
PENDING = str(JobState.PENDING)
RUNNING = str(JobState.RUNNING)
SUCCEEDED = str(JobState.SUCCEEDED)
CANCELLED = str(JobState.CANCELLED)
DEAD = str(JobState.DEAD)
TERMINAL = frozenset(str(state) for state in TERMINAL_STATES)
ACTIVE = frozenset({PENDING, RUNNING})

Pc = Literal["idle", "received", "claimed", "ready", "fenced", "doubt", "owing", "done"]
# Where a worker believes that it owns its job.
BELIEVES = frozenset({"claimed", "ready", "fenced", "doubt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large the explored world is; `budget` counts each kind of fault and of free choice.

    `copies` bounds the rows in the outbox and the visible messages, each per job. With `twins`
    all jobs are submits of one and the same work.
    """

    workers: int = 2
    jobs: int = 1
    chunks: int = 2
    max_attempts: int = 1
    free_releases: int = 1
    copies: int = 2
    crashes: int = 1
    pauses: int = 1
    duplicates: int = 1
    losses: int = 1
    doubts: int = 1
    cancels: int = 0
    fails: int = 0
    releases: int = 0
    redrives: int = 0
    twins: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot end well: the last worker must not be stopped for ever."""
        if self.workers <= self.pauses:
            raise ValueError("a pause may last for ever: there must be more workers than pauses")
        if min(self.workers, self.jobs, self.chunks, self.max_attempts, self.copies) < 1:
            raise ValueError("workers, jobs, chunks, max_attempts and copies are at least 1")


class Left(NamedTuple):
    """What may still happen; each is counted down."""

    crashes: int
    pauses: int
    duplicates: int
    losses: int
    doubts: int
    cancels: int
    fails: int
    releases: int
    redrives: int

    @classmethod
    def of(cls, bounds: Bounds) -> "Left":
        """Everything that the bounds allow."""
        return cls(*(getattr(bounds, name) for name in cls._fields))


class Job(NamedTuple):
    """A job as database and SQS hold it.

    `attempt` is not kept: it is the fence, both grow by one at each claim. Nor is the lease
    token: it is a second name of the same claim. `checkpoint_no` stands in the hot row,
    `checkpoint` (the chunk to go on from) in the side row.
    """

    state: str = ABSENT
    fence: int = 0
    lease: bool = False  # valid; meaningful while running
    locked: bool = False  # an open transaction holds the row: fence passed, not committed
    checkpoint_no: int = 0
    checkpoint: int = 0
    max_attempts: int = 1
    lost_leases: int = 0
    interruptions: int = 0
    releases_here: int = 0  # since the last checkpoint
    open_attempts: tuple[int, ...] = ()  # fences whose attempts row has no outcome
    lost_attempts: int = 0  # attempts rows closed as lost_lease
    effects: tuple[tuple[int, ...], ...] = ()  # per chunk: the fences that committed it
    staged: int = 0  # rows in the outbox
    visible: int = 0  # messages that may be received
    sqs_lost: bool = False  # SQS lost a message, and none was staged since
    cleanup_due: bool = False

    @property
    def charged(self) -> int:
        """The attempts that count against the budget (shared.jobs.states.CHARGED)."""
        return self.fence - self.lost_leases - self.interruptions


class Worker(NamedTuple):
    """One slot of one worker process, with its program counter and what it believes.

    `committed` is the truth about a commit in doubt, as attempts.checkpoint_no tells it to who
    asks; the worker itself does not know it before it has asked.
    """

    pc: Pc = "idle"
    job: int = -1
    fence: int = 0
    checkpoint_no: int = 0
    chunk: int = 0
    message: bool = False
    paused: bool = False
    committed: bool = False


class State(NamedTuple):
    """The whole world."""

    workers: tuple[Worker, ...]
    jobs: tuple[Job, ...]
    left: Left


class Step(NamedTuple):
    """What one action makes of the worker and the job that it touches."""

    action: str
    worker: Worker
    job: Job
    left: Left


IDLE = Worker()


def spend(left: Left, name: str) -> Left | None:
    """The budget after one more of `name`; None when it is used up."""
    count = int(getattr(left, name))
    return left._replace(**{name: count - 1}) if count else None
