"""Retry: how long a failed attempt waits, and which errors are not worth another one."""

import random

from shared.errors import PermanentError, RetryableError
from shared.kinds import RetryPolicy


def retry_delay(policy: RetryPolicy, charged_attempts: int, error: BaseException) -> float:
    """Seconds until the next attempt: full jitter under an exponential cap.

    `charged_attempts` counts from 1. An error that names its own `after` is believed.
    """
    assert charged_attempts >= 1, "a wait follows at least one attempt"
    if isinstance(error, RetryableError) and error.after is not None:
        return error.after.total_seconds()
    # Beyond 2**63 the cap has long been reached, and a float would overflow.
    grown = policy.base.total_seconds() * policy.factor ** min(charged_attempts - 1, 63)
    return random.uniform(0, min(policy.cap.total_seconds(), grown))


def is_permanent(policy: RetryPolicy, error: BaseException) -> bool:
    """True when no other attempt can go better: by the error's type, never by its text."""
    return isinstance(error, (PermanentError, *policy.permanent))
