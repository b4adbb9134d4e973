"""What all open pages of jobs ask of the database, together: one look an interval, however many.

A page whose interval is over joins the next look, and so do all others of this process: those of
one job as of many, of lists as of single jobs. The look is one statement for all of them (one for
each scope, where what is seen depends on it). Nobody asks, nothing is looked at.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.resources import Resources
from api.ui.live import SECONDS
from shared.access import EVERYTHING, Scope
from shared.jobs.pace import Row
from shared.jobs.reasons import reason_of
from shared.jobs.watched import watched_jobs
from shared.jobs.why import explain_jobs
from shared.types import JobState

CHUNK = 500
# Pages that come together are one look: whoever asks first waits so long for the others.
GATHER = 0.1
DETAILS_AT_ONCE = 2


@dataclass(slots=True, eq=False)
class Look:
    """What is asked for by the next look, and what it finds."""

    pages: defaultdict[Scope, set[UUID]] = field(default_factory=lambda: defaultdict(set))
    listed: set[UUID] = field(default_factory=set)
    explained: dict[Scope, dict[UUID, Row]] = field(default_factory=dict)
    rows: dict[UUID, Row] = field(default_factory=dict)
    reasons: dict[UUID, Row] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class Following:
    """Gathers what the pages ask for. `looks` counts how often the database was asked."""

    resources: Resources
    looks: int = 0
    # Who reads more of his job: few at once, so that no request waits for a connection.
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DETAILS_AT_ONCE))
    _next: Look | None = None
    _due: float = 0.0

    async def page(self, job_id: UUID, scope: Scope) -> Row | None:
        """A row of explain_job() as of the next look; None where the table has no such job."""
        look = self._join()
        look.pages[scope].add(job_id)
        await self._looked(look)
        return look.explained[scope].get(job_id)

    async def listed(self, ids: Collection[UUID]) -> Sequence[tuple[Row, Row | None]]:
        """Rows of a list as of the next look, each with the facts of why it waits, if it does."""
        look = self._join()
        look.listed.update(ids)
        await self._looked(look)
        found = [look.rows[job_id] for job_id in ids if job_id in look.rows]
        return [(row, look.reasons.get(row["id"])) for row in found]

    def _join(self) -> Look:
        if self._next is None:
            self._next = Look()
        return self._next

    async def _looked(self, look: Look) -> None:
        if look.task is None:
            look.task = asyncio.create_task(self._run(look), name="pages look")
        # Whoever leaves keeps nobody else from what he has asked for, too.
        await asyncio.shield(look.task)

    async def _run(self, look: Look) -> None:
        await asyncio.sleep(max(SECONDS * GATHER, self._due - monotonic()))
        self._next, self._due = None, monotonic() + SECONDS
        self.looks += 1
        async with self.resources.background.connect() as conn:
            for scope, ids in look.pages.items():
                look.explained[scope] = {}
                for chunk in _chunks(ids):
                    look.explained[scope] |= await explain_jobs(conn, chunk, scope)
            for chunk in _chunks(look.listed):
                look.rows |= await watched_jobs(conn, chunk)
            look.reasons = await reasons_of(conn, look.rows.values())


def _chunks(ids: Collection[UUID]) -> Iterator[Sequence[UUID]]:
    found = sorted(ids)
    return (found[n : n + CHUNK] for n in range(0, len(found), CHUNK))


async def reasons_of(conn: AsyncConnection, rows: Collection[Row]) -> dict[UUID, Row]:
    """Of those that wait, the facts that say why, by one statement; what it names is of no scope.

    A list says the reason and no more than that: neither counts nor whose the lock is.
    """
    found: dict[UUID, Row] = {}
    waiting = [row["id"] for row in rows if row["state"] == JobState.PENDING]
    for chunk in _chunks(waiting):
        found |= await explain_jobs(conn, chunk, EVERYTHING, ahead=False)
    return found


def waits(row: Row | None) -> Mapping[str, Any] | None:
    """The key of the words for why a job waits, and their values; None where it does not wait.

    The row may be newer than the list: of a job that has begun by now there is nothing to say.
    """
    if row is None or row["state"] != JobState.PENDING:
        return None
    root = row["held_root"] or row["reserved_root"]
    return {
        "key": f"waits.{reason_of(row)}",
        "seconds": row["due_in"],
        "queue": row["queue"],
        "root": root,
    }
