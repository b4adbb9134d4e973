"""The properties: what must hold in every state, and at every step."""

from shared.model.protections import Rules
from shared.model.state import (
    ABSENT,
    ACTIVE,
    BELIEVES,
    CANCELLED,
    DEAD,
    PENDING,
    RUNNING,
    SUCCEEDED,
    TERMINAL,
    Job,
    State,
    Worker,
)
from shared.model.transitions import fence_passes, is_owner

PROPERTIES: dict[str, str] = {
    "effect_once": "the effect of a chunk is committed at most once",
    "fences_only_grow": "no effect under a fence older than one already committed",
    "only_the_owner_writes": "effects are committed by the job's present owner alone",
    "succeeded_is_complete": "a succeeded job has the effects of all its chunks",
    "one_owner": "at most one worker's fence would pass, and it is the owner's",
    "the_owner_knows": "whose fence would pass knows the checkpoint; so does an owner not in doubt",
    "terminal_is_final": "an ended job changes neither state nor effects, but by a redrive",
    "a_live_lease_is_kept": "a job leaves a live lease only by its owner or a cancel",
    "only_the_owner_renews": "a lease is renewed by its owner alone",
    "counters_within_budget": "attempts, lost leases and free releases stay within their budgets",
    "counters_are_true": "lost_leases counts the attempts that were lost",
    "attempts_are_closed": "one attempt is open while the job runs, and none else",
    "messages_of_committed_jobs": "outbox rows and messages are of committed jobs only",
    "pending_is_announced": "a pending job has an outbox row or a message, unless SQS lost it",
    "cleanup_is_of_the_ended": "clean-up is due of dead and cancelled jobs only",
    "one_active_job_per_work": "one work has at most one active job",
    "every_run_ends": "every fair run ends: all jobs ended, the outbox empty",
}

OWNERS_EXITS = frozenset({"fail", "release"})


def broken_by_step(action: str, worker: Worker | None, before: Job, after: Job) -> str | None:
    """The first property that this step of `worker` breaks on its job."""
    if after.effects != before.effects and action != "clean_up":
        broken = _broken_by_write(worker, before, after)
        if broken is not None:
            return broken
    changed = after.state != before.state or after.effects != before.effects
    if before.state in TERMINAL and changed and action not in {"redrive", "clean_up"}:
        return "terminal_is_final"
    if before.state == RUNNING and before.lease and _was_taken(action, worker, before, after):
        return "a_live_lease_is_kept"
    if action == "renew" and not (worker is not None and is_owner(worker, before)):
        return "only_the_owner_renews"
    return None


def _broken_by_write(worker: Worker | None, before: Job, after: Job) -> str | None:
    old = [fence for fences in before.effects for fence in fences]
    pairs = zip(before.effects, after.effects, strict=True)
    new = [fence for was, now in pairs for fence in now[len(was) :]]
    if old and new and min(new) < max(old):
        return "fences_only_grow"
    if any(len(fences) > 1 for fences in after.effects):
        return "effect_once"
    if before.state in TERMINAL:
        return "terminal_is_final"
    if worker is None or not is_owner(worker, before):
        return "only_the_owner_writes"
    return None


def _was_taken(action: str, worker: Worker | None, before: Job, after: Job) -> bool:
    if after.fence != before.fence or action == "reap":
        return True
    return action in OWNERS_EXITS and not (worker is not None and is_owner(worker, before))


def broken_in_job(rules: Rules, job: Job) -> str | None:
    """The first property that does not hold of this job alone."""
    if job.state == ABSENT and (job.visible or job.staged):
        return "messages_of_committed_jobs"
    if job.state == SUCCEEDED and any(len(fences) != 1 for fences in job.effects):
        return "succeeded_is_complete"
    if job.open_attempts != ((job.fence,) if job.state == RUNNING else ()):
        return "attempts_are_closed"
    if job.lost_attempts != job.lost_leases:
        return "counters_are_true"
    if job.cleanup_due and job.state not in {DEAD, CANCELLED}:
        return "cleanup_is_of_the_ended"
    return None if _within_budget(rules, job) else "counters_within_budget"


def _within_budget(rules: Rules, job: Job) -> bool:
    free = rules.bounds.free_releases
    most_lost = 2 * job.max_attempts
    return (
        job.charged <= job.max_attempts
        and (job.lost_leases < most_lost or job.state != RUNNING)
        and job.lost_leases <= most_lost
        and job.interruptions <= free * (job.checkpoint_no + 1)
        and job.lost_leases + job.interruptions <= job.fence
    )


def broken_by_belief(rules: Rules, worker: Worker, job: Job) -> str | None:
    """The first property that this worker's view of its job breaks."""
    if worker.pc not in BELIEVES or (worker.pc == "fenced" and not job.locked):
        return None
    passes = fence_passes(rules, worker, job)
    if passes and not is_owner(worker, job):
        return "one_owner"
    knows = worker.checkpoint_no == job.checkpoint_no
    sure_owner = is_owner(worker, job) and worker.pc != "doubt"
    return None if knows or not (passes or sure_owner) else "the_owner_knows"


def broken_together(rules: Rules, state: State) -> str | None:
    """The first property that takes several workers or jobs to break."""
    for index, job in enumerate(state.jobs):
        if would_pass(rules, state, index) > 1:
            return "one_owner"
        if is_silent(job) and not any(w.job == index and w.message for w in state.workers):
            return "pending_is_announced"
    active = sum(job.state in ACTIVE for job in state.jobs)
    if state.jobs and rules.bounds.twins and active > 1:
        return "one_active_job_per_work"
    return None


def is_silent(job: Job) -> bool:
    """Whether neither outbox nor SQS announces the job, though it is pending and none was lost."""
    return job.state == PENDING and not (job.staged or job.visible or job.sqs_lost)


def would_pass(rules: Rules, state: State, index: int) -> int:
    """How many workers' fences would pass on this job now."""
    job = state.jobs[index]
    return sum(
        worker.job == index and worker.pc in BELIEVES and fence_passes(rules, worker, job)
        for worker in state.workers
    )


def has_ended(job: Job) -> bool:
    """The end that every fair run must bring each job to."""
    return (job.state == ABSENT or job.state in TERMINAL) and not job.staged
