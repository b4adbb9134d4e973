"""The properties of the world of locks."""

from collections.abc import Iterator

from shared.model.locks.judging import Judge
from shared.model.locks.state import Actor, State
from shared.model.state import PENDING, RUNNING

PROPERTIES: dict[str, str] = {
    "no_two_holders": "no two running jobs have conflicting locks",
    "rank_order_is_kept": "no job is claimed past a waiter of earlier rank that may be claimed",
    "runnable_is_announced": "who may run has a message, unless SQS lost it or a pause freed it",
    "waiters_do_not_wait_in_a_circle": "where nobody runs, one of those who wait may run",
    "no_deadlock": "no transactions wait for each other's roots",
    "every_run_ends": "every fair run ends: all jobs ended, but those of a paused queue",
}


def broken_by_win(judge: Judge, state: State, number: int) -> str | None:
    """What a claim breaks that was won on this snapshot; a take-over passes nobody."""
    if state.jobs[number].state == PENDING and judge.must_wait_for_rank(state, number):
        return "rank_order_is_kept"
    return None


def broken_in(judge: Judge, state: State) -> str | None:
    """The first property that does not hold of this state."""
    running = [number for number, job in enumerate(state.jobs) if job.state == RUNNING]
    if any(judge.conflict(a, b) for a in running for b in running if a < b):
        return "no_two_holders"
    if any(_is_silent(judge, state, number) for number in range(len(state.jobs))):
        return "runnable_is_announced"
    if judge.stands(state):
        return "waiters_do_not_wait_in_a_circle"
    return "no_deadlock" if _in_a_circle(judge, state) else None


def _is_silent(judge: Judge, state: State, number: int) -> bool:
    """Whether the job could run, and nobody will look at it before maintenance does."""
    job = state.jobs[number]
    if job.state != PENDING or job.messages or job.lost or job.paused:
        return False
    if any(_in_hand(worker, number) for worker in state.workers):
        return False
    if not job.waiting:
        return True
    return judge.may_run(state, number) and not judge.freed_by_pause(state, number)


def _in_hand(worker: Actor, number: int) -> bool:
    return worker.job == number and worker.pc in {"received", "checked", "registering"}


def _in_a_circle(judge: Judge, state: State) -> bool:
    """Whether somebody waits, over others, for a root that it holds itself."""
    actors = (state.keeper, *state.workers)
    return any(actor in _waited_for(judge, actors, actor) for actor in actors if actor.held)


def _waited_for(judge: Judge, actors: tuple[Actor, ...], first: Actor) -> Iterator[Actor]:
    actor = first
    for _ in actors:
        roots = judge.roots(actor.job)
        if actor.stopped or len(actor.held) == len(roots):
            return
        wanted = roots[len(actor.held)]
        holders = [other for other in actors if wanted in other.held]
        if not holders:
            return
        actor = holders[0]
        yield actor
