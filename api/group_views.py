"""Groups as they look from outside, and the problems that name one."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from api.bodies import job_url, show_instant
from api.problems import Problem
from shared.groups.group import Group, GroupState, WorkActive

OPEN_ROUTE = "/v1/groups"


class JoinView(BaseModel):
    """The group's join: pending until all members have ended."""

    id: str
    state: Literal["pending", "running", "succeeded", "cancelled", "dead"] | None
    status_url: str


class GroupView(BaseModel):
    """A group and its counts, which are exact: `total` members, `remaining` have not ended."""

    id: str
    company: str
    brand: str | None
    state: Literal["open", "sealed", "cancelling", "ended"]
    policy: Literal["fail_fast", "finish", "join"]
    outcome: Literal["succeeded", "failed", "cancelled"] | None
    generation: int = Field(description="1, and one more with each redrive of what had ended")
    total: int
    remaining: int
    succeeded: int
    dead: int
    cancelled: int
    join: JoinView | None
    principal: str
    opened_at: str
    sealed_at: str | None
    ended_at: str | None
    links: dict[Annotated[str, Field(pattern="^[a-z]+$")], str]


def group_url(group_id: object) -> str:
    """The group's page, relative to the host that was asked."""
    return f"{OPEN_ROUTE}/{group_id}"


def group_view(group: Group) -> dict[str, Any]:
    """What GroupView describes."""
    url = group_url(group.id)
    join = group.join_job_id
    links = {"self": url, "jobs": f"/v1/jobs?group={group.id}"}
    if group.state == GroupState.OPEN:
        links |= {"append": f"{url}/jobs:batch", "seal": f"{url}/seal"}
    if group.state in {GroupState.OPEN, GroupState.SEALED}:
        links["cancel"] = f"{url}/cancel"
    if group.state == GroupState.ENDED:
        links["redrive"] = f"{url}/redrive"
    return {
        "id": str(group.id),
        "company": group.company,
        "brand": group.brand,
        "state": group.state,
        "policy": group.policy,
        "outcome": group.outcome,
        "generation": group.generation,
        "total": group.total,
        "remaining": group.remaining,
        "succeeded": group.succeeded,
        "dead": group.dead,
        "cancelled": group.cancelled,
        "join": None
        if join is None
        else {"id": str(join), "state": group.join_state, "status_url": job_url(join)},
        "principal": group.principal,
        "opened_at": show_instant(group.opened_at),
        "sealed_at": show_instant(group.sealed_at),
        "ended_at": show_instant(group.ended_at),
        "links": links,
    }


def group_not_found(group_id: object) -> Problem:
    """The 404 of a group, and of one of somebody else's."""
    return Problem(slug="group-not-found", detail=f"group {group_id} is unknown here")


def twin_active(active: WorkActive) -> Problem:
    """The 409 that names the job which does this work already."""
    twin = str(active.job_id)
    more = {"twin": {"id": twin, "status_url": job_url(twin)}}
    return Problem(slug="twin-active", detail=str(active), more=more)


def group_active(state: str) -> Problem:
    """The 409 of what has to wait for a group's end."""
    said = "its join is running" if state == "joining" else f"the group is {state}"
    return Problem(slug="group-active", detail=said, more={"state": state})
