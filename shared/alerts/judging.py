"""Judging: which rules the counts of a moment break, and for whom."""

from collections.abc import Iterable
from dataclasses import dataclass

from shared.alerts.readings import METRICS, Counts
from shared.alerts.rules import Rule, load_rules
from shared.errors import ConfigRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A rule that the counts break. `subject` is for whom ("kind=posting.post"; "" for all)."""

    rule: Rule
    subject: str
    value: float

    @property
    def summary(self) -> str:
        """What it is about, in one line."""
        whose = f" ({self.subject})" if self.subject else ""
        return f"{said(self.value)} {self.rule.summary}{whose}"


def firing(counts: Counts, rules: Iterable[Rule] | None = None) -> list[Firing]:
    """What breaks a rule at this moment, critical first; how long it has is not asked here."""
    chosen = load_rules() if rules is None else rules
    found = [one for rule in chosen if not rule.missing for one in _of(rule, counts)]
    return sorted(found, key=lambda one: (one.rule.severity, one.rule.name, one.subject))


def refuse_unknown(rules: Iterable[Rule]) -> None:
    """ConfigRefused for a rule about a metric or a label that there is none of."""
    for rule in rules:
        metric = METRICS.get(rule.metric)
        if metric is None:
            raise ConfigRefused(
                f"rule {rule.name}: there is no metric {rule.metric}; "
                f"there are {', '.join(sorted(METRICS))}"
            )
        strange = {*rule.by, *rule.where} - set(metric.labels)
        if strange:
            raise ConfigRefused(
                f"rule {rule.name}: {rule.metric} has no label {', '.join(sorted(strange))}"
            )


def values(rule: Rule, counts: Counts) -> dict[str, float]:
    """The rule's number for each of its subjects: the largest, of several that fall together."""
    found: dict[str, float] = {}
    for labels, value in METRICS[rule.metric].read(counts):
        if all(labels.get(name) == wanted for name, wanted in rule.where.items()):
            subject = ",".join(f"{name}={labels[name]}" for name in rule.by)
            found[subject] = max(value, found.get(subject, value))
    return found


def said(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if value < 10 else f"{value:,.0f}"


def _of(rule: Rule, counts: Counts) -> list[Firing]:
    return [
        Firing(rule=rule, subject=subject, value=value)
        for subject, value in values(rule, counts).items()
        if rule.breached(value)
    ]
