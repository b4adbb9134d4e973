"""The model: the actions of one worker on one job, put together to moves of the whole world."""

from collections.abc import Iterator
from typing import TypeVar

from shared.model.platform_steps import job_steps, publish_early, submit
from shared.model.properties import (
    broken_by_belief,
    broken_by_step,
    broken_in_job,
    broken_together,
    has_ended,
)
from shared.model.protections import ALL, Rules
from shared.model.state import BELIEVES, IDLE, Bounds, Job, Left, State, Step, Worker
from shared.model.wording import in_words, shown
from shared.model.worker_steps import idle_steps, receive, worker_steps
from shared.model.world import Move

T = TypeVar("T")


class Model:
    """The protocol under `bounds`, with `protections` in force (all of them by default)."""

    def __init__(self, bounds: Bounds, protections: frozenset[str] = ALL) -> None:
        self.bounds = bounds
        self.rules = Rules(bounds, protections)

    def initial(self) -> State:
        """Idle workers, nothing submitted, all faults still to come."""
        job = Job(
            max_attempts=self.bounds.max_attempts,
            effects=((),) * self.bounds.chunks,
        )
        return State((IDLE,) * self.bounds.workers, (job,) * self.bounds.jobs, Left.of(self.bounds))

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Every move that is possible now, in a fixed order."""
        for index, worker in enumerate(state.workers):
            if worker.pc == "idle":
                for action, idle, left in idle_steps(worker, state.left):
                    workers = _put(state.workers, index, idle)
                    yield Move(action, index, None, State(workers, state.jobs, left), None)
                for number, job in enumerate(state.jobs):
                    step = receive(self.rules, worker, number, job, state.left)
                    if step is not None:
                        yield self._move(state, index, number, step)
            else:
                job = state.jobs[worker.job]
                for step in worker_steps(self.rules, worker, job, state.left):
                    yield self._move(state, index, worker.job, step)
        for number, job in enumerate(state.jobs):
            yield from self._job_moves(state, number, job)

    def _job_moves(self, state: State, number: int, job: Job) -> Iterator[Move[State]]:
        submitted = submit(self.rules, state.jobs, number)
        if submitted is not None:
            yield self._job_move(state, number, "submit", submitted, state.left)
        early = publish_early(self.rules, job)
        if early is not None:
            yield self._job_move(state, number, "publish_early", early, state.left)
        for action, after, left in job_steps(self.rules, job, state.left):
            if action == "expire" and not is_held(state.workers, number, job):
                action = "expire_unheld"  # noqa: PLW2901 - the same step, of another kind
            yield self._job_move(state, number, action, after, left)

    def _move(self, state: State, index: int, number: int, step: Step) -> Move[State]:
        workers = _put(state.workers, index, step.worker)
        after = State(workers, _put(state.jobs, number, step.job), step.left)
        broken = broken_by_step(step.action, state.workers[index], state.jobs[number], step.job)
        return Move(step.action, index, number, after, broken or self.broken(after))

    def _job_move(
        self, state: State, number: int, action: str, job: Job, left: Left
    ) -> Move[State]:
        after = State(state.workers, _put(state.jobs, number, job), left)
        broken = broken_by_step(action, None, state.jobs[number], job)
        return Move(action, None, number, after, broken or self.broken(after))

    def broken(self, state: State) -> str | None:
        """The first property that does not hold of this state."""
        for job in state.jobs:
            if (broken := broken_in_job(self.rules, job)) is not None:
                return broken
        for worker in state.workers:
            if worker.pc != "idle":
                broken = broken_by_belief(self.rules, worker, state.jobs[worker.job])
                if broken is not None:
                    return broken
        return broken_together(self.rules, state)

    def has_ended(self, state: State) -> bool:
        """Whether every job that was submitted has ended and the outbox is empty."""
        return all(has_ended(job) for job in state.jobs)

    def words(self, move: Move[State], before: State) -> str:
        """One sentence on what happened."""
        return in_words(move, before)

    def shown(self, state: State, job: int | None) -> str:
        """How the job stands, in one line."""
        return "" if job is None else shown(state, job)


def is_held(workers: tuple[Worker, ...], number: int, job: Job) -> bool:
    """Whether a worker that runs holds this job's lease, so that it would renew it."""
    return any(holds(worker, job) for worker in workers if worker.job == number)


def holds(worker: Worker, job: Job) -> bool:
    """Whether this worker runs, and under the job's present claim."""
    return worker.pc in BELIEVES and not worker.paused and worker.fence == job.fence


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])
