"""What each kind of movement does when it is replayed; returns are in `giving_back.py`."""

from worker.costing.counting import count
from worker.costing.giving_back import purchase_return, sales_return
from worker.costing.landing import landed_cost
from worker.costing.movements import Kind, Movement
from worker.costing.places import (
    CAME,
    CAME_INSIDE,
    GAIN,
    ISSUE,
    OPENING,
    RECEIPT,
    TRUE_UP,
    USAGE,
    WENT,
    WENT_INSIDE,
)
from worker.costing.pool_state import RefusedError
from worker.costing.problems import Code
from worker.costing.results import Line
from worker.costing.running import Running, new_line


def opening(running: Running, movement: Movement) -> None:
    """Goods of the time before the books, at their value."""
    if movement.value is None:
        raise RefusedError(Code.MISSING_COST)
    running.enter(movement, OPENING, movement.qty, movement.value)


def receipt(running: Running, movement: Movement) -> None:
    """Goods at what they cost, with the landed costs that belong to them."""
    value = movement.value
    if value is None:
        raise RefusedError(Code.MISSING_COST)
    running.enter(movement, RECEIPT, movement.qty, value)


def produce(running: Running, movement: Movement) -> None:
    """Goods made of others: worth what was consumed for them, and what is added to that."""
    if not movement.sources:
        receipt(running, movement)
        return
    made_of = sum(_source(running, source) for source in movement.sources)
    running.enter(movement, RECEIPT, movement.qty, made_of + (movement.value or 0))


def issue(running: Running, movement: Movement) -> None:
    """Goods sold: cost of sales."""
    place, qty = running.places[movement.store], movement.qty
    value = place.pool.issue(qty, movement.lot, movement.value)
    flows = place.flows
    flows[ISSUE] += qty
    flows[ISSUE + 1] += value
    running.note(new_line(Line, (movement.id, value, 0, None, 0)))


def use(running: Running, movement: Movement) -> None:
    """Goods consumed or written off."""
    place = running.places[movement.store]
    value = place.pool.issue(movement.qty, movement.lot, movement.value)
    place.add(USAGE, movement.qty, value)
    running.note(Line(movement.id, value, 0, None, 0))


def adjust_in(running: Running, movement: Movement) -> None:
    """Goods found, at their value; without one at what such goods cost here."""
    value = movement.value
    if value is None:
        price = running.places[movement.store].pool.price(movement.lot)
        if price is None:
            raise RefusedError(Code.MISSING_COST)
        value = price.of(movement.qty)
    running.enter(movement, GAIN, movement.qty, value)


def transfer(running: Running, movement: Movement) -> None:
    """From store to store: out of one pool and into the other at the same integer."""
    assert movement.to_store is not None, "a transfer names where it goes"
    source, target = running.places[movement.store], running.places[movement.to_store]
    if source.pool is target.pool:
        price = source.pool.price(movement.lot)
        value, true_up = price.of(movement.qty) if price is not None else 0, 0
        source.add(WENT_INSIDE, movement.qty, value)
        target.add(CAME_INSIDE, movement.qty, value)
    else:
        pieces = source.pool.draw(movement.qty, movement.lot, movement.value)
        value = sum(piece[1] for piece in pieces)
        true_up = sum(
            target.pool.receive(qty, part, movement.id if origin is None else origin, movement.lot)
            for qty, part, origin in pieces
        )
        source.add(WENT, movement.qty, value)
        target.add(CAME, movement.qty, value)
        target.flows[TRUE_UP] += true_up
    running.note(new_line(Line, (movement.id, value, 0, None, true_up)))


def cancelled(running: Running, movement: Movement) -> None:
    """Taken back within the period, or takes back: as if it had never been."""
    original = None
    if movement.reverses is not None:
        original = running.origins.get(movement.reverses)
    if original is not None and (
        original.reverses is not None or _shape(movement) != _shape(original)
    ):
        raise RefusedError(Code.REVERSAL_MISMATCH)
    running.places[movement.store].add(RECEIPT, 0, 0)  # the store is named in the results
    found = 0 if movement.kind == Kind.COUNT else None
    running.note(Line(movement.id, movement.value or 0, 0, found, 0))


STEPS = {
    Kind.OPENING.value: opening,
    Kind.RECEIPT.value: receipt,
    Kind.PRODUCE.value: produce,
    Kind.LANDED_COST.value: landed_cost,
    Kind.ADJUST_IN.value: adjust_in,
    Kind.SALES_RETURN.value: sales_return,
    Kind.PURCHASE_RETURN.value: purchase_return,
    Kind.TRANSFER.value: transfer,
    Kind.ISSUE.value: issue,
    Kind.CONSUME.value: use,
    Kind.ADJUST_OUT.value: use,
    Kind.COUNT.value: count,
}


def _source(running: Running, source: int) -> int:
    """What a consumption cost: in this replay, or in that of an item that came before."""
    known = running.references.get(source)
    if known is not None and source not in running.known.costs:
        if known.value is None:
            raise RefusedError(Code.MISSING_COST)
        return known.value
    return running.cost_of(source, Code.MISSING_COST)


def _shape(movement: Movement) -> tuple[object, ...]:
    return (movement.kind, movement.store, movement.to_store, movement.qty, movement.value)
