"""The words of the platform as types: one name for one thing, everywhere."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

JobId = NewType("JobId", UUID)
WorkerId = NewType("WorkerId", str)
ReceiptHandle = NewType("ReceiptHandle", str)
LeaseToken = NewType("LeaseToken", UUID)
Fence = NewType("Fence", int)
"""The fencing token: +1 at each claim, never reused, in the WHERE of every worker write."""


class JobState(StrEnum):
    """States of a job; design: pending → running → succeeded | dead | cancelled."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DEAD = "dead"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD})


class AttemptOutcome(StrEnum):
    """How an attempt ended; an attempt without one is still running."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # charged: the handler raised, or ran into its timeout
    LOST_LEASE = "lost_lease"  # reaped or taken over: its worker vanished or stood still
    RELEASED = "released"  # handed back uncharged: drain, yield, a conflict of locks
    CANCELLED = "cancelled"


class Duplicate(StrEnum):
    """What happened to a submit whose work was already active."""

    JOINED = "joined"
    MERGED = "merged"
    FOLLOW_UP = "follow_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run one job until its expiry, as the claim or a renewal gave it.

    `fence` and `token` together identify the claim; the expiry itself is judged by the database
    clock alone and therefore is not part of this value.
    """

    job_id: JobId
    fence: Fence
    token: LeaseToken


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedJob:
    """What a handler may know about the job it runs.

    `group_id` is the group that it is a member of, `joins` the one whose end it has waited for.
    """

    id: JobId
    kind: str
    company: str
    brand: str | None
    queue: str
    payload: Any
    payload_version: int
    attempt: int
    max_attempts: int
    principal: str
    trace: str | None
    created_at: datetime
    group_id: UUID | None = None
    joins: UUID | None = None
