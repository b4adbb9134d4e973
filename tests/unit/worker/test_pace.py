"""Pace: the rate of one attempt over its last reports, honest when it is not known."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.pace import STEP_SECONDS, WINDOW_SECONDS, Pace


def paced(*reports: tuple[float, int]) -> Pace:
    """The pace after these reports, each (seconds, done)."""
    pace = Pace()
    for now, done in reports:
        pace = pace.noted(done, now)
    return pace


def test_it_is_not_known_before_it_has_moved_twice() -> None:
    """One report says where the attempt stands, not how fast it goes: it may have resumed there."""
    assert Pace().rate(1.0) is None
    assert Pace().binds(1.0) == {"reached": None, "rate": None, "age": None}
    resumed = paced((5.0, 700))
    assert resumed.binds(6.0) == {"reached": 700, "rate": None, "age": 1.0}


def test_it_is_that_of_the_last_minute() -> None:
    """Slow for ten minutes, then fast: what counts is now."""
    slow = [(float(t), t) for t in range(0, 600, 10)]
    fast = [(600.0 + t, 600 + 100 * t) for t in range(61)]
    assert paced(*slow).rate(590.0) == 1.0
    assert paced(*slow, *fast).rate(660.0) == pytest.approx(100, rel=0.02)


def test_it_is_the_same_between_two_reports_and_sinks_when_one_is_overdue() -> None:
    """A chunk each ten seconds is no standstill; two minutes without one are."""
    pace = paced((0.0, 0), (10.0, 50), (20.0, 100))
    assert pace.rate(20.0) == pace.rate(29.9) == 5.0
    assert pace.rate(40.0) == pytest.approx(100 / 30, rel=1e-3)
    assert pace.rate(620.0) == pytest.approx(100 / 610, rel=1e-3)


def test_a_report_that_has_not_moved_changes_nothing() -> None:
    """A new message, or a chunk that was done before the retry, is no progress."""
    pace = paced((0.0, 10), (1.0, 20))
    assert paced((0.0, 10), (1.0, 20), (5.0, 20), (6.0, 3)) == pace


def test_a_job_of_rare_reports_has_a_pace_too() -> None:
    """Further apart than the window: the two newest are always kept."""
    assert paced((0.0, 0), (300.0, 30), (600.0, 90)).rate(600.0) == 0.2


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=30, allow_nan=False), st.integers(0, 10_000)),
        max_size=300,
    )
)
def test_it_stays_small_and_never_negative(steps: list[tuple[float, int]]) -> None:
    """However often it is told: a bounded number of reports, in order, and a rate that is one."""
    pace, now, done, most = Pace(), 0.0, 0, 0.0
    for wait, more in steps:
        now, done = now + wait, done + more
        pace = pace.noted(done, now)
        rate = pace.rate(now)
        assert rate is None or rate >= 0
        most = max(most, len(pace.seen))
    assert most <= WINDOW_SECONDS / STEP_SECONDS + 4
    assert all(a[0] <= b[0] and a[1] < b[1] for a, b in pairwise(pace.seen))
    assert pace.reached is None or pace.reached == done or not steps


def test_ten_thousand_reports_a_second_are_one_a_second() -> None:
    """A tight loop that reports each row keeps a minute of them, at one a second."""
    pace = Pace()
    for n in range(100_000):
        pace = pace.noted(n + 1, n / 1000)
    assert len(pace.seen) <= WINDOW_SECONDS / STEP_SECONDS + 4
    assert pace.rate(100.0) == pytest.approx(1000, rel=0.01)
