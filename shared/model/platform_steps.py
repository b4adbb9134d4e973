"""What happens to a job beside its worker: submit, relay, maintenance, clients, SQS, time."""

from collections.abc import Iterator
from typing import NamedTuple

from shared.model.protections import Rules
from shared.model.state import (
    ABSENT,
    ACTIVE,
    CANCELLED,
    DEAD,
    PENDING,
    RUNNING,
    TERMINAL,
    Job,
    Left,
    spend,
)
from shared.model.transitions import cancel, clean_up, reap, redrive, show_message, stage


class JobStep(NamedTuple):
    """What one action makes of the one job that it touches."""

    action: str
    job: Job
    left: Left


def job_steps(rules: Rules, job: Job, left: Left) -> Iterator[JobStep]:
    """Everything that may happen to this job without a worker, but its submit."""
    if job.state != ABSENT:
        yield from _relay(rules, job, left)
        yield from _maintenance(rules, job, left)
        yield from _client(rules, job, left)
        if job.state == RUNNING and job.lease:
            yield JobStep("expire", job._replace(lease=False), left)
    yield from _sqs(rules, job, left)


def submit(rules: Rules, jobs: tuple[Job, ...], index: int) -> Job | None:
    """The committed submit of job `index`; None when it joins a twin that is active.

    The one step that looks at other jobs: the unique index does.
    """
    job = jobs[index]
    if job.state != ABSENT:
        return None
    if rules.bounds.twins:
        indexed = ACTIVE if "unique_active_fingerprint" in rules else {PENDING}
        if any(other.state in indexed for other in jobs):
            return None
    committed = job._replace(state=PENDING)
    return stage(rules, committed) if "submit_stages_message" in rules else committed


def publish_early(rules: Rules, job: Job) -> Job | None:
    """A mutant publishes before its transaction has committed."""
    if "outbox_after_commit" in rules or job.state != ABSENT:
        return None
    return show_message(rules, job)


def _relay(rules: Rules, job: Job, left: Left) -> Iterator[JobStep]:
    """Take, send, delete. The delete commutes with all else, so it is merged with the send;
    the crash in between is an action of its own.
    """
    if not job.staged:
        return
    gone = job._replace(staged=job.staged - 1)
    yield JobStep("relay_publish", show_message(rules, gone), left)
    if (after := spend(left, "crashes")) is not None:
        yield JobStep("relay_crash", show_message(rules, job), after)
    if job.state != PENDING:
        yield JobStep("relay_drop", gone, left)
    if "relay_deletes_only_sent" not in rules:
        yield JobStep("relay_deletes_unsent", gone, left)


def _maintenance(rules: Rules, job: Job, left: Left) -> Iterator[JobStep]:
    expired = not job.lease or "reaper_checks_expiry" not in rules
    if "reaper" in rules and job.state == RUNNING and expired and not job.locked:
        yield JobStep("reap", reap(rules, job), left)
    announced = job.staged or job.visible
    if "reconciler" in rules and job.state == PENDING and not announced:
        yield JobStep("reconcile", stage(rules, job), left)
    if rules.bounds.redrives and job.cleanup_due and job.state in {DEAD, CANCELLED}:
        yield JobStep("clean_up", clean_up(job), left)


def _client(rules: Rules, job: Job, left: Left) -> Iterator[JobStep]:
    may_cancel = job.state in ACTIVE or (
        job.state in TERMINAL and "cancel_checks_state" not in rules
    )
    if may_cancel and not job.locked and (after := spend(left, "cancels")) is not None:
        yield JobStep("cancel", cancel(rules, job), after)
    may_redrive = not job.cleanup_due or "redrive_waits_for_cleanup" not in rules
    if job.state == DEAD and may_redrive and (after := spend(left, "redrives")) is not None:
        yield JobStep("redrive", redrive(rules, job), after)


def _sqs(rules: Rules, job: Job, left: Left) -> Iterator[JobStep]:
    if not job.visible:
        return
    if job.visible < rules.bounds.copies and (after := spend(left, "duplicates")) is not None:
        yield JobStep("duplicate", show_message(rules, job), after)
    if (after := spend(left, "losses")) is not None:
        yield JobStep("lose", job._replace(visible=job.visible - 1, sqs_lost=True), after)
