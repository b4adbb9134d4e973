"""What a costed pool shows: sums by kind of flow, and the part of each of its stores."""

from collections.abc import Mapping
from functools import cache

from worker.costing.entries import INFLOWS, Entry, Role
from worker.costing.exact import half_down
from worker.costing.movements import ItemStock, Kind
from worker.costing.pools import Book, Pool
from worker.costing.results import Flow, PoolResult, StoreBalance

# The flows of a pool by name, in the order of their sums; what comes in stands first.
_FLOWS = (
    "opening",
    "receipt",
    "gain",
    "sales_return",
    "transfer_in",
    "issue",
    "usage",
    "purchase_return",
    "transfer_out",
)
_INWARD = 5
_KNOWN_FLOW: Mapping[str, str] = {
    Kind.SALES_RETURN: "sales_return",
    Kind.ISSUE: "sales_return",
    Kind.ADJUST_IN: "gain",
    Kind.COUNT: "gain",
    Kind.CONSUME: "gain",
    Kind.ADJUST_OUT: "gain",
}
_ARRIVED_FLOW: Mapping[str, str] = {Kind.TRANSFER: "transfer_in", Kind.SALES_RETURN: "sales_return"}
_RETURN_FLOW: Mapping[str, str] = {
    Kind.SALES_RETURN: "issue",
    Kind.ADJUST_IN: "usage",
    Kind.TRANSFER: "transfer_out",
}
_OUT_FLOW: Mapping[str, str] = {Kind.ISSUE: "issue", Kind.PURCHASE_RETURN: "purchase_return"}


@cache
def flow_of(role: Role, kind: str) -> int | None:
    """Which of `_FLOWS` an entry belongs to; None when it stays inside its pool.

    A reversal of an earlier period's movement stands in the column of the opposite flow.
    """
    columns = {
        Role.KNOWN: "opening" if kind == Kind.OPENING else _KNOWN_FLOW.get(kind, "receipt"),
        Role.ARRIVED: _ARRIVED_FLOW.get(kind),
        Role.MADE: "receipt",
        Role.GAIN: "gain",
        Role.BACK: "sales_return",
        Role.OUT: _OUT_FLOW.get(kind, "usage"),
        Role.SENT: "transfer_out",
        Role.RETURN: _RETURN_FLOW.get(kind, "purchase_return"),
    }
    column = columns.get(role)
    return None if column is None else _FLOWS.index(column)


def summary(pool: Pool, book: Book) -> PoolResult:
    """The pool over the period; closing follows from the flows, so that nothing can be lost."""
    quantities, worths = [0] * len(_FLOWS), [0] * len(_FLOWS)
    quantities[0], worths[0] = pool.opening
    worths[0] += pool.settled_before
    rounding = pool.rounding + pool.settled_before
    running, dipped = pool.opening.qty, False
    values = book.values
    for movement, role, _, qty, _, _ in pool.entries:
        flow = flow_of(role, movement.kind)
        if flow is None:
            continue
        quantities[flow] += qty
        worths[flow] += values[movement.id]
        running += qty if flow < _INWARD else -qty
        dipped = dipped or running < 0
    flows = [*map(Flow, quantities, worths)]
    opening, receipt, gain, sales_return, transfer_in = flows[:_INWARD]
    issue, usage, purchase_return, transfer_out = flows[_INWARD:]
    left = sum(worths[:_INWARD]) - sum(worths[_INWARD:])
    closing = left - rounding - pool.true_up
    return PoolResult(
        pool=pool.name,
        opening=opening,
        receipt=receipt,
        gain=gain,
        sales_return=sales_return,
        issue=issue,
        usage=usage,
        purchase_return=purchase_return,
        closing=Flow(running, closing),
        rounding=rounding,
        variance=_variance(pool, book),
        price_num=pool.price.numerator,
        price_den=pool.price.denominator,
        pushes=pool.pushes,
        dipped=dipped,
        true_up=pool.true_up,
        scc_size=pool.partners,
        transfer_in=transfer_in,
        transfer_out=transfer_out,
        owed=Flow(-running, -closing) if running < 0 else Flow(0, 0),
    )


def _variance(pool: Pool, book: Book) -> int:
    if not book.variances:
        return 0
    return sum(book.variances.get(entry.movement.id, 0) for entry in pool.entries)


# Where a store's numbers stand while they are summed: quantity, then value.
_OPENING, _INCOMING, _OUTGOING, _TRANSFER_IN, _TRANSFER_OUT = range(0, 10, 2)


def balances(
    stock: ItemStock, pool_of: Mapping[str, str], result: PoolResult, pool: Pool, book: Book
) -> list[StoreBalance]:
    """Each store's part of the pool, in the order of their codes.

    The law wants quantity and value by place. A store's closing value is its quantity at the
    pool's price; what that price moved between the stores stands in `averaging`.
    """
    sums: dict[str, list[int]] = {}
    for store, qty, value in stock.openings:
        if pool_of[store] == result.pool:
            _add(sums, store, _OPENING, qty, value)
    values, true_ups = book.values, book.true_ups
    for entry in pool.entries:
        number = entry.movement.id
        _place(sums, entry, values[number], true_ups.get(number, 0) if true_ups else 0)
    stores = sorted(sums)
    quantities = [_closing_qty(sums[store]) for store in stores]
    assert sum(quantities) == result.closing.qty, "the stores hold what the pool holds"
    split = _split(result, quantities)
    return [
        _balance(store, result.pool, sums[store], Flow(quantity, value))
        for store, quantity, value in zip(stores, quantities, split, strict=True)
    ]


def _place(sums: dict[str, list[int]], entry: Entry, value: int, true_up: int) -> None:
    movement, role = entry.movement, entry.role
    if role is Role.CANCELLED:
        return
    if movement.kind == Kind.TRANSFER:
        assert movement.to_store is not None, "a transfer names where it goes"
        ends = (movement.store, movement.to_store)
        source, target = ends if movement.reverses is None else reversed(ends)
        if role is not Role.ARRIVED:
            _add(sums, source, _TRANSFER_OUT, entry.qty, value)
        if role is Role.ARRIVED or role is Role.INSIDE:
            _add(sums, target, _TRANSFER_IN, entry.qty, value)
            if true_up and role is Role.ARRIVED:
                _add(sums, target, _OUTGOING, 0, true_up)
    elif role in INFLOWS:
        column = _OPENING if movement.kind == Kind.OPENING else _INCOMING
        _add(sums, movement.store, column, entry.qty, value)
        if true_up:
            _add(sums, movement.store, _OUTGOING, 0, true_up)
    elif role is not Role.INSIDE:
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
    if result.closing.qty == 0:
        return [0] * len(quantities)
    if denominator == 0 or result.closing.qty < 0:
        # Goods owed since an earlier period have the value at which they went out then.
        sign = 1 if result.closing.qty > 0 else -1
        numerator, denominator = sign * result.closing.value, sign * result.closing.qty
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
