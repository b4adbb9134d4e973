"""Locks, slowly: the rules of docs/locks.md in plain Python, over a handful of jobs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

Lock = tuple[str, str | None, str, str | None, str | None]  # root, part, mode, from, to


def days(period: str, *, last: bool) -> str:
    """The first or last day that a period's end can mean."""
    return period if len(period) == 10 else f"{period}-{'31' if last else '01'}"


def overlap(one: Lock, other: Lock) -> bool:
    """True when some day belongs to both ranges."""
    starts = [days(each[3], last=False) for each in (one, other) if each[3] is not None]
    ends = [days(each[4], last=True) for each in (one, other) if each[4] is not None]
    return all(start <= end for start in starts for end in ends)


def conflict(one: Lock, other: Lock) -> bool:
    """The one rule."""
    return (
        one[0] == other[0]
        and (one[1] is None or other[1] is None or one[1] == other[1])
        and "exclusive" in (one[2], other[2])
        and overlap(one, other)
    )


@dataclass
class Job:
    """One job of the reference."""

    n: int
    locks: tuple[Lock, ...]
    priority: int = 5
    state: str = "pending"
    waiting: bool = False
    stopped: bool = False  # paused, not due: it could not run in any case

    @property
    def turn(self) -> tuple[int, int]:
        """Where it stands among those who wait."""
        return (-self.priority, self.n)

    def meets(self, other: "Job") -> bool:
        """True when a lock of the one conflicts with a lock of the other."""
        return any(conflict(a, b) for a in self.locks for b in other.locks)


@dataclass
class Reference:
    """All jobs, and what may be done with them."""

    jobs: list[Job] = field(default_factory=list)

    def in_the_way(self, job: Job) -> Iterator[Job]:
        """Who runs, or waits before it, with a lock that conflicts."""
        for other in self.jobs:
            if other is not job and job.meets(other):
                waits = other.state == "pending" and other.waiting and not other.stopped
                if other.state == "running" or (waits and other.turn < job.turn):
                    yield other

    def may_run(self, job: Job) -> bool:
        """True when a claim of it would be won now."""
        return job.state == "pending" and not job.stopped and not any(self.in_the_way(job))

    def claim(self, job: Job) -> bool:
        """Claim it, or let it wait."""
        if self.may_run(job):
            job.state, job.waiting = "running", False
            return True
        if job.state == "pending" and not job.stopped:
            job.waiting = True
        return False

    def leave(self, job: Job, state: str) -> None:
        """It leaves running, or is cancelled while it waits."""
        job.state, job.waiting = state, False

    def left_waiting(self) -> set[int]:
        """Waiters that may run: whoever freed them has to have woken them."""
        return {job.n for job in self.jobs if job.waiting and self.may_run(job)}
