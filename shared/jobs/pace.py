"""Pace: how fast a running job moves and when it will be done, read from its row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping

from shared.types import JobState

# A row of the database, or what stands for one.
Row = RowMapping | Mapping[str, Any]

# Beyond that an estimate says nothing but "not soon".
LONGEST_SECONDS = 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Units per second of the attempt that runs now, when it moved last, when it will be done.

    Each is None while it is not known: no attempt runs, it has not moved twice, it has not caught
    up with what an earlier attempt had reported, the total is unknown or reached, or it was to be
    done by now and is not.
    """

    rate: float | None = None
    moved_at: datetime | None = None
    eta: datetime | None = None


UNKNOWN = Pace()


def pace_of(row: Row) -> Pace:
    """The pace in a row of chot.jobs, as of its `read_at` (the database's clock)."""
    if row["state"] != JobState.RUNNING or row["progress_fence"] != row["fence"]:
        return UNKNOWN
    rate, moved_at = row["progress_rate"], row["progress_at"]
    eta = _eta(row, rate, moved_at) if rate and moved_at is not None else None
    return Pace(rate=rate, moved_at=moved_at, eta=eta)


def _eta(row: Row, rate: float, moved_at: datetime) -> datetime | None:
    left = (row["progress_total"] or 0) - (row["progress_done"] or 0)
    seconds = left / rate
    if left <= 0 or seconds > LONGEST_SECONDS:
        return None
    # To the second: of an estimate more would only be noise.
    eta = (moved_at + timedelta(seconds=seconds + 0.5)).replace(microsecond=0)
    return eta if eta > row["read_at"] else None
