"""Checks of what must happen in time: drains, expired leases, the outbox."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared.publishing import FIRST_RESEND_SECONDS
from tests.faults.evidence import Ordered, Window
from tests.faults.violations import Found

# Two cores for a dozen processes: what the machine itself may take.
SLACK_SECONDS = 5.0
# From the end of a fault until its process is surely at work again: back-offs, half-open
# connections that are given up.
RECOVERY_SECONDS = 4.0

# Of each worker, as tests.faults.world starts it.
SLOTS = {"default": 6, "costing": 1}

Span = tuple[float, float]
KILLED_BY_JOB = 137  # tests.faults.handlers.harm


def everything_drains(seen: Ordered) -> Found:
    """After healing all jobs end and the outbox is empty, within the time given for it."""
    if not seen.facts.drained:
        yield None, f"jobs or messages were left after {seen.facts.drain_seconds:.0f} s of draining"
    if seen.facts.outbox:
        yield None, f"{seen.facts.outbox} rows are left in the outbox"


def drained_processes_end_well(seen: Ordered) -> Found:
    """A worker that was told to drain ends by itself with exit code 0.

    But for one that a job told to kill its process has killed meanwhile: its code is the job's.
    """
    killers = {job.id for job in seen.evidence.jobs if job.payload.get("how") == "exit"}
    killed = [each.worker_id for each in seen.evidence.attempts if each.job_id in killers]
    for window in seen.evidence.windows:
        code = window.detail.get("exit_code")
        by_job = code == KILLED_BY_JOB and any(
            f"-{window.detail.get('pid')}-" in worker_id for worker_id in killed
        )
        if window.fault == "drain" and code != 0 and not by_job:
            yield None, f"{window.target} was told to drain and ended with {code}"


@dataclass(frozen=True, slots=True)
class Stuck:
    """A job that stood under an expired lease, and for how long somebody could have seen it."""

    job_id: str
    fence: int
    since: float
    seconds: float


def stuck_leases(seen: Ordered) -> list[Stuck]:
    """Every stretch under an expired lease, longest first; only time that counts is counted.

    Time counts while the database was reachable and at least one worker was not under a fault.
    """
    blind = blind_spans(seen.evidence.windows, seen.facts.workers)
    found = []
    for job_id, trail in seen.transitions.items():
        ends = [*trail[1:], None]
        for each, after in zip(trail, ends, strict=True):
            if each.state != "running" or each.lease_expires_at is None:
                continue
            until = seen.facts.ended if after is None else after.at
            if until > each.lease_expires_at:
                span = (each.lease_expires_at, until)
                seconds = until - each.lease_expires_at - overlap(span, blind)
                found.append(Stuck(job_id, each.fence, each.lease_expires_at, seconds))
    return sorted(found, key=lambda stuck: -stuck.seconds)


def no_lease_outlives_its_time(seen: Ordered) -> Found:
    """L2: an expired lease is seen within idle transaction + reaper, and what the machine takes."""
    bound = seen.facts.idle_in_transaction + seen.facts.reaper + SLACK_SECONDS
    for stuck in stuck_leases(seen):
        if stuck.seconds > bound:
            text = f"stood {stuck.seconds:.1f} s under the expired lease of fence {stuck.fence}"
            yield stuck.job_id, f"{text}; {bound:.1f} s are allowed"


@dataclass(frozen=True, slots=True)
class Wait:
    """A job whose lease was reaped: from then to its next claim, and how much of it counts.

    `bound` is what that part may be.
    """

    job_id: str
    fence: int
    seconds: float
    bound: float


def waits_for_a_claim(seen: Ordered) -> list[Wait]:
    """Every stretch from a reaping to what came next, longest first; only time that counts.

    It counts while the database was reachable and a worker under no fault had a free slot, whoever
    had the others. A stretch in which SQS was under a fault is L1's, and is left out.
    """
    troubled = [_span(w) for w in seen.evidence.windows if w.target == "sqs"]
    faults = [_span(w) for w in seen.evidence.windows if w.target != "sqs"]
    full = {queue: no_room(seen, queue) for queue in SLOTS}
    found = []
    for job_id, trail in seen.transitions.items():
        queue = queue_of(seen, job_id)
        for before, reaped, after in zip(trail, trail[1:], [*trail[2:], None], strict=False):
            if (before.state, reaped.state) != ("running", "pending"):
                continue
            span = (reaped.at, seen.facts.ended if after is None else after.at)
            if reaped.lost_leases == before.lost_leases or overlap(span, merged(troubled)):
                continue
            seconds = span[1] - span[0] - overlap(span, full[queue])
            bound = SLACK_SECONDS
            if overlap(span, merged(faults)):
                # It died with the message: one that it sent, or one that it had received. Those
                # that stand before it in the queue's window may be held by a dead one, too.
                bound += FIRST_RESEND_SECONDS + 2 * (2 * seen.facts.lease)
            found.append(Wait(job_id, reaped.fence, seconds, bound))
    return sorted(found, key=lambda wait: -wait.seconds)


def a_reaped_job_runs_again_in_time(seen: Ordered) -> Found:
    """L2 to its end: who was reaped is claimed again, where there is somebody to claim it."""
    for wait in waits_for_a_claim(seen):
        if wait.seconds > wait.bound:
            text = f"waited {wait.seconds:.1f} s for a claim after fence {wait.fence} was reaped"
            yield wait.job_id, f"{text}; {wait.bound:.1f} s are allowed"


def queue_of(seen: Ordered, job_id: str) -> str:
    """The queue of the job's kind."""
    job = seen.jobs.get(job_id)
    return "costing" if job is not None and job.kind == "costing.run" else "default"


def no_room(seen: Ordered, queue: str) -> list[Span]:
    """When nobody could claim: the database away, or no slot surely free.

    Surely: fewer jobs run than workers under no fault have slots, all of them taken for theirs.
    """
    moves: list[tuple[float, int, int]] = []
    for job_id, trail in seen.transitions.items():
        if queue_of(seen, job_id) != queue:
            continue
        runs = [each.state == "running" for each in trail]
        for each, was, runs_now in zip(trail, [False, *runs], runs, strict=False):
            if was != runs_now:
                moves.append((each.at, 1 if runs_now else -1, 0))
    for number in range(1, seen.facts.workers + 1):
        spans = [_span(w) for w in seen.evidence.windows if w.target == f"worker {number}"]
        for began, ended in merged(spans):
            moves += [(began, 0, -1), (ended, 0, 1)]
    busy, well, since = 0, seen.facts.workers, None
    spans = [_span(w) for w in seen.evidence.windows if w.target == "database"]
    for at, job, worker in sorted(moves):
        busy, well = busy + job, well + worker
        if busy >= well * SLOTS[queue]:
            since = at if since is None else since
        elif since is not None:
            spans.append((since, at))
            since = None
    return merged(spans if since is None else [*spans, (since, seen.facts.ended)])


def blind_spans(windows: Sequence[Window], workers: int) -> list[Span]:
    """When nobody could have reaped: the database away, or every worker under a fault."""
    blind = merged(_span(w) for w in windows if w.target == "database")
    troubled = [
        merged(_span(w) for w in windows if w.target == f"worker {number}")
        for number in range(1, workers + 1)
    ]
    common = troubled[0] if troubled else []
    for spans in troubled[1:]:
        common = intersected(common, spans)
    return merged([*blind, *common])


def _span(window: Window) -> Span:
    return window.began, window.ended + RECOVERY_SECONDS


def merged(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans in order that cover the same time."""
    found: list[Span] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def intersected(one: Sequence[Span], two: Sequence[Span]) -> list[Span]:
    """The time that both cover."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in one for b in two)
    return merged((began, ended) for began, ended in pairs if began < ended)


def overlap(span: Span, spans: Iterable[Span]) -> float:
    """How much of `span` the (disjoint) spans cover."""
    return sum(max(0.0, min(span[1], b) - max(span[0], a)) for a, b in spans)


def no_two_owners_at_once(seen: Ordered) -> Found:
    """A new claim of a running job comes only when the lease before it has run out."""
    for job_id, trail in seen.transitions.items():
        for before, after in pairwise(trail):
            taken = before.state == after.state == "running" and after.fence != before.fence
            expires = before.lease_expires_at
            if taken and expires is not None and after.at < expires:
                yield job_id, f"fence {after.fence} was taken {expires - after.at:.2f} s too early"


LIVENESS_CHECKS = (
    everything_drains,
    drained_processes_end_well,
    no_lease_outlives_its_time,
    a_reaped_job_runs_again_in_time,
    no_two_owners_at_once,
)
