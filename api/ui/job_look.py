"""One look at one job: everything that its page shows, read by the functions of the /v1 routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Caller
from api.bodies import job_view
from api.group_views import group_view
from api.resources import Resources
from api.routes.why import redrive_refused, told_to, why_view
from api.ui.advice import Advice, advice_of
from api.ui.events_of_job import Happened, Run, events_of, runs_of
from api.ui.timeline import Timeline, draw
from api.ui.why_vietnamese import sentence as vietnamese
from shared.access import Role
from shared.audit import list_audit
from shared.groups.group import read_group
from shared.jobs.outcomes import list_outcomes
from shared.jobs.pace import Row
from shared.jobs.read import get_job, show_job
from shared.jobs.reasons import Reason
from shared.jobs.why import explain_job
from shared.types import TERMINAL, JobState

MOST_ACTS = 100
MOST_FAILURES = 10
# Kinds whose jobs have documents, each with an outcome of its own.
OF_DOCUMENTS = frozenset({"posting.post", "posting.unpost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found. `acts` is None where the reader may not see the audit."""

    job: Mapping[str, Any]
    why: Mapping[str, Any]
    advice: Advice
    vietnamese: str
    runs: Sequence[Run]
    events: Sequence[Happened]
    timeline: Timeline
    acts: Sequence[Mapping[str, Any]] | None
    group: Mapping[str, Any] | None
    joins: Mapping[str, Any] | None
    failures: Sequence[RowMapping]
    payload: Any
    archived: bool
    read_at: datetime

    @property
    def active(self) -> bool:
        """Whether it may still run."""
        return self.job["state"] not in TERMINAL

    @property
    def of_documents(self) -> bool:
        """Whether each of its documents has an outcome of its own."""
        return self.job["kind"] in OF_DOCUMENTS

    def seconds_until(self, instant: str) -> float:
        """How long it is until then, at the time of the look."""
        return (datetime.fromisoformat(instant) - self.read_at).total_seconds()

    def seconds_of(self, attempt: Mapping[str, Any]) -> float:
        """How long an attempt took, or has been running."""
        ended = attempt["ended_at"]
        until = self.read_at if ended is None else datetime.fromisoformat(ended)
        return (until - datetime.fromisoformat(attempt["started_at"])).total_seconds()


async def look_at(
    resources: Resources, job_id: UUID, who: Caller, *, payload: bool = False
) -> Look | None:
    """The job as this caller may see it; None when there is none for him.

    With its payload only where that is asked for: it never changes, and may be long.
    """
    async with resources.reading() as conn:
        why = await explain_job(conn, job_id, who.scope)
        row = await show_job(conn, job_id, scope=who.scope)
        if row is None or why is None:
            return None
        whole = await get_job(conn, job_id, scope=who.scope) if payload else None
        acts = None
        if who.has(Role.ADMIN):
            filters = {"job_id": job_id}
            acts = await list_audit(conn, filters, limit=MOST_ACTS, scope=who.scope)
        groups = [await _group(conn, row[name], who) for name in ("group_id", "joins")]
        failures: Sequence[RowMapping] = ()
        if row["kind"] in OF_DOCUMENTS:
            failures = await list_outcomes(conn, row, failed=True, limit=MOST_FAILURES)
    return _seen(resources, row, why, who, acts, groups, failures, whole)


async def _group(conn: AsyncConnection, group_id: UUID | None, who: Caller) -> Any:
    if group_id is None:
        return None
    group = await read_group(conn, group_id, scope=who.scope)
    return None if group is None else group_view(group)


def _seen(  # noqa: PLR0917 - what one look has read
    resources: Resources,
    row: Row,
    why: Row,
    who: Caller,
    acts: Sequence[RowMapping] | None,
    groups: Sequence[Any],
    failures: Sequence[RowMapping],
    whole: Row | None,
) -> Look:
    told = told_to(why, who)
    refused = redrive_refused(resources, why)
    view = why_view(why, refused, told)
    job = job_view(row, everywhere=who.scope.is_everything)
    runs = runs_of(job)
    shown = None if acts is None else [{str(k): act[k] for k in act} for act in acts]
    events = events_of(row, runs, told, shown or ())
    return Look(
        job=job,
        why=view,
        advice=advice_of(view, job),
        vietnamese=vietnamese(Reason(view["reason"]), told, refused),
        runs=runs,
        events=events,
        timeline=draw(
            events,
            runs,
            now=row["read_at"],
            ended=row["state"] in TERMINAL,
            lease_until=row["lease_expires_at"] if row["state"] == JobState.RUNNING else None,
        ),
        acts=shown,
        group=groups[0],
        joins=groups[1],
        failures=failures,
        payload=None if whole is None else whole["payload"],
        archived="due" not in why,
        read_at=row["read_at"],
    )
