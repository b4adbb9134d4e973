"""Columns: what a kind of file may have, by which heads they are found, and how a line is read."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from worker.imports.cells import (
    Conventions,
    are_plain_codes,
    are_plain_integers,
    are_plain_numbers,
    clean,
    folded,
    read_choice,
    read_code,
    read_date,
    read_integer,
    read_number,
    read_text,
    unbroken,
)
from worker.imports.problems import CellRefused, FileRefused, LineProblem, shown

LONGEST_CODE = 40
LONGEST_TEXT = 500
LONGEST_INTEGER = 2_147_483_647
MOST_HEADS = 200
MOST_REMEMBERED = 10_000
# No more than these are told of one line: who mends three sees the rest at the next try.
MOST_OF_A_LINE = 3

Cell = str
Read = Callable[[str, Conventions], str]
# Whether all of these cells of a CSV, at most empty ones among them, are their own values.
Plain = Callable[[Sequence[str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column by its name and by the heads (in any language) that mean it.

    Of `prose` a line break is a space: it says how the words were laid out, and nothing else.
    """

    name: str
    heads: Sequence[str]
    read: Read
    required: bool = False
    prose: bool = False
    plain: Plain | None = None

    @property
    def known(self) -> frozenset[str]:
        """Its heads as they are compared."""
        return frozenset(folded(head) for head in (self.name, *self.heads))


def code(name: str, *heads: str, required: bool = False, most: int = LONGEST_CODE) -> Column:
    """A code."""
    return Column(
        name=name,
        heads=heads,
        required=required,
        read=lambda t, _: read_code(t, most=most),
        plain=lambda cells: are_plain_codes(cells, most=most),
    )


def phrase(name: str, *heads: str, required: bool = False, most: int = LONGEST_TEXT) -> Column:
    """Words for people."""
    return Column(
        name=name,
        heads=heads,
        required=required,
        read=lambda t, _: read_text(t, most=most),
        prose=True,
    )


def number(name: str, *heads: str, required: bool = False) -> Column:
    """An exact decimal."""
    return Column(
        name=name, heads=heads, required=required, read=read_number, plain=are_plain_numbers
    )


def integer(
    name: str, *heads: str, required: bool = False, least: int = 0, most: int = LONGEST_INTEGER
) -> Column:
    """A whole number."""
    return Column(
        name=name,
        heads=heads,
        required=required,
        read=lambda t, how: read_integer(t, how, least=least, most=most),
        plain=lambda cells: are_plain_integers(cells, least=least, most=most),
    )


def day(name: str, *heads: str, required: bool = False) -> Column:
    """A date."""
    return Column(name=name, heads=heads, required=required, read=read_date)


def choice(name: str, choices: Mapping[str, str], *heads: str, required: bool = False) -> Column:
    """One of some words; `choices` as made by cells.words()."""
    return Column(
        name=name, heads=heads, required=required, read=lambda t, _: read_choice(t, choices)
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A column of the layout and where the file has it."""

    index: int
    column: Column
    # Shops, days and kinds come again and again: what was read once is not read twice.
    memory: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def read(self, cell: Cell, how: Conventions) -> str | None:
        """The cell's value, None for an empty one; CellRefused."""
        # By its type: a spreadsheet's number 1.234 is not the text "1.234".
        plain = type(cell) is str
        if plain and (known := self.memory.get(cell)) is not None:
            return known
        found = clean(unbroken(cell) if plain and self.column.prose else cell)
        if not found:
            if self.column.required:
                raise CellRefused("is empty, and every line needs it")
            return None
        value = self.column.read(found, how)
        if plain and len(self.memory) < MOST_REMEMBERED:
            self.memory[cell] = value
        return value

    def read_all(
        self, cells: Sequence[str], how: Conventions, odd: set[int]
    ) -> tuple[Sequence[str], Sequence[str] | None]:
        """The values of a CSV's column, "" for none, and how each is told where its cell is written
        otherwise (None: all are as they are written). `odd` gets those that have to be told of.
        """
        plain = self.column.plain
        if plain is not None and plain(cells):
            if self.column.required and "" in cells:
                odd.update(n for n, cell in enumerate(cells) if not cell)
            return cells, None
        values = [self.memory.get(cell) for cell in cells]
        if None in values:
            values = [
                self._value(n, cell, how, odd) if known is None else known
                for n, (cell, known) in enumerate(zip(cells, values, strict=True))
            ]
        found = [value or "" for value in values]
        if found == list(cells):
            return found, None
        told = [
            self._told(cell) if value and value != cell else ""
            for cell, value in zip(cells, found, strict=True)
        ]
        return found, told if any(told) else None

    def _value(self, n: int, cell: str, how: Conventions, odd: set[int]) -> str | None:
        try:
            return self.read(cell, how)
        except CellRefused:
            odd.add(n)
            return None

    def _told(self, cell: str) -> str:
        """The member of a JSON object that says what stands in the cell."""
        known = self.words.get(cell)
        if known is None:
            said = {self.column.name: shown(cell)}
            known = json.dumps(said, ensure_ascii=False)[1:-1]
            if len(self.words) < MOST_REMEMBERED:
                self.words[cell] = known
        return known


@dataclass(slots=True)
class Head:
    """The file's first line, understood: which cell is which column."""

    width: int
    places: Sequence[Place]
    # With the empty cells behind the last head: a line may have as many, but no more. One more is
    # no longer harmless: a number written 1,5 between commas has moved all that is behind it.
    padded_width: int

    def read(
        self, line: int, cells: Sequence[Cell], how: Conventions
    ) -> tuple[dict[str, str], list[LineProblem]]:
        """The line's values by column (empty ones are not there), and what is wrong with it."""
        values: dict[str, str] = {}
        problems: list[LineProblem] = []
        # A sheet has no cells behind the last one of a row that has anything in it.
        short = how.spreadsheet and len(cells) < self.width
        if len(cells) != self.width and not short and not self._padded(cells, how):
            return values, [_of_width(line, len(cells), self.width)]
        for place in self.places:
            cell = cells[place.index] if place.index < len(cells) else ""
            try:
                value = place.read(cell, how)
            except CellRefused as refused:
                problems.append(
                    LineProblem(line, place.column.name, shown(cell), "CELL_REFUSED", str(refused))
                )
                if len(problems) == MOST_OF_A_LINE:
                    break
            else:
                if value is not None:
                    values[place.column.name] = value
        return values, problems

    def said(self, cells: Sequence[Cell], values: Mapping[str, str]) -> dict[str, str]:
        """What stands in the cells whose values are written otherwise, as a report may hold it.

        Not the number that a spreadsheet keeps: it shows what was read.
        """
        found = {}
        for place in self.places:
            if place.index < len(cells):
                cell, value = cells[place.index], values.get(place.column.name)
                if value is not None and cell != value and type(cell) is str:
                    found[place.column.name] = shown(cell)
        return found

    def _padded(self, cells: Sequence[Cell], how: Conventions) -> bool:
        """Whether it only has empty cells too many; a sheet says of each where it stands."""
        as_many = how.spreadsheet or len(cells) == self.padded_width
        return as_many and len(cells) > self.width and not any(cells[self.width :])


def read_head(cells: Sequence[Cell], columns: Sequence[Column], *, ignore_others: bool) -> Head:
    """Find the columns by their heads; FileRefused tells all that is missing or strange at once."""
    if len(cells) > MOST_HEADS:
        raise FileRefused("TOO_MANY_COLUMNS", f"the first line has {len(cells)} cells")
    names = [_head_text(cell) for cell in cells]
    while names and not names[-1]:
        names.pop()
    by_head = {head: column for column in columns for head in column.known}
    found: dict[str, list[int]] = {}
    strange: list[str] = []
    for index, name in enumerate(names):
        column = by_head.get(folded(name))
        if column is not None:
            found.setdefault(column.name, []).append(index)
        elif name or not ignore_others:
            strange.append(name)
    _refuse_wrong_heads(found, [] if ignore_others else strange, columns)
    places = [Place(found[column.name][0], column) for column in columns if column.name in found]
    return Head(len(names), places, len(cells))


def heads_found(cells: Iterable[Cell], columns: Sequence[Column]) -> int:
    """How many of the cells are heads of the layout; how a delimiter is judged."""
    known = frozenset().union(*(column.known for column in columns))
    return sum(folded(cell) in known for cell in cells)


def _head_text(cell: Cell) -> str:
    try:
        return clean(unbroken(cell) if type(cell) is str else cell)
    except CellRefused as refused:
        raise FileRefused("HEADS_REFUSED", f"a head {refused}") from None


def _refuse_wrong_heads(
    found: Mapping[str, Sequence[int]], strange: Sequence[str], columns: Sequence[Column]
) -> None:
    missing = [c for c in columns if c.required and c.name not in found]
    twice = [name for name, places in found.items() if len(places) > 1]
    said = []
    if missing:
        named = ", ".join(_with_head(column) for column in missing)
        said.append(f"these columns are missing: {named}")
    if twice:
        said.append(f"these columns are there twice: {', '.join(twice)}")
    if strange:
        named = ", ".join(f"'{shown(name)}'" for name in strange[:20])
        said.append(
            f"these heads are not known: {named} (leave the columns out, or say "
            '--ignore-others; in a request "other_columns": "ignore")'
        )
    if said:
        known = ", ".join(column.name for column in columns)
        raise FileRefused(
            "COLUMNS_MISSING" if missing else "COLUMNS_REFUSED",
            f"{'; '.join(said)}. Columns are: {known}",
        )


def _with_head(column: Column) -> str:
    return f"{column.name} ({column.heads[0]})" if column.heads else column.name


def _of_width(line: int, found: int, width: int) -> LineProblem:
    hint = "is a text with the delimiter in it not quoted?" if found > width else "is it cut off?"
    rule = f"has {found} cells, the first line has {width}: {hint}"
    return LineProblem(line, None, None, "CELLS_MISCOUNTED", rule)
