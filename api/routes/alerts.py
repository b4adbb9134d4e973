"""Alerts: which rules are broken now and for whom, who is told, and silence for a while."""

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy import RowMapping

from api.bodies import show_instant
from api.dependencies import Ready
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.problems import Problem, ProblemRaised
from api.queries import refuse_nul
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.alerts import Rule, load_rules
from shared.alerts.state import list_channels, looked_ago, open_alerts, silence

router = keyed_router(prefix="/v1/alerts", tags=["alerts"])
EXAMPLE = {"rule": "dead_jobs", "hours": 4, "reason": "redriven tomorrow, ticket 4711"}
INSTANTS = ("since", "fired_at", "resolved_at", "silenced_until")


class AlertView(BaseModel):
    """A rule that is broken for `subject` ("" where it is about the whole deployment).

    `since` is when it was first found broken, `fired_at` when it had been for long enough.
    """

    incident: str
    rule: str
    subject: str
    severity: str
    value: float
    comparison: str | None
    threshold: float | None
    summary: str
    remedy: str
    runbook: str
    since: str
    fired_at: str
    resolved_at: str | None
    silenced_until: str | None
    silenced_by: str | None
    silenced_because: str | None
    undelivered: int = Field(description="channels that have not taken its latest news yet")


class ChannelView(BaseModel):
    """A way out that some process has; `waiting` alerts are still to be delivered by it."""

    channel: str
    delivered_at: str | None
    failed_at: str | None
    last_error: str | None
    waiting: int


class AlertList(BaseModel):
    """What fires, critical first. `looked_seconds` ago somebody judged the rules (null: never)."""

    alerts: list[AlertView]
    channels: list[ChannelView]
    looked_seconds: float | None


class AlertQuery(BaseModel):
    """What of them."""

    model_config = ConfigDict(extra="forbid")

    resolved: bool = Field(False, description="also what fired in the last 7 days")


@router.get("", response_class=Response, responses=problems() | {200: {"model": AlertList}})
async def alerts(query: Annotated[AlertQuery, Query()], resources: Ready) -> Response:
    """Show which alert rules are broken now, since when, and whether somebody was told."""
    async with resources.reading() as conn:
        rows = await open_alerts(conn, resolved=query.resolved)
        channels = await list_channels(conn)
        looked = await looked_ago(conn)
    rules = rules_of(resources)
    return json_response(
        {
            "alerts": [view_of(row, rules.get(row["rule"])) for row in rows],
            "channels": [_channel_view(row) for row in channels],
            "looked_seconds": None if looked is None else round(looked, 3),
        }
    )


def rules_of(resources: Resources) -> dict[str, Rule]:
    """The rules in force here, by name."""
    return {rule.name: rule for rule in load_rules(resources.settings.alert_rules)}


def view_of(row: RowMapping, rule: Rule | None) -> dict[str, Any]:
    """An alert as it is answered; `rule` is None for one that is no longer in the rules."""
    stored = {name: row[name] for name in AlertView.model_fields if name in row}
    instants = {name: None if row[name] is None else show_instant(row[name]) for name in INSTANTS}
    said = {
        "comparison": rule.comparison if rule else None,
        "threshold": rule.threshold if rule else None,
        "summary": rule.summary if rule else "a rule that is no longer in the rules file",
        "remedy": rule.remedy if rule else "",
        "runbook": rule.runbook if rule else "docs/runbook.md",
    }
    return stored | said | instants | {"incident": str(row["incident"])}


def _channel_view(row: RowMapping) -> dict[str, Any]:
    view = {name: row[name] for name in ChannelView.model_fields}
    for name in ("delivered_at", "failed_at"):
        view[name] = None if view[name] is None else show_instant(view[name])
    return view


class SilenceBody(BaseModel):
    """Which rule, and for how long: 0 ends a silence, a week is the longest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: Annotated[str, Field(max_length=40), BeforeValidator(refuse_nul)]
    hours: float = Field(ge=0, le=168)
    reason: Annotated[str | None, Field(max_length=500), BeforeValidator(refuse_nul)] = None


class SilenceAnswer(BaseModel):
    """The silence as it is now."""

    rule: str
    until: str
    principal: str
    reason: str | None


@router.post(
    "/silence",
    response_class=Response,
    responses=problems(*OF_A_BODY, "alert-rule-not-found") | {200: {"model": SilenceAnswer}},
    openapi_extra=described_body(SilenceBody, EXAMPLE),
)
async def put_silence(request: Request, resources: Ready) -> Response:
    """Tell nobody of a rule for some hours; it is judged and shown meanwhile.

    What still fires when the silence ends is told then.
    """
    body = await read_model(request, SilenceBody)
    if body.rule not in rules_of(resources):
        detail = f"there is no alert rule {body.rule!r}"
        raise ProblemRaised(Problem(slug="alert-rule-not-found", detail=detail))
    found = await resources.finish(_silence(resources, body), name="silence")
    return json_response(dict(found) | {"until": show_instant(found["until"])})


async def _silence(resources: Resources, body: SilenceBody) -> dict[str, Any]:
    async with resources.transaction() as conn:
        made = await silence(conn, body.rule, hours=body.hours, reason=body.reason)
    return dict(made)
