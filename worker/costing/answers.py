"""What a method makes of a worked example, in the words of the example: decimals, not integers."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from worker.costing.engine import cost_items
from worker.costing.exact import half_up
from worker.costing.movements import ItemStock, Kind, Method, Movement, in_order
from worker.costing.problems import Code, Problem
from worker.costing.results import Flow, ItemCosts, ItemFailure, Line, Policy
from worker.costing.systems import solve_rational
from worker.costing.vectors import ALL_WAREHOUSES, LINEAR, System, Vector


def answer_of(vector: Vector, method: str) -> dict[str, Any]:
    """Closing, cost of sales and lines; or x; or the error, with the item that it stands in."""
    if method == LINEAR or vector.system is not None:
        return _of_system(vector, method)
    pools = {store: _pool(vector, store) for store in sorted(_stores(vector))}
    stocks = [
        ItemStock(item=item, method=Method(method), movements=in_order(movements))
        for item, movements in vector.movements.items()
    ]
    answers = cost_items(stocks, pools, _policy(vector)) if stocks else {}
    failed = {item: a for item, a in answers.items() if isinstance(a, ItemFailure)}
    if failed:
        return _failure(failed)
    costed = {item: a for item, a in answers.items() if isinstance(a, ItemCosts)}
    return _costs(vector, costed)


def _policy(vector: Vector) -> Policy:
    return Policy(
        negative=vector.negative,
        unit_cost_digits=vector.unit_cost_digits,
        minor_digits=vector.minor_digits,
        qty_scale=vector.qty_scale,
    )


def _stores(vector: Vector) -> set[str]:
    rows = [movement for movements in vector.movements.values() for movement in movements]
    return {m.store for m in rows} | {m.to_store for m in rows if m.to_store is not None}


def _pool(vector: Vector, store: str) -> str:
    return ALL_WAREHOUSES if vector.pooled else store


def _costs(vector: Vector, costed: Mapping[str, ItemCosts]) -> dict[str, Any]:
    pools = [(item, pool) for item, costs in costed.items() for pool in costs.pools]
    answer: dict[str, Any] = {
        "closing": [_closing(vector, item, pool.pool, pool.closing) for item, pool in pools]
    }
    if vector.pooled:
        answer["stores"] = [
            _closing(vector, item, store.store, store.closing)
            for item, costs in costed.items()
            for store in costs.stores
        ]
    digits = vector.minor_digits
    cogs = sum(p.issue.value - p.sales_return.value + p.rounding + p.true_up for _, p in pools)
    answer["cogs"] = decimal(cogs, digits)
    neutral = {m.id for m in _rows(vector) if _is_neutral(vector, m)}
    lines = sorted(line for costs in costed.values() for line in costs.lines)
    answer["lines"] = [_line(line, digits, neutral) for line in lines]
    rounding = sum(pool.rounding for _, pool in pools)
    if rounding:
        answer["rounding"] = decimal(rounding, digits)
    return answer


def _rows(vector: Vector) -> Iterable[Movement]:
    return (movement for movements in vector.movements.values() for movement in movements)


def _is_neutral(vector: Vector, movement: Movement) -> bool:
    """A transfer inside its pool moves no value; its line only shows the price it moves at."""
    return movement.kind == Kind.TRANSFER and (vector.pooled or movement.store == movement.to_store)


def _line(line: Line, digits: int, neutral: set[int]) -> dict[str, Any]:
    value = 0 if line.movement_id in neutral else line.value
    shown: dict[str, Any] = {"seq": line.movement_id, "value": decimal(value, digits)}
    if line.variance:
        shown["variance"] = decimal(line.variance, digits)
    if line.true_up:
        shown["true_up"] = decimal(line.true_up, digits)
    return shown


def _closing(vector: Vector, item: str, place: str, closing: Flow) -> dict[str, str]:
    return {
        "item": item,
        "warehouse": place,
        "qty": decimal(closing.qty, vector.qty_scale),
        "value": decimal(closing.value, vector.minor_digits),
    }


def _failure(failed: Mapping[str, ItemFailure]) -> dict[str, Any]:
    """The first problem, and where there are more all of them as `errors`.

    In the order of items, the cause before its consequences: one that is only made of a failed one
    comes last.
    """

    def place(item: str) -> tuple[bool, str]:
        return failed[item].problems[0].code == Code.SOURCE_NOT_COSTED, item

    items = sorted(failed, key=place)
    told = [_problem(item, found) for item in items for found in failed[item].problems]
    return told[0] | ({"errors": told} if len(told) > 1 else {})


def _problem(item: str, found: Problem) -> dict[str, Any]:
    return {
        "error": found.code.value,
        "detail": found.detail,
        "item": item,
        "warehouse": found.pool,
        "movements": list(found.movement_ids),
    }


def _of_system(vector: Vector, method: str) -> dict[str, Any]:
    system = vector.system
    if system is None or method != LINEAR:
        what = "movements" if system is None else "a system of equations"
        return {"error": "NOT_APPLICABLE", "detail": f"{method} has no use for {what}"}
    return _solved(system, vector.minor_digits)


def _solved(system: System, digits: int) -> dict[str, Any]:
    """x, rounded half up once, as prices of pools that need each other are."""
    found = solve_rational(system.rows, system.right)
    if found is None:
        words = "the system has no single solution"
        return {"error": Code.CYCLE_WITHOUT_SOURCE.value, "detail": words}
    return {"x": [_shown(number, digits) for number in found]}


def _shown(number: Fraction, digits: int) -> str:
    return decimal(half_up(number.numerator * 10**digits, number.denominator), digits)


def decimal(number: int, digits: int) -> str:
    """An integer of smallest units as people write it; exact, whatever its size."""
    sign, whole = ("-" if number < 0 else ""), str(abs(number)).rjust(digits + 1, "0")
    return sign + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)


def add(one: str, other: str) -> str:
    """The sum of two decimals, exact."""
    total = Fraction(Decimal(one)) + Fraction(Decimal(other))
    digits = max(_decimals(one), _decimals(other))
    return decimal(int(total * 10**digits), digits)


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])
