"""Periods as they look from outside."""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from api.bodies import job_url, show_instant
from api.problems import Problem
from shared.json_text import portable
from shared.periods import PeriodKey, PeriodStatus

Event = Literal["close_asked", "closing", "closed", "refused", "interrupted", "reopened"]


class PeriodEvent(BaseModel):
    """What became of the period: when, who asked, who approved, and the job that did it."""

    at: str
    event: Event
    requester: str
    approver: str | None
    job_id: str | None
    status_url: str | None = Field(description="of that job")
    reason: str | None


class FullEvent(PeriodEvent):
    """`facts`: the findings of a close that was refused; the results of one that was not."""

    facts: dict[str, Any]


class ResultsView(BaseModel):
    """Items of brands that readers see, in the brands that the account may see."""

    total: int
    failed: int = Field(description="could not be costed")
    stale: int = Field(description="built on openings that have changed since")
    late: int = Field(description="have movements that their results have not read")
    runs: list[str] = Field(description="the cost runs that speak for them")


class PeriodSummary(BaseModel):
    """A period: its days (both ends included), whether it takes movements, how its costs stand."""

    company: str
    period: str
    starts_on: str
    ends_on: str
    status: PeriodStatus
    version: int = Field(description="grows with each change of status")
    results: ResultsView
    last_event: PeriodEvent | None
    links: dict[str, str]


class PeriodPage(BaseModel):
    """Periods, newest first; `next_cursor` is null at the end."""

    periods: list[PeriodSummary]
    next_cursor: str | None


class AffectedView(BaseModel):
    """A later period that has results, which were built on this one's."""

    period: str
    status: PeriodStatus
    results: int
    stale: int
    items_total: int
    items: list[str] = Field(description="the first 100")
    runs: list[str]


class ReopeningView(BaseModel):
    """What reopening would meet: closed periods that come first, and what was built on this one."""

    later_closed: list[str] = Field(description="to be reopened first, the last one of them first")
    affects: list[AffectedView]


class PeriodView(PeriodSummary):
    """A period with what became of it, newest first (the newest 50)."""

    events: list[FullEvent]
    reopening: ReopeningView | None = Field(description="of a closed period")


class ReopenedView(PeriodSummary):
    """The period, open again, and the later ones that were built on it."""

    affects: list[AffectedView]


def period_summary(row: RowMapping) -> dict[str, Any]:
    """What PeriodSummary describes, of a row of shared.periods."""
    url = f"/v1/periods/{row['period']}"
    act = {"open": "close", "closed": "reopen"}.get(row["status"])
    return {
        "company": row["company"],
        "period": row["period"],
        "starts_on": row["starts_on"].isoformat(),
        "ends_on": row["ends_on"].isoformat(),
        "status": row["status"],
        "version": row["version"],
        "results": {
            "total": row["results"],
            "failed": row["failed"],
            "stale": row["stale"],
            "late": row["late"],
            "runs": [str(run) for run in row["runs"]],
        },
        "last_event": None if row["event"] is None else _event(row),
        "links": {"self": f"{url}?company={quote(row['company'])}"}
        | ({} if act is None else {act: f"{url}/{act}"}),
    }


def full_event(row: RowMapping) -> dict[str, Any]:
    """What FullEvent describes."""
    return _event(row) | {"facts": portable(row["facts"])}


def _event(row: RowMapping) -> dict[str, Any]:
    job = None if row["job_id"] is None else str(row["job_id"])
    return {
        "at": show_instant(row["at"]),
        "event": row["event"],
        "requester": row["requester"],
        "approver": row["approver"],
        "job_id": job,
        "status_url": None if job is None else job_url(job),
        "reason": row["reason"],
    }


def affected_views(rows: Sequence[RowMapping]) -> list[dict[str, Any]]:
    """What AffectedView describes, of each."""
    return [dict(row) | {"runs": [str(run) for run in row["runs"]]} for row in rows]


def period_not_found(key: PeriodKey) -> Problem:
    """The 404 of a period, and of one of another account's company."""
    detail = f"period {key.period} of company {key.company} is unknown here"
    return Problem(slug="period-not-found", detail=detail)


def period_state(status: PeriodStatus, more: dict[str, Any] | None = None) -> Problem:
    """The 409 of a period that is in another state."""
    detail = f"the period is {status}"
    return Problem(slug="period-state", detail=detail, more={"state": status} | (more or {}))


def later_period_closed(periods: Sequence[str]) -> Problem:
    """The 409 of a period that is not the latest closed one."""
    detail = f"reopen {', '.join(reversed(periods))} first, in this order"
    return Problem(slug="later-period-closed", detail=detail, more={"periods": list(periods)})
