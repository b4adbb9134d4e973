"""Tables for a person: whole on whatever terminal; what does not fit goes to a line of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shared.cli.show import UNBROKEN, plain

GAP = "  "
# As much room as a column of free text wants beside the others.
ROOM = 40
# Columns whose values say themselves what they are.
PLAIN = frozenset({"why", "facts", "progress", "body", "runs", "meaning"})


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    below: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> "Rows":
    """A plain table; columns whose name ends in `#` hold numbers and stand to the right.

    No value of it is ever cut. On a terminal too narrow for it, columns named in `below` get a
    line of their own under each row, and of `spare` as many are left out as have to be, the first
    ones first.
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    return Rows(title, tuple(columns), texts, frozenset(below), tuple(spare))


@dataclass(frozen=True, slots=True)
class Rows:
    """What is to be shown; how is decided when the width is known."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Text]]
    below: frozenset[str]
    spare: tuple[str, ...]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it, side by side if it fits."""
        widths = self._widths()
        if options.max_width >= UNBROKEN:
            yield from self._title()
            yield from self._rows(list(range(len(widths))), widths)
            return
        flexible = [self._name(n) in self.below for n in range(len(widths))]
        least = [
            min(width, ROOM) if bends else width
            for width, bends in zip(widths, flexible, strict=True)
        ]
        if sum(least) + len(GAP) * len(least) <= options.max_width:
            yield self._side_by_side()
        else:
            yield from self._narrow(widths, options.max_width)

    def _name(self, number: int) -> str:
        return self.columns[number].removesuffix("#")

    def _widths(self) -> list[int]:
        return [
            max([len(self._name(n)), *(_width(row[n]) for row in self.rows)])
            for n in range(len(self.columns))
        ]

    def _side_by_side(self) -> Table:
        made = Table(
            title=self.title or None,
            title_justify="left",
            box=None,
            pad_edge=False,
            padding=(0, len(GAP), 0, 0),
        )
        for column in self.columns:
            name = column.removesuffix("#")
            justify: Any = "right" if column.endswith("#") else "left"
            made.add_column(name, justify=justify, no_wrap=name not in self.below, overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made

    def _narrow(self, widths: list[int], most: int) -> Iterator[Any]:
        yield from self._title()
        header, *lines = self._rows(self._kept(widths, most), widths)
        yield header
        for row, line in zip(self.rows, lines, strict=True):
            yield line
            told = ", ".join(self._below(row))
            if told:
                yield Padding(Text(told, overflow="fold"), (0, 0, 0, 4))

    def _title(self) -> Iterator[Text]:
        if self.title:
            yield Text(self.title, style="italic")

    def _rows(self, kept: list[int], widths: list[int]) -> Iterator[Text]:
        """The header, then each row, by those columns alone."""
        header = [Text(self._name(n), style="bold") for n in range(len(self.columns))]
        yield self._line(header, kept, widths)
        for row in self.rows:
            yield self._line(row, kept, widths)

    def _kept(self, widths: list[int], most: int) -> list[int]:
        """The columns that stay on the line of a row."""
        kept = [n for n in range(len(widths)) if self._name(n) not in self.below]
        for name in self.spare:
            if sum(widths[n] + len(GAP) for n in kept) - len(GAP) <= most:
                break
            kept = [n for n in kept if self._name(n) != name]
        return kept

    def _line(self, row: list[Text], kept: list[int], widths: list[int]) -> Text:
        """One row; where it is still too wide it goes on in the next line, between two words."""
        line = Text(overflow="fold")
        for number in kept:
            cell = Text(" ").join(row[number].split())
            blanks = " " * (widths[number] - _width(row[number]))
            right = self.columns[number].endswith("#")
            line.append_text(Text(blanks) + cell if right else cell + Text(blanks))
            line.append(GAP)
        line.rstrip()
        return line

    def _below(self, row: list[Text]) -> Iterator[str]:
        for number, cell in enumerate(row):
            name, said = self._name(number), " ".join(cell.plain.split())
            if name in self.below and said:
                yield said if name in PLAIN else f"{name} {said}"


def _text(value: Any) -> Text:
    return value if isinstance(value, Text) else plain("" if value is None else value)


def _width(cell: Text) -> int:
    return max((Text(line).cell_len for line in cell.plain.splitlines()), default=0)
