"""What a kind of file is: its columns, the rules of a line, and where its lines are staged."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from worker.imports.columns import Column

Values = Mapping[str, str]
# Of lines given column by column ("" for an empty cell): each line's shape. Of two lines of one
# shape judge() says the same, right or wrong; None for a line that is like no other.
Shapes = Callable[[Mapping[str, Sequence[str]]], Iterable[Hashable | None]]


class Problem(NamedTuple):
    """A rule that a line's columns break together, told at one of them.

    `line` counts the lines that are gathered, from 0; it is 0 where nothing is.
    """

    column: str
    rule: str
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Lines that follow each other and agree in `by` are one thing, staged whole or not at all.

    `compose` makes the staged values of those of its lines, or tells what is wrong with them.
    """

    by: Sequence[str]
    compose: Callable[[Sequence[Values]], Values | Sequence[Problem]]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Columns by name; `staged` are those written to `table`, in order, behind job and line."""

    name: str
    columns: Sequence[Column]
    staged: Sequence[str]
    table: str
    judge: Callable[[Values], Sequence[Problem]]
    complete: Callable[[dict[str, str], int], None] | None = None
    gathering: Gathering | None = None
    shapes: Shapes | None = None
