"""docs/metrics.md and docs/logs.md say what is there: every metric, every label, every event."""

import ast
import re
import sys
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric

import api.signals
import worker.signals
from api.metric_families import families_of
from shared.jobs.ends import BUCKETS
from shared.signals import PROCESS, SQS_OPERATIONS, SQS_RESULTS
from tests.architecture.locks import ROOT
from tests.architecture.statements import sources
from tests.architecture.test_docs import rows_of

PAGE = (ROOT / "docs" / "metrics.md").read_text()
LOGS = (ROOT / "docs" / "logs.md").read_text()
OF_DATABASE, OF_PROCESS = PAGE.split("\n## Of a process\n")
# Written by the route itself, of this moment: their help texts stand there.
OF_ROUTE = {
    "chot_count_age_seconds": "D",
    "chot_count_seconds": "D",
    "chot_live_listeners": "P",
    "chot_asyncio_tasks": "P",
}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def counts_of_nothing(kind: str = "k") -> dict[str, Any]:
    """Counts of an empty database that knows one kind and one queue."""
    lists = ("others", "pending", "slots", "ends", "duplicates", "unserved")
    numbers = (
        *("outbox_due", "outbox_lag_seconds", "quarantined", "dead_messages", "live_workers"),
        *("leases_lost", "workers_lost", "heartbeat_used", "transaction_seconds"),
        *("notice_late_seconds", "outbox_stuck_seconds"),
    )
    return (
        {name: [] for name in lists}
        | dict.fromkeys(numbers, 0)
        | {"kinds": [kind], "queues": [{"name": "q", "paused": False}]}
        | {"starved": {}, "backlog_seconds": {}}
    )


def listed(page: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Name → (type, labels), as the table has them."""
    return {
        row[0].strip("`"): (row[1], frozenset(re.findall(r"`(\w+)`", row[2])))
        for row in rows_of(page, "`chot_")
    }


def served(families: Iterator[Metric] | list[Metric]) -> dict[str, tuple[str, frozenset[str]]]:
    """The same of what is really served."""
    found = {}
    for family in families:
        if family.name.startswith("process_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = (family.type, frozenset(labels))
    return found


def of_route(which: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Those that the route writes itself."""
    return {name: ("gauge", frozenset()) for name, of in OF_ROUTE.items() if of == which}


def test_the_page_has_every_metric_of_the_database() -> None:
    """With its type and its labels."""
    assert listed(OF_DATABASE) == served(families_of(counts_of_nothing())) | of_route("D")


def test_the_page_has_every_metric_of_a_process() -> None:
    """Of api and worker alike; their modules register them when they are imported."""
    assert {api.signals.__name__, worker.signals.__name__} <= set(sys.modules)
    found = served(list(PROCESS.collect())) | of_route("P")
    for name in ("chot_pool_connections_used", "chot_pool_connections_max"):
        found[name] = ("gauge", frozenset({"pool"}))  # no pool is open here
    assert listed(OF_PROCESS) == found


def test_the_page_has_the_words_that_labels_may_be() -> None:
    """And no others are there."""
    for words, metric in (
        (worker.signals.CAUSES, "chot_self_fences_total"),
        (worker.signals.MISS_REASONS, "chot_claim_misses_total"),
        (SQS_OPERATIONS, "chot_sqs_calls_total"),
        (SQS_RESULTS, "chot_sqs_calls_total"),
    ):
        ((said,),) = [[row[4]] for row in rows_of(OF_PROCESS, f"`{metric}`")]
        assert set(words) <= set(re.findall(r"`(\w+)`", said)), metric
    bounds = ", ".join(f"{bound:g}" for bound in BUCKETS)
    assert f"in seconds: {bounds}." in PAGE


def told() -> dict[str, set[str]]:
    """Every event that the code logs by a constant name, with its levels."""
    found: dict[str, set[str]] = {}
    for _, tree in sources():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            level = _level(call.func)
            first = call.args[0] if call.args else None
            if level and isinstance(first, ast.Constant) and "." in str(first.value):
                found.setdefault(str(first.value), set()).add(level)
    return found


def _level(function: ast.expr) -> str | None:
    match function:
        case ast.Attribute(attr=name, value=ast.Name(id="log")) if name in LEVELS:
            return {"exception": "error"}.get(name, name)
        case ast.Name(id="alert"):
            return "alert"
        case ast.Name(id="say"):
            return "info"
    return None


def test_the_page_has_every_event() -> None:
    """And names none that nobody writes."""
    rows = rows_of(LOGS.partition("\n## Events\n")[2], "`")
    events = {name for row in rows for name in re.findall(r"`([\w.]+)`", row[0]) if "." in name}
    assert events == set(told())


def test_every_alert_is_said_to_be_one() -> None:
    """Whoever reads the page knows what calls somebody."""
    rows = rows_of(LOGS.partition("\n## Events\n")[2], "`")
    alerts = {name for name, levels in told().items() if "alert" in levels}
    for row in rows:
        if alerts & set(re.findall(r"`([\w.]+)`", row[0])) and "alert.firing" not in row[0]:
            assert "alert" in row[1], row[0]
