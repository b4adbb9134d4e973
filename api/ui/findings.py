"""Is anything wrong? What an operator should know of, put into words and places to look at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from api.ui.browser import Language
from api.ui.showing import duration, number

if TYPE_CHECKING:
    from api.ui.overview import Overview

LAG_SECONDS = 60.0
SUBJECTS = ("queue", "kind", "books")
LEVELS = ("bad", "warn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`key` are its words, `place` is where to look (None: it says all there is)."""

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


def _said(name: str, value: Any, language: Language) -> str:
    match name:
        case "n":
            return number(value, language)
        case "seconds":
            return duration(value, language)
        case _:
            return str(value)


def find(seen: "Overview") -> Sequence[Finding]:
    """All of it, the worst first."""
    found = (*_of_queues(seen), *_of_workers(seen), *_of_delivery(seen), *_of_stops(seen))
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def _finding(level: str, key: str, place: str | None, **values: Any) -> Finding:
    return Finding(level=level, key=f"overview.{key}", place=place, values=values)


def _jobs(**query: str) -> str:
    return f"/ui/jobs?{urlencode(query)}"


def queue_place(name: str) -> str:
    """Where a queue is shown, and paused or resumed, however many there are."""
    return f"/ui/queues?{urlencode({'name': name})}"


def kind_place(name: str) -> str:
    """Where a kind is shown, and paused or resumed."""
    return f"/ui/kinds?{urlencode({'name': name})}"


def _of_queues(seen: "Overview") -> Iterator[Finding]:
    if seen.totals["dead"]:
        yield _finding("bad", "some_dead", "/ui/dead-letters", n=seen.totals["dead"])
    for queue in seen.queues:
        name, waited = queue["name"], seen.starved.get(queue["name"], 0.0)
        if queue["paused"]:
            yield _finding(
                "warn", "queue_paused", queue_place(name), queue=name, n=queue["pending"]
            )
        elif waited > seen.due_seconds:
            yield _finding("bad", "starved", _jobs(state="pending"), queue=name, seconds=waited)
        if queue["alone_worker"] is not None:
            yield _finding("warn", "alone", _jobs(state="running"), queue=name)


def _of_workers(seen: "Overview") -> Iterator[Finding]:
    if not seen.crew.live:
        level = "bad" if seen.totals["due"] or seen.totals["running"] else "warn"
        yield _finding(level, "no_worker", None, n=seen.totals["due"])
    else:
        for each in (seen.counts or {}).get("unserved", ()):
            place = _jobs(state="pending", kind=each["kind"])
            yield _finding("bad", "unserved", place, kind=each["kind"], n=each["jobs"])
    if seen.crew.lost:
        yield _finding("warn", "lost_workers", "/ui/workers?state=lost", n=seen.crew.lost)


def _of_delivery(seen: "Overview") -> Iterator[Finding]:
    """Of the messages, which belong to no company."""
    counts = seen.counts
    if counts is None:
        return
    if (counts["outbox_stuck_seconds"] or 0) > LAG_SECONDS:
        yield _finding("bad", "outbox_late", None, seconds=counts["outbox_stuck_seconds"])
    if counts["quarantined"]:
        yield _finding("bad", "quarantined", None, n=counts["quarantined"])
    if counts["dead_messages"]:
        yield _finding("warn", "dead_messages", "/ui/dead-letters", n=counts["dead_messages"])


def _of_stops(seen: "Overview") -> Iterator[Finding]:
    """What somebody has stopped on purpose, and may have forgotten."""
    for kind in seen.kinds:
        if kind["paused"]:
            place = kind_place(kind["name"])
            yield _finding("warn", "kind_paused", place, kind=kind["name"])
    for freeze in seen.freezes:
        books = " · ".join(filter(None, (freeze["company"], freeze["brand"])))
        reason = freeze["reason"] or "–"
        yield _finding("warn", "frozen", None, books=books, by=freeze["principal"], reason=reason)
