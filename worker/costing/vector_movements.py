"""One movement of a worked example: which fields its type has, in which units they become."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

from worker.costing.exact import half_up
from worker.costing.fields import REMARKS, Fields
from worker.costing.movements import SENDING, Kind, Movement

_ALWAYS = REMARKS | {"seq", "date", "item", "warehouse", "type"}
_VALUE = {"value", "unit_cost"}
_REFERS = {Kind.SALES_RETURN, Kind.PURCHASE_RETURN, Kind.LANDED_COST}
_GOES_SHORT = {*SENDING, Kind.TRANSFER} - {Kind.PURCHASE_RETURN}
# Books may open with nothing, or with value that no goods carry: the costing says what that means.
_MAY_BE_NOTHING = {Kind.OPENING, Kind.RECEIPT}


def read_movement(row: Fields, minor: int, scale: int) -> Movement:
    """The movement in scaled units and minor units; a total wins over a unit cost."""
    kind = row.text("type")
    row.require(kind in set(Kind), "type", kind, "one of " + ", ".join(Kind))
    _only_what_it_has(row, kind)
    sequence = row.integer("seq")
    quantity = _quantity(row, kind)
    value = _value(row, quantity, minor)
    row.text("item")
    if kind in _MAY_BE_NOTHING and not quantity:
        kind, value = Kind.LANDED_COST, value or 0
    return Movement(
        id=sequence,
        day=_day(row),
        seq=sequence,
        kind=kind,
        store=row.text("warehouse"),
        to_store=_target(row) if kind == Kind.TRANSFER else None,
        qty=int(Fraction(quantity) * 10**scale),
        value=value,
        ref=row.whole("ref_seq", None, -(2**53), 2**53),
        basis=row.one_of("basis", ("original", "average")),
        reverses=None,
        lot=row.text("lot") if row.found.get("lot") is not None else None,
        sources=_sources(row),
    )


def _only_what_it_has(row: Fields, kind: str) -> None:
    known = {*_ALWAYS, *_VALUE, "qty", "lot"}
    row.only(
        known
        | {"to_warehouse", "ref_seq", "basis", "from_seq", "extra_value", "provisional_unit_cost"}
    )
    if kind != Kind.TRANSFER:
        row.nothing(["to_warehouse"], "absent: only a transfer goes to another warehouse")
    if kind not in _REFERS:
        row.nothing(["ref_seq"], "absent: only returns and landed costs refer to a movement")
    if kind != Kind.PURCHASE_RETURN:
        row.nothing(["basis"], "absent: only a purchase return has a basis")
    if kind != Kind.PRODUCE:
        row.nothing(["from_seq", "extra_value"], "absent: only produce is made of others")
    elif row.found.get("from_seq") is not None:
        row.nothing(_VALUE, "absent: what is made of others is worth what they cost")
    else:
        row.nothing(["extra_value"], "absent: there is no from_seq to add it to")
    if kind not in _GOES_SHORT:
        row.nothing(["provisional_unit_cost"], "absent: only what goes out can go short")
    elif row.found.get("provisional_unit_cost") is not None:
        row.nothing(_VALUE, "absent: the provisional cost is there already")
    if kind == Kind.LANDED_COST:
        row.nothing(["unit_cost"], "absent: a landed cost is a value without quantity")


def _quantity(row: Fields, kind: str) -> Decimal:
    quantity = row.number("qty")
    if kind == Kind.LANDED_COST:
        row.require(not quantity, "qty", row.found.get("qty"), "0 or absent: value only")
        return Decimal(0)
    found = row.found.get("qty")
    if kind == Kind.COUNT or kind in _MAY_BE_NOTHING:
        row.require(
            quantity is not None and quantity >= 0, "qty", found, "a decimal number, 0 or above"
        )
    else:
        row.require(quantity is not None and quantity > 0, "qty", found, "a decimal number above 0")
    return quantity or Decimal(0)


def _target(row: Fields) -> str:
    target = row.text("to_warehouse")
    row.require(target != row.found["warehouse"], "to_warehouse", target, "another warehouse")
    return target


def _sources(row: Fields) -> tuple[int, ...]:
    if row.found.get("from_seq") is None:
        return ()
    sources = row.listed("from_seq")
    good = bool(sources) and all(isinstance(s, int) and not isinstance(s, bool) for s in sources)
    row.require(good and len(set(sources)) == len(sources), "from_seq", sources, "a list of seqs")
    return tuple(sources)


def _day(row: Fields) -> date:
    text = row.text("date")
    try:
        return date.fromisoformat(text)
    except ValueError:
        row.require(False, "date", text, "a date as YYYY-MM-DD")
        raise


def _value(row: Fields, quantity: Decimal, minor: int) -> int | None:
    """In minor units, rounded half up. The total is the fact, where a unit cost stands beside."""
    value = row.number("value")
    unit_cost = row.number("unit_cost")
    if value is None:
        value = row.number("extra_value")
    if unit_cost is None:
        unit_cost = row.number("provisional_unit_cost")
    for number in (value, unit_cost):
        free = row.found["type"] == Kind.LANDED_COST or number is None or number >= 0
        row.require(free, "value", str(number), "0 or above; only a landed cost may be a reduction")
    if value is None and unit_cost is None:
        return None
    exact = Fraction(value) if value is not None else Fraction(unit_cost or 0) * Fraction(quantity)
    scaled = exact * 10**minor
    return half_up(scaled.numerator, scaled.denominator)
