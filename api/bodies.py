"""The HTTP shapes: what a submit may hold, and how jobs look from outside.

Requests are checked by these models; answers are written by `job_view()` and described by them.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from api.lost_leases import lost_error
from shared.jobs.pace import Row, pace_of
from shared.json_text import portable
from shared.kinds.locks import locks_json
from shared.types import TERMINAL, JobState

SHOWS_ERROR = frozenset({JobState.DEAD, JobState.PENDING})

RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
YEARS = range(2000, 2200)  # beyond them a conversion to UTC could leave what a database can hold


def parse_instant(value: object) -> datetime | None:
    """An RFC 3339 instant with its offset; ValueError says what is missing."""
    if value is None:
        return None
    if not isinstance(value, str) or not RFC3339.fullmatch(value):
        raise ValueError(
            "must be an instant with an offset, such as 2026-01-31T18:00:00+07:00 (RFC 3339)"
        )
    instant = datetime.fromisoformat(value.upper())
    if instant.year not in YEARS:
        raise ValueError(f"must lie in the years {YEARS.start} to {YEARS.stop - 1}")
    return instant


def show_instant(instant: datetime | None) -> str | None:
    """In UTC, with Z; None stays None."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


Code = Annotated[str, Field(min_length=1, max_length=100)]


class SubmitBody(BaseModel):
    """A job to submit."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Code = Field(examples=["costing.run"])
    company: Code = Field(examples=["SAMPLE"])
    brand: Code | None = Field(None, examples=["LUA"])
    payload: dict[str, Any] = Field(description="what the kind's model asks for, at most 256 KiB")
    run_at: Annotated[datetime | None, BeforeValidator(parse_instant)] = Field(
        None, description="not before this instant; an offset is required"
    )
    priority: int | None = Field(None, ge=0, le=9, description="larger first; 5 by default")
    max_attempts: int | None = Field(None, ge=1, le=1000, description="up to the kind's cap")
    approval: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="of a kind that is an act: id of another account's approval"
    )


class Links(BaseModel):
    """Where a client may go from here; actions appear only while they can succeed."""

    self: str
    cancel: str | None = None
    redrive: str | None = None


class SubmitAnswer(BaseModel):
    """The answer to a submit, the same bytes for every replay of its key."""

    id: str
    kind: str
    company: str
    brand: str | None
    state: JobState
    created: bool
    duplicate: Literal["joined", "merged", "follow_up"] | None
    input_as_of: str | None = Field(description="when the active job began to read its input")
    status_url: str
    links: Links


class ProgressView(BaseModel):
    """How far the job is, as its worker last told, and how fast the attempt that runs moves.

    What is not known is null: docs/live.md says when.
    """

    done: int | None
    total: int | None
    unit: str | None
    message: str | None
    rate: float | None = Field(description="units per second, of the attempt that runs")
    moved_at: str | None = Field(description="when this attempt last came further")
    eta: str | None = Field(description="when `total` is reached at that rate")


class AttemptView(BaseModel):
    """One run of the job: who, when, and how it ended (null while it runs)."""

    attempt: int
    fence: int
    worker_id: str = Field(description="whole for accounts of all companies, else its end")
    code_version: str
    started_at: str
    ended_at: str | None
    outcome: Literal["succeeded", "failed", "lost_lease", "released", "cancelled"] | None
    error: dict[str, Any] | None = Field(
        description="of a lost lease: who was heard of last when, and who took over"
    )


class RedrivenView(BaseModel):
    """The last redrive: when, who asked for it, and which other account approved it, if any."""

    at: str
    by: str
    approver: str | None


class JobSummary(BaseModel):
    """A job without its attempts and result."""

    id: str
    kind: str
    company: str
    brand: str | None
    queue: str
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    lost_leases: int
    interruptions: int
    fence: int
    progress: ProgressView | None
    error: dict[str, Any] | None = Field(description="of a dead job, or of the attempt to repeat")
    blocked_by: str | None
    cleanup_pending: bool
    payload_version: int
    principal: str
    approver: str | None = Field(description="of an act: the other account that approved it")
    created_at: str
    available_at: str
    started_at: str | None
    finished_at: str | None
    redriven: RedrivenView | None
    group: str | None = Field(description="the group that it is a member of")
    joins: str | None = Field(description="the group whose end it waits for, or has waited for")
    links: Links


class LockView(BaseModel):
    """A business lock: what the job locks while it runs; null is all, and an open end."""

    root: str
    part: str | None
    mode: Literal["shared", "exclusive"]
    period_from: str | None
    period_to: str | None


class JobView(JobSummary):
    """A job with its locks, its attempts and, once it has succeeded, its result."""

    locks: list[LockView]
    result: Any
    attempts: list[AttemptView]


def job_url(job_id: object) -> str:
    """The job's status page, relative to the host that was asked."""
    return f"/v1/jobs/{job_id}"


def job_summary(row: Row) -> dict[str, Any]:
    """What JobSummary describes, of a row of shared.jobs.read."""
    state = JobState(row["state"])
    return {
        "id": str(row["id"]),
        "kind": row["kind"],
        "company": row["company"],
        "brand": row["brand"],
        "queue": row["queue"],
        "state": state,
        "priority": row["priority"],
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "lost_leases": row["lost_leases"],
        "interruptions": row["interruptions"],
        "fence": row["fence"],
        "progress": progress_view(row),
        "error": portable(row["error"]) if state in SHOWS_ERROR else None,
        "blocked_by": row["blocked_by"],
        "cleanup_pending": row["cleanup_due"],
        "payload_version": row["payload_version"],
        "principal": row["principal"],
        "approver": row["approver"],
        "created_at": show_instant(row["created_at"]),
        "available_at": show_instant(row["available_at"]),
        "started_at": show_instant(row["started_at"]),
        "finished_at": show_instant(row["finished_at"]),
        "redriven": _redriven(row),
        "group": _id(row["group_id"]),
        "joins": _id(row["joins"]),
        "links": _links(row["id"], state),
    }


def end_of_id(worker_id: str) -> str:
    """An id is host, process and eight random letters: these alone tell one worker from another."""
    return worker_id.rpartition("-")[2]


def job_view(row: Row, *, everywhere: bool) -> dict[str, Any]:
    """What JobView describes, of a row of show_job().

    Who does not see all companies (`everywhere`) is not told where its workers are.
    """
    succeeded = row["state"] == JobState.SUCCEEDED
    return job_summary(row) | {
        "locks": [locks_json(each) for each in row["locks"] or ()],
        "result": portable(row["result"]) if succeeded else None,
        "attempts": _attempts(row["attempts"], everywhere=everywhere),
    }


def progress_view(row: Row) -> dict[str, Any] | None:
    """What ProgressView describes; None before the first report."""
    names = ("done", "total", "unit", "message")
    told = {name: row[f"progress_{name}"] for name in names}
    if all(value is None for value in told.values()):
        return None
    pace = pace_of(row)
    return told | {
        "rate": pace.rate,
        "moved_at": show_instant(pace.moved_at),
        "eta": show_instant(pace.eta),
    }


def _id(found: object) -> str | None:
    return None if found is None else str(found)


def _redriven(row: Row) -> dict[str, Any] | None:
    at = row.get("redriven_at")
    if at is None:
        return None
    by, approver = row["redriven_by"], row["redriven_approver"]
    return {"at": show_instant(at), "by": by, "approver": approver}


def _attempts(rows: Sequence[dict[str, Any]], *, everywhere: bool) -> list[dict[str, Any]]:
    following = [*rows[1:], None]
    return [
        _attempt(each, after, everywhere=everywhere)
        for each, after in zip(rows, following, strict=False)
    ]


def _attempt(
    row: dict[str, Any], after: dict[str, Any] | None, *, everywhere: bool
) -> dict[str, Any]:
    def named(worker_id: str) -> str:
        return worker_id if everywhere else end_of_id(worker_id)

    ended, worker, error = row["ended_at"], named(row["worker_id"]), portable(row["error"])
    if row["outcome"] == "lost_lease":
        by = "" if after is None else named(after["worker_id"])
        error = lost_error(row, after, worker=worker, next_worker=by)
    return {
        "attempt": row["attempt"],
        "fence": row["fence"],
        "worker_id": worker,
        "code_version": row["code_version"],
        "started_at": show_instant(datetime.fromisoformat(row["started_at"])),
        "ended_at": ended and show_instant(datetime.fromisoformat(ended)),
        "outcome": row["outcome"],
        "error": error,
    }


def _links(job_id: object, state: JobState) -> dict[str, str]:
    links = {"self": job_url(job_id)}
    if state not in TERMINAL:
        links["cancel"] = f"{links['self']}/cancel"
    if state == JobState.DEAD:
        links["redrive"] = f"{links['self']}/redrive"
    return links
