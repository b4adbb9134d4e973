"""The commits of the world of groups: what each transaction makes of group, children and join."""

from shared.model.groups.state import (
    ACTIVE,
    CANCELLING,
    ENDED,
    OPEN,
    SEALED,
    Actor,
    Group,
    GroupBounds,
    Job,
    State,
)
from shared.model.guards import Guards
from shared.model.state import CANCELLED, DEAD, PENDING, RUNNING, SUCCEEDED, TERMINAL

ENDINGS = {
    "complete": SUCCEEDED,
    "fail": DEAD,
    "bury": DEAD,
    "cancel": CANCELLED,
    "stop_member": CANCELLED,
}
UNCOUNTED = {"bury": "reaper_counts", "cancel": "cancel_counts"}


def put_job(state: State, number: int, job: Job) -> State:
    """The world in which this job has changed."""
    jobs = state.jobs
    return state._replace(jobs=(*jobs[:number], job, *jobs[number + 1 :]))


def forget_owner(state: State, number: int) -> State:
    """The fence has moved: whoever held the job's claim is a zombie now."""
    workers = tuple(w._replace(owns=False) if w.job == number else w for w in state.workers)
    return state._replace(workers=workers)


class Commits:
    """What the statements write, on the world as it then stands."""

    def __init__(self, bounds: GroupBounds, guards: Guards) -> None:
        self._bounds = bounds
        self._guards = guards
        self._join = bounds.children

    def favourable(self, group: Group) -> bool:
        """Whether the join of a group that has ended so shall run."""
        return not group.cancelled and (self._bounds.policy == "join" or not group.failed)

    def end_child(self, state: State, actor: Actor, *, hit: bool) -> State:
        """A terminal transition: the counter falls by the rows that the UPDATE has hit."""
        if hit:
            state = put_job(state, actor.job, Job(state=ENDINGS[actor.purpose]))
            state = forget_owner(state, actor.job)
        elif "counter_fed_from_returning" in self._guards:
            return state
        counts = UNCOUNTED.get(actor.purpose)
        if counts is not None and counts not in self._guards:
            return state
        return self.count(state, actor)

    def count(self, state: State, actor: Actor) -> State:
        """The counter falls by one; the last of a sealed group ends it."""
        group = state.group
        failed = actor.purpose != "complete"
        group = group._replace(remaining=max(group.remaining - 1, 0), failed=group.failed or failed)
        if failed and self._bounds.policy == "fail_fast" and group.state in {OPEN, SEALED}:
            group = group._replace(state=CANCELLING, whole=True)
        last = self.is_last(group)
        if actor.pc == "looked":
            last = actor.saw  # a mutant decides by what it saw before
        state = state._replace(group=group)
        return self.end_group(state) if last else state

    def is_last(self, group: Group) -> bool:
        """Whether nothing is left of a group that gets no more children."""
        whole = group.state in {SEALED, CANCELLING} or "only_sealed_ends" not in self._guards
        return group.remaining == 0 and whole

    def end_group(self, state: State) -> State:
        """The group has ended: the join's message is staged, or it is left to maintenance."""
        group, join = state.group, state.jobs[self._join]
        runs = self.favourable(group)
        ended = group._replace(state=ENDED, starts=group.starts + 1, join_due=not runs)
        if runs and join.state == PENDING:
            join = join._replace(messages=1, lost=False)
        return put_job(state._replace(group=ended), self._join, join)

    def end_join(self, state: State) -> State:
        """The join of a group that has ended ill is dead."""
        group = state.group._replace(join_due=False)
        return put_job(state._replace(group=group), self._join, Job(state=DEAD))

    def reap(self, state: State, number: int) -> State:
        """Expired → pending; the join's message is staged by it as well."""
        join = number == self._join
        return forget_owner(put_job(state, number, Job(state=PENDING, messages=int(join))), number)

    def add_child(self, state: State, number: int) -> State:
        """One more child, counted by the same statement."""
        state = put_job(state, number, Job(state=PENDING))
        group = state.group
        return state._replace(group=group._replace(remaining=group.remaining + 1))

    def seal(self, state: State) -> State:
        """No more children; when all have ended already, the seal is what ends the group."""
        state = state._replace(group=state.group._replace(state=SEALED, whole=True))
        if self.is_last(state.group) and "seal_ends_the_empty" in self._guards:
            return self.end_group(state)
        return state

    def cancel_group(self, state: State) -> State:
        """Marked, so that nothing starts; maintenance then cancels each child."""
        group = state.group._replace(state=CANCELLING, whole=True, cancelled=True)
        state = state._replace(group=group)
        return self.end_group(state) if self.is_last(group) else state

    def redrive_child(self, state: State, number: int, *, reopens: bool) -> State:
        """A dead child again, counted again; a group that had ended is in a new generation."""
        state = put_job(state, number, Job(state=PENDING))
        group = state.group
        if reopens:
            state = self._renew(state)
            group = Group(state=SEALED, whole=True, remaining=group.remaining)
        if "redrive_counts" in self._guards:
            group = group._replace(remaining=group.remaining + 1)
        return state._replace(group=group._replace(failed=self._failed(state)))

    def redrive_group(self, state: State) -> State:
        """A new generation: dead and cancelled children again, and the join."""
        again = tuple(
            Job(state=PENDING) if child.state in {DEAD, CANCELLED} else child
            for child in state.jobs[: self._join]
        )
        remaining = sum(child.state in ACTIVE for child in again)
        group = Group(state=SEALED, whole=True, remaining=remaining)
        state = self._renew(state._replace(group=group, jobs=(*again, state.jobs[self._join])))
        return state if remaining else self.end_group(state)

    def _renew(self, state: State) -> State:
        """A join that is over waits again; one that still waits goes on waiting."""
        if state.jobs[self._join].state not in TERMINAL:
            return state
        return forget_owner(put_job(state, self._join, Job(state=PENDING)), self._join)

    def _failed(self, state: State) -> bool:
        return any(child.state in {DEAD, CANCELLED} for child in state.jobs[: self._join])

    def claim(self, state: State, number: int) -> State:
        """Pending or expired → running."""
        job = state.jobs[number]
        claimed = Job(state=RUNNING, lease=True, messages=max(job.messages - 1, 0))
        return forget_owner(put_job(state, number, claimed), number)
