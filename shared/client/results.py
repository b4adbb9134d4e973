"""What the api answers, typed. Members that a later api adds are passed over."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self
from uuid import UUID

from shared.client.errors import ApiError, error_of
from shared.types import TERMINAL, JobState

Duplicate = Literal["joined", "merged", "follow_up"]


def instant(said: str | None) -> datetime | None:
    """An instant of the api; it has its offset."""
    return None if said is None else datetime.fromisoformat(said)


def moment(said: str) -> datetime:
    """An instant that is always there."""
    return datetime.fromisoformat(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the job is, as its worker last told; `rate` is units per second."""

    done: int | None
    total: int | None
    unit: str | None
    message: str | None
    rate: float | None
    eta: datetime | None

    @classmethod
    def of(cls, body: Mapping[str, Any] | None) -> Self | None:
        """Read it; None where the job has told nothing."""
        if body is None:
            return None
        rate = body.get("rate")
        return cls(
            done=body["done"],
            total=body["total"],
            unit=body["unit"],
            message=body["message"],
            rate=None if rate is None else float(rate),
            eta=instant(body.get("eta")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of the job; `outcome` is None while it runs."""

    attempt: int
    fence: int
    worker_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error: Mapping[str, Any] | None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            attempt=body["attempt"],
            fence=body["fence"],
            worker_id=body["worker_id"],
            started_at=moment(body["started_at"]),
            ended_at=instant(body["ended_at"]),
            outcome=body["outcome"],
            error=body["error"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the api shows it. `result` and `attempts` are empty in lists and events.

    Fractions in `result` and `error` are Decimal; `body` is all that the api said.
    """

    id: UUID
    kind: str
    company: str
    brand: str | None
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    fence: int
    progress: Progress | None
    error: Mapping[str, Any] | None
    blocked_by: str | None
    principal: str
    created_at: datetime
    available_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    result: Any
    attempts: tuple[Attempt, ...]
    body: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether it is succeeded, cancelled or dead."""
        return self.state in TERMINAL

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it, of a job's own page, a list or an event."""
        return cls(
            id=UUID(body["id"]),
            kind=body["kind"],
            company=body["company"],
            brand=body["brand"],
            state=JobState(body["state"]),
            priority=body["priority"],
            attempt=body["attempt"],
            max_attempts=body["max_attempts"],
            fence=body["fence"],
            progress=Progress.of(body["progress"]),
            error=body["error"],
            blocked_by=body["blocked_by"],
            principal=body["principal"],
            created_at=moment(body["created_at"]),
            available_at=moment(body["available_at"]),
            started_at=instant(body["started_at"]),
            finished_at=instant(body["finished_at"]),
            result=body.get("result"),
            attempts=tuple(map(Attempt.of, body.get("attempts") or ())),
            body=body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to a submit: a new job, or the active one that does this work already.

    `key` is the Idempotency-Key that it went out under; None for an item of a batch. `replayed`
    says that the answer is the stored one of an earlier request under that key, be it an earlier
    try of this call: `state` is of then, and get() has the job as it is.
    """

    id: UUID
    state: JobState
    created: bool
    duplicate: Duplicate | None
    input_as_of: datetime | None
    status_url: str
    key: str | None
    replayed: bool

    @classmethod
    def of(cls, body: Mapping[str, Any], *, key: str | None = None, replayed: bool = False) -> Self:
        """Read it."""
        return cls(
            id=UUID(body["id"]),
            state=JobState(body["state"]),
            created=body["created"],
            duplicate=body["duplicate"],
            input_as_of=instant(body["input_as_of"]),
            status_url=body["status_url"],
            key=key,
            replayed=replayed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """What became of one item of a batch: a job, or the error that its own submit would raise.

    `replayed`: it was decided by an earlier request under the same key, as in Submitted.
    """

    outcome: Literal["created", "duplicate", "error"]
    job: Submitted | None
    error: ApiError | None
    replayed: bool

    @classmethod
    def of(cls, body: Mapping[str, Any], *, replayed: bool = False) -> Self:
        """Read it."""
        job, problem = body.get("job"), body.get("error")
        return cls(
            outcome=body["outcome"],
            job=None if job is None else Submitted.of(job, replayed=replayed),
            error=None if problem is None else error_of(problem["status"], problem),
            replayed=replayed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a job is not running, or not done, as of one moment.

    Programs go by `reason`; `sentence` is for people. `body` has every fact (docs/live.md).
    """

    id: UUID
    state: JobState
    reason: str
    sentence: str
    as_of: datetime
    body: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it; a reason that a later api adds is a text like the others."""
        return cls(
            id=UUID(body["id"]),
            state=JobState(body["state"]),
            reason=body["reason"],
            sentence=body["sentence"],
            as_of=moment(body["as_of"]),
            body=body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as this account sees it: how many of its jobs are in which state.

    `due` are the pending ones whose time has come, the oldest for `oldest_due` now.
    """

    name: str
    paused: bool
    pending: int
    due: int
    running: int
    dead: int
    oldest_due: timedelta | None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        oldest = body["oldest_due_seconds"]
        return cls(
            name=body["name"],
            paused=body["paused"],
            pending=body["pending"],
            due=body["due"],
            running=body["running"],
            dead=body["dead"],
            oldest_due=None if oldest is None else timedelta(seconds=float(oldest)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a job's stream: `state`, `progress`, or the last one, `end`."""

    id: str
    name: str
    job: Job
