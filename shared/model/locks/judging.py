"""Judging: what the SQL asks of a snapshot: who holds, who has reserved, whom an exit frees."""

from collections.abc import Iterator

from shared.model.guards import Guards
from shared.model.locks.state import ENDED, Job, Lock, LockBounds, State, Verdict
from shared.model.state import ABSENT, PENDING, RUNNING


class Judge:
    """The one definition of conflict, in the place of the SQL's."""

    def __init__(self, bounds: LockBounds, guards: Guards) -> None:
        self._locks = bounds.locks
        self._guards = guards
        self._jobs = range(len(bounds.locks))
        self._pairs = {
            (a, b): frozenset(
                mine.root for mine in bounds.locks[a] for its in bounds.locks[b]
                if mine.conflicts(its)
            )
            for a in self._jobs for b in self._jobs
        }  # fmt: skip

    def roots(self, job: int) -> tuple[int, ...]:
        """The roots that a transaction of this job locks, in the order in which it does."""
        named: tuple[Lock, ...] = self._locks[job]
        roots = [lock.root for lock in named]
        return tuple(sorted(roots) if "roots_in_key_order" in self._guards else roots)

    def conflict(self, a: int, b: int) -> bool:
        """Whether these two must not run together."""
        return bool(self._pairs[a, b])

    def claim(self, state: State, number: int) -> Verdict:
        """What the conditional UPDATE of a claim comes to on this snapshot."""
        job = state.jobs[number]
        if job.state == RUNNING and not job.lease:
            # The second arm: it holds its locks already, nobody can have reserved them.
            return "blocked" if self.held_at(state, number) else "win"
        if job.state != PENDING or job.paused:
            return "gone"
        blocked = self.held_at(state, number) or self.reserved_at(state, number)
        return "blocked" if blocked else "win"

    def held_at(self, state: State, number: int, leaving: int = -1) -> frozenset[int]:
        """The roots at which a running job stands in the way; `leaving` is just leaving."""
        found: frozenset[int] = frozenset()
        for other in self._jobs:
            if other not in {number, leaving} and self._holds(state.jobs[other]):
                found |= self._pairs[number, other]
        return found

    def _holds(self, job: Job) -> bool:
        if job.state != RUNNING:
            return False
        return job.lease or "expired_holder_counts" in self._guards

    def reserved_at(self, state: State, number: int, leaving: int = -1) -> frozenset[int]:
        """The roots at which an earlier waiter stands before it."""
        if "reservation" not in self._guards:
            return frozenset()
        found: frozenset[int] = frozenset()
        for other in self._jobs:
            if other in {number, leaving} or not self._reserves(state.jobs[other]):
                continue
            for root in self._pairs[number, other]:
                if self._earlier(state, other, number, root):
                    found |= {root}
        return found

    def _reserves(self, job: Job) -> bool:
        if not (job.state == PENDING and job.waiting):
            return False
        if job.paused and "reservers_are_claimable" in self._guards:
            return False
        return not job.woken or "woken_still_reserves" in self._guards

    def _earlier(self, state: State, one: int, other: int, root: int) -> bool:
        if "reservation_in_one_order" in self._guards:
            return one < other
        line = state.lines[root]
        if one not in line:
            return False
        return other not in line or line.index(one) < line.index(other)

    def wakes(self, state: State, leaving: int) -> Iterator[int]:
        """The waiters that the exit of `leaving` stages a message for."""
        own = frozenset(lock.root for lock in self._locks[leaving])
        for number in self._jobs:
            job = state.jobs[number]
            if number == leaving or not job.waiting or job.woken or job.paused:
                continue
            if job.state != PENDING or not self.conflict(leaving, number):
                continue
            at = self.held_at(state, number, leaving) | self.reserved_at(state, number, leaving)
            if "wake_judges_own_roots" in self._guards:
                at &= own
            if not at:
                yield number

    # What is true, whatever the guards: properties are judged by it.

    def must_wait_for_rank(self, state: State, number: int) -> bool:
        """Whether a waiter of an earlier rank that may be claimed stands before this job."""
        return any(
            job.state == PENDING and job.waiting and not job.paused
            for job in self._before(state, number)
        )

    def freed_by_pause(self, state: State, number: int) -> bool:
        """Whether only a pause has taken the reservation away that stood before this job."""
        return any(
            job.state == PENDING and job.waiting and job.paused
            for job in self._before(state, number)
        )

    def _before(self, state: State, number: int) -> Iterator[Job]:
        return (state.jobs[n] for n in range(number) if self._pairs[n, number])

    def may_run(self, state: State, number: int) -> bool:
        """Whether the pending job could run now: nobody holds, nobody comes first."""
        running = any(
            state.jobs[n].state == RUNNING and self._pairs[n, number]
            for n in self._jobs
            if n != number
        )
        return not running and not self.must_wait_for_rank(state, number)

    def stands(self, state: State) -> bool:
        """Whether all who wait stand behind one another, though nobody runs."""
        waiting = [
            n
            for n, job in enumerate(state.jobs)
            if job.state == PENDING and job.waiting and not job.paused
        ]
        if not waiting or any(job.state == RUNNING for job in state.jobs):
            return False
        return all(self.reserved_at(state, number) for number in waiting)


def is_over(job: Job) -> bool:
    """Whether nothing more must happen to this job: ended, not there, or of a paused queue."""
    return job.state in {ENDED, ABSENT} or (job.state == PENDING and job.paused)
