"""A sighting: a watched job as one query saw it, rendered once for all who watch it."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from api.bodies import job_summary
from shared.jobs.pace import Row
from shared.json_text import to_json
from shared.types import TERMINAL

EventName = Literal["state", "progress", "end"]
# What differs between two looks at a job of which nothing has changed.
OF_THE_LOOK = frozenset({"read_at", "due_in"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The job as events tell it. `event_id` is the same for the same news, on every api."""

    view: Mapping[str, Any]
    data: str
    event_id: str
    eta: datetime | None

    @property
    def ended(self) -> bool:
        """Whether the job is in a state that it leaves by a redrive at most."""
        return self.view["state"] in TERMINAL


@dataclass(slots=True, eq=False)
class Sighting:
    """One look at one job; `shown` is the whole of it, read later and once for all who ask."""

    facts: Mapping[str, Any]
    rendering: Rendering
    shown: "asyncio.Task[Any] | None" = field(default=None)


def sighting_of(row: Row, last: Sighting | None) -> Sighting:
    """The row as a sighting; where nothing has changed since the last, that one's rendering."""
    facts = {str(name): value for name, value in row.items() if name not in OF_THE_LOOK}
    if last is not None and last.facts == facts and not _has_passed(last.rendering.eta, row):
        return Sighting(facts, last.rendering)
    return Sighting(facts, _rendered(row))


def _has_passed(eta: datetime | None, row: Row) -> bool:
    return eta is not None and eta <= row["read_at"]


def _rendered(row: Row) -> Rendering:
    view = job_summary(row)
    data = to_json(view)
    progress = view["progress"] or {}
    eta = progress.get("eta")
    return Rendering(
        view=view,
        data=data,
        event_id=_event_id(row, data),
        eta=None if eta is None else datetime.fromisoformat(eta),
    )


def _event_id(row: Row, data: str) -> str:
    """Of an end: which one, whatever is told of it; of all else: what is told."""
    if row["state"] in TERMINAL:
        at = row["finished_at"].timestamp()
        return f"end.{row['state']}.{row['fence']}.{at:.6f}"
    return f"{row['fence']}.{hashlib.sha256(data.encode()).hexdigest()[:24]}"


def event_name(now: Rendering, before: Rendering | None) -> EventName:
    """What this is to somebody who was told `before` last."""
    if now.ended:
        return "end"
    if before is None:
        return "state"
    return "progress" if _beside(now) == _beside(before) else "state"


def _beside(rendering: Rendering) -> dict[str, Any]:
    return {name: value for name, value in rendering.view.items() if name != "progress"}
