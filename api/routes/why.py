"""Why a job is not running, or not done: one sentence, and the facts that it is made of."""

from typing import Any
from uuid import UUID

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from api.actions import job_not_found, outdated
from api.authentication import Caller
from api.bodies import ProgressView, end_of_id, progress_view, show_instant
from api.dependencies import Facts, Ready, Who
from api.description import problems
from api.problems import ProblemRaised
from api.queries import refuse_unknown
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.pace import Row
from shared.jobs.reasons import Reason, explain
from shared.jobs.why import explain_job
from shared.json_text import portable
from shared.kinds.locks import LOCK_FIELDS, locks_json
from shared.types import JobState

router = keyed_router(prefix="/v1/jobs", tags=["jobs"])
WORKERS = ("worker_id", "alone_worker")
COUNTS_OF_ALL = ("places_taken", "window_used", "limit_taken")


class Workers(BaseModel):
    """The live workers of the job's queue; slots are of those that could take the job."""

    live: int
    know_kind: int
    know_version: int
    working: int = Field(description="know the version, and take jobs")
    slots: int
    free_slots: int = Field(description="as told by their last heartbeats")


class Turn(BaseModel):
    """Where the job stands in the order of publishing (docs/fairness.md)."""

    message: str = Field(description="staged, sent, or refused by SQS for good")
    window_size: int
    window_used: int | None = Field(description="for a key of all companies")
    ahead: int = Field(description="messages of its kind, brand and priority; 1000 is 'or more'")
    ahead_higher: int | None = Field(description="of higher priority; for a key of all companies")


class ReachedLimit(BaseModel):
    """A running limit without room: what it holds for, and how many of it run."""

    kind: str | None
    company: str | None
    brand: str | None
    max_running: int
    running: int | None = Field(description="for a key of all companies")


class FrozenBooks(BaseModel):
    """Whose books are frozen, since when and why; `brand` null: all of the company's."""

    company: str
    brand: str | None
    reason: str | None
    frozen_at: str


class LockInTheWay(BaseModel):
    """What the job would lock, and the job that has it or goes first; that is null out of scope."""

    root: str
    part: str | None = Field(description="null: all of the root")
    mode: str = Field(description="of that job's lock: shared or exclusive")
    period_from: str | None = Field(description="of that job's lock; null: an open end")
    period_to: str | None
    job_id: str | None
    kind: str | None


class Owner(BaseModel):
    """Who runs it."""

    worker_id: str
    attempt: int
    since: str | None
    seen_at: str | None = Field(description="when its worker was heard of last")
    lease_expires_at: str
    progress: ProgressView | None


class Redrive(BaseModel):
    """What a redrive of a dead job would meet now: the problem's type, or nothing."""

    refused: str | None
    twin: str | None


class WhyView(BaseModel):
    """Why the job is not running, or not done, as of one moment.

    `sentence` is for people and may change; programs go by `reason`. What does not belong to the
    state is null.
    """

    id: str
    kind: str
    queue: str
    state: JobState
    reason: Reason
    sentence: str
    as_of: str
    attempt: int
    max_attempts: int
    available_at: str
    error: dict[str, Any] | None = Field(description="of a dead job, or of the attempt to repeat")
    cleanup_pending: bool
    queue_paused: bool | None
    workers: Workers | None
    turn: Turn | None
    running_of_kind: int | None = Field(
        description="where its kind has a maximum that is reached; for a key of all companies"
    )
    max_running: int | None
    limit: ReachedLimit | None = Field(description="an operator's, where that is the reason")
    freeze: FrozenBooks | None = Field(description="where frozen books are the reason")
    lock: LockInTheWay | None = Field(description="where a business lock is the reason")
    owner: Owner | None
    redrive: Redrive | None


@router.get(
    "/{job_id}/why",
    dependencies=[Depends(refuse_unknown())],
    response_class=Response,
    responses=problems("job-not-found")
    | {200: {"model": WhyView, "description": "The reason, as of one moment."}},
)
async def why(job_id: UUID, resources: Ready, facts: Facts, who: Who) -> Response:
    """Say why a job is not running, or not done: the first thing that keeps it, and all facts."""
    facts.job_id = str(job_id)
    async with resources.reading() as conn:
        row = await explain_job(conn, job_id, who.scope)
    if row is None:
        raise ProblemRaised(job_not_found(job_id))
    answer = json_response(why_view(row, redrive_refused(resources, row), told_to(row, who)))
    answer.headers["Cache-Control"] = "no-store"  # it is of this moment alone
    return answer


def told_to(row: Row, who: Caller) -> Row:
    """What the caller may know: where workers are, and counts of all, are of all companies.

    So are SQS's own words, which name accounts, roles and queues: the others get their code.
    """
    if who.scope.is_everything:
        return row
    places = {name: end_of_id(row[name]) for name in WORKERS if row.get(name)}
    code = (row.get("last_error") or "").partition(":")[0] or None
    return dict(row) | dict.fromkeys(COUNTS_OF_ALL) | places | {"last_error": code}


def redrive_refused(resources: Resources, row: Row) -> str | None:
    """The problem that a redrive would meet now, in the order in which it looks for them."""
    if row["state"] != JobState.DEAD:
        return None
    if outdated(resources, row) is not None:
        return "payload-outdated"
    if row["twin"] is not None:
        return "twin-active"
    return "cleanup-pending" if row["cleanup_due"] else None


def why_view(whole: Row, refused: str | None, row: Row) -> dict[str, Any]:
    """What WhyView describes: decided by `whole`, a row of explain_job(), and told by `row`."""
    said = explain(whole, redrive_refused=refused, told=row)
    pending, dead = row["state"] == JobState.PENDING, row["state"] == JobState.DEAD
    at_maximum = said.reason == Reason.KIND_MAXIMUM
    return {
        "id": str(row["id"]),
        "kind": row["kind"],
        "queue": row["queue"],
        "state": row["state"],
        "reason": said.reason,
        "sentence": said.sentence,
        "as_of": show_instant(row["read_at"]),
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "available_at": show_instant(row["available_at"]),
        "error": portable(row["error"]) if pending or dead else None,
        "cleanup_pending": row["cleanup_due"],
        "queue_paused": not row["unpaused"] if pending else None,
        "workers": {name: row[name] for name in Workers.model_fields} if pending else None,
        "turn": _turn(row) if pending else None,
        "running_of_kind": row["places_taken"] if at_maximum else None,
        "max_running": row["max_running"] if at_maximum else None,
        "limit": _limit(row) if said.reason == Reason.LIMIT_REACHED else None,
        "freeze": _freeze(row) if said.reason == Reason.BOOKS_FROZEN else None,
        "lock": _lock(row, said.reason),
        "owner": _owner(row) if row["state"] == JobState.RUNNING else None,
        "redrive": {"refused": refused, "twin": row["twin"] and str(row["twin"])} if dead else None,
    }


def _turn(row: Row) -> dict[str, Any]:
    waits = "refused" if row["refused"] else "staged"
    return {
        "message": waits if row["staged"] else "sent",
        "window_size": row["window_size"],
        "window_used": row["window_used"],
        "ahead": row["ahead"],
        "ahead_higher": row["higher"],
    }


def _limit(row: Row) -> dict[str, Any]:
    return {
        "kind": row["limit_kind"],
        "company": row["limit_company"],
        "brand": row["limit_brand"],
        "max_running": row["limit_most"],
        "running": row["limit_taken"],
    }


def _freeze(row: Row) -> dict[str, Any]:
    return {
        "company": row["frozen_company"],
        "brand": row["frozen_brand"],
        "reason": row["frozen_for"],
        "frozen_at": show_instant(row["frozen_at"]),
    }


def _lock(row: Row, reason: Reason) -> dict[str, Any] | None:
    names = {Reason.LOCK_HELD: ("held", "holder"), Reason.LOCK_RESERVED: ("reserved", "waiter")}
    if reason not in names:
        return None
    what, who = names[reason]
    return {
        **locks_json({name: row[f"{what}_{name}"] for name in LOCK_FIELDS}),
        "job_id": row[f"{who}_id"] and str(row[f"{who}_id"]),
        "kind": row[f"{who}_kind"],
    }


def _owner(row: Row) -> dict[str, Any]:
    return {
        "worker_id": row["worker_id"],
        "attempt": row["attempt"],
        "since": show_instant(row["attempt_started_at"]),
        "seen_at": show_instant(row["owner_seen_at"]),
        "lease_expires_at": show_instant(row["lease_expires_at"]),
        "progress": progress_view(row),
    }
