"""One look at one job: everything that its page shows, read by the functions of the /v1 routes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from api.actions import job_not_found
from api.authentication import Caller
from api.bodies import job_view
from api.group_views import group_view
from api.problems import ProblemRaised
from api.resources import Resources
from api.routes.why import redrive_refused, told_to, why_view
from api.ui.advice import Advice, advice_of
from api.ui.events_of_job import Happened, Run, events_of, runs_of
from api.ui.following import Following
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
        details = await read_details(conn, job_id, who)
        if details is None or why is None:
            return None
        whole = await get_job(conn, job_id, scope=who.scope) if payload else None
    return put_together(resources, who, why, details, None if whole is None else whole["payload"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What of a job changes with its state, its attempts, or what people do: not all the time."""

    row: Row
    acts: Sequence[RowMapping] | None
    groups: Sequence[Any]
    failures: Sequence[RowMapping]


async def read_details(conn: AsyncConnection, job_id: UUID, who: Caller) -> Details | None:
    """All that explain_job() does not tell; None where this caller sees no such job."""
    row = await show_job(conn, job_id, scope=who.scope)
    if row is None:
        return None
    acts = None
    if who.has(Role.ADMIN):
        acts = await list_audit(conn, {"job_id": job_id}, limit=MOST_ACTS, scope=who.scope)
    groups = [await _group(conn, row[name], who) for name in ("group_id", "joins")]
    failures: Sequence[RowMapping] = ()
    if row["kind"] in OF_DOCUMENTS:
        failures = await list_outcomes(conn, row, failed=True, limit=MOST_FAILURES)
    return Details(row=row, acts=acts, groups=groups, failures=failures)


async def _group(conn: AsyncConnection, group_id: UUID | None, who: Caller) -> Any:
    if group_id is None:
        return None
    group = await read_group(conn, group_id, scope=who.scope)
    return None if group is None else group_view(group)


def put_together(
    resources: Resources, who: Caller, why: Row, details: Details, payload: Any = None
) -> Look:
    """A look, of a row of explain_job() and the details."""
    row, acts = details.row, details.acts
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
        group=details.groups[0],
        joins=details.groups[1],
        failures=details.failures,
        payload=payload,
        archived="due" not in why,
        read_at=row["read_at"],
    )


# Of the job itself: when one of these is another, its details may be as well.
TURNS = (
    *("state", "fence", "attempt", "lost_leases", "interruptions", "cleanup_due", "published_at"),
    *("available_at", "paused_at", "redriven_at", "finished_at", "max_attempts", "priority"),
)
# What other people and jobs do to it is looked for as often.
DETAILS_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class JobFollower:
    """Looks at one job again and again: what decides by the look of all pages together."""

    resources: Resources
    following: Following
    job_id: UUID
    who: Caller
    _details: Details | None = None
    _turns: tuple[Any, ...] = ()
    _again_at: float = 0.0

    async def read(self) -> Look:
        """The job as of the next look; ProblemRaised where there is none any more."""
        why = await self.following.page(self.job_id, self.who.scope)
        if why is None:
            look = await look_at(self.resources, self.job_id, self.who)
            if look is None:
                raise ProblemRaised(job_not_found(self.job_id))
            return look
        turns = tuple(why[name] for name in TURNS)
        if self._details is None or turns != self._turns or monotonic() >= self._again_at:
            async with self.following.turns, self.resources.background.connect() as conn:
                self._details = await read_details(conn, self.job_id, self.who)
            # Not all pages at the same moment.
            self._again_at = monotonic() + DETAILS_SECONDS * random.uniform(0.7, 1.0)
            self._turns = turns
        details = self._details
        if details is None:
            raise ProblemRaised(job_not_found(self.job_id))
        # What moves with each heartbeat is as new as the look.
        newer = {name: why[name] for name in details.row if name in why and name != "error"}
        fresh = replace(details, row={**details.row, **newer})
        return put_together(self.resources, self.who, why, fresh)
