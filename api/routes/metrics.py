"""Metrics for Prometheus: gauges from the database, so that every api process says the same."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from operator import itemgetter
from time import monotonic
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.counting import Counted
from api.dependencies import Live, Ready
from api.description import problems

router = APIRouter(tags=["metrics"])
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PROCESS = CollectorRegistry()
ProcessCollector(registry=PROCESS)
ACTIVE = ("pending", "running")
FINAL = ("succeeded", "cancelled")


@router.get(
    "/metrics",
    response_class=Response,
    responses=problems()
    | {
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "Prometheus' text format.",
        }
    },
)
async def metrics(resources: Ready, hub: Live) -> Response:
    """Jobs by kind and state, queues, outbox, dead letters; and this process's own memory."""
    counted = await resources.counting.counted()
    registry = CollectorRegistry()
    registry.register(_Counts(counted, hub.watching))
    body = generate_latest(registry) + generate_latest(PROCESS)
    return Response(body, media_type=MEDIA_TYPE)


class _Counts(Collector):
    def __init__(self, counted: Counted, listeners: int) -> None:
        self._counted = counted
        self._listeners = listeners

    def collect(self) -> Iterator[Metric]:
        counts = self._counted.counts
        yield from _jobs(counts)
        yield from _queues(counts)
        for name, said, value in (
            ("chot_outbox_due", "Messages that should be out", counts["outbox_due"]),
            ("chot_outbox_lag_seconds", "How late the latest is", counts["outbox_lag_seconds"]),
            ("chot_outbox_quarantined", "Messages refused by SQS for good", counts["quarantined"]),
            ("chot_dead_messages", "Messages that were none of ours", counts["dead_messages"]),
            ("chot_workers_live", "Workers that have said so in time", counts["live_workers"]),
            ("chot_count_age_seconds", "Age of these counts", monotonic() - self._counted.at),
            ("chot_count_seconds", "How long counting took", self._counted.seconds),
            ("chot_live_listeners", "Clients that wait for jobs here", self._listeners),
            ("chot_asyncio_tasks", "Tasks of this api process", len(asyncio.all_tasks())),
        ):
            yield _gauge(name, said, value or 0)


def _jobs(counts: dict[str, Any]) -> Iterator[Metric]:
    """States that are left are gauges; what only grows is a counter. Kinds without jobs are 0."""
    jobs = Counter({(row["kind"], row["state"]): row["jobs"] for row in counts["others"]})
    for row in counts["pending"]:
        jobs[row["kind"], "pending"] += row["jobs"]
    kinds = sorted({*counts["kinds"], *(kind for kind, _ in jobs)})
    now = GaugeMetricFamily("chot_jobs", "Jobs in a state that is left", labels=("kind", "state"))
    ended = CounterMetricFamily(
        "chot_jobs_ended", "Jobs that have ended for good", labels=("kind", "state")
    )
    submitted = CounterMetricFamily("chot_jobs_submitted", "Jobs there have been", labels=("kind",))
    for kind in kinds:
        for state in (*ACTIVE, "dead"):
            now.add_metric((kind, state), jobs[kind, state])
        for state in FINAL:
            ended.add_metric((kind, state), jobs[kind, state])
        ever = (jobs[kind, state] for state in (*ACTIVE, "dead", *FINAL))
        submitted.add_metric((kind,), sum(ever))
    yield from (now, ended, submitted)


def _queues(counts: dict[str, Any]) -> Iterator[Metric]:
    due: Counter[str] = Counter()
    oldest: dict[str, float] = defaultdict(float)
    for row in counts["pending"]:
        due[row["queue"]] += row["due"]
        oldest[row["queue"]] = max(oldest[row["queue"]], row["oldest_due_seconds"])
    families = [
        GaugeMetricFamily(name, said, labels=("queue",))
        for name, said in (
            ("chot_queue_due", "Jobs whose time has come"),
            ("chot_queue_oldest_due_seconds", "How long the oldest has been due"),
            ("chot_queue_paused", "1 while claims are stopped"),
        )
    ]
    for queue in sorted(counts["queues"], key=itemgetter("name")):
        name = queue["name"]
        values = (due[name], oldest[name], int(queue["paused"]))
        for family, value in zip(families, values, strict=True):
            family.add_metric((name,), value)
    yield from families


def _gauge(name: str, said: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, said, value=value)
