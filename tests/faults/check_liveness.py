"""Checks of what must happen in time: drains, expired leases, the outbox."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.evidence import Ordered, Window
from tests.faults.violations import Found

# Two cores for a dozen processes: what the machine itself may take.
SLACK_SECONDS = 5.0
# From the end of a fault until its process is surely at work again: back-offs, half-open
# connections that are given up.
RECOVERY_SECONDS = 4.0

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
    no_two_owners_at_once,
)
