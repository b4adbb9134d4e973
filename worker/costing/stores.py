"""What a costed pool shows: sums by kind of flow, and the part of each of its stores."""

from collections.abc import Mapping
from typing import Any

from worker.costing.entries import Entry, Role
from worker.costing.exact import half_down
from worker.costing.movements import ItemStock, Kind
from worker.costing.pools import PoolCosts
from worker.costing.results import Flow, PoolResult, StoreBalance

INFLOWS = frozenset({Role.KNOWN, Role.GAIN, Role.BACK})
_KNOWN_FLOW: Mapping[str, str] = {
    Kind.OPENING: "opening",
    Kind.SALES_RETURN: "sales_return",
    Kind.ISSUE: "sales_return",
    Kind.ADJUST_IN: "gain",
    Kind.COUNT: "gain",
    Kind.CONSUME: "gain",
    Kind.ADJUST_OUT: "gain",
}
_RETURN_FLOW: Mapping[str, str] = {Kind.SALES_RETURN: "issue", Kind.ADJUST_IN: "usage"}
_OUT_FLOW: Mapping[str, str] = {Kind.ISSUE: "issue", Kind.PURCHASE_RETURN: "purchase_return"}


def flow_of(entry: Entry) -> str | None:
    """Which column of the pool's result an entry belongs to; None when it stays inside.

    A reversal of an earlier period's movement stands in the column of the opposite flow.
    """
    kind = entry.movement.kind
    match entry.role:
        case Role.KNOWN:
            return _KNOWN_FLOW.get(kind, "receipt")
        case Role.GAIN:
            return "gain"
        case Role.BACK:
            return "sales_return"
        case Role.OUT:
            return _OUT_FLOW.get(kind, "usage")
        case Role.RETURN:
            return _RETURN_FLOW.get(kind, "purchase_return")
        case _:
            return None


def summary(pool: str, opening: Flow, entries: list[Entry], costs: PoolCosts) -> PoolResult:
    """The pool over the period; closing follows from the flows, so that nothing can be lost."""
    quantities = dict.fromkeys(_FLOWS, 0)
    values = dict.fromkeys(_FLOWS, 0)
    quantities["opening"], values["opening"] = opening
    running, dipped = opening.qty, False
    for entry in entries:
        flow = flow_of(entry)
        if flow is None:
            continue
        quantities[flow] += entry.qty
        values[flow] += costs.values[entry.movement.id]
        running += entry.qty if entry.role in INFLOWS else -entry.qty
        dipped = dipped or running < 0
    signed = [(sign, flow) for flow, sign in _FLOWS.items()]
    closing = Flow(
        sum(sign * quantities[flow] for sign, flow in signed),
        sum(sign * values[flow] for sign, flow in signed) - costs.rounding,
    )
    flows: dict[str, Any] = {flow: Flow(quantities[flow], values[flow]) for flow in _FLOWS}
    return PoolResult(
        pool=pool,
        **flows,
        closing=closing,
        rounding=costs.rounding,
        variance=sum(costs.variances.values()),
        price_num=costs.price.numerator,
        price_den=costs.price.denominator,
        pushes=costs.pushes,
        dipped=dipped,
    )


# The flows of a PoolResult by name; what the pool gains is positive.
_FLOWS = {
    "opening": 1,
    "receipt": 1,
    "gain": 1,
    "sales_return": 1,
    "issue": -1,
    "usage": -1,
    "purchase_return": -1,
}

# Where a store's numbers stand while they are summed: quantity, then value.
_OPENING, _INCOMING, _OUTGOING, _TRANSFER_IN, _TRANSFER_OUT = range(0, 10, 2)


def balances(
    stock: ItemStock,
    pool_of: Mapping[str, str],
    result: PoolResult,
    entries: list[Entry],
    values: Mapping[int, int],
) -> list[StoreBalance]:
    """Each store's part of the pool, in the order of their codes.

    The law wants quantity and value by place. A store's closing value is its quantity at the
    pool's price; what that price moved between the stores stands in `averaging`.
    """
    sums: dict[str, list[int]] = {}
    for store, qty, value in stock.openings:
        if pool_of[store] == result.pool:
            _add(sums, store, _OPENING, qty, value)
    for entry in entries:
        _place(sums, entry, values[entry.movement.id])
    stores = sorted(sums)
    quantities = [_closing_qty(sums[store]) for store in stores]
    assert sum(quantities) == result.closing.qty, "the stores hold what the pool holds"
    split = _split(result, quantities)
    return [
        _balance(store, result.pool, sums[store], Flow(quantity, value))
        for store, quantity, value in zip(stores, quantities, split, strict=True)
    ]


def _place(sums: dict[str, list[int]], entry: Entry, value: int) -> None:
    movement = entry.movement
    if entry.role is Role.CANCELLED:
        return
    if movement.kind == Kind.TRANSFER:
        assert movement.to_store is not None, "a transfer names where it goes"
        ends = (movement.store, movement.to_store)
        source, target = ends if movement.reverses is None else reversed(ends)
        _add(sums, source, _TRANSFER_OUT, entry.qty, value)
        _add(sums, target, _TRANSFER_IN, entry.qty, value)
    elif entry.role in INFLOWS:
        column = _OPENING if movement.kind == Kind.OPENING else _INCOMING
        _add(sums, movement.store, column, entry.qty, value)
    elif entry.role is not Role.INSIDE:
        _add(sums, movement.store, _OUTGOING, entry.qty, value)


def _add(sums: dict[str, list[int]], store: str, column: int, qty: int, value: int) -> None:
    row = sums.get(store)
    if row is None:
        row = sums[store] = [0] * 10
    row[column] += qty
    row[column + 1] += value


def _closing_qty(row: list[int]) -> int:
    into = row[_OPENING] + row[_INCOMING] + row[_TRANSFER_IN]
    return into - row[_OUTGOING] - row[_TRANSFER_OUT]


def _split(result: PoolResult, quantities: list[int]) -> list[int]:
    """The pool's closing value over its stores at the pool's price, to the last unit.

    Rounded down at the half, since the outflows were rounded up: so the two meet exactly. What
    returns and residues left beside that goes to the last store that holds something.
    """
    numerator, denominator = result.price_num, result.price_den
    if denominator == 0 or result.closing.qty == 0:
        return [0] * len(quantities)
    values = []
    before = so_far = 0
    for quantity in quantities:
        so_far += quantity
        after = half_down(numerator * so_far, denominator)
        values.append(after - before)
        before = after
    holding = max(i for i, quantity in enumerate(quantities) if quantity)
    values[holding] += result.closing.value - before
    return values


def _balance(store: str, pool: str, row: list[int], closing: Flow) -> StoreBalance:
    flows = [Flow(row[column], row[column + 1]) for column in range(0, 10, 2)]
    opening, incoming, outgoing, transfer_in, transfer_out = flows
    before = opening.value + incoming.value - outgoing.value
    before += transfer_in.value - transfer_out.value
    averaging = closing.value - before
    return StoreBalance(
        store, pool, opening, incoming, outgoing, transfer_in, transfer_out, closing, averaging
    )
