"""What a failed try means: the data of a row, the time, locks, or nothing that a batch can help."""

from typing import Literal

from sqlalchemy.exc import DBAPIError

from shared.database import CONFLICTS, is_unreachable, sqlstate_of
from shared.errors import (
    ConfigRefused,
    Conflict,
    LeaseLost,
    PermanentError,
    RetryableError,
    Snooze,
    Yield,
)

Cause = Literal["rows", "timeout", "conflict"]
CANCELLED_BY_TIMEOUT = "57014"
# What PostgreSQL says of values, and what functions of ours and of others raise about them.
OF_DATA = ("09", "21", "22", "23", "38", "39", "44", "CH", "P0")
# Raised on purpose to end the attempt, or the run.
ON_PURPOSE = (
    PermanentError,
    RetryableError,
    LeaseLost,
    Conflict,
    Yield,
    Snooze,
    ConfigRefused,
)


class BatchFailed(Exception):
    """A try of a batch was rolled back; what was found of its rows, if it came so far."""

    def __init__(self, cause: Cause, error: Exception) -> None:
        super().__init__(said(error))
        self.cause: Cause = cause
        self.error = error


def judge(error: Exception) -> Cause | None:
    """What the error means for the batch; None: it is not about the batch, and is to be raised."""
    if isinstance(error, ON_PURPOSE):
        return None
    if not isinstance(error, DBAPIError):
        return "rows"
    state = sqlstate_of(error) or ""
    if state == CANCELLED_BY_TIMEOUT:
        return "timeout"
    if state in CONFLICTS:
        return "conflict"
    return "rows" if state.startswith(OF_DATA) and not is_unreachable(error) else None


def said(error: BaseException) -> str:
    """The error in a line: what the database or the task has said."""
    words = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    name = type(error).__name__ if not isinstance(error, DBAPIError) else ""
    return ": ".join(filter(None, (name, " ".join(words.split())))).removeprefix(
        "<class 'asyncpg.exceptions."
    )


def code_of(error: BaseException) -> str:
    """A word for programs: a SQLSTATE, or the error's type."""
    return sqlstate_of(error) or type(error).__name__
