"""Retry-After: never outside its bounds, never long after an end that comes early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.patience import LATEST, SOONEST, retry_after

times = st.floats(min_value=0, max_value=10**9, allow_nan=False)
signed = st.floats(min_value=-(10**9), max_value=10**9, allow_nan=False)
maybe = st.none() | times


@given(due_in=signed | st.just(float("inf")), going_for=maybe, done_in=maybe)
def test_it_is_whole_seconds_within_a_minute(
    due_in: float, going_for: float | None, done_in: float | None
) -> None:
    wanted = retry_after(due_in=due_in, going_for=going_for, done_in=done_in)
    assert isinstance(wanted, int)
    assert SOONEST <= wanted <= LATEST


@given(due_in=times)
def test_who_waits_for_a_time_comes_when_it_has_come(due_in: float) -> None:
    """Not before it, unless that is more than a minute off; and no second late."""
    wanted = retry_after(due_in=due_in)
    assert min(LATEST, due_in) <= wanted <= max(SOONEST, due_in + 1)


@given(waited=times)
def test_who_waits_for_a_turn_is_late_by_a_tenth_of_the_wait(waited: float) -> None:
    assert retry_after(due_in=-waited) <= max(SOONEST, waited / 10 + 1)


@given(going_for=times)
def test_who_waits_for_an_end_that_nobody_knows_is_late_by_a_tenth_of_the_run(
    going_for: float,
) -> None:
    """A job of an hour is not asked for each second, one of a second is not missed for long."""
    assert retry_after(due_in=0, going_for=going_for) <= max(SOONEST, going_for / 10 + 1)


@given(going_for=times, done_in=times)
def test_an_estimate_is_believed_by_half_and_not_beyond_what_the_job_has_run(
    going_for: float, done_in: float
) -> None:
    """It may be wrong, and half of it leaves time to correct it."""
    wanted = retry_after(due_in=0, going_for=going_for, done_in=done_in)
    assert wanted <= max(SOONEST, done_in / 2 + 1)
    assert wanted <= max(SOONEST, going_for + 1)


@given(going_for=times, sooner=times, later=times)
def test_what_is_done_later_is_asked_for_later(
    going_for: float, sooner: float, later: float
) -> None:
    sooner, later = sorted((sooner, later))
    first, second = (
        retry_after(due_in=0, going_for=going_for, done_in=each) for each in (sooner, later)
    )
    assert first <= second


@pytest.mark.parametrize("truth", [0.2, 3.0, 40.0, 600.0, 7200.0])
def test_a_client_that_obeys_is_not_late_by_much_and_does_not_ask_often(truth: float) -> None:
    """Without any estimate: late by a tenth and a second; an hour costs some seventy requests."""
    now, asked = 0.0, 0
    while now < truth:
        now += retry_after(due_in=0, going_for=now)
        asked += 1
    assert now - truth <= truth / 10 + 2
    assert asked <= 40 + truth / 60 + truth / 100


def test_with_an_estimate_that_holds_a_handful_of_requests_is_enough() -> None:
    """A run of ten minutes that is known from the start: halves, then a second at a time."""
    now, asked = 20.0, 0
    while now < 600.0:
        now += retry_after(due_in=0, going_for=now, done_in=600.0 - now)
        asked += 1
    assert now - 600.0 <= 1
    assert asked <= 20
