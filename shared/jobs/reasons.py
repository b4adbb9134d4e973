"""Reasons: of all that is known of a job, the one thing it waits for, in a plain sentence. Pure.

The rules are in the order in which they keep a job from running; the first that holds is told,
since the later ones do not matter before it is gone. Each is a test on a row of explain_job() and
words for it: what is the case, in numbers, and what to do, if there is something to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.jobs import words
from shared.jobs.pace import Row
from shared.types import JobState


class Reason(StrEnum):
    """Why a job is not running, or not done."""

    BACKOFF = "backoff"
    SNOOZED = "snoozed"
    HANDED_BACK = "handed-back"
    SCHEDULED = "scheduled"
    QUEUE_PAUSED = "queue-paused"
    KIND_PAUSED = "kind-paused"
    BOOKS_FROZEN = "books-frozen"
    JOB_PAUSED = "job-paused"
    GROUP_CANCELLING = "group-cancelling"
    GROUP_OPEN = "group-open"
    OUT_OF_ATTEMPTS = "out-of-attempts"
    NO_WORKER = "no-worker"
    KIND_UNKNOWN = "kind-unknown"
    VERSION_UNKNOWN = "version-unknown"
    WORKERS_STOPPING = "workers-stopping"
    LOCK_HELD = "lock-held"
    LOCK_RESERVED = "lock-reserved"
    RUNS_ALONE = "runs-alone"
    WORKERS_ALONE = "workers-alone"
    KIND_MAXIMUM = "kind-maximum"
    LIMIT_REACHED = "limit-reached"
    MESSAGE_REFUSED = "message-refused"
    WINDOW_FULL = "window-full"
    PUBLISHING_FAILED = "publishing-failed"
    PUBLISHING = "publishing"
    SLOTS_BUSY = "slots-busy"
    DELIVERY = "delivery"
    LEASE_EXPIRED = "lease-expired"
    WORKER_SILENT = "worker-silent"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason, when it holds, and how it is said."""

    reason: Reason
    holds: Callable[[Row], bool]
    words: Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason, and one sentence that says it."""

    reason: Reason
    sentence: str


def explain(
    row: Row, *, redrive_refused: str | None = None, told: Row | None = None
) -> Explanation:
    """The first rule that holds. `redrive_refused` is the problem a dead job's redrive would meet.

    Rules of a state end with one that always holds, so that there is always an answer. `told` is
    what of the row may be said, where that is less than decides.
    """
    told = row if told is None else told
    if row["state"] == JobState.DEAD:
        return Explanation(Reason.DEAD, words.dead(told, redrive_refused))
    rule = _rule(row)
    return Explanation(rule.reason, rule.words(told))


def reason_of(row: Row) -> Reason:
    """What explain() tells, without its sentence: what no rule asks for may be missing."""
    return Reason.DEAD if row["state"] == JobState.DEAD else _rule(row).reason


def _rule(row: Row) -> Rule:
    return next(rule for rule in RULES[row["state"]] if rule.holds(row))


def _always(_: Row) -> bool:
    return True


RULES: Mapping[str, Sequence[Rule]] = {
    JobState.PENDING: (
        Rule(
            Reason.BACKOFF, lambda r: not r["due"] and r["last_outcome"] == "failed", words.backoff
        ),
        Rule(Reason.SNOOZED, lambda r: not r["due"] and bool(r["snoozed"]), words.snoozed),
        Rule(
            Reason.HANDED_BACK,
            lambda r: not r["due"] and r["last_outcome"] == "released",
            words.handed_back,
        ),
        Rule(Reason.SCHEDULED, lambda r: not r["due"], words.scheduled),
        Rule(Reason.QUEUE_PAUSED, lambda r: not r["unpaused"], words.paused),
        Rule(Reason.KIND_PAUSED, lambda r: not r["kind_unpaused"], words.kind_paused),
        Rule(Reason.BOOKS_FROZEN, lambda r: not r["unfrozen"], words.frozen),
        Rule(Reason.JOB_PAUSED, lambda r: not r["resumed"], words.job_paused),
        Rule(Reason.GROUP_CANCELLING, lambda r: not r["goes_on"], words.group_cancelling),
        Rule(Reason.GROUP_OPEN, lambda r: not r["joined"], words.group_open),
        Rule(Reason.OUT_OF_ATTEMPTS, lambda r: not r["attempts_left"], words.out_of_attempts),
        Rule(Reason.NO_WORKER, lambda r: not r["live"], words.no_worker),
        Rule(Reason.KIND_UNKNOWN, lambda r: not r["know_kind"], words.kind_unknown),
        Rule(Reason.VERSION_UNKNOWN, lambda r: not r["know_version"], words.version_unknown),
        Rule(
            Reason.WORKERS_STOPPING,
            lambda r: not r["working"] and not r["working_alone"],
            words.stopping,
        ),
        Rule(Reason.LOCK_HELD, lambda r: r["held_root"] is not None, words.lock_held),
        Rule(Reason.LOCK_RESERVED, lambda r: r["reserved_root"] is not None, words.lock_reserved),
        Rule(Reason.RUNS_ALONE, lambda r: bool(r["runs_alone"]), words.runs_alone),
        Rule(Reason.WORKERS_ALONE, lambda r: not r["working"], words.workers_alone),
        Rule(
            Reason.KIND_MAXIMUM,
            lambda r: r["max_running"] is not None and r["places_taken"] >= r["max_running"],
            words.maximum,
        ),
        Rule(Reason.LIMIT_REACHED, lambda r: r["limit_id"] is not None, words.limit),
        Rule(Reason.MESSAGE_REFUSED, lambda r: bool(r["refused"]), words.refused),
        Rule(
            Reason.WINDOW_FULL,
            lambda r: bool(r["sendable"]) and r["window_used"] >= r["window_size"],
            words.window_full,
        ),
        Rule(
            Reason.PUBLISHING_FAILED,
            lambda r: bool(r["staged"] and r["last_error"] and not r["sendable"]),
            words.publishing_failed,
        ),
        Rule(Reason.PUBLISHING, lambda r: bool(r["staged"]), words.publishing),
        Rule(Reason.SLOTS_BUSY, lambda r: not r["free_slots"], words.slots_busy),
        Rule(Reason.DELIVERY, _always, words.delivery),
    ),
    JobState.RUNNING: (
        Rule(Reason.LEASE_EXPIRED, lambda r: r["lease_left"] <= 0, words.expired),
        Rule(Reason.WORKER_SILENT, lambda r: bool(r["owner_silent"]), words.silent),
        Rule(Reason.RUNNING, _always, words.running),
    ),
    JobState.SUCCEEDED: (Rule(Reason.SUCCEEDED, _always, words.succeeded),),
    JobState.CANCELLED: (Rule(Reason.CANCELLED, _always, words.cancelled),),
}
