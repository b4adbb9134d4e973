"""Figures: a number beside its limit and its target, and how far it spreads. Arithmetic only."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Any, Literal

Kind = Literal["ratio", "difference", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that is judged, or only told (no target).

    `value` is the median over the rounds of ours / limit (ratio), ours - limit (difference) or
    ours (count), `low` and `high` the least and the largest of them. `ours` and `limit` are
    medians in `unit`.
    """

    name: str
    kind: Kind
    unit: str
    ours: float
    limit: float | None
    value: float
    low: float
    high: float
    target: float | None
    at_least: bool

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the target; None where there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        """Everything, with what it comes to."""
        return asdict(self) | {"reached": self.reached}


def figure_of(told: dict[str, Any]) -> Figure:
    """The figure again, from `as_json`."""
    return Figure(**{name: value for name, value in told.items() if name != "reached"})


def ratio(
    name: str,
    ours: Sequence[float],
    limit: Sequence[float],
    *,
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Ours as so many times the limit, round by round."""
    values = [mine / theirs for mine, theirs in zip(ours, limit, strict=True)]
    target = _target(at_least, at_most)
    return _figure(name, "ratio", unit, ours=ours, limit=limit, values=values, target=target)


def difference(
    name: str,
    ours: Sequence[float],
    limit: Sequence[float],
    *,
    unit: str,
    at_most: float | None = None,
) -> Figure:
    """Ours as so much above the limit, round by round."""
    values = [mine - theirs for mine, theirs in zip(ours, limit, strict=True)]
    target = _target(None, at_most)
    return _figure(name, "difference", unit, ours=ours, limit=limit, values=values, target=target)


def count(
    name: str,
    ours: Sequence[float],
    *,
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Ours as it was counted."""
    target = _target(at_least, at_most)
    return _figure(name, "count", unit, ours=ours, limit=None, values=ours, target=target)


def _target(at_least: float | None, at_most: float | None) -> tuple[float | None, bool]:
    assert at_least is None or at_most is None, "a target has one side"
    return (at_most, False) if at_least is None else (at_least, True)


def _figure(
    name: str,
    kind: Kind,
    unit: str,
    *,
    ours: Sequence[float],
    limit: Sequence[float] | None,
    values: Sequence[float],
    target: tuple[float | None, bool],
) -> Figure:
    assert values, "a figure is of one round at least"
    return Figure(
        name=name,
        kind=kind,
        unit=unit,
        ours=median(ours),
        limit=None if limit is None else median(limit),
        value=median(values),
        low=min(values),
        high=max(values),
        target=target[0],
        at_least=target[1],
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all is not above (nearest rank)."""
    assert values, "no values"
    assert 0 < share <= 1, "a share"
    return sorted(values)[ceil(share * len(values)) - 1]
