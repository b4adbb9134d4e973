"""Metrics for Prometheus: what the database knows, alike from every api; this process's own."""

import asyncio
from collections.abc import Iterator
from time import monotonic

from fastapi import Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from api.counting import Counted
from api.dependencies import Live, Ready
from api.description import problems
from api.metric_families import families_of, gauge
from api.routers import keyed_router
from shared.signals import MEDIA_TYPE, process_metrics

router = keyed_router(tags=["metrics"])


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
    """Jobs, queues, attempts, outbox, dead letters; and what this process has counted itself."""
    counted = await resources.counting.counted()
    registry = CollectorRegistry()
    registry.register(_Counts(counted, hub.watching))
    return Response(generate_latest(registry) + process_metrics(), media_type=MEDIA_TYPE)


class _Counts(Collector):
    def __init__(self, counted: Counted, listeners: int) -> None:
        self._counted = counted
        self._listeners = listeners

    def collect(self) -> Iterator[Metric]:
        yield from families_of(self._counted.counts)
        for name, said, value in (
            ("chot_count_age_seconds", "Age of these counts", monotonic() - self._counted.at),
            ("chot_count_seconds", "How long counting took", self._counted.seconds),
            ("chot_live_listeners", "Clients that wait for jobs here", self._listeners),
            ("chot_asyncio_tasks", "Tasks of this api process", len(asyncio.all_tasks())),
        ):
            yield gauge(name, said, value)
