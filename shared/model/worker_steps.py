"""What a worker may do next, by its program counter. One step is one statement or one call.

Steps that only touch the worker itself are merged with the statement they lead to; see
docs/model.md for why nothing is lost by it.
"""

from collections.abc import Callable, Iterator

from shared.model.protections import Rules
from shared.model.state import (
    ABSENT,
    IDLE,
    PENDING,
    RUNNING,
    TERMINAL,
    Job,
    Left,
    Step,
    Worker,
    spend,
)
from shared.model.transitions import (
    add_effect,
    claim,
    complete,
    exit_is_ours,
    fail,
    fence_passes,
    is_owner,
    may_be_claimed,
    release,
    save_checkpoint,
    show_message,
)


def receive(rules: Rules, idle: Worker, index: int, job: Job, left: Left) -> Step | None:
    """An idle worker receives a visible message of job number `index`."""
    if not job.visible or idle.paused:
        return None
    worker = Worker(pc="received", job=index, message="delete_after_outcome" in rules)
    if "read_input_after_claim" not in rules:
        # The claim's statement takes its snapshot now, and then waits for the row.
        worker = worker._replace(chunk=job.checkpoint)
    return Step("receive", worker, job._replace(visible=job.visible - 1), left)


def idle_steps(idle: Worker, left: Left) -> Iterator[tuple[str, Worker, Left]]:
    """What an idle worker may do or suffer that touches no job: be stopped, and go on."""
    if idle.paused:
        yield "resume", IDLE, left
    elif (after := spend(left, "pauses")) is not None:
        yield "pause", idle._replace(paused=True), after


def worker_steps(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """Everything that a busy worker may do, or suffer, next."""
    if worker.paused:
        yield from _stopped(worker, job, left)
        if job.locked and worker.pc == "fenced" and "idle_in_transaction_timeout" in rules:
            cut = worker._replace(pc="doubt", committed=False)
            yield Step("idle_timeout", cut, job._replace(locked=False), left)
    else:
        yield from BY_PC[worker.pc](rules, worker, job, left)
        yield from _renew(rules, worker, job, left)
        yield from _pause(rules, worker, job, left)
    yield from _visibility(rules, worker, job, left)
    if (after := spend(left, "crashes")) is not None:
        yield Step("crash", IDLE, _dropped(rules, worker, job), after)


def _stopped(worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    yield Step("resume", worker._replace(paused=False), job, left)


def _dropped(rules: Rules, worker: Worker, job: Job) -> Job:
    """Its connection closes: the open transaction ends. Its message becomes visible again."""
    if worker.pc == "fenced":
        job = job._replace(locked=False)
    return show_message(rules, job) if worker.message else job


def _received(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The claim, or what becomes of the message when there was nothing to win."""
    if may_be_claimed(rules, job):
        won = claim(rules, job)
        held = worker._replace(pc="claimed", fence=won.fence, checkpoint_no=won.checkpoint_no)
        yield Step("claim", held, won, left)
    elif job.state in TERMINAL:
        yield Step("miss_delete", IDLE, job, left)
    elif job.state == RUNNING and job.lease:
        # At the third miss it is deleted. Nothing depends on when, so it may be at any miss.
        yield Step("miss_delete", IDLE, job, left)
        if "miss_keeps_running" in rules:
            yield Step("put_off", IDLE, _returned(rules, worker, job), left)
    elif job.state in {RUNNING, ABSENT, PENDING}:
        yield Step("put_off", IDLE, _returned(rules, worker, job), left)


def _returned(rules: Rules, worker: Worker, job: Job) -> Job:
    return show_message(rules, job) if worker.message else job


def _claimed(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """A new statement reads where to go on; the claim has committed before."""
    chunk = job.checkpoint if "read_input_after_claim" in rules else worker.chunk
    yield Step("read_input", worker._replace(pc="ready", chunk=chunk), job, left)
    yield from _exits(rules, worker, job, left)


def _ready(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The body of the next transaction is written; now the fence decides."""
    if "fence_locks_row" not in rules:
        if fence_passes(rules, worker, job):
            yield Step("fence_by_select", worker._replace(pc="fenced"), job, left)
        else:
            yield _lost(rules, worker, job, left)
    elif job.locked:
        return  # waits for whoever holds the row
    elif not fence_passes(rules, worker, job):
        if "effects_behind_fence" not in rules:
            job = add_effect(job, _chunk(rules, worker), worker.fence)
        yield _lost(rules, worker, job, left)
    else:
        yield from _commit(rules, worker, job, left)
    yield from _exits(rules, worker, job, left)


def _commit(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """Fence and COMMIT: nobody else can touch the row in between, so they are one step."""
    yield _committed(rules, worker, job, left)
    if (after := spend(left, "doubts")) is not None:
        done = _committed(rules, worker, job, after)
        unsure = worker._replace(pc="doubt", committed=True)
        yield Step("doubt_committed", unsure, done.job, after)
        yield Step("doubt_rolled_back", worker._replace(pc="doubt", committed=False), job, after)
    if (after := spend(left, "pauses")) is not None:
        stuck = worker._replace(pc="fenced", paused=True)
        yield Step("stop_in_commit", stuck, job._replace(locked=True), after)


def _chunk(rules: Rules, worker: Worker) -> int:
    return min(worker.chunk, rules.bounds.chunks - 1)


def _completes(rules: Rules, worker: Worker) -> bool:
    """The last chunk is written through completion(), those before through transaction()."""
    return worker.chunk >= rules.bounds.chunks - 1


def _committed(rules: Rules, worker: Worker, job: Job, left: Left) -> Step:
    """The commit went well and its worker knows."""
    chunk = _chunk(rules, worker)
    if not _completes(rules, worker):
        saved = save_checkpoint(add_effect(job, chunk, worker.fence), chunk)
        return Step("commit_chunk", _after_chunk(worker), saved, left)
    if "effects_and_completion_one_commit" not in rules:
        return Step("complete", worker._replace(pc="owing"), complete(rules, job), left)
    ended = complete(rules, add_effect(job, chunk, worker.fence))
    return Step("complete", _after_completion(worker), ended, left)


def _after_chunk(worker: Worker) -> Worker:
    return worker._replace(
        pc="ready",
        checkpoint_no=worker.checkpoint_no + 1,
        chunk=worker.chunk + 1,
        committed=False,
    )


def _after_completion(worker: Worker) -> Worker:
    return Worker(pc="done", job=worker.job, message=worker.message)


def _fenced(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """Stopped between fence and COMMIT, and now running again."""
    step = _committed(rules, worker, job, left)
    yield step._replace(action="finish_commit", job=step.job._replace(locked=False))


def _doubt(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The COMMIT's answer was lost: the attempts row tells, read after the row was locked."""
    if job.locked:
        return
    if "settle_doubt" not in rules:
        yield Step("guess", worker._replace(pc="ready", committed=False), job, left)
    elif not worker.committed:
        yield Step("settle", worker._replace(pc="ready"), job, left)
    elif _completes(rules, worker):
        yield Step("settle", _after_completion(worker), job, left)
    else:
        yield Step("settle", _after_chunk(worker), job, left)


def _owing(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """A mutant has completed the job and writes the last effects only now."""
    late = add_effect(job, _chunk(rules, worker), worker.fence)
    yield Step("write_late", _after_completion(worker), late, left)


def _done(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The outcome is stored; the message may go."""
    _ = rules, worker
    yield Step("delete_message", IDLE, job, left)


def _lost(rules: Rules, worker: Worker, job: Job, left: Left) -> Step:
    """No longer ours: nothing is written, nothing deleted."""
    if "lost_keeps_message" in rules:
        job = _returned(rules, worker, job)
    return Step("lose_lease", IDLE, job, left)


def _exits(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The handler raises, or the job is handed back. Who is not the owner finds out by it."""
    if job.locked or not exit_is_ours(rules, worker, job):
        return  # the same end as lose_lease
    gone = _after_completion(worker)
    if (after := spend(left, "fails")) is not None:
        yield Step("fail", gone, fail(rules, job), after)
    if (after := spend(left, "releases")) is not None:
        yield Step("release", gone, release(rules, job), after)


def _renew(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The heartbeat: an expired lease that nobody took is renewed, too."""
    if "heartbeat" not in rules or job.lease or job.locked or job.state != RUNNING:
        return
    if worker.pc not in {"claimed", "ready", "doubt"}:
        return
    if is_owner(worker, job) or "renew_compares_owner" not in rules:
        yield Step("renew", worker, job._replace(lease=True), left)


def _visibility(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    """The message that it holds becomes visible to others, too."""
    if worker.message and job.visible < rules.bounds.copies:
        after = spend(left, "duplicates")
        if after is not None:
            yield Step("redeliver", worker, show_message(rules, job), after)


def _pause(rules: Rules, worker: Worker, job: Job, left: Left) -> Iterator[Step]:
    _ = rules
    if (after := spend(left, "pauses")) is not None:
        yield Step("pause", worker._replace(paused=True), job, after)


BY_PC: dict[str, Callable[[Rules, Worker, Job, Left], Iterator[Step]]] = {
    "received": _received,
    "claimed": _claimed,
    "ready": _ready,
    "fenced": _fenced,
    "doubt": _doubt,
    "owing": _owing,
    "done": _done,
}
