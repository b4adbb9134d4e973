"""Read `costing-vectors/1`: worked examples of inventory costing as JSON, checked strictly.

A fault names the file, the field, the value found and the rule it breaks. A field that is not
known, or that means nothing where it stands, is a fault: of a vector only remarks are passed over.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from worker.costing.fields import REMARKS, BadFileError, Fields
from worker.costing.movements import Kind, Method, Movement
from worker.costing.results import Negative
from worker.costing.vector_movements import read_movement

SCHEMA = "costing-vectors/1"
ALL_WAREHOUSES = "*"
LINEAR = "linear_system"
METHODS = (*(method.value for method in Method), LINEAR)
# Nothing larger than this is a sane scale.
MOST_DIGITS = 12
_FILE = REMARKS | {"schema", "vectors"}
_TOLD = REMARKS | {"id", "minor_digits", "expected"}
_STOCK = _TOLD | {"movements", "scope", "negative", "unit_cost_digits"}
_SYSTEM = _TOLD | {"movements", "A", "b"}
_EXPECTED = {"closing", "cogs", "lines", "error"}
_RETURNS = {Kind.SALES_RETURN, Kind.PURCHASE_RETURN}


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system of linear equations: a square matrix, row by row, and its right side."""

    rows: tuple[tuple[Fraction, ...], ...]
    right: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One worked example in base units and minor units, and what should come out by method."""

    id: str
    minor_digits: int
    qty_scale: int
    pooled: bool
    negative: Negative
    unit_cost_digits: int | None
    movements: dict[str, list[Movement]]
    system: System | None
    expected: Mapping[str, Mapping[str, Any]]

    def methods(self) -> tuple[str, ...]:
        """The methods that its data allow."""
        if self.system is not None:
            return (LINEAR,)
        lots = any(m.lot is not None for rows in self.movements.values() for m in rows)
        return (Method.PERIODIC, Method.MOVING, Method.FIFO) + ((Method.SPECIFIC,) if lots else ())


def read_vectors(path: Path) -> list[Vector]:
    """All vectors of a file, which holds a set of them or a single one."""
    try:
        text = path.read_text("utf-8-sig")  # Windows puts a mark before it
        document = json.loads(text, parse_float=str, object_pairs_hook=_without_twins)
    except OSError as error:
        raise BadFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: is not JSON: {error}") from error
    return parse_document(document, str(path))


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a field that is there twice JSON would silently keep the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        raise ValueError(f"the field {json.dumps(twice)} is there twice in one object")
    return found


def parse_document(document: Any, source: str) -> list[Vector]:
    """As `read_vectors`, from a parsed document; `source` is how errors call it."""
    fields = Fields(document, source)
    if "vectors" not in fields.found and fields.found.keys() & {"movements", "A"}:
        return [_vector(fields, more={"schema"})]
    fields.only(_FILE)
    schema = fields.found.get("schema")
    fields.require(schema == SCHEMA, "schema", schema, f"{SCHEMA!r}")
    found = [_vector(each) for each in fields.objects("vectors")]
    names = [vector.id for vector in found]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    fields.require(twice is None, "id", twice, "unique in its file")
    return found


def _vector(fields: Fields, more: set[str] | None = None) -> Vector:
    name = fields.text("id")
    fields.place += f" ({name})"
    minor = fields.whole("minor_digits", 0, 0, 6) or 0
    if "A" in fields.found:
        fields.only(_SYSTEM | (more or set()))
        moved = fields.found.get("movements") or []
        fields.require(moved == [], "movements", moved, "absent or empty: a system moves nothing")
        return _of_system(fields, name, minor)
    fields.only(_STOCK | (more or set()))
    rows = fields.objects("movements")
    scale = max((row.digits("qty") for row in rows), default=0)
    rule = f"at most {MOST_DIGITS} decimals of qty"
    fields.require(scale <= MOST_DIGITS, "movements", scale, rule)
    negative = fields.one_of("negative", tuple(Negative)) or Negative.FORBID.value
    return Vector(
        id=name,
        minor_digits=minor,
        qty_scale=scale,
        pooled=fields.one_of("scope", ("all",)) == "all",
        negative=Negative(negative),
        unit_cost_digits=fields.whole("unit_cost_digits", None, 0, MOST_DIGITS),
        movements=_movements(rows, minor, scale),
        system=None,
        expected=_expected(fields, (*Method,)),
    )


def _movements(rows: list[Fields], minor: int, scale: int) -> dict[str, list[Movement]]:
    movements: dict[str, list[Movement]] = {}
    items: dict[int, str] = {}
    consumed: set[int] = set()
    for row in rows:
        movement = read_movement(row, minor, scale)
        row.require(movement.id not in items, "seq", movement.id, "unique in its vector")
        items[movement.id] = row.text("item")
        movements.setdefault(items[movement.id], []).append(movement)
        if movement.kind == "consume":
            consumed.add(movement.id)
    made_of: Counter[int] = Counter()
    for row in rows:
        ref, sources = row.found.get("ref_seq"), row.found.get("from_seq") or []
        same = ref is None or (ref != row.found["seq"] and items.get(ref) == row.found["item"])
        # A return of what nobody sold is an answer of the costing (RETURN_WITHOUT_REF).
        same = same or row.found["type"] in _RETURNS
        row.require(same, "ref_seq", ref, "the seq of another movement of the same item")
        other = next((source for source in sources if source not in consumed), None)
        row.require(other is None, "from_seq", other, "the seq of a movement of type consume")
        made_of.update(sources)
    return {item: [_once(m, made_of) for m in found] for item, found in movements.items()}


def _once(movement: Movement, made_of: Mapping[int, int]) -> Movement:
    """As in the books: of goods that two things are made of nobody says which costs how much."""
    if all(made_of[source] == 1 for source in movement.sources):
        return movement
    return movement._replace(sources=(), value=None)


def _expected(fields: Fields, methods: tuple[str, ...]) -> Mapping[str, Mapping[str, Any]]:
    expected = fields.inner("expected")
    if expected is None:
        return {}
    expected.only(set(methods), "a method: " + ", ".join(methods))
    answers = {}
    for method, told in expected.found.items():
        answer = Fields(told, f"{expected.place}: {method}").without_nulls()
        known = {"x", "error"} if method == LINEAR else _EXPECTED
        answer.only(REMARKS | known)
        tells = not known.isdisjoint(answer.found)
        answer.require(tells, method, answer.found, "something to compare")
        if method != LINEAR:
            _check_answer(answer)
        answers[method] = answer.found
    return answers


def _check_answer(answer: Fields) -> None:
    alone = "error" not in answer.found or len(_EXPECTED & answer.found.keys()) == 1
    answer.require(alone, "error", answer.found.get("error"), "alone: what fails has no numbers")
    answer.number("cogs")
    for row in answer.objects("closing") if "closing" in answer.found else []:
        row.only(REMARKS | {"item", "warehouse", "qty", "value"})
        row.text("item")
        row.text("warehouse")
        row.number("qty")
        row.number("value")
    for row in answer.objects("lines") if "lines" in answer.found else []:
        row.only(REMARKS | {"seq", "value", "variance", "true_up"})
        row.integer("seq")
        for field in ("value", "variance", "true_up"):
            row.number(field)


def _of_system(fields: Fields, name: str, minor: int) -> Vector:
    right = tuple(_fraction(fields, "b", number) for number in fields.listed("b"))
    rows = []
    for row in fields.listed("A"):
        fields.require(
            isinstance(row, list) and len(row) == len(right), "A", row, "a row for each b, as long"
        )
        rows.append(tuple(_fraction(fields, "A", number) for number in row))
    square = len(rows) == len(right) and bool(rows)
    fields.require(square, "A", f"{len(rows)} rows", "as many rows as b has numbers, not none")
    expected = _expected(fields, (LINEAR,))
    wanted = expected.get(LINEAR, {}).get("x")
    good = wanted is None or (isinstance(wanted, list) and len(wanted) == len(right))
    fields.require(good, "x", wanted, "a list as long as b")
    for number in wanted or []:
        _fraction(fields, "x", number)
    return Vector(
        id=name,
        minor_digits=minor,
        qty_scale=0,
        pooled=False,
        negative=Negative.FORBID,
        unit_cost_digits=None,
        movements={},
        system=System(rows=tuple(rows), right=right),
        expected=expected,
    )


def _fraction(fields: Fields, field: str, value: Any) -> Fraction:
    number = fields.exact(field, value)
    fields.require(number is not None, field, value, "a decimal number in a string")
    return Fraction(number or 0)
