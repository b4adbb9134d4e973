"""The errors of the platform.

PlatformError
├── RetryableError(after=None)   the world failed; another attempt may pass
├── PermanentError               the input is wrong; bury the job now
├── LeaseLost(lease)             no longer ours: write nothing, delete nothing
├── Conflict                     the commit lost a fight for locks; repeat it uncharged
├── Yield                        the handler hands its job back, uncharged
├── Snooze(after=, until=)       the same, to be run again at a time that it names
├── PoisonMessage(reason)        not a message of ours
├── EnqueueRefused(problem)      a submit that breaks a rule; names field, value and rule
├── Busy(after)                  a lock could not be had in time; try again
└── ConfigRefused                start-up stops, naming the settings that disagree
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from shared.types import Lease


class PlatformError(Exception):
    """Base of everything the platform raises on purpose."""


class RetryableError(PlatformError):
    """The world failed; another attempt may pass, not before `after` when it is given."""

    def __init__(self, message: str, *, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after


class PermanentError(PlatformError):
    """The input is wrong and will stay wrong: the job is buried without another attempt.

    `code` is a stable word for programs (`PERIOD_CLOSED`), `details` what an operator needs.
    """

    def __init__(
        self, message: str, *, code: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class LeaseLost(PlatformError):
    """The lease is no longer ours; whatever was written under it has been rolled back."""

    def __init__(self, lease: Lease, reason: str) -> None:
        super().__init__(f"lease on job {lease.job_id} under fence {lease.fence} lost: {reason}")
        self.lease = lease
        self.reason = reason


class Conflict(PlatformError):
    """Locks could not be had at commit; nothing was written, the attempt is not charged."""


class Yield(PlatformError):
    """Raised by a handler that hands its job back after its last checkpoint, uncharged."""


LONGEST_SNOOZE = timedelta(days=3660)


class Snooze(PlatformError):
    """Raised by a handler that asks to be run again at a time, uncharged within the cap.

    Either so long `after` now, or not before the instant `until` (with its offset), which the
    database's clock judges: one that has passed means at once. ValueError for any other pair, and
    for a wait of more than ten years.
    """

    def __init__(
        self,
        message: str = "asked to be run again later",
        *,
        after: timedelta | None = None,
        until: datetime | None = None,
    ) -> None:
        if (after is None) == (until is None):
            raise ValueError("snooze: give exactly one of after and until")
        if after is not None and not timedelta(0) <= after <= LONGEST_SNOOZE:
            raise ValueError(f"snooze: after is {after}; it must lie between 0 and 3660 days")
        if until is not None and until.tzinfo is None:
            raise ValueError("snooze: until has no offset")
        if until is not None and until > datetime.now(UTC) + LONGEST_SNOOZE:
            raise ValueError(f"snooze: until is {until}; it must lie within 3660 days")
        super().__init__(message)
        self.after = after
        self.until = until


class PoisonMessage(PlatformError):
    """A message body that is none of ours, with the reason an operator will read."""


class EnqueueRefused(PlatformError):
    """A submit that breaks a rule. Nothing was written."""

    def __init__(self, message: str, *, field: str, code: str) -> None:
        super().__init__(message)
        self.field = field
        self.code = code


class Busy(PlatformError):
    """Another transaction held the row for too long; nothing was written, try again."""


class ConfigRefused(PlatformError):
    """A configuration that cannot work. The process exits with code 78 (EX_CONFIG)."""
