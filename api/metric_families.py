"""Metric families of the counts: what PostgreSQL knows, the same whichever api is asked.

Labels are kinds and queues that the database knows, and words of ours. A kind or queue that it does
not know, and all beyond the first two hundred by name, is "other": whoever makes up names makes no
series.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from shared.alerts.readings import METRICS
from shared.jobs.ends import BUCKETS
from shared.signals import known

MOST_NAMES = 200
ACTIVE = ("pending", "running")
FINAL = ("succeeded", "cancelled")
OUTCOMES = ("succeeded", "failed", "released", "lost_lease", "cancelled")
DUPLICATES = ("joined", "merged", "follow_up")
BOUNDS = (*(f"{float(bound)}" for bound in BUCKETS), "+Inf")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that may be labels, in their order."""

    kinds: tuple[str, ...]
    queues: tuple[str, ...]

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> "Names":
        """Those that the database knows."""
        queues = (row["name"] for row in counts["queues"])
        return cls(_first(counts["kinds"]), _first(queues))

    def kind(self, name: str) -> str:
        """The kind's label."""
        return known(name, self.kinds)

    def queue(self, name: str) -> str:
        """The queue's label."""
        return known(name, self.queues)


def _first(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(sorted(set(names)), MOST_NAMES))


def families_of(counts: Mapping[str, Any]) -> Iterator[Metric]:
    """Every family that the counts are enough for."""
    names = Names.of(counts)
    yield from _jobs(counts, names)
    yield from _queues(counts, names)
    yield from _attempts(counts, names)
    yield from _duplicates(counts, names)
    yield gauge("chot_outbox_due", "Messages that should be out", counts["outbox_due"])
    yield gauge("chot_outbox_lag_seconds", "How late the latest is", counts["outbox_lag_seconds"])
    yield from _readings(counts, names)


def gauge(name: str, said: str, value: float | None) -> GaugeMetricFamily:
    """A gauge without labels; None is 0."""
    return GaugeMetricFamily(name, said, value=float(value or 0))


def _jobs(counts: Mapping[str, Any], names: Names) -> Iterator[Metric]:
    """States that are left are gauges; what only grows is a counter. Kinds without jobs are 0."""
    jobs: Counter[tuple[str, str]] = Counter()
    for row in counts["others"]:
        jobs[names.kind(row["kind"]), row["state"]] += row["jobs"]
    for row in counts["pending"]:
        jobs[names.kind(row["kind"]), "pending"] += row["jobs"]
    now = GaugeMetricFamily("chot_jobs", "Jobs in a state that is left", labels=("kind", "state"))
    ended = CounterMetricFamily(
        "chot_jobs_ended", "Jobs that have ended for good", labels=("kind", "state")
    )
    submitted = CounterMetricFamily("chot_jobs_submitted", "Jobs there have been", labels=("kind",))
    for kind in _with_others(names.kinds, (kind for kind, _ in jobs)):
        for state in (*ACTIVE, "dead"):
            now.add_metric((kind, state), jobs[kind, state])
        for state in FINAL:
            ended.add_metric((kind, state), jobs[kind, state])
        ever = (jobs[kind, state] for state in (*ACTIVE, "dead", *FINAL))
        submitted.add_metric((kind,), sum(ever))
    yield from (now, ended, submitted)


def _with_others(names: tuple[str, ...], found: Iterable[str]) -> list[str]:
    return [*names, *sorted(set(found) - set(names))]


def _queues(counts: Mapping[str, Any], names: Names) -> Iterator[Metric]:
    due: Counter[str] = Counter()
    oldest: dict[str, float] = defaultdict(float)
    for row in counts["pending"]:
        queue = names.queue(row["queue"])
        due[queue] += row["due"]
        oldest[queue] = max(oldest[queue], row["oldest_due_seconds"])
    slots: Counter[str] = Counter()
    for row in counts["slots"]:
        slots[names.queue(row["queue"])] += row["slots"]
    paused = {names.queue(row["name"]): row["paused"] for row in counts["queues"]}
    families = [
        GaugeMetricFamily(name, said, labels=("queue",))
        for name, said in (
            ("chot_queue_due", "Jobs whose time has come"),
            ("chot_queue_oldest_due_seconds", "How long the oldest has been due"),
            ("chot_queue_paused", "1 while claims are stopped"),
            ("chot_queue_slots", "Slots of live workers that do not drain"),
        )
    ]
    for queue in _with_others(names.queues, (*due, *slots)):
        values = (due[queue], oldest[queue], int(paused.get(queue, False)), slots[queue])
        for family, value in zip(families, values, strict=True):
            family.add_metric((queue,), value)
    yield from families


@dataclass(slots=True)
class _Ends:
    """What attempts of one kind have come to."""

    outcomes: Counter[str]
    taken_over: int
    seconds: dict[str, float]
    buckets: dict[str, list[int]]


def _new_ends() -> _Ends:
    return _Ends(
        outcomes=Counter(),
        taken_over=0,
        seconds={"queue": 0.0, "run": 0.0},
        buckets={"queue": [0] * len(BOUNDS), "run": [0] * len(BOUNDS)},
    )


def _ends_by_kind(counts: Mapping[str, Any], names: Names) -> dict[str, _Ends]:
    found = {kind: _new_ends() for kind in names.kinds}
    for row in counts["ends"]:
        ends = found.setdefault(names.kind(row["kind"]), _new_ends())
        ends.outcomes[known(row["outcome"], OUTCOMES)] += row["attempts"]
        ends.taken_over += row["taken_over"]
        for which in ("queue", "run"):
            ends.seconds[which] += float(row[f"{which}_seconds"])
            for place, jobs in enumerate(row[f"{which}_buckets"]):
                ends.buckets[which][place] += jobs
    return found


def _attempts(counts: Mapping[str, Any], names: Names) -> Iterator[Metric]:
    """A claim is an attempt that runs or has ended: of one snapshot, so that the sum holds."""
    running: Counter[str] = Counter()
    for row in counts["others"]:
        if row["state"] == "running":
            running[names.kind(row["kind"])] += row["jobs"]
    claims = CounterMetricFamily("chot_claims", "Attempts there have been", labels=("kind",))
    ended = CounterMetricFamily(
        "chot_attempts", "Attempts that have ended", labels=("kind", "outcome")
    )
    lost = CounterMetricFamily("chot_lease_losses", "Leases that ran out", labels=("kind",))
    taken = CounterMetricFamily(
        "chot_takeovers", "Of them, those that another claim took over", labels=("kind",)
    )
    waited = HistogramMetricFamily("chot_queue_seconds", "From due to claimed", labels=("kind",))
    ran = HistogramMetricFamily("chot_run_seconds", "From claimed to ended", labels=("kind",))
    by_kind = _ends_by_kind(counts, names)
    for kind in _with_others(names.kinds, (*by_kind, *running)):
        ends = by_kind.get(kind) or _new_ends()
        claims.add_metric((kind,), running[kind] + ends.outcomes.total())
        lost.add_metric((kind,), ends.outcomes["lost_lease"])
        taken.add_metric((kind,), ends.taken_over)
        for outcome in OUTCOMES:
            ended.add_metric((kind, outcome), ends.outcomes[outcome])
        for which, family in (("queue", waited), ("run", ran)):
            buckets = list(zip(BOUNDS, ends.buckets[which], strict=True))
            family.add_metric((kind,), buckets, ends.seconds[which])
    yield from (claims, ended, lost, taken, waited, ran)


def _duplicates(counts: Mapping[str, Any], names: Names) -> Iterator[Metric]:
    submits: Counter[tuple[str, str]] = Counter()
    for row in counts["duplicates"]:
        submits[names.kind(row["kind"]), known(row["how"], DUPLICATES)] += row["submits"]
    family = CounterMetricFamily(
        "chot_duplicates",
        "Submits that met the active job of their work",
        labels=("kind", "how"),
    )
    for kind in _with_others(names.kinds, (kind for kind, _ in submits)):
        for how in DUPLICATES:
            family.add_metric((kind, how), submits[kind, how])
    yield family


def _readings(counts: Mapping[str, Any], names: Names) -> Iterator[Metric]:
    """What alerts are judged by (shared/alerts/readings.py): of several "others" the largest."""
    label = {"kind": names.kind, "queue": names.queue}
    for name, metric in METRICS.items():
        if name == "chot_jobs":  # all of its states are shown above
            continue
        family = GaugeMetricFamily(name, metric.said, labels=metric.labels)
        found: dict[tuple[str, ...], float] = {}
        for labels, value in metric.read(counts):
            key = tuple(label[each](labels[each]) for each in metric.labels)
            found[key] = max(value, found.get(key, 0.0))
        for key, value in found.items():
            family.add_metric(key, value)
        yield family
