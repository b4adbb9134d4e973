"""What the overview shows: read once for all who look."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from api.bodies import end_of_id
from api.resources import Resources
from api.routes.alerts import rules_of, view_of
from api.ui.findings import Finding, find
from shared.access import Scope
from shared.alerts.state import open_alerts
from shared.database import DATABASE_ERRORS
from shared.jobs.crew import Crew, read_crew
from shared.jobs.freeze import list_freezes
from shared.jobs.kinds import list_kinds
from shared.jobs.minutes import History, read_history, read_rates
from shared.jobs.queues import MOST_COUNTED, list_queues

# What comes live every two seconds stays small, whatever there is: so many rows of each list, those
# that matter; the others stand on pages of their own.
MOST_ROWS = 10
# What changes by the minute is not asked for every two seconds.
HISTORY_SECONDS = 15.0
Span = Literal["hour", "day"]
STEPS: Mapping[str, tuple[int, int]] = {"hour": (60, 60), "day": (900, 96)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One moment of the platform, as a scope sees it.

    `counts` and `alerts` belong to no company: None where the scope is not all of them, the counts
    also while there are too many jobs to be counted in time.
    """

    queues: Sequence[Mapping[str, Any]]
    crew: Crew
    kinds: Sequence[RowMapping]
    freezes: Sequence[RowMapping]
    counts: Mapping[str, Any] | None
    alerts: Sequence[Mapping[str, Any]] | None
    history: History
    rates: Mapping[str, float]
    due_seconds: float

    @property
    def totals(self) -> Mapping[str, int]:
        """Jobs by state over all queues, as far as they are counted."""
        return {
            name: sum(queue[name] for queue in self.queues)
            for name in ("pending", "due", "running", "dead")
        }

    @property
    def oldest(self) -> float | None:
        """How long the oldest due job of a queue that is not paused has waited (seconds)."""
        waited = [
            each["oldest_due_seconds"]
            for each in self.queues
            if each["oldest_due_seconds"] is not None and not each["paused"]
        ]
        return max(waited, default=None)

    @property
    def starved(self) -> Mapping[str, float]:
        """Queue → how long (seconds) its oldest due job has waited that no operator has stopped.

        As the alert counts it; a scope that is not told that: of its own jobs, stopped ones too.
        """
        if self.counts is not None:
            return dict(self.counts["starved"])
        waits = {each["name"]: each["oldest_due_seconds"] for each in self.queues}
        return {name: seconds for name, seconds in waits.items() if seconds is not None}

    @property
    def starving(self) -> bool:
        """Whether a job of an open queue has waited longer than it may."""
        return any(
            self.starved.get(each["name"], 0.0) > self.due_seconds
            for each in self.queues
            if not each["paused"]
        )

    @property
    def shown_queues(self) -> Sequence[Mapping[str, Any]]:
        """The queues that matter: paused ones, those that starve, bury or do most; by name."""
        return _shown(
            self.queues,
            lambda each: (
                not each["paused"],
                each["paused"] or self.starved.get(each["name"], 0.0) <= self.due_seconds,
                -each["dead"],
                -each["running"] - each["pending"],
            ),
        )

    @property
    def shown_kinds(self) -> Sequence[RowMapping]:
        """The kinds that matter: paused ones and those that run most; by name."""
        return _shown(self.kinds, lambda each: (not each["paused"], -each["running"]))

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong, the worst first."""
        return find(self)


@dataclass(slots=True)
class OverviewReader:
    """Reads the overview of a scope again and again; the history more rarely than the rest."""

    resources: Resources
    scope: Scope
    span: Span = "hour"
    _history: tuple[History, Mapping[str, float]] | None = None
    _again_at: float = field(default=0.0)

    async def read(self) -> Overview:
        """Ask the database once; the counts are those of /metrics, asked as rarely as there."""
        everywhere, scope = self.scope.is_everything, self.scope
        async with self.resources.reading() as conn:
            queues = await list_queues(conn, scope=scope)
            crew = await read_crew(conn, most=MOST_ROWS, scope=scope)
            kinds = await list_kinds(conn, scope=scope)
            freezes = await list_freezes(conn, scope=scope)
            alerts = await open_alerts(conn) if everywhere else None
            history, rates = await self._past(conn)
        counts = await self._counts() if everywhere else None
        rules = rules_of(self.resources)
        return Overview(
            queues=[dict(row) for row in queues],
            crew=crew_as_seen(crew, everywhere=everywhere),
            kinds=kinds,
            freezes=freezes,
            counts=counts,
            alerts=None
            if alerts is None
            else [view_of(row, rules.get(row["rule"])) for row in alerts],
            history=history,
            rates=rates,
            due_seconds=self.resources.settings.limits.due_seconds,
        )

    async def _counts(self) -> Mapping[str, Any] | None:
        """Those of /metrics; the rest of the page must not wait for what cannot be counted now."""
        try:
            return (await self.resources.counting.counted()).counts
        except (*DATABASE_ERRORS, TimeoutError):
            return None

    async def _past(self, conn: AsyncConnection) -> tuple[History, Mapping[str, float]]:
        if self._history is None or monotonic() >= self._again_at:
            step, steps = STEPS[self.span]
            history = await read_history(conn, step=step, steps=steps, scope=self.scope)
            self._history = (history, await read_rates(conn, scope=self.scope))
            self._again_at = monotonic() + HISTORY_SECONDS
        return self._history


def _shown(rows: Sequence[Any], order: Callable[[Any], tuple[Any, ...]]) -> Sequence[Any]:
    """The first of them by `order`, as many as are shown, by name: names do not jump about."""
    if len(rows) <= MOST_ROWS:
        return rows
    first = sorted(rows, key=lambda each: (*order(each), str(each["name"])))[:MOST_ROWS]
    return sorted(first, key=lambda each: str(each["name"]))


def crew_as_seen(crew: Crew, *, everywhere: bool) -> Crew:
    """As who sees all companies may know it, or who does not."""
    return Crew(
        groups=crew.groups,
        notable=[worker_as_seen(each, everywhere=everywhere) for each in crew.notable],
    )


def worker_as_seen(row: Mapping[str, Any], *, everywhere: bool) -> Mapping[str, Any]:
    """Where a worker is, is for accounts of all companies; others see the end of its id."""
    if everywhere:
        return row
    return dict(row) | {"worker_id": end_of_id(row["worker_id"]), "host": None, "pid": None}


def counted(number: int) -> bool:
    """Whether a count of pending jobs is exact; beyond the border it is only `at least`."""
    return number < MOST_COUNTED
