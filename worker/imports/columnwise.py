"""Lines of a CSV with nothing odd in them, read column by column and staged all at once.

A line costs a few hundred nanoseconds so, where cell by cell it costs twenty microseconds. Whatever
there is to tell of a line (a rule that it breaks, a cell that is none) is told by reading that line
by itself, so that there is one place that says what is wrong: this one only says which are right.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from worker.imports.cells import Conventions
from worker.imports.columns import Head
from worker.imports.layout import Layout

# Cells have no control characters: the reading of them sees to it.
ESCAPES = str.maketrans({"\\": "\\\\"})
EMPTY = "\\N"


@dataclass(slots=True, kw_only=True)
class Columnwise:
    """How lines of one file are staged; `prefix` is what stands before each line's number."""

    head: Head
    layout: Layout
    how: Conventions
    prefix: str
    company: str
    sound: dict[Hashable, bool] = field(default_factory=dict)

    def stage(self, first: int, rows: Sequence[Sequence[str]]) -> list[str | None]:
        """Each line's row for COPY, without its end; None for one that is to be read by itself.

        `first` is the number of the first line.
        """
        odd = set[int]()
        if any(len(row) != self.head.width for row in rows):
            rows = [self._cut(n, row, odd) for n, row in enumerate(rows)]
        cells = list(zip(*rows, strict=True))
        values: dict[str, Sequence[str]] = {}
        told: list[Sequence[str]] = []
        for place in self.head.places:
            found, said = place.read_all(cells[place.index], self.how, odd)
            values[place.column.name] = found
            if said is not None:
                told.append(said)
        companies = values.pop("company", None)
        if companies is not None:
            odd.update(n for n, code in enumerate(companies) if code not in {"", self.company})
        odd.update(self._broken(values, odd))
        staged = map("\t".join, self._columns(first, len(rows), values, told))
        return [None if n in odd else row for n, row in enumerate(staged)] if odd else list(staged)

    def _cut(self, n: int, row: Sequence[str], odd: set[int]) -> Sequence[str]:
        """The row in the width of the head: behind it there may be empty cells, as in the head."""
        width, padded = self.head.width, self.head.padded_width
        if len(row) == padded and not any(row[width:]):
            return row[:width]
        if len(row) != width:
            odd.add(n)
            return [""] * width
        return row

    def _broken(self, values: Mapping[str, Sequence[str]], odd: set[int]) -> Sequence[int]:
        """Lines whose columns contradict each other, or may do so."""
        shapes = self.layout.shapes
        assert shapes is not None, "only such layouts are read so"
        found = list(shapes(values))
        right = [self.sound.get(shape) for shape in found]
        broken = []
        for n, known in enumerate(right):
            if known or n in odd:
                continue
            if known is False or not self._is_sound(found[n], values, n):
                broken.append(n)
        return broken

    def _is_sound(self, shape: Hashable, values: Mapping[str, Sequence[str]], n: int) -> bool:
        if shape is None:
            return False
        line = {name: column[n] for name, column in values.items() if column[n]}
        found = self.sound[shape] = not self.layout.judge(line)
        return found

    def _columns(
        self,
        first: int,
        rows: int,
        values: Mapping[str, Sequence[str]],
        told: Sequence[Sequence[str]],
    ) -> Iterable[tuple[str, ...]]:
        columns: list[Iterable[str]] = [repeat(self.prefix), map(str, range(first, first + rows))]
        for name in self.layout.staged:
            cells = values.get(name)
            columns.append(repeat(EMPTY) if cells is None else _escaped(cells))
        columns.append(_said(told) if told else repeat(EMPTY))
        return zip(*columns, strict=False)


def _escaped(cells: Sequence[str]) -> Sequence[str]:
    if "" in cells:
        cells = [cell or EMPTY for cell in cells]
        return [c if c == EMPTY else c.translate(ESCAPES) for c in cells] if _odd(cells) else cells
    return [cell.translate(ESCAPES) for cell in cells] if _odd(cells) else cells


def _odd(cells: Sequence[str]) -> bool:
    return any("\\" in cell and cell != EMPTY for cell in cells)


def _said(told: Sequence[Sequence[str]]) -> Iterator[str]:
    """A JSON object a line of what stands in its cells, as json.dumps() would write it."""
    for members in zip(*told, strict=True):
        said = ", ".join(filter(None, members))
        yield f"{{{said}}}".translate(ESCAPES) if said else EMPTY
