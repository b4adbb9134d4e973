"""Signals: what this process has counted itself, for its own /metrics.

Whatever PostgreSQL knows is counted there (shared/jobs/ends.py) and shown by every api alike: it
outlives the process that did it. Here is the rest, that only a process itself can see; what it has
counted since it was last asked is lost with it. Child processes count nothing that anybody reads.

No label comes from a request, a payload or an error's words: each is one of a few words of ours.
"""

from collections.abc import Iterator
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each, that says when this process began to count
PROCESS = CollectorRegistry()
ProcessCollector(registry=PROCESS)

SQS_OPERATIONS = ("attributes", "delete", "extend", "receive", "send", "url")
SQS_RESULTS = (
    "ok",
    "throttled",
    "refused",
    "failed",
    "timeout",
    "unreachable",
    "credentials",
    OTHER,
)
SQS_CALLS = Counter(
    "chot_sqs_calls", "Calls to SQS by what came of them", ("operation", "result"), registry=PROCESS
)
SQS_REFUSED = Counter(
    "chot_sqs_entries_refused",
    "Entries of a batch that SQS did not take though it took the call",
    ("operation",),
    registry=PROCESS,
)
LOOP_LAG = Histogram(
    "chot_event_loop_lag_seconds",
    "How long the event loop kept waiting what it should have run",
    buckets=LAG_BUCKETS,
    registry=PROCESS,
)
for _operation in SQS_OPERATIONS:
    # There from the start: a rate over a series that begins at its first failure misses that one.
    for _result in ("ok", "failed"):
        SQS_CALLS.labels(_operation, _result)
for _operation in ("send", "extend", "delete"):
    SQS_REFUSED.labels(_operation)

_pools: WeakValueDictionary[str, Engine] = WeakValueDictionary()


class _Pools(Collector):
    """Of each pool, how many connections are in use now and how many there may be."""

    def collect(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "chot_pool_connections_used", "Connections of the pool in use", labels=("pool",)
        )
        most = GaugeMetricFamily(
            "chot_pool_connections_max", "Connections the pool may open", labels=("pool",)
        )
        for name, engine in sorted(_pools.items()):
            pool: Any = engine.pool
            used.add_metric((name,), pool.checkedout())
            most.add_metric((name,), pool.size())
        yield from (used, most)


PROCESS.register(_Pools())


def watch_pool(name: str, engine: AsyncEngine) -> AsyncEngine:
    """Show the use of this engine's pool under a name of ours; answers the same engine."""
    _pools[name] = engine.sync_engine
    return engine


def known(value: str, names: Any) -> str:
    """The value where it is one of `names`, else "other"."""
    return value if value in names else OTHER


def process_metrics() -> bytes:
    """What this process has counted, in Prometheus' text format."""
    return generate_latest(PROCESS)


def note_lag(asked_at: float) -> float:
    """Note that a loop has just run what it should have run at `asked_at`; answers the time now."""
    now = monotonic()
    LOOP_LAG.observe(max(0.0, now - asked_at))
    return now
