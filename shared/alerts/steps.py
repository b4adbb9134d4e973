"""One step of one alert: from what was known to what is, and what there is to tell. No I/O.

    (nothing) → pending → firing → resolved
A rule that is kept again before it has fired leaves nothing behind. What fires is told once, told
again after a long while, and told when it is over. In a silence nothing new is told of what fires;
what is over is put down, and waits for the silence to end (notices.py): whoever knows of an alert
hears what has become of it then, and nobody of what came and went meanwhile.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid4

from shared.alerts.rules import Rule

News = Literal["firing", "still firing", "resolved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A rule broken for a subject, as it is stored; it fires from `fired_at` to `resolved_at`."""

    rule: str
    subject: str
    severity: str
    incident: UUID
    value: float
    since: datetime
    fired_at: datetime | None = None
    clear_since: datetime | None = None
    resolved_at: datetime | None = None
    told_at: datetime | None = None

    @property
    def fires(self) -> bool:
        """Whether it has fired and is not over."""
        return self.fired_at is not None and self.resolved_at is None


def broken(
    rule: Rule, subject: str, value: float, before: Alert | None, now: datetime, *, silenced: bool
) -> tuple[Alert, News | None]:
    """The alert after a look that found the rule broken, and what is to be told of it."""
    if before is None or before.resolved_at is not None:
        before = Alert(
            rule=rule.name,
            subject=subject,
            severity=rule.severity,
            incident=uuid4(),
            value=value,
            since=now,
        )
    after = replace(before, value=value, severity=rule.severity, clear_since=None)
    if after.fired_at is None:
        if now - after.since < timedelta(seconds=rule.for_seconds):
            return after, None
        after = replace(after, fired_at=now)
    if silenced:
        return after, None
    if after.told_at is None:
        return replace(after, told_at=now), "firing"
    if now - after.told_at >= timedelta(seconds=rule.repeat_seconds):
        return replace(after, told_at=now), "still firing"
    return after, None


def kept(
    before: Alert, now: datetime, *, resolve_seconds: float
) -> tuple[Alert | None, News | None]:
    """The alert after a look that found its rule kept; None: there is nothing left of it."""
    if before.resolved_at is not None:
        return before, None
    if before.fired_at is None:
        return None, None
    clear_since = before.clear_since or now
    if now - clear_since < timedelta(seconds=resolve_seconds):
        return replace(before, clear_since=clear_since), None
    after = replace(before, clear_since=clear_since, resolved_at=now)
    return after, None if before.told_at is None else "resolved"
