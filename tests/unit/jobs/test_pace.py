"""What a row says of its pace: the rate and the end that it leads to, or nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.jobs.pace import UNKNOWN, pace_of

NOW = datetime(2026, 2, 1, 1, 0, 0, tzinfo=UTC)
ROW: dict[str, Any] = {
    "state": "running",
    "fence": 3,
    "progress_fence": 3,
    "progress_done": 400,
    "progress_total": 1000,
    "progress_rate": 10.0,
    "progress_at": NOW - timedelta(seconds=5),
    "read_at": NOW,
}


def test_an_end_is_told_from_when_it_moved_last() -> None:
    """600 left at ten a second, since five seconds ago: in 55 seconds."""
    pace = pace_of(ROW)
    assert (pace.rate, pace.moved_at) == (10.0, ROW["progress_at"])
    assert pace.eta == NOW + timedelta(seconds=55)


@pytest.mark.parametrize("state", ["pending", "succeeded", "cancelled", "dead"])
def test_what_does_not_run_has_no_pace(state: str) -> None:
    assert pace_of(ROW | {"state": state}) == UNKNOWN


@pytest.mark.parametrize("fence", [None, 2])
def test_what_an_earlier_attempt_has_left_is_nobodys_pace(fence: int | None) -> None:
    """A takeover or a retry begins without one, whatever stands in the row."""
    assert pace_of(ROW | {"progress_fence": fence}) == UNKNOWN


@pytest.mark.parametrize(
    "changed",
    [
        {"progress_total": None},
        {"progress_total": 400},
        {"progress_total": 10},
        {"progress_rate": None},
        {"progress_rate": 0.0},
        {"progress_rate": 1e-9},
        {"read_at": NOW + timedelta(seconds=56)},
    ],
    ids=["no total", "reached", "passed", "no rate", "stands", "for ever", "overdue"],
)
def test_an_end_that_is_not_known_is_not_told(changed: dict[str, Any]) -> None:
    """Neither is one that was to be by now: it would be wrong for certain."""
    pace = pace_of(ROW | changed)
    assert pace.eta is None
    assert pace.rate == (ROW | changed)["progress_rate"]
