"""When to ask again: the one rule of the command line and of the client.

Every request that goes by it may be repeated: reads, conditional transitions, and submits under an
Idempotency-Key. What may pass is a lost connection, 408, 429, 502, 503, 504, and a 409 that carries
Retry-After: it is about this moment, one without it about the job's state.
"""

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from shared.client.errors import ApiError, Unreachable

BACKOFF_FIRST_SECONDS = 0.2
BACKOFF_CAP_SECONDS = 5.0
# Somebody else's turn or nobody's fault: the same request may pass in a moment.
PASSING = frozenset({408, 429, 502, 503, 504})
# Our own request is at fault, and will be at the next try.
NEVER_SENT = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)
Outcome = httpx.Response | httpx.TransportError


class Patience:
    """The tries of one request, until so many seconds from now have passed.

    `tries` counts them; how long to wait between two is random, so that those who were sent away
    together do not come back together.
    """

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.tries = 0

    @property
    def left(self) -> float:
        """Seconds until the deadline, 0 at the least."""
        return max(0.0, self._deadline - time.monotonic())

    def wait_after(self, outcome: Outcome) -> float | None:
        """Seconds to wait before the next try; None: this outcome stands.

        Full jitter, after the api's own Retry-After. A wait that would end beyond the deadline is
        not begun.
        """
        self.tries += 1
        if not may_pass(outcome):
            return None
        ceiling = min(BACKOFF_CAP_SECONDS, BACKOFF_FIRST_SECONDS * 2**self.tries)
        wait = retry_after_of(outcome) + random.uniform(0, ceiling)
        return None if wait > self.left else wait


def may_pass(outcome: Outcome) -> bool:
    """Whether the same request may have another outcome in a moment."""
    if isinstance(outcome, httpx.TransportError):
        return not isinstance(outcome, NEVER_SENT)
    in_progress = outcome.status_code == 409 and "retry-after" in outcome.headers
    return outcome.status_code in PASSING or in_progress


def is_passing(error: ApiError | Unreachable) -> bool:
    """Whether more time might have brought another answer: the error is about that moment."""
    return isinstance(error, Unreachable) or error.status in PASSING


def retry_after_of(outcome: Outcome) -> float:
    """What the answer's Retry-After asks for, in seconds; 0 where it does not."""
    said = "" if isinstance(outcome, httpx.TransportError) else outcome.headers.get("retry-after")
    if not said:
        return 0.0
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0  # neither seconds nor a date with its zone
