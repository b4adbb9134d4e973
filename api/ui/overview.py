"""What the overview shows: read once for all who look, then put into findings and rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping

from api.bodies import end_of_id
from api.resources import Resources
from api.ui.browser import Language
from api.ui.showing import duration, number
from shared.access import Scope
from shared.jobs.freeze import list_freezes
from shared.jobs.kinds import list_kinds
from shared.jobs.queues import MOST_COUNTED, list_queues, list_workers

# Workers that have gone without a word are shown for so long.
LOST_SHOWN = timedelta(hours=1)
LAG_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that an operator should know of: `key` are its words, `place` where to look."""

    level: str
    key: str
    place: str | None
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What tells it from the others of its kind."""
        subject = (str(self.values[name]) for name in SUBJECTS if name in self.values)
        return "-".join((self.key, *subject))

    def said(self, language: Language) -> Mapping[str, str]:
        """Its values as its words take them."""
        return {name: _said(name, value, language) for name, value in self.values.items()}


SUBJECTS = ("queue", "kind", "books", "rule", "subject")


def _said(name: str, value: Any, language: Language) -> str:
    match name:
        case "n":
            return number(value, language)
        case "seconds":
            return duration(value, language)
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One moment of the platform, as a scope sees it. `counts`: of accounts of all companies."""

    queues: Sequence[Mapping[str, Any]]
    workers: Sequence[Mapping[str, Any]]
    kinds: Sequence[RowMapping]
    freezes: Sequence[RowMapping]
    counts: Mapping[str, Any] | None
    at: datetime
    due_seconds: float

    @property
    def live(self) -> int:
        """How many workers are alive."""
        return sum(each["live"] for each in self.workers)

    @property
    def slots(self) -> int:
        """How many jobs the workers alive may run at once."""
        return sum(each["slots"] for each in self.workers if each["live"])

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
    def findings(self) -> Sequence[Finding]:
        """What is wrong, the worst first; what somebody has stopped on purpose stands below."""
        return sorted(self._findings(), key=lambda each: ("bad", "warn").index(each.level))

    def _findings(self) -> list[Finding]:
        found = [*_of_queues(self), *_of_workers(self), *_of_delivery(self)]
        found += [
            _finding("warn", "kind_paused", _jobs(kind=each["name"]), kind=each["name"])
            for each in self.kinds
            if each["paused"]
        ]
        for freeze in self.freezes:
            books = " · ".join(filter(None, (freeze["company"], freeze["brand"])))
            found.append(_finding("warn", "frozen", None, books=books, by=freeze["principal"]))
        return found


def _finding(level: str, key: str, place: str | None, **values: Any) -> Finding:
    return Finding(level=level, key=f"overview.{key}", place=place, values=values)


def _jobs(**query: str) -> str:
    return "/ui/jobs?" + "&".join(f"{name}={value}" for name, value in query.items())


def _of_queues(seen: Overview) -> list[Finding]:
    found = []
    dead = seen.totals["dead"]
    if dead:
        found.append(_finding("bad", "some_dead", "/ui/dead-letters", n=dead))
    for queue in seen.queues:
        name, oldest = queue["name"], queue["oldest_due_seconds"]
        place = _jobs(state="pending")
        if queue["paused"]:
            found.append(_finding("warn", "queue_paused", place, queue=name, n=queue["pending"]))
        elif oldest is not None and oldest > seen.due_seconds:
            found.append(_finding("bad", "starved", place, queue=name, seconds=oldest))
        if queue["alone_worker"] is not None:
            found.append(_finding("warn", "alone", _jobs(state="running"), queue=name))
    return found


def _of_workers(seen: Overview) -> list[Finding]:
    found = []
    if not seen.live:
        level = "bad" if seen.totals["due"] or seen.totals["running"] else "warn"
        found.append(_finding(level, "no_worker", None, n=seen.totals["due"]))
    lost = [each for each in seen.workers if not each["live"]]
    if lost:
        found.append(_finding("warn", "lost_workers", None, n=len(lost)))
    return found


def _of_delivery(seen: Overview) -> list[Finding]:
    """Of the messages, which belong to no company."""
    counts = seen.counts
    if counts is None:
        return []
    found = []
    if (counts["outbox_lag_seconds"] or 0) > LAG_SECONDS:
        seconds, due = counts["outbox_lag_seconds"], counts["outbox_due"]
        found.append(_finding("bad", "outbox_late", None, seconds=seconds, n=due))
    if counts["quarantined"]:
        found.append(_finding("bad", "quarantined", None, n=counts["quarantined"]))
    if counts["dead_messages"]:
        found.append(
            _finding("warn", "dead_messages", "/ui/dead-letters", n=counts["dead_messages"])
        )
    return found


async def read_overview(resources: Resources, scope: Scope) -> Overview:
    """Ask the database once; the counts are those of /metrics, asked as rarely as there."""
    async with resources.reading() as conn:
        queues = await list_queues(conn, scope=scope)
        workers = await list_workers(conn, scope=scope)
        kinds = await list_kinds(conn, scope=scope)
        freezes = await list_freezes(conn, scope=scope)
    everywhere = scope.is_everything
    counts = (await resources.counting.counted()).counts if everywhere else None
    now = datetime.now(UTC)
    return Overview(
        queues=[dict(row) for row in queues],
        workers=[
            _worker(row, everywhere=everywhere)
            for row in workers
            if row["live"] or now - row["seen_at"] < LOST_SHOWN
        ],
        kinds=kinds,
        freezes=freezes,
        counts=counts,
        at=now,
        due_seconds=resources.settings.limits.due_seconds,
    )


def _worker(row: RowMapping, *, everywhere: bool) -> dict[str, Any]:
    """Where a worker is, is for accounts of all companies; others see the end of its id."""
    shown = dict(row)
    shown["slots"] = sum(each["slots"] for each in row["queues"])
    shown["free"] = sum(each["free_slots"] for each in row["queues"])
    if not everywhere:
        shown |= {"worker_id": end_of_id(row["worker_id"]), "host": None, "pid": None}
    return shown


def counted(number: int) -> bool:
    """Whether a count of pending jobs is exact; beyond the border it is only `at least`."""
    return number < MOST_COUNTED
