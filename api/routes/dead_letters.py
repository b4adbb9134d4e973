"""Dead letters: dead jobs and dead messages on one page, and their redrive."""

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from sqlalchemy import RowMapping

from api.actions import redrive_one
from api.authentication import Caller
from api.bodies import job_url, show_instant
from api.cursors import as_number, as_uuid, read_cursor, read_job_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.failures import failure_problem
from api.gate import facts_of, read_json_body
from api.problems import TYPE_BASE, Problem, ProblemRaised, validation_problem
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from api.strict_json import parse_object
from shared.access import Role, Scope
from shared.database import DATABASE_ERRORS
from shared.jobs.dead_letters import list_dead_jobs, list_dead_messages
from shared.json_text import portable, to_json

router = keyed_router(prefix="/v1/dead-letters", tags=["dead letters"])
SHOWN_BYTES = 4096
MOST_REDRIVES = 1000
PAGE = 200
END = "-"
CAUSE = r"^[0-9a-f]{16}$"


class DeadLettersQuery(BaseModel):
    """Filters of the operator's page; they narrow the jobs, messages have nothing to trust."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = Field(None, max_length=100, pattern=r"^[a-z0-9_.]*$")
    cause: str | None = Field(None, pattern=CAUSE, description="of GET /v1/dead-letters/causes")
    cursor: str | None = Field(None, max_length=200)
    limit: Limit = Field(50, description="of jobs, and of messages")


class DeadJobView(BaseModel):
    """A dead job with the error that buried it."""

    id: str
    kind: str
    company: str
    brand: str | None
    attempt: int
    lost_leases: int
    lost_all_leases: bool = Field(description="as many as may: it may kill its workers")
    finished_at: str
    error: dict[str, Any] | None
    links: dict[str, str]


class DeadMessageView(BaseModel):
    """A message that was none of ours. `body` is its beginning, `body_bytes` its whole length."""

    id: int
    queue: str
    message_id: str
    reason: str
    receive_count: int
    created_at: str
    body: str
    body_encoding: Literal["text", "base64"]
    body_bytes: int
    attributes: dict[str, Any]


class DeadLetters(BaseModel):
    """Both sources, newest first."""

    jobs: list[DeadJobView]
    messages: list[DeadMessageView]
    next_cursor: str | None


@router.get("", response_class=Response, responses=problems() | {200: {"model": DeadLetters}})
async def list_dead_letters(
    query: Annotated[DeadLettersQuery, Query()], resources: Ready, who: Who
) -> Response:
    """List dead jobs and, for an admin of all companies, dead messages; newest first."""
    job_key, message_key = ("", "") if query.cursor is None else read_cursor(query.cursor, keys=2)
    jobs, messages = [], []
    async with resources.reading() as conn:
        if job_key != END:
            before = as_uuid(job_key, query.cursor or "") if job_key else None
            jobs = await list_dead_jobs(
                conn,
                kind=query.kind,
                cause=query.cause,
                before=before,
                limit=query.limit + 1,
                scope=who.scope,
            )
        if message_key != END and sees_messages(who):
            number = as_number(message_key, query.cursor or "") if message_key else None
            messages = await list_dead_messages(conn, before=number, limit=query.limit + 1)
    keys = [_next_key(rows, query.limit) for rows in (jobs, messages)]
    body = {
        "jobs": [dead_job(row) for row in jobs[: query.limit]],
        "messages": [dead_message(row) for row in messages[: query.limit]],
        "next_cursor": None if keys == [END, END] else write_cursor(*keys),
    }
    return json_response(body)


def sees_messages(who: Caller) -> bool:
    """A message is raw: nobody can say whose it is, or what somebody put into it."""
    return who.has(Role.ADMIN) and who.scope.is_everything


def _next_key(rows: list[Any], limit: int) -> str:
    return str(rows[limit - 1]["id"]) if len(rows) > limit else END


def dead_job(row: RowMapping) -> dict[str, Any]:
    """What DeadJobView describes, of a row of list_dead_jobs()."""
    url = job_url(row["id"])
    return {
        "id": str(row["id"]),
        "kind": row["kind"],
        "company": row["company"],
        "brand": row["brand"],
        "attempt": row["attempt"],
        "lost_leases": row["lost_leases"],
        "lost_all_leases": row["lost_all_leases"],
        "finished_at": show_instant(row["finished_at"]),
        "error": portable(row["error"]),
        "links": {"self": url, "redrive": f"{url}/redrive"},
    }


def dead_message(row: RowMapping) -> dict[str, Any]:
    """What DeadMessageView describes, of a row of list_dead_messages()."""
    shown, encoding = shown_body(row["body"])
    return {
        "id": row["id"],
        "queue": row["queue"],
        "message_id": row["message_id"],
        "reason": row["reason"],
        "receive_count": row["receive_count"],
        "created_at": show_instant(row["created_at"]),
        "body": shown,
        "body_encoding": encoding,
        "body_bytes": len(row["body"]),
        "attributes": row["attributes"],
    }


def shown_body(body: bytes) -> tuple[str, Literal["text", "base64"]]:
    """The first 4 KiB of a message: text where it is UTF-8, base64 where it is anything else."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body[:SHOWN_BYTES]).decode(), "base64"
    # Only a character that the cut itself split can be missing here.
    return body[:SHOWN_BYTES].decode(errors="ignore"), "text"


def _refuse_other_than_true(value: object) -> object:
    """A Literal compares by ==, where 1 and 1.0 are true as well."""
    if value is not True:
        raise ValueError("must be true, or absent")
    return value


class RedriveBody(BaseModel):
    """Which dead jobs to redrive: exactly one of `ids`, `kind`, `cause` and `all`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ids: list[Annotated[UUID, Field(strict=False)]] | None = Field(
        None, min_length=1, max_length=MOST_REDRIVES
    )
    kind: str | None = Field(None, max_length=100, pattern=r"^[a-z0-9_.]+$")
    cause: str | None = Field(
        None, pattern=CAUSE, description="those that died of it: of GET /v1/dead-letters/causes"
    )
    all: Annotated[Literal[True], BeforeValidator(_refuse_other_than_true)] | None = None
    cursor: str | None = Field(
        None,
        max_length=200,
        description="`next_cursor` of the last answer, with kind, cause or all",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        names = ("ids", "kind", "cause", "all")
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError("give exactly one of ids, kind, cause and all")
        if self.cursor is not None and self.ids is not None:
            raise ValueError("a cursor goes with kind, cause or all")
        return self


class RedrivenItem(BaseModel):
    """A job that is pending again."""

    id: str
    status_url: str


class RefusedItem(BaseModel):
    """A job that stays as it is; `problem` is the type its own redrive would answer with."""

    id: str
    reason: str = Field(description="the last word of `problem`", examples=["twin-active"])
    problem: str
    detail: str
    twin: dict[str, str] | None


class RedriveReport(BaseModel):
    """One outcome a job. `next_cursor` is there when more dead jobs match than one call takes."""

    redriven: list[RedrivenItem]
    refused: list[RefusedItem]
    next_cursor: str | None


@router.post(
    "/redrive",
    response_class=Response,
    responses=problems(*OF_A_BODY) | {200: {"model": RedriveReport}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": RedriveBody.model_json_schema(),
                    "example": {"kind": "costing.run"},
                }
            },
        }
    },
)
async def redrive(request: Request, resources: Ready, who: Who) -> Response:
    """Redrive dead jobs, each in a transaction of its own: one that is refused stops no other.

    Where a redrive asks for an approval each is refused: an approval is for one job, and goes with
    that job's own redrive.
    """
    raw = parse_object(await read_json_body(request))
    try:
        asked = RedriveBody.model_validate_json(to_json(raw))
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, RedriveBody)) from None
    each = redrive_each(resources, asked, who, facts_of(request).request_id)
    report = await resources.finish(each, name="redrive")
    return json_response(report)


async def redrive_each(
    resources: Resources, asked: RedriveBody, who: Caller, request_id: str
) -> dict[str, Any]:
    """What RedriveReport describes.

    A row that cannot be had is refused like any other; an outage ends the call with a report.

    Where nothing was redriven before the outage there is nothing to report: the error itself is
    the answer.
    """
    redriven: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    last = trying = None
    try:
        async with aclosing(_matching(resources, asked, who.scope)) as matching:
            async for job_id in matching:
                if len(redriven) + len(refused) == MOST_REDRIVES:
                    break
                trying = job_id
                problem = await _redrive_or_busy(resources, job_id, who, request_id)
                if problem is None:
                    redriven.append({"id": str(job_id), "status_url": job_url(job_id)})
                else:
                    refused.append(_refused(job_id, problem))
                last, trying = job_id, None
            else:
                last = None
    except DATABASE_ERRORS as error:
        if not redriven:
            raise
        problem = failure_problem(error, request_id)
        refused.extend(_refused(each, problem) for each in _untold(asked, trying))
        last = trying or last
    next_cursor = None if last is None or asked.ids else write_cursor(str(last))
    return {"redriven": redriven, "refused": refused, "next_cursor": next_cursor}


def _untold(asked: RedriveBody, trying: UUID | None) -> list[UUID]:
    """The one that met the outage, and those named after it; a cursor goes on to the rest."""
    if trying is None:
        return []
    named = list(dict.fromkeys(asked.ids or [trying]))
    return named[named.index(trying) :]


async def _redrive_or_busy(
    resources: Resources, job_id: UUID, who: Caller, request_id: str
) -> Problem | None:
    try:
        return await redrive_one(resources, job_id, who)
    except DATABASE_ERRORS as error:
        problem = failure_problem(error, request_id)
        if problem.slug != "busy":
            raise
        return problem


async def _matching(
    resources: Resources, asked: RedriveBody, scope: Scope
) -> AsyncGenerator[UUID, None]:
    if asked.ids is not None:
        for job_id in dict.fromkeys(asked.ids):
            yield job_id
        return
    before = read_job_cursor(asked.cursor) if asked.cursor is not None else None
    while True:
        async with resources.reading() as conn:
            rows = await list_dead_jobs(
                conn,
                kind=asked.kind,
                cause=asked.cause,
                before=before,
                limit=PAGE,
                scope=scope,
            )
        for row in rows:
            yield row["id"]
        if len(rows) < PAGE:
            return
        before = rows[-1]["id"]


def _refused(job_id: UUID, problem: Problem) -> dict[str, Any]:
    return {
        "id": str(job_id),
        "reason": problem.slug,
        "problem": TYPE_BASE + problem.slug,
        "detail": problem.detail,
        "twin": problem.more.get("twin"),
    }
