"""Approvals: what one account lets another one do, once."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.actions import job_not_found
from api.authentication import Caller
from api.bodies import show_instant
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import read_json_body
from api.group_views import group_not_found
from api.problems import ProblemRaised, validation_problem
from api.resources import Resources
from api.responses import json_response
from api.strict_json import parse_object
from shared.access import Scope
from shared.approvals import give_approval
from shared.audit import Action
from shared.groups.group import read_group
from shared.jobs.read import get_job
from shared.json_text import to_json

router = APIRouter(prefix="/v1/approvals", tags=["approvals"])
EXAMPLE = {
    "action": "job.redrive",
    "target": "019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "reason": "the supplier's file is repaired",
}


class ApprovalBody(BaseModel):
    """What to approve: one act on one target, the id of a job or of a group."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["job.redrive", "group.redrive"]
    target: Annotated[UUID, Field(strict=False)] = Field(description="the job's or the group's id")
    reason: str | None = Field(None, min_length=1, max_length=500, description="for the audit")


class ApprovalAnswer(BaseModel):
    """An approval: good once, until `expires_at`, for any account but the approver."""

    id: str
    action: str
    target: str
    approver: str
    reason: str | None
    expires_at: str


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses=problems(*OF_A_BODY, "job-not-found", "group-not-found")
    | {201: {"model": ApprovalAnswer, "description": "Approved; given again, it is renewed."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": ApprovalBody.model_json_schema(),
                    "example": EXAMPLE,
                }
            },
        }
    },
)
async def approve(request: Request, resources: Ready, who: Who) -> Response:
    """Approve an act that another account will ask for. Repeating it renews what is open."""
    raw = parse_object(await read_json_body(request))
    try:
        body = ApprovalBody.model_validate_json(to_json(raw))
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, ApprovalBody)) from None
    view = await resources.finish(_give(resources, body, who), name="approve")
    if view is None:
        is_group = Action(body.action) == Action.GROUP_REDRIVE
        raise ProblemRaised((group_not_found if is_group else job_not_found)(body.target))
    return json_response(view, status=201)


async def _owner_of(
    conn: AsyncConnection, body: ApprovalBody, scope: Scope
) -> tuple[str, str | None] | None:
    """Company and brand of the target; None where there is none in this scope."""
    if Action(body.action) == Action.GROUP_REDRIVE:
        group = await read_group(conn, body.target, scope=scope)
        return None if group is None else (group.company, group.brand)
    job = await get_job(conn, body.target, scope=scope)
    return None if job is None else (job["company"], job["brand"])


async def _give(
    resources: Resources, body: ApprovalBody, who: Caller
) -> dict[str, str | None] | None:
    async with resources.transaction() as conn:
        of = await _owner_of(conn, body, who.scope)
        if of is None:
            return None
        given = await give_approval(
            conn,
            Action(body.action),
            str(body.target),
            approver=who.principal,
            minutes=resources.settings.approval_minutes,
            company=of[0],
            brand=of[1],
            reason=body.reason,
        )
    return {
        "id": str(given["id"]),
        "action": given["action"],
        "target": given["target"],
        "approver": given["approver"],
        "reason": given["reason"],
        "expires_at": show_instant(given["expires_at"]),
    }
