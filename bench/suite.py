"""Runs rows one after the other; a row that fails is told as failed, and the others go on."""

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from bench.figures import Figure, figure_of
from bench.place import Place
from bench.row import Measured, Row, Scale, Sizes

# A row that hangs must not keep the others from being measured.
LONGEST_SECONDS = {Scale.TINY: 300, Scale.QUICK: 300, Scale.USUAL: 1_200, Scale.LONG: 6 * 3600}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRun:
    """What came of a row: figures, or why there are none."""

    name: str
    title: str
    against: str
    taken_at: str
    commit: str
    scale: str
    seconds: float
    sizes: Sizes
    figures: Sequence[Figure] = ()
    limits: Sequence[Measured] = ()
    ours: Sequence[Measured] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    failed: str | None = None

    @property
    def reached(self) -> bool:
        """Whether every target is reached; a failed row reaches none."""
        return self.failed is None and all(each.reached is not False for each in self.figures)

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"figures": [each.as_json() for each in self.figures]}


def row_run_of(told: dict[str, Any]) -> RowRun:
    """The run of a row again, from `as_json`."""
    return RowRun(**told | {"figures": [figure_of(each) for each in told["figures"]]})


async def run_row(
    row: Row[Any], place: Place, scale: Scale, *, changes: Sizes, commit: str, say: Say
) -> RowRun:
    """Measure one row: prepared once, limit and ours in turn, the order turned every round."""
    sizes = {**row.sizes[scale], **{n: v for n, v in changes.items() if n in row.sizes[scale]}}
    began, at = monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(LONGEST_SECONDS[scale]):
            found = await _measure(row, place, sizes, say)
    except Exception as error:  # noqa: BLE001 - whatever became of it, the next row is measured
        say(traceback.format_exc())
        found = {"failed": f"{type(error).__name__}: {error}"[:2000]}
    return RowRun(
        name=row.name,
        title=row.title,
        against=row.against,
        taken_at=at,
        commit=commit,
        scale=scale.value,
        seconds=round(monotonic() - began, 1),
        sizes=sizes,
        **found,
    )


async def _measure(row: Row[Any], place: Place, sizes: Sizes, say: Say) -> dict[str, Any]:
    limits: list[Measured] = []
    ours: list[Measured] = []
    async with row.prepare(place, sizes) as prepared:
        for number in range(sizes["rounds"]):
            # Turned every time: whoever goes second finds caches and disk as the first left them.
            if number % 2 or not row.turns:
                ours.append(await row.ours(prepared))
                limits.append(await row.limit(prepared))
            else:
                limits.append(await row.limit(prepared))
                ours.append(await row.ours(prepared))
            say(f"  {row.name} {number + 1}/{sizes['rounds']}: {_told(limits[-1], ours[-1])}")
        detail = dict(row.detail(prepared))
    figures = row.judge(limits, ours)
    return {"figures": figures, "limits": limits, "ours": ours, "detail": detail}


def _told(limit: Measured, ours: Measured) -> str:
    sides = (("limit", limit), ("ours", ours))
    return "; ".join(
        f"{side} " + ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
        for side, measured in sides
        if measured
    )
