"""Checks of business locks and limits: who may run beside whom, and who waits without a reason."""

from collections.abc import Iterator, Sequence

from shared.publishing import FIRST_RESEND_SECONDS
from tests.faults.check_liveness import (
    RECOVERY_SECONDS,
    SLACK_SECONDS,
    SLOTS,
    Span,
    Wait,
    merged,
    no_room,
    overlap,
    queue_of,
)
from tests.faults.evidence import TERMINAL, Job, Limit, Lock, Ordered, Transition
from tests.faults.intervals import starts
from tests.faults.violations import Found

# From the end of who held a lock until the message of who waited is staged.
WAKE_SECONDS = 1.0
LAST_DAY = "~"  # after every period


def conflicting(one: Lock, other: Lock) -> bool:
    """The suite's own words for what the platform's SQL says of two locks."""
    if one.root != other.root or "exclusive" not in (one.mode, other.mode):
        return False
    if one.part and other.part and one.part != other.part:
        return False
    return _begins(one) <= _ends(other) and _begins(other) <= _ends(one)


def _begins(lock: Lock) -> str:
    return lock.period_from or ""


def _ends(lock: Lock) -> str:
    """A month ends with its last day."""
    return (lock.period_to or "") + LAST_DAY


def conflicts(seen: Ordered) -> dict[str, frozenset[str]]:
    """By job: every other job that must not run beside it."""
    locks = seen.locks
    return {
        job_id: frozenset(
            other
            for other, theirs in locks.items()
            if other != job_id and any(conflicting(a, b) for a in mine for b in theirs)
        )
        for job_id, mine in locks.items()
    }


def no_two_holders(seen: Ordered) -> Found:
    """No two jobs with conflicting locks ever run beside each other, whatever their leases say."""
    locks = seen.locks
    for start in starts(seen):
        mine = locks.get(start.job_id, [])
        for other in start.beside:
            if not any(conflicting(a, b) for a in mine for b in locks.get(other, [])):
                continue
            yield (
                start.job_id,
                f"began to run beside {other}, which holds its locks (n {start.at.n})",
            )


def met(seen: Ordered) -> int:
    """How many jobs had to wait: while they were pending, one that they conflict with began."""
    against = conflicts(seen)
    waits = {job_id: [span for _, span in _pending(seen, job_id)] for job_id in seen.locks}
    begun = [(start.job_id, start.at.at) for start in starts(seen) if start.job_id in seen.locks]
    return sum(
        any(
            other in against[job_id] and began < at < ended
            for other, at in begun
            for began, ended in spans
        )
        for job_id, spans in waits.items()
    )


def each_locked_job_has_its_locks(seen: Ordered) -> Found:
    """What a kind declares stands in the database, of every job of it."""
    for job in seen.evidence.jobs:
        expected = LOCKS_OF.get(job.kind, 0)
        found = len(seen.locks.get(job.id, []))
        if found != expected:
            yield job.id, f"is of {job.kind} and has {found} locks, not {expected}"


# How many locks a job of each kind that the storm submits has.
LOCKS_OF = {"costing.run": 1, "fault.lock_write": 1, "fault.lock_read": 1, "fault.lock_two": 2}


def limits_are_never_exceeded(seen: Ordered) -> Found:
    """Of what a limit counts, never more run than its maximum."""
    for start in starts(seen):
        beside = [seen.jobs[each] for each in start.beside if each in seen.jobs]
        job = seen.jobs.get(start.job_id)
        for limit in seen.facts.limits:
            if job is not None and _counts(limit, job):
                running = 1 + sum(_counts(limit, each) for each in beside)
                if running > limit.max_running:
                    yield job.id, f"is one of {running} that run; {_words(limit)} (n {start.at.n})"


def _counts(limit: Limit, job: Job) -> bool:
    pairs = ((limit.kind, job.kind), (limit.company, job.company), (limit.brand, job.brand))
    return all(wanted is None or wanted == actual for wanted, actual in pairs)


def _words(limit: Limit) -> str:
    of = " ".join(each for each in (limit.kind, limit.company, limit.brand) if each)
    return f"{limit.max_running} of {of} may"


def waits_for_a_lock(seen: Ordered) -> list[Wait]:
    """Every stretch in which a job with locks could surely have run, longest first.

    Surely: no job that it conflicts with runs, nor waits (it might go first). What of the stretch
    counts, and what `bound` allows, is as in waits_for_a_claim(); and a second for the wake-up.
    """
    against = conflicts(seen)
    active = {job_id: _active(seen.transitions.get(job_id, []), seen) for job_id in seen.locks}
    troubled = merged(_recovering(seen, "sqs"))
    faults = merged(_recovering(seen, ""))
    full = {queue: no_room(seen, queue) for queue in SLOTS}
    found = []
    for job_id in seen.locks:
        blocked = merged(span for other in against[job_id] for span in active.get(other, []))
        for fence, span in _pending(seen, job_id):
            for began, ended in _without(span, blocked):
                if overlap((began, ended), troubled):
                    continue
                counts = ended - began - overlap((began, ended), full[queue_of(seen, job_id)])
                bound = SLACK_SECONDS + WAKE_SECONDS
                if overlap((began, ended), faults):
                    bound += FIRST_RESEND_SECONDS + 2 * (2 * seen.facts.lease)
                found.append(Wait(job_id, fence, counts, bound))
    return sorted(found, key=lambda wait: -wait.seconds)


def a_free_lock_is_taken_in_time(seen: Ordered) -> Found:
    """Nobody who may run goes on waiting: the end of who held the lock has woken him."""
    for wait in waits_for_a_lock(seen):
        if wait.seconds > wait.bound:
            text = f"waited {wait.seconds:.1f} s after fence {wait.fence} for locks that were free"
            yield wait.job_id, f"{text}; {wait.bound:.1f} s are allowed"


def _recovering(seen: Ordered, target: str) -> Iterator[Span]:
    """Faults of this target ("": all but those of SQS) and the time after them."""
    for window in seen.evidence.windows:
        if window.target == target or (not target and window.target != "sqs"):
            yield window.began, window.ended + RECOVERY_SECONDS


def _active(trail: Sequence[Transition], seen: Ordered) -> list[Span]:
    """When the job was pending or running."""
    spans: list[Span] = []
    since: float | None = None
    for each in trail:
        if each.state not in TERMINAL:
            since = each.at if since is None else since
        elif since is not None:
            spans.append((since, each.at))
            since = None
    return spans if since is None else [*spans, (since, seen.facts.ended)]


def _pending(seen: Ordered, job_id: str) -> Iterator[tuple[int, Span]]:
    """When the job waited for a claim, and under which fence."""
    trail = seen.transitions.get(job_id, [])
    for each, after in zip(trail, [*trail[1:], None], strict=True):
        if each.state == "pending":
            yield each.fence, (each.at, seen.facts.ended if after is None else after.at)


def _without(span: Span, blocked: Sequence[Span]) -> Iterator[Span]:
    """What is left of a span outside others, which are disjoint and in order."""
    began, end = span
    for first, last in blocked:
        if last <= began or first >= end:
            continue
        if first > began:
            yield began, first
        began = max(began, last)
    if began < end:
        yield began, end


LOCK_CHECKS = (
    no_two_holders,
    each_locked_job_has_its_locks,
    limits_are_never_exceeded,
    a_free_lock_is_taken_in_time,
)
