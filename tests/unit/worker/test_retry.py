"""Retry: full jitter under an exponential cap; which errors are worth another attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PermanentError, RetryableError
from shared.kinds import RetryPolicy
from worker.retry import is_permanent, retry_delay

POLICY = RetryPolicy(base=timedelta(seconds=2), factor=3, cap=timedelta(seconds=100))
FAILURE = RuntimeError("broke")


@given(attempts=st.integers(min_value=1, max_value=10_000))
def test_a_wait_lies_between_nothing_and_its_cap(attempts: int) -> None:
    """Any number of attempts: no overflow, never negative, never above the cap."""
    assert 0 <= retry_delay(POLICY, attempts, FAILURE) <= 100


@pytest.mark.parametrize(("attempts", "most"), [(1, 2), (2, 6), (3, 18), (4, 54), (5, 100)])
def test_waits_grow_by_the_factor_and_fill_their_range(attempts: int, most: float) -> None:
    """Full jitter: from nothing to the bound, so that failures do not come back in step."""
    waits = [retry_delay(POLICY, attempts, FAILURE) for _ in range(2_000)]
    assert max(waits) <= most
    assert max(waits) > 0.95 * most
    assert min(waits) < 0.05 * most


def test_an_error_that_names_its_own_wait_is_believed() -> None:
    """A Retry-After of somebody else's is not ours to shorten."""
    error = RetryableError("busy", after=timedelta(minutes=10))
    assert retry_delay(POLICY, 1, error) == 600
    assert retry_delay(POLICY, 1, RetryableError("busy")) <= 2


def test_a_wait_needs_an_attempt_before_it() -> None:
    """Counted from one; a zero would be a bug of ours."""
    with pytest.raises(AssertionError):
        retry_delay(POLICY, 0, FAILURE)


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (PermanentError("closed"), True),
        (ZeroDivisionError("by type"), True),
        (ArithmeticError("a base of it"), False),
        (RetryableError("later"), False),
        (RuntimeError("PermanentError"), False),
        (TimeoutError("slow"), False),
    ],
)
def test_an_error_is_permanent_by_its_type(error: Exception, *, permanent: bool) -> None:
    """Never by its text; the kind's own list counts, subclasses included."""
    policy = RetryPolicy(permanent=(ZeroDivisionError,))
    assert is_permanent(policy, error) is permanent
