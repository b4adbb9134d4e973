"""Series are bounded: whoever makes up kinds, queues or reasons makes none."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from api.metric_families import MOST_NAMES, families_of
from api.signals import note_request
from shared.jobs.ends import BUCKETS
from shared.signals import PROCESS, process_metrics
from shared.sqs import result_of
from tests.architecture.test_signals_pages import counts_of_nothing
from tests.scenarios.metrics import Scraped, read_text
from worker.settle import Delete, PutOff, reason_of
from worker.signals import MISS_REASONS

MADE_UP = [f"made.up-{n}" for n in range(10_000)]


def scraped(**changes: object) -> Scraped:
    """What /metrics says of these counts."""

    class Counts(Collector):
        def collect(self) -> list[object]:  # type: ignore[override] # a list is an iterable
            return list(families_of(counts_of_nothing() | changes))

    registry = CollectorRegistry()
    registry.register(Counts())
    return read_text(generate_latest(registry).decode())


def rows(kinds: list[str]) -> dict[str, object]:
    """A row of each kind and of a queue of its name wherever counts have rows."""
    buckets = [1] * (len(BUCKETS) + 1)
    return {
        "others": [{"kind": kind, "state": "running", "jobs": 1} for kind in kinds],
        "pending": [
            {"queue": kind, "kind": kind, "jobs": 1, "due": 1, "oldest_due_seconds": 2.0}
            for kind in kinds
        ],
        "slots": [{"queue": kind, "slots": 1, "workers": 1} for kind in kinds],
        "ends": [
            {
                "kind": kind,
                "outcome": kind,
                "attempts": 1,
                "taken_over": 1,
                "queue_seconds": 1.0,
                "run_seconds": 1.0,
                "queue_buckets": buckets,
                "run_buckets": buckets,
            }
            for kind in kinds
        ],
        "duplicates": [{"kind": kind, "how": kind, "submits": 1} for kind in kinds],
        "unserved": [{"kind": kind, "jobs": 1} for kind in kinds],
    }


def test_ten_thousand_made_up_kinds_are_one_other() -> None:
    """Kinds, queues, outcomes and ways to be a duplicate; and nothing of them is lost in the sum."""
    few, many = scraped(**rows(MADE_UP[:1])), scraped(**rows(MADE_UP))
    assert few.samples.keys() == many.samples.keys()
    assert many.value("chot_jobs", kind="other", state="running") == 10_000
    assert many.total("chot_attempts_total") == 0, "no outcome is made up"
    assert many.value("chot_lease_losses_total", kind="other") == 0
    assert many.value("chot_queue_due", queue="other") == 10_000
    assert many.value("chot_queue_slots", queue="other") == 10_000
    assert many.value("chot_queue_seconds_count", kind="other") == 10_000
    assert many.total("chot_jobs_submitted_total") == 20_000
    values = {value for _, labels in many.samples for name, value in labels if name != "le"}
    assert not [value for value in values if value.startswith("made.up")]


def test_of_ten_thousand_kinds_the_first_two_hundred_have_a_name() -> None:
    """The same ones from every api: by name, not by who came first."""
    queues = [{"name": name, "paused": False} for name in MADE_UP]
    found = scraped(**rows(MADE_UP), kinds=MADE_UP, queues=queues)
    again = scraped(**rows(MADE_UP[::-1]), kinds=MADE_UP[::-1], queues=queues[::-1])
    assert found.samples == again.samples
    kinds = {value for _, labels in found.samples for name, value in labels if name == "kind"}
    assert len(kinds) == MOST_NAMES + 1
    assert found.value("chot_jobs", kind="other", state="running") == 10_000 - MOST_NAMES
    assert found.total("chot_jobs", state="running") == 10_000
    assert len(found.samples) < 60 * (MOST_NAMES + 1)


def test_words_that_others_choose_are_no_labels_of_a_process() -> None:
    """Statuses, reasons and errors by the thousand: the series are those of the start."""
    before = read_text(process_metrics().decode()).samples.keys()
    for n in range(10_000):
        note_request(n, 0.001)
        why = MADE_UP[n]
        for settlement in (Delete(why=why), PutOff(seconds=1, why=why)):
            assert reason_of(settlement) in MISS_REASONS
        assert result_of(type(why, (Exception,), {})(why)) == "other"
    assert read_text(process_metrics().decode()).samples.keys() == before
    assert PROCESS is not None


@pytest.mark.parametrize(
    ("status", "label"), [(0, "none"), (101, "none"), (202, "2xx"), (404, "4xx"), (599, "5xx")]
)
def test_a_status_is_told_by_its_class(status: int, label: str) -> None:
    """And one that nobody waited for is none."""
    name = "chot_http_request_seconds_count"
    before = read_text(process_metrics().decode()).value(name, status=label)
    note_request(status, 0.1)
    assert read_text(process_metrics().decode()).value(name, status=label) == before + 1
