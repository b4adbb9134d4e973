"""Cells: text as it is, numbers as exact decimals; what a spreadsheet would run stays text."""

from collections.abc import Sequence
from typing import NamedTuple

# What a spreadsheet takes for the beginning of a formula when it opens a CSV file (OWASP, "CSV
# Injection"); the quote itself, so that a reader may take one off without asking what came first.
STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


class Number(str):
    """A cell that is a number: an exact decimal such as "-12.50"."""

    __slots__ = ()


class Column(NamedTuple):
    """A column: its head, and how wide a spreadsheet shows it (characters)."""

    head: str
    width: int = 14


Cell = str | None
Row = Sequence[Cell]


def guarded(cell: Cell) -> str:
    """The cell as CSV has it: a text that would be run, or begins with ', gets a ' before it."""
    if cell is None:
        return ""
    if isinstance(cell, Number) or not cell.startswith(STARTS_FORMULA):
        return cell
    return f"'{cell}"
