"""The job row's transitions, as the SQL statements make them: shared by worker and platform."""

from shared.model.protections import Rules
from shared.model.state import CANCELLED, DEAD, PENDING, RUNNING, SUCCEEDED, TERMINAL, Job, Worker


def fence_passes(rules: Rules, worker: Worker, job: Job) -> bool:
    """Whether the worker's fence would hit its one row now (worker.lease.HOLD_FENCE)."""
    return (
        (job.fence == worker.fence or "fence_compares_fence" not in rules)
        and (job.state == RUNNING or "fence_compares_state" not in rules)
        and (job.checkpoint_no == worker.checkpoint_no or "fence_compares_checkpoint" not in rules)
    )


def is_owner(worker: Worker, job: Job) -> bool:
    """Whether the job runs under this very claim."""
    return job.state == RUNNING and job.fence == worker.fence


def exit_is_ours(rules: Rules, worker: Worker, job: Job) -> bool:
    """Whether fail and release would hit their row (worker.outcome.OURS)."""
    return (job.fence == worker.fence or "exit_compares_fence" not in rules) and (
        job.state == RUNNING or "exit_compares_state" not in rules
    )


def add_effect(job: Job, chunk: int, fence: int) -> Job:
    """One more commit of this chunk."""
    effects = list(job.effects)
    effects[chunk] = (*effects[chunk], fence)
    return job._replace(effects=tuple(effects))


def save_checkpoint(job: Job, chunk: int) -> Job:
    """What the fence writes: one more checkpoint, and where to go on from."""
    return job._replace(
        checkpoint_no=job.checkpoint_no + 1, checkpoint=chunk + 1, releases_here=0, locked=False
    )


def close_attempt(rules: Rules, job: Job, *, lost: bool = False) -> Job:
    """The attempt of the fence that leaves gets its outcome, in the same statement."""
    if "exit_closes_attempt" not in rules:
        return job
    return job._replace(
        open_attempts=tuple(fence for fence in job.open_attempts if fence != job.fence),
        lost_attempts=job.lost_attempts + lost,
    )


def stage(rules: Rules, job: Job) -> Job:
    """One more row in the outbox."""
    return job._replace(staged=min(job.staged + 1, rules.bounds.copies), sqs_lost=False)


def show_message(rules: Rules, job: Job) -> Job:
    """One more message that may be received."""
    return job._replace(visible=min(job.visible + 1, rules.bounds.copies))


def complete(rules: Rules, job: Job) -> Job:
    """Running → succeeded; the checkpoint is counted as by any fence."""
    job = close_attempt(rules, job)
    return job._replace(
        state=SUCCEEDED, lease=False, locked=False, checkpoint_no=job.checkpoint_no + 1
    )


def back_or_dead(rules: Rules, job: Job, *, back: bool) -> Job:
    """Leave running (or what a missing check took for it): pending and announced, or dead."""
    left = job._replace(state=PENDING if back else DEAD, lease=False, cleanup_due=not back)
    if back and "exit_stages_message" in rules:
        left = stage(rules, left)
    return left


def fail(rules: Rules, job: Job) -> Job:
    """worker.outcome.FAIL_JOB: charged."""
    closed = close_attempt(rules, job)
    return back_or_dead(rules, closed, back=job.charged < job.max_attempts)


def release(rules: Rules, job: Job) -> Job:
    """worker.outcome.RELEASE_JOB: free, as long as not too many stand at this checkpoint."""
    free = job.releases_here < rules.bounds.free_releases or "free_releases_capped" not in rules
    closed = close_attempt(rules, job)
    counted = closed._replace(
        interruptions=job.interruptions + free, releases_here=job.releases_here + 1
    )
    return back_or_dead(rules, counted, back=free or job.charged < job.max_attempts)


def count_lost(rules: Rules, job: Job) -> int:
    """shared.jobs.states.LOST_LEASES: the one that just ran out included."""
    counts = job.state == RUNNING and "lost_lease_counted" in rules
    return job.lost_leases + counts


def attempts_left(job: Job, lost: int) -> bool:
    """shared.jobs.states.ATTEMPTS_LEFT_AFTER_LOSS."""
    return job.fence - lost - job.interruptions < job.max_attempts and lost < 2 * job.max_attempts


def may_be_claimed(rules: Rules, job: Job) -> bool:
    """worker.claim.MAY_BE_CLAIMED, on a row that nobody holds."""
    if job.locked:
        return False
    if job.state == PENDING:
        return attempts_left(job, job.lost_leases)
    if job.state == RUNNING and (not job.lease or "claim_checks_expiry" not in rules):
        return (
            attempts_left(job, count_lost(rules, job)) or "claim_checks_attempts_left" not in rules
        )
    return job.state in TERMINAL and "claim_checks_state" not in rules


def claim(rules: Rules, job: Job) -> Job:
    """worker.claim.CLAIM_JOBS: both arms, predecessor closed, new attempt opened."""
    lost = count_lost(rules, job)
    attempts, closed_as_lost = job.open_attempts, 0
    if job.state == RUNNING and "claim_closes_attempt" in rules:
        attempts, closed_as_lost = tuple(f for f in attempts if f != job.fence), 1
    return job._replace(
        state=RUNNING,
        fence=job.fence + 1,
        lease=True,
        lost_leases=lost,
        lost_attempts=job.lost_attempts + closed_as_lost,
        open_attempts=(*attempts, job.fence + 1),
    )


def reap(rules: Rules, job: Job) -> Job:
    """worker.reaper.REAP_EXPIRED."""
    lost = count_lost(rules, job)
    closed = close_attempt(rules, job, lost=True)._replace(lost_leases=lost)
    return back_or_dead(rules, closed, back=attempts_left(job, lost))


def cancel(rules: Rules, job: Job) -> Job:
    """shared.jobs.cancel.CANCEL_JOB: the owner's fence dies with it."""
    closed = close_attempt(rules, job) if job.state == RUNNING else job
    return closed._replace(state=CANCELLED, lease=False, cleanup_due=job.fence > 0)


def redrive(rules: Rules, job: Job) -> Job:
    """shared.jobs.redrive.REDRIVE_JOB: the budget rises above what has been used of it."""
    raised = max(job.charged, (job.lost_leases + 1) // 2) + rules.bounds.max_attempts
    return stage(rules, job._replace(state=PENDING, max_attempts=raised))


def clean_up(job: Job) -> Job:
    """worker.cleanup.clean_up_one: what was half-built goes, and the checkpoint with it."""
    return job._replace(cleanup_due=False, checkpoint=0, effects=((),) * len(job.effects))
