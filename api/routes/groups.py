"""Groups: many jobs that belong together, and a job that runs once when all of them have ended."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.batch import BATCH_SCHEMA, BatchAnswer, read_batch
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import APPEND_PATH, read_json_body, read_optional_body
from api.group_views import GroupView, group_view
from api.groups import (
    GroupBody,
    append_batch,
    cancelled_group,
    open_one,
    read_opening,
    redriven_group,
    required,
    sealed_view,
)
from api.idempotency import Answer
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.problems import ProblemRaised, validation_problem
from api.responses import json_response
from api.routers import keyed_router
from api.routes.batch import BATCH_EXAMPLE
from api.strict_json import parse_object
from shared.json_text import to_json

router = keyed_router(prefix="/v1/groups", tags=["groups"])
OPEN_EXAMPLE: dict[str, Any] = {
    "company": "SAMPLE",
    "policy": "finish",
    "join": {"kind": "costing.run", "payload": {"period": "2026-02"}},
}


def _body(schema: dict[str, Any], example: Any, *, required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": required, "content": content}}


def _stored(answer: Answer) -> Response:
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        *KEY_PROBLEMS,
        "unknown-kind",
        "internal-kind",
        "unknown-company",
        "unknown-brand",
        "twin-active",
        "too-many-pending",
    )
    | {201: {"model": GroupView, "description": "An open group; append to it, then seal it."}},
    openapi_extra=_body(GroupBody.model_json_schema(), OPEN_EXAMPLE)
    | {"parameters": [KEY_PARAMETER]},
)
async def open_a_group(request: Request, resources: Ready, who: Who) -> Response:
    """Open a group. Its join exists from now on, and starts once all members have ended."""
    key = key_of(request, resources.settings)
    body = await read_json_body(request)
    opening = await resources.off_loop.run(len(body), read_opening, body, key, resources.kinds, who)
    answer = await resources.finish(open_one(resources, *opening, who), name="open a group")
    return _stored(answer)


@router.get(
    "/{group_id}",
    response_class=Response,
    responses=problems("group-not-found") | {200: {"model": GroupView}},
)
async def show(group_id: UUID, resources: Ready, who: Who) -> Response:
    """Show a group and how far it is as a whole; GET /v1/jobs?group=… lists its members."""
    async with resources.reading() as conn:
        group = await required(conn, group_id, who.scope)
    return json_response(group_view(group))


@router.post(
    "/{group_id}/jobs:batch",
    response_class=Response,
    responses=problems(
        *OF_A_BODY, *KEY_PROBLEMS, "group-not-found", "group-closed", "too-many-pending"
    )
    | {200: {"model": BatchAnswer, "description": "What became of each item."}},
    openapi_extra=_body(BATCH_SCHEMA, BATCH_EXAMPLE) | {"parameters": [KEY_PARAMETER]},
)
async def append(group_id: UUID, request: Request, resources: Ready, who: Who) -> Response:
    """Append up to 1,000 jobs to an open group; they may run at once.

    Each item is created, a duplicate (the group has this work already, whatever its state: nothing
    is counted twice) or an error.
    """
    key = key_of(request, resources.settings)
    body = await read_json_body(request, limit=resources.settings.batch_body_bytes)
    route = APPEND_PATH.replace("*", str(group_id))
    batch = await resources.off_loop.run(
        len(body), _read_append, body, key, resources.kinds, who, route
    )
    write = append_batch(resources, batch, group_id, who)
    return _stored(await resources.finish(write, name="append to a group"))


def _read_append(body: bytes, key: str | None, kinds: Any, who: Any, route: str) -> Any:
    return read_batch(body, key, kinds, who, route=route)


@router.post(
    "/{group_id}/seal",
    response_class=Response,
    responses=problems("group-not-found") | {200: {"model": GroupView}},
)
async def seal(group_id: UUID, resources: Ready, who: Who) -> Response:
    """Say that the group has all its members. One that is closed already is shown as it is."""
    write = sealed_view(resources, group_id, who.scope)
    return json_response(await resources.finish(write, name="seal a group"))


@router.post(
    "/{group_id}/cancel",
    response_class=Response,
    responses=problems("group-not-found", "group-ended") | {200: {"model": GroupView}},
)
async def cancel(group_id: UUID, resources: Ready, who: Who) -> Response:
    """Cancel a group: from this answer on no member starts; those that are active are cancelled.

    A worker's maintenance does that, each member fenced as by its own cancel. Of a group that has
    ended the join is cancelled, if it has not.
    """
    write = cancelled_group(resources, group_id, who.scope)
    return json_response(await resources.finish(write, name="cancel a group"))


class RedriveGroupBody(BaseModel):
    """What a redrive may bring along."""

    model_config = ConfigDict(extra="forbid", strict=True)

    approval: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="id of another account's approval, where one is asked for"
    )


@router.post(
    "/{group_id}/redrive",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        "approval-required",
        "group-not-found",
        "group-active",
        "nothing-to-redrive",
        "cleanup-pending",
        "twin-active",
        "members-archived",
        "payload-outdated",
    )
    | {202: {"model": GroupView, "description": "A new generation."}},
    openapi_extra=_body(
        RedriveGroupBody.model_json_schema(),
        {"approval": "5f0c8a7e-3f65-4c53-9b1e-0d1f6a4b7c21"},
        required=False,
    ),
)
async def redrive(group_id: UUID, request: Request, resources: Ready, who: Who) -> Response:
    """Run again what died or was cancelled of an ended group, and its join; all or nothing."""
    approval = _approval_of(await read_optional_body(request))
    write = redriven_group(resources, group_id, who, approval)
    view = await resources.finish(write, name="redrive a group")
    return json_response(view, status=202)


def _approval_of(body: bytes | None) -> UUID | None:
    if body is None:
        return None
    try:
        return RedriveGroupBody.model_validate_json(to_json(parse_object(body))).approval
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, RedriveGroupBody)) from None
