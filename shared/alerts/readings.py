"""Readings: the numbers that rules are about, taken from the counts that /metrics shows.

One table, metric → what it says and how it is read, so that an alert, a page and Prometheus never
disagree about a number.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Counts = Mapping[str, Any]
Reading = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: its help text, its labels, and how it is read from the counts."""

    said: str
    labels: tuple[str, ...] = ()
    read: Callable[[Counts], Iterator[Reading]]


def _plain(name: str) -> Callable[[Counts], Iterator[Reading]]:
    def read(counts: Counts) -> Iterator[Reading]:
        yield {}, float(counts[name] or 0)

    return read


def _jobs(counts: Counts) -> Iterator[Reading]:
    """Active and dead jobs; a kind without any is 0, so that its alert ends."""
    jobs: dict[tuple[str, str], int] = {
        (kind, state): 0 for kind in counts["kinds"] for state in ("pending", "running", "dead")
    }
    for row in counts["others"]:
        if row["state"] in {"running", "dead"}:
            jobs[row["kind"], row["state"]] = row["jobs"]
    for row in counts["pending"]:
        key = (row["kind"], "pending")
        jobs[key] = jobs.get(key, 0) + row["jobs"]
    for (kind, state), count in sorted(jobs.items()):
        yield {"kind": kind, "state": state}, float(count)


def _unserved(counts: Counts) -> Iterator[Reading]:
    found = dict.fromkeys(counts["kinds"], 0)
    for row in counts["unserved"]:
        found[row["kind"]] = row["jobs"]
    for kind, jobs in sorted(found.items()):
        yield {"kind": kind}, float(jobs)


def _by_queue(name: str) -> Callable[[Counts], Iterator[Reading]]:
    def read(counts: Counts) -> Iterator[Reading]:
        found: Mapping[str, float] = counts.get(name) or {}
        for queue in sorted({each["name"] for each in counts["queues"]}):
            yield {"queue": queue}, float(found.get(queue) or 0)

    return read


METRICS: Mapping[str, Metric] = {
    "chot_jobs": Metric(said="Jobs in a state that is left", labels=("kind", "state"), read=_jobs),
    "chot_unserved_due": Metric(
        said="Due jobs that no live worker would run", labels=("kind",), read=_unserved
    ),
    "chot_queue_starved_seconds": Metric(
        said="How long the oldest job that could run has been due",
        labels=("queue",),
        read=_by_queue("starved"),
    ),
    "chot_backlog_seconds": Metric(
        said="Due work, in seconds of a slot", labels=("queue",), read=_by_queue("backlog_seconds")
    ),
    "chot_outbox_stuck_seconds": Metric(
        said="How long a message has waited for nothing but SQS",
        read=_plain("outbox_stuck_seconds"),
    ),
    "chot_outbox_quarantined": Metric(
        said="Messages refused by SQS for good", read=_plain("quarantined")
    ),
    "chot_dead_messages": Metric(
        said="Messages that were none of ours", read=_plain("dead_messages")
    ),
    "chot_workers_live": Metric(
        said="Workers that have said so in time", read=_plain("live_workers")
    ),
    "chot_workers_lost_recently": Metric(
        said="Workers that ended without a word in the last 15 minutes",
        read=_plain("workers_lost"),
    ),
    "chot_leases_lost_recently": Metric(
        said="Leases that ran out in the last 15 minutes", read=_plain("leases_lost")
    ),
    "chot_heartbeat_used_ratio": Metric(
        said="Of its lease, what the latest live worker has let pass", read=_plain("heartbeat_used")
    ),
    "chot_transaction_seconds": Metric(
        said="How long the oldest transaction has been open", read=_plain("transaction_seconds")
    ),
    "chot_alert_notice_late_seconds": Metric(
        said="How long an alert has waited to be delivered", read=_plain("notice_late_seconds")
    ),
}
