"""Settings: what a worker refuses to start with, naming both settings, values and the rule."""

from typing import Any

import pytest

from shared.errors import ConfigRefused
from shared.settings import SharedSettings, load
from shared.sqs import QueueFacts
from worker.settings import (
    PoolBudget,
    WorkerSettings,
    pool_size_of,
    refuse_queue,
    slots_of,
)

URL = "postgresql://chot_app@127.0.0.1:5432/chot"


def settings(monkeypatch: pytest.MonkeyPatch, **environment: object) -> WorkerSettings:
    """The worker's settings from an environment."""
    monkeypatch.setenv("CHOT_DATABASE_URL", URL)
    for name, value in environment.items():
        monkeypatch.setenv(f"CHOT_{name.upper()}", str(value))
    return load(WorkerSettings)


def test_the_defaults_are_those_of_the_design(monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are safe together."""
    found = settings(monkeypatch)
    timing = found.timing
    assert (timing.lease, timing.heartbeat, timing.visibility) == (30, 8, 60)
    assert (timing.margin, timing.idle_in_transaction, timing.lock_timeout) == (4, 20, 4)
    assert (found.reaper_seconds, found.reconciler_seconds) == (5, 60)
    assert (found.relay_poll_seconds, found.drain_seconds, found.max_attempts) == (2, 90, 5)


def test_what_is_not_set_scales_with_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease of three seconds brings its own margin, idle time and lock timeout."""
    timing = settings(
        monkeypatch, lease_seconds=3, heartbeat_seconds=0.8, visibility_seconds=6
    ).timing
    assert timing.margin == pytest.approx(0.4)
    assert timing.idle_in_transaction == pytest.approx(2)
    assert timing.lock_timeout == pytest.approx(0.4)


REFUSED: list[tuple[dict[str, object], tuple[str, ...]]] = [
    (
        {"heartbeat_seconds": 9},
        ("CHOT_HEARTBEAT_SECONDS=9", "CHOT_LEASE_SECONDS=30", "3 × heartbeat + margin"),
    ),
    (
        {"lease_seconds": 60, "visibility_seconds": 27, "heartbeat_seconds": 8},
        ("CHOT_HEARTBEAT_SECONDS=8", "CHOT_VISIBILITY_SECONDS=27", "3 × heartbeat + margin"),
    ),
    (
        {"lease_seconds": 40, "visibility_seconds": 30},
        ("CHOT_VISIBILITY_SECONDS=30", "CHOT_LEASE_SECONDS=40", "visibility must be ≥ lease"),
    ),
    (
        {"margin_seconds": 7},
        ("CHOT_HEARTBEAT_SECONDS=8", "CHOT_LEASE_SECONDS=30", "margin (7)"),
    ),
    (
        {"idle_in_transaction_seconds": 30},
        ("CHOT_IDLE_IN_TRANSACTION_SECONDS=30", "CHOT_LEASE_SECONDS=30"),
    ),
    (
        {"lock_timeout_seconds": 8},
        ("CHOT_LOCK_TIMEOUT_SECONDS=8", "CHOT_HEARTBEAT_SECONDS=8"),
    ),
    (
        {"drain_seconds": 118},
        ("CHOT_DRAIN_SECONDS=118", "CHOT_STOP_TIMEOUT_SECONDS=120", "drain + margin"),
    ),
    (
        {"archive_after_days": 30, "archive_keep_days": 30},
        ("CHOT_ARCHIVE_AFTER_DAYS=30", "CHOT_ARCHIVE_KEEP_DAYS=30", "kept for longer"),
    ),
    (
        {"archive_after_days": 0, "archive_keep_days": 90},
        ("CHOT_ARCHIVE_AFTER_DAYS=0", "CHOT_ARCHIVE_KEEP_DAYS=90", "never removed"),
    ),
    ({"audit_keep_days": 364}, ("CHOT_AUDIT_KEEP_DAYS=364", "365 days at least")),
    ({"stop_timeout_seconds": 121}, ("CHOT_STOP_TIMEOUT_SECONDS=121", "120")),
    ({"lease_seconds": 0}, ("CHOT_LEASE_SECONDS", "0")),
    ({"lease_seconds": "thirty"}, ("CHOT_LEASE_SECONDS", "thirty")),
    ({"visibility_seconds": 60.5}, ("CHOT_VISIBILITY_SECONDS", "whole seconds")),
    ({"visibility_seconds": 43_201}, ("CHOT_VISIBILITY_SECONDS",)),
    ({"poll_seconds": 21}, ("CHOT_POLL_SECONDS",)),
    ({"concurrency": 0}, ("CHOT_CONCURRENCY",)),
    ({"queue_prefix": "a.b"}, ("CHOT_QUEUE_PREFIX",)),
]


@pytest.mark.parametrize(("environment", "words"), REFUSED)
def test_an_impossible_combination_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, object], words: tuple[str, ...]
) -> None:
    """Both settings, their values and the rule that they break."""
    with pytest.raises(ConfigRefused) as caught:
        settings(monkeypatch, **environment)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "environment",
    [
        {"heartbeat_seconds": 26 / 3},
        {"lease_seconds": 0.75, "heartbeat_seconds": 0.2, "visibility_seconds": 1},
        {"drain_seconds": 116},
        {"archive_after_days": 30, "archive_keep_days": 30.5, "audit_keep_days": 365},
        {"archive_after_days": 0, "archive_keep_days": 0},
        {"lease_seconds": 60, "visibility_seconds": 60, "heartbeat_seconds": 18},
    ],
)
def test_a_combination_at_the_border_is_taken(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, object]
) -> None:
    """The rule is ≤, fractions allowed."""
    settings(monkeypatch, **environment).timing.refuse_unsafe()


def test_a_missing_database_is_named_and_no_secret_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong, but never the password that was in it."""
    monkeypatch.delenv("CHOT_DATABASE_URL", raising=False)
    with pytest.raises(ConfigRefused, match="CHOT_DATABASE_URL is not set"):
        load(SharedSettings)
    found = settings(monkeypatch, database_url="postgresql://u:pa55word@h/d")
    assert "pa55word" not in repr(found)


@pytest.mark.scenario("F34")
def test_a_pool_too_small_for_its_slots_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is shown, so that the reader can do it again."""
    budget = PoolBudget(slots=8, receivers=2)
    assert pool_size_of(settings(monkeypatch), budget) == budget.needed
    with pytest.raises(ConfigRefused, match=r"CHOT_POOL_SIZE=15 .* = 16"):
        pool_size_of(settings(monkeypatch, pool_size=15), budget)
    assert pool_size_of(settings(monkeypatch, pool_size=16), budget) == 16


def test_slots_are_given_a_queue_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named ones only; without a number the concurrency counts."""
    queues = {"costing", "default"}
    assert slots_of(settings(monkeypatch), queues) == {"costing": 4, "default": 4}
    chosen = settings(monkeypatch, queues=" costing : 2, default")
    assert slots_of(chosen, queues) == {"costing": 2, "default": 4}
    for wrong, word in (("nothing:1", "nothing"), ("costing:0", "0"), ("costing:x", "x")):
        with pytest.raises(ConfigRefused, match=word):
            slots_of(settings(monkeypatch, queues=wrong), queues)


def facts(**changes: Any) -> QueueFacts:
    """A queue that is in order, with one thing changed."""
    sound: dict[str, Any] = {
        "visibility_seconds": 60,
        "retention_seconds": 345_600,
        "max_receive_count": 50,
        "dead_letter_retention_seconds": 1_209_600,
    }
    return QueueFacts(**(sound | changes))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"max_receive_count": 49}, "maxReceiveCount=49"),
        ({"dead_letter_retention_seconds": 345_600}, "345600"),
        ({"visibility_seconds": 29}, "VisibilityTimeout=29"),
    ],
)
def test_a_real_queue_that_would_lose_jobs_is_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], word: str
) -> None:
    """Its attributes are read from SQS, not assumed."""
    with pytest.raises(ConfigRefused, match=word):
        refuse_queue(settings(monkeypatch), "default", facts(**changes), 5)
    refuse_queue(settings(monkeypatch), "default", facts(), 5)
    none = facts(max_receive_count=None, dead_letter_retention_seconds=None)
    refuse_queue(settings(monkeypatch), "default", none, 5)
