"""The commits of the world of locks: what each transaction makes of the rows."""

from shared.model.guards import Guards
from shared.model.locks.judging import Judge
from shared.model.locks.state import ENDED, IDLE, Actor, Job, LockBounds, State
from shared.model.state import PENDING, RUNNING


def put_job(state: State, number: int, job: Job) -> State:
    """The world in which this job has changed."""
    jobs = state.jobs
    return state._replace(jobs=(*jobs[:number], job, *jobs[number + 1 :]))


def put_actor(state: State, index: int, actor: Actor) -> State:
    """The world in which this worker has changed, or the keeper (-1)."""
    if index < 0:
        return state._replace(keeper=actor)
    workers = state.workers
    return state._replace(workers=(*workers[:index], actor, *workers[index + 1 :]))


class Commits:
    """Each method is one COMMIT, on the world as it then stands."""

    def __init__(self, bounds: LockBounds, guards: Guards, judge: Judge) -> None:
        self._bounds = bounds
        self._guards = guards
        self._judge = judge

    def announce(self, job: Job) -> Job:
        """One more message, as many as the bounds allow."""
        return job._replace(messages=min(job.messages + 1, self._bounds.copies), lost=False)

    def win(self, state: State, index: int, actor: Actor) -> State:
        """Pending or expired → running, no waiter any more; an earlier claim is over."""
        number = actor.job
        job = state.jobs[number]._replace(state=RUNNING, lease=True, waiting=False, woken=False)
        state = _leave_lines(_forget_owner(put_job(state, number, job), number), number)
        return put_actor(state, index, Actor(pc="running", job=number, owns=True))

    def register(self, state: State, index: int, actor: Actor) -> State:
        """The job waits; its message is deleted."""
        number = actor.job
        job = state.jobs[number]
        if job.state == PENDING:
            if "reservation_in_one_order" not in self._guards:
                state = self._line_up(state, number)
            woken = job.woken and "blocked_again_is_unwoken" not in self._guards
            state = put_job(state, number, job._replace(waiting=True, woken=woken))
        return put_actor(state, index, IDLE)

    def _line_up(self, state: State, number: int) -> State:
        """A mutant queues up at each root where it is blocked, and at no other."""
        at = self._judge.held_at(state, number) | self._judge.reserved_at(state, number)
        lines = tuple(
            (*line, number) if root in at and number not in line else line
            for root, line in enumerate(state.lines)
        )
        return state._replace(lines=lines)

    def leave(self, state: State, index: int, actor: Actor) -> State:
        """The exit that the actor has checked: the job's transition, and whom it wakes."""
        number = actor.job
        job = state.jobs[number]
        ends = actor.purpose in {"complete", "cancel"}
        left = job._replace(state=ENDED if ends else PENDING, lease=False)
        # An ended job's messages can only be deleted: they are forgotten at once.
        left = Job(state=ENDED) if ends else self.announce(left)
        state = _forget_owner(put_job(state, number, left), number)
        if ends:
            state = _leave_lines(state, number)
        for woken in actor.wakes:
            waiter = state.jobs[woken]
            if waiter.state == PENDING:
                state = put_job(state, woken, self.announce(waiter)._replace(woken=True))
        return put_actor(state, index, IDLE)


def _forget_owner(state: State, number: int) -> State:
    """The fence has moved: whoever held the job's claim is a zombie now."""
    if not any(worker.job == number and worker.owns for worker in state.workers):
        return state
    workers = tuple(w._replace(owns=False) if w.job == number else w for w in state.workers)
    return state._replace(workers=workers)


def _leave_lines(state: State, number: int) -> State:
    if not any(number in line for line in state.lines):
        return state
    lines = tuple(tuple(n for n in line if n != number) for line in state.lines)
    return state._replace(lines=lines)
