"""Approvals: what one account lets another one do, once."""

from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from api.approval_targets import Named, find_target
from api.authentication import Caller
from api.bodies import show_instant
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import read_json_body
from api.problems import ProblemRaised, validation_problem
from api.queries import refuse_nul
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from api.strict_json import parse_object
from shared.approvals import give_approval
from shared.audit import Action
from shared.json_text import to_json

router = keyed_router(prefix="/v1/approvals", tags=["approvals"])
Target = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(refuse_nul)]
EXAMPLE = {
    "action": "job.redrive",
    "target": "019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "reason": "the supplier's file is repaired",
}


class ApprovalBody(BaseModel):
    """What to approve: one act on one target."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal[
        "job.redrive", "group.redrive", "period.close", "period.reopen", "posting.unpost"
    ]
    target: Target | None = Field(
        None, description="id of the job or group; of a period SAMPLE/2026-01"
    )
    job: dict[str, Any] | None = Field(
        None, description="of posting.unpost: kind, company, brand and payload, as it will be sent"
    )
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
    responses=problems(
        *OF_A_BODY,
        "job-not-found",
        "group-not-found",
        "period-not-found",
        "unknown-kind",
        "internal-kind",
        "unknown-company",
        "unknown-brand",
    )
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
    return json_response(view, status=201)


async def _give(resources: Resources, body: ApprovalBody, who: Caller) -> dict[str, str | None]:
    action = Action(body.action)
    async with resources.transaction() as conn:
        target = await find_target(conn, action, Named(body.target, body.job, resources.kinds), who)
        given = await give_approval(
            conn,
            action,
            target.name,
            approver=who.principal,
            minutes=resources.settings.approval_minutes,
            company=target.company,
            brand=target.brand,
            reason=body.reason,
            job=target.told,
        )
    return {
        "id": str(given["id"]),
        "action": given["action"],
        "target": given["target"],
        "approver": given["approver"],
        "reason": given["reason"],
        "expires_at": show_instant(given["expires_at"]),
    }
