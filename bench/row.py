"""The common shape of a row: prepare, limit, ours, judge.

A row is prepared once; then limit and ours are measured in turn, round by round, so that whatever
else the machine does meets both. What a round has measured are numbers by name; `judge` makes
figures of them, each with its target.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from bench.figures import Figure
from bench.place import Place

Measured = Mapping[str, float]
Sizes = Mapping[str, int]
T = TypeVar("T")


class Scale(StrEnum):
    """How much is measured: for a test of the bench itself, in 2 minutes, in 20, in hours."""

    TINY = "tiny"
    QUICK = "quick"
    USUAL = "usual"
    LONG = "long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[T]):
    """One row of the table of targets.

    `prepare` opens what the rounds need and closes it again; `sizes` are its sizes by scale, of
    which `rounds` says how often both are measured. With `turns` the order is turned every round;
    without, the limit comes second: it needs what ours has made. `detail` tells what stands in the
    JSON beside the figures. A round that did not do its work raises BenchFailed: a figure is never
    one of failures.
    """

    name: str
    title: str
    against: str
    sizes: Mapping[Scale, Sizes]
    prepare: Callable[[Place, Sizes], AbstractAsyncContextManager[T]]
    limit: Callable[[T], Awaitable[Measured]]
    ours: Callable[[T], Awaitable[Measured]]
    judge: Callable[[Sequence[Measured], Sequence[Measured]], list[Figure]]
    detail: Callable[[T], Mapping[str, Any]] = lambda _: {}
    turns: bool = True


async def counted_only(_: object) -> Measured:
    """The limit of a row that is counted against a number: there is nothing to run."""
    return {}


def each(rounds: Sequence[Measured], name: str) -> list[float]:
    """What every round has measured under that name."""
    return [measured[name] for measured in rounds]
