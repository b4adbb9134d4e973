"""Jobs: submit, show, cancel, redrive. Their list: api/routes/listing.py."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.actions import cancelled_view, job_not_found, redrive_one
from api.bodies import JobView, SubmitAnswer, SubmitBody
from api.dependencies import Facts, Live, Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import read_json_body, read_optional_body
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.problems import Problem, ProblemRaised, validation_problem
from api.queries import WaitSeconds, refuse_unknown
from api.responses import json_response
from api.routers import keyed_router
from api.showing import show_awaited, show_now, shown
from api.strict_json import parse_object
from api.submission import read_submission, submit
from shared.json_text import to_json
from shared.types import JobState

router = keyed_router(prefix="/v1/jobs", tags=["jobs"])
SUBMIT_EXAMPLE = {
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "payload": {"period": "2026-01"},
}
KNOWN_TAG = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "ETags that the client has: 304 where the job still is one of them",
}


@router.post(
    "",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        *KEY_PROBLEMS,
        "unknown-kind",
        "internal-kind",
        "unknown-company",
        "unknown-brand",
        "too-many-pending",
    )
    | {
        202: {"model": SubmitAnswer, "description": "A new job; poll its status_url."},
        200: {"model": SubmitAnswer, "description": "The same work is active already."},
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": SubmitBody.model_json_schema(),
                    "example": SUBMIT_EXAMPLE,
                }
            },
        },
        "parameters": [KEY_PARAMETER],
    },
)
async def submit_job(request: Request, resources: Ready, facts: Facts, who: Who) -> Response:
    """Submit a job. 202 with a new one, 200 with the one that does this work already."""
    key = key_of(request, resources.settings)
    body = await read_json_body(request)
    submission = await resources.off_loop.run(
        len(body), read_submission, body, key, resources.kinds, who
    )
    answer = await resources.finish(submit(resources, submission), name="submit")
    facts.job_id = None if answer.job_id is None else str(answer.job_id)
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")


@router.get(
    "/{job_id}",
    dependencies=[Depends(refuse_unknown("wait"))],
    response_class=Response,
    responses=problems("job-not-found")
    | {200: {"model": JobView}, 304: {"description": "Unchanged since that ETag."}},
    openapi_extra={"parameters": [KNOWN_TAG]},
)
async def show(
    job_id: UUID,
    request: Request,
    hub: Live,
    facts: Facts,
    who: Who,
    *,
    wait: Annotated[WaitSeconds, Query(description="seconds to wait for an end")] = 0,
) -> Response:
    """Show a job. `wait` answers when it has ended, or after so many seconds at the latest."""
    facts.job_id = str(job_id)
    seconds = min(wait, hub.resources.settings.longest_wait)
    if seconds:
        row = await show_awaited(hub, request, job_id, who, seconds)
    else:
        row = await show_now(hub.resources, job_id, who)
    return shown(row, request.headers.get("if-none-match", ""), who)


@router.post(
    "/{job_id}/cancel",
    response_class=Response,
    responses=problems("job-not-found", "too-late") | {200: {"model": JobView}},
)
async def cancel(job_id: UUID, resources: Ready, facts: Facts, who: Who) -> Response:
    """Cancel a job: after this answer no effect of it commits. 409 when it has ended already."""
    facts.job_id = str(job_id)
    view = await resources.finish(cancelled_view(resources, job_id, who.scope), name="cancel")
    if view is None:
        raise ProblemRaised(job_not_found(job_id))
    if view["state"] != JobState.CANCELLED:
        detail = f"the job is {view['state']}"
        more = {"state": view["state"], "job": view}
        raise ProblemRaised(Problem(slug="too-late", detail=detail, more=more))
    return json_response(view)


class RedriveAnswer(BaseModel):
    """A dead job that is pending again."""

    id: str
    state: Literal["pending"]
    status_url: str


class RedriveOneBody(BaseModel):
    """What a redrive may bring along."""

    model_config = ConfigDict(extra="forbid", strict=True)

    approval: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="id of another account's approval, where one is asked for"
    )


@router.post(
    "/{job_id}/redrive",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        "approval-required",
        "job-not-found",
        "not-dead",
        "cleanup-pending",
        "twin-active",
        "payload-outdated",
    )
    | {202: {"model": RedriveAnswer}},
    openapi_extra={
        "requestBody": {
            "required": False,
            "content": {
                "application/json": {
                    "schema": RedriveOneBody.model_json_schema(),
                    "example": {"approval": "5f0c8a7e-3f65-4c53-9b1e-0d1f6a4b7c21"},
                }
            },
        }
    },
)
async def redrive(
    job_id: UUID, request: Request, resources: Ready, facts: Facts, who: Who
) -> Response:
    """Put a dead job back to pending with a fresh budget; its history is kept."""
    facts.job_id = str(job_id)
    approval = _approval_of(await read_optional_body(request))
    each = redrive_one(resources, job_id, who, approval)
    problem = await resources.finish(each, name="redrive")
    if problem is not None:
        raise ProblemRaised(problem)
    url = f"/v1/jobs/{job_id}"
    answer = json_response({"id": str(job_id), "state": "pending", "status_url": url}, status=202)
    answer.headers["Location"] = url
    answer.headers["Retry-After"] = "1"
    return answer


def _approval_of(body: bytes | None) -> UUID | None:
    if body is None:
        return None
    try:
        return RedriveOneBody.model_validate_json(to_json(parse_object(body))).approval
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, RedriveOneBody)) from None
