"""A job's result as tables: what is one value, what is counted by name, what is a list of rows.

Kinds bring what they like; whatever it is, the whole of it stands below as JSON.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 20
MOST_COLUMNS = 8
LONGEST_CELL = 300
FILE_URL = re.compile(r"/v1/files/([0-9a-f-]{36})")
# Members that name a cost run, which has a page of its own.
RUNS = frozenset({"run_id", "cost_run", "cost_run_id", "opening_run_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is shown of a value, and where it leads, if anywhere."""

    text: str
    href: str | None = None
    number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A list of rows under its name; `more` are left out."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more: int


@dataclass(slots=True, kw_only=True)
class Laid:
    """A result laid out."""

    outcome: str | None = None
    facts: list[tuple[str, Cell]] = field(default_factory=list)
    counts: list[tuple[str, list[tuple[str, Cell]]]] = field(default_factory=list)
    tables: list[Rows] = field(default_factory=list)


def lay_out(result: Any) -> Laid:
    """The tables of a result; empty for what is no object."""
    laid = Laid()
    if not isinstance(result, dict):
        return laid
    for name, value in result.items():
        if name == "outcome" and isinstance(value, str):
            laid.outcome = value
        else:
            _place(laid, str(name), value)
    return laid


def _place(laid: Laid, name: str, value: Any) -> None:
    if isinstance(value, dict) and value and all(map(_is_plain, value.values())):
        laid.counts.append((name, [(str(key), _cell(key, each)) for key, each in value.items()]))
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        laid.tables.append(_rows(name, value))
    elif _is_plain(value):
        laid.facts.append((name, _cell(name, value)))
    elif isinstance(value, list) and all(map(_is_plain, value)):
        said = ", ".join(map(_text, value[:MOST_ROWS]))
        more = f" … (+{len(value) - MOST_ROWS})" if len(value) > MOST_ROWS else ""
        laid.facts.append((name, Cell(text=(said or "–") + more)))


def _rows(name: str, found: Sequence[Mapping[str, Any]]) -> Rows:
    shown = found[:MOST_ROWS]
    columns = list(dict.fromkeys(key for row in shown for key in row))[:MOST_COLUMNS]
    return Rows(
        name=name,
        columns=columns,
        rows=[[_cell(column, row.get(column)) for column in columns] for row in shown],
        more=len(found) - len(shown),
    )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _cell(name: object, value: Any) -> Cell:
    text = _text(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) and (found := FILE_URL.fullmatch(value)):
        return Cell(text=text, href=f"/ui/files/{found[1]}")
    if name in RUNS and re.fullmatch(r"[0-9]{1,18}", text):
        return Cell(text=text, href=f"/ui/runs/{text}")
    return Cell(text=text, number=is_number)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        value = ", ".join(map(_text, value))
    said = str(value).lower() if isinstance(value, bool) else str(value)
    return said if len(said) <= LONGEST_CELL else f"{said[: LONGEST_CELL - 1]}…"
