"""Read `costing-vectors/1`: worked examples of inventory costing as JSON, checked strictly.

A fault names the file, the field, the value found and the rule it breaks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from worker.costing.movements import Kind, Movement

SCHEMA = "costing-vectors/1"
ALL_WAREHOUSES = "*"
# A vector's movements are numbered by their seq; nothing larger than this is a sane scale.
MOST_DIGITS = 12


class BadFileError(Exception):
    """The file is not a set of worked examples; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One worked example: movements in base units and minor units, and what should come out."""

    id: str
    minor_digits: int
    qty_scale: int
    pooled: bool
    unit_cost_digits: int | None
    movements: dict[str, list[Movement]]
    expected: Mapping[str, Mapping[str, Any]]
    unsupported: str | None


def read_vectors(path: Path) -> list[Vector]:
    """All vectors of a file, which holds a set of them or a single one."""
    try:
        document = json.loads(path.read_text("utf-8"), parse_float=str)
    except OSError as error:
        raise BadFileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadFileError(f"{path}: is not JSON: {error}") from error
    return parse_document(document, str(path))


def parse_document(document: Any, source: str) -> list[Vector]:
    """As `read_vectors`, from a parsed document; `source` is how errors call it."""
    fields = _Fields(document, source)
    if "vectors" not in fields.found and "movements" in fields.found:
        return [_vector(fields)]
    schema = fields.found.get("schema")
    fields.require(schema == SCHEMA, "schema", schema, f"is {SCHEMA!r}")
    vectors = fields.found.get("vectors")
    fields.require(isinstance(vectors, list), "vectors", vectors, "is a list")
    return [_vector(_Fields(v, f"{source}: vectors[{i}]")) for i, v in enumerate(vectors or [])]


class _Fields:
    """One JSON object and its place, for errors that say where."""

    def __init__(self, found: Any, place: str) -> None:
        self.place = place
        if not isinstance(found, dict):
            raise BadFileError(f"{place}: found {_shown(found)}, which must be an object")
        self.found: dict[str, Any] = found

    def require(self, holds: bool, field: str, value: Any, rule: str) -> None:  # noqa: FBT001 - the condition itself
        """Raise, naming field, value and rule, unless the condition holds."""
        if not holds:
            raise BadFileError(f"{self.place}: {field} = {_shown(value)}, but it must be: {rule}")

    def text(self, field: str) -> str:
        """A required string that is not empty."""
        value = self.found.get(field)
        self.require(isinstance(value, str) and value != "", field, value, "a string, not empty")
        return str(value)

    def whole(self, field: str, default: int | None, low: int, high: int) -> int | None:
        """An integer in a range, or the default where the field is absent."""
        value = self.found.get(field, default)
        if value is None:
            return None
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        self.require(good, field, value, f"an integer from {low} to {high}")
        return int(value)

    def number(self, field: str) -> Decimal | None:
        """An exact decimal, written as a string or an integer; None where the field is absent."""
        value = self.found.get(field)
        if value is None:
            return None
        rule = "a decimal number in a string"
        self.require(
            isinstance(value, str | int) and not isinstance(value, bool), field, value, rule
        )
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = Decimal("NaN")
        self.require(number.is_finite() and abs(number) < 10**18, field, value, rule)
        return number


def _vector(fields: _Fields) -> Vector:
    name = fields.text("id")
    fields.place += f" ({name})"
    minor = fields.whole("minor_digits", 0, 0, 6) or 0
    listed = fields.found.get("movements")
    fields.require(isinstance(listed, list), "movements", listed, "a list")
    rows = [_Fields(m, f"{fields.place}: movements[{i}]") for i, m in enumerate(listed or [])]
    scale = max((_digits(row.number("qty")) for row in rows), default=0)
    fields.require(
        scale <= MOST_DIGITS, "movements", scale, f"at most {MOST_DIGITS} decimals of qty"
    )
    movements: dict[str, list[Movement]] = {}
    seen: set[int] = set()
    for row in rows:
        movement = _movement(row, minor, scale)
        row.require(movement.id not in seen, "seq", movement.id, "unique in its vector")
        seen.add(movement.id)
        movements.setdefault(row.text("item"), []).append(movement)
    for row in rows:
        ref = row.found.get("ref_seq")
        row.require(ref is None or ref in seen, "ref_seq", ref, "the seq of another movement")
    scope = fields.found.get("scope")
    fields.require(scope in {None, "all"}, "scope", scope, '"all" or absent')
    return Vector(
        id=name,
        minor_digits=minor,
        qty_scale=scale,
        pooled=scope == "all",
        unit_cost_digits=fields.whole("unit_cost_digits", None, 0, MOST_DIGITS),
        movements=movements,
        expected=_expected(fields),
        unsupported=_unsupported(fields, rows),
    )


def _expected(fields: _Fields) -> Mapping[str, Mapping[str, Any]]:
    expected = fields.found.get("expected", {})
    good = isinstance(expected, dict) and all(isinstance(e, dict) for e in expected.values())
    fields.require(good, "expected", expected, "an object of objects by method")
    return dict(expected)


def _unsupported(fields: _Fields, rows: list[_Fields]) -> str | None:
    if fields.found.get("negative", "forbid") != "forbid":
        return "negative stock at a provisional cost needs a method that replays movements"
    if any("from_seq" in row.found for row in rows):
        return "goods produced from the cost of other items need costing across items"
    return None


def _movement(row: _Fields, minor: int, scale: int) -> Movement:
    kind = row.text("type")
    row.require(kind in set(Kind), "type", kind, "one of " + ", ".join(Kind))
    sequence = row.whole("seq", None, -(2**53), 2**53)
    row.require(sequence is not None, "seq", sequence, "an integer")
    assert sequence is not None, "required above"
    quantity = row.number("qty") or Decimal(0)
    least = 0 if kind in {Kind.COUNT, Kind.LANDED_COST} else None
    enough = quantity > 0 if least is None else quantity >= least
    row.require(enough, "qty", row.found.get("qty"), "a decimal number above 0")
    target = row.text("to_warehouse") if kind == Kind.TRANSFER else None
    basis = row.found.get("basis")
    row.require(basis in {None, "original", "average"}, "basis", basis, "original or average")
    return Movement(
        id=sequence,
        day=_day(row),
        seq=sequence,
        kind=kind,
        store=row.text("warehouse"),
        to_store=target,
        qty=int(quantity.scaleb(scale)),
        value=_value(row, quantity, minor),
        ref=row.whole("ref_seq", None, -(2**53), 2**53),
        basis=basis,
        reverses=None,
    )


def _day(row: _Fields) -> date:
    text = row.text("date")
    try:
        return date.fromisoformat(text)
    except ValueError:
        row.require(False, "date", text, "a date as YYYY-MM-DD")
        raise


def _value(row: _Fields, quantity: Decimal, minor: int) -> int | None:
    """The total in minor units; a total wins over a unit cost, being the fact of the two."""
    value, unit_cost = row.number("value"), row.number("unit_cost")
    if value is None:
        if unit_cost is None:
            return None
        value = unit_cost * quantity
    scaled = value.scaleb(minor)
    whole = scaled.to_integral_value(rounding="ROUND_FLOOR")
    return int(whole) + (1 if scaled - whole >= Decimal("0.5") else 0)


def _digits(number: Decimal | None) -> int:
    exponent = number.normalize().as_tuple().exponent if number is not None else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
