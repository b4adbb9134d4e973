"""Goods that come back from customers, go back to suppliers, or go back to where they were."""

from worker.costing.exact import share
from worker.costing.landing import land
from worker.costing.movements import RECEIVING, SENDING, Kind, Movement, Reference
from worker.costing.places import (
    CAME,
    CAME_INSIDE,
    GAIN,
    ISSUE,
    PURCHASE_RETURN,
    RECEIPT,
    SALES_RETURN,
    TRUE_UP,
    USAGE,
    WENT,
    WENT_INSIDE,
)
from worker.costing.pool_state import RefusedError
from worker.costing.problems import Code
from worker.costing.results import Line
from worker.costing.running import Running

# The columns in which a reversal of an earlier period's movement stands: those of the opposite.
_BACK_IN = {Kind.ISSUE: SALES_RETURN, Kind.PURCHASE_RETURN: RECEIPT}
_BACK_OUT = {Kind.SALES_RETURN: ISSUE, Kind.ADJUST_IN: USAGE}


def sales_return(running: Running, movement: Movement) -> None:
    """Sold goods come back at what their sale cost, pro rata, so that all of it brings back all."""
    running.enter(movement, SALES_RETURN, movement.qty, _sold_at(running, movement))


def purchase_return(running: Running, movement: Movement) -> None:
    """Goods go back at what their receipt cost, or by the method with basis `average`.

    What leaves beyond that cost is variance (below zero: what of it is not there to leave).
    """
    cost = _bought_at(running, movement)
    pool, lot = running.places[movement.store].pool, running.lot_of(movement)
    if movement.basis == "average" or cost is None:
        value = pool.issue(movement.qty, lot, movement.value if cost is None else cost)
    else:
        value = pool.give_back(movement.qty, cost, movement.ref, lot, cost)
    running.left(movement, PURCHASE_RETURN, value, cost=cost)


def reversal(running: Running, movement: Movement) -> None:
    """A row that takes back a movement of an earlier period: the opposite, at what that cost."""
    assert movement.reverses is not None, "only a reversal comes here"
    original = running.references.get(movement.reverses)
    if original is None or not _mirrors(movement, original):
        raise RefusedError(Code.REVERSAL_MISMATCH)
    if original.value is None:
        raise RefusedError(Code.MISSING_COST)
    if movement.kind == Kind.TRANSFER:
        _send_back(running, movement, original.value)
    elif movement.kind == Kind.LANDED_COST:
        land(running, movement, -original.value)
    elif movement.kind in SENDING:
        column = _BACK_IN.get(Kind(movement.kind), GAIN)
        running.enter(movement, column, movement.qty, original.value)
    else:
        pool = running.places[movement.store].pool
        value = pool.give_back(
            movement.qty, original.value, movement.reverses, movement.lot, original.value
        )
        column = _BACK_OUT.get(Kind(movement.kind), PURCHASE_RETURN)
        running.left(movement, column, value, cost=original.value)


def _sold_at(running: Running, movement: Movement) -> int:
    if movement.ref is None:
        if movement.value is None:
            raise RefusedError(Code.RETURN_WITHOUT_REF)
        return movement.value
    sale = running.origins.get(movement.ref)
    if sale is None:
        earlier = running.references.get(movement.ref)
        if earlier is None or earlier.kind != Kind.ISSUE:
            raise RefusedError(Code.RETURN_WITHOUT_REF)
        return _part_of(running, movement, earlier, Code.RETURN_EXCEEDS_ISSUE)
    if sale.kind != Kind.ISSUE or sale.reverses is not None or sale.id in running.cancelled:
        raise RefusedError(Code.RETURN_WITHOUT_REF)
    cost = running.cost_of(sale.id, Code.RETURN_EXCEEDS_ISSUE)
    known = Reference(sale.kind, sale.store, sale.qty, cost, 0)
    return _part_of(running, movement, known, Code.RETURN_EXCEEDS_ISSUE)


def _bought_at(running: Running, movement: Movement) -> int | None:
    """What the returned goods cost when they came; None where they leave by the method alone."""
    receipt = _receipt_of(running, movement)
    if receipt is not None:
        return _part_of(running, movement, receipt, Code.RETURN_EXCEEDS_RECEIPT)
    if movement.ref is None and movement.basis == "average":
        return None
    if movement.ref is not None or movement.value is None:
        raise RefusedError(Code.RETURN_WITHOUT_REF)
    return movement.value


def _receipt_of(running: Running, movement: Movement) -> Reference | None:
    if movement.ref is None:
        return None
    receipt = running.origins.get(movement.ref)
    if receipt is None:
        earlier = running.references.get(movement.ref)
        return earlier if earlier is not None and earlier.kind in RECEIVING else None
    standing = receipt.reverses is None and receipt.id not in running.cancelled
    if receipt.kind not in RECEIVING or not standing:
        return None
    cost = running.cost_of(receipt.id, Code.RETURN_EXCEEDS_RECEIPT)
    return Reference(receipt.kind, receipt.store, receipt.qty, cost, 0)


def _part_of(running: Running, movement: Movement, origin: Reference, excess: Code) -> int:
    before = running.take(movement, origin.qty, origin.returned, excess)
    if origin.value is None:
        raise RefusedError(Code.MISSING_COST)
    return share(origin.value, movement.qty, before, origin.qty)


def _send_back(running: Running, movement: Movement, cost: int) -> None:
    """A transfer of an earlier period goes back: the same integer leaves there and comes here."""
    assert movement.to_store is not None, "a transfer names where it goes"
    source, target = running.places[movement.to_store], running.places[movement.store]
    if source.pool is target.pool:
        price = source.pool.price(movement.lot)
        value, true_up = price.of(movement.qty) if price is not None else 0, 0
        source.add(WENT_INSIDE, movement.qty, value)
        target.add(CAME_INSIDE, movement.qty, value)
    else:
        value = source.pool.give_back(movement.qty, cost, None, movement.lot, cost)
        true_up = target.pool.receive(movement.qty, value, movement.id, movement.lot)
        source.add(WENT, movement.qty, value)
        target.add(CAME, movement.qty, value)
    target.flows[TRUE_UP] += true_up
    running.note(Line(movement.id, value, 0, None, true_up))


def _mirrors(movement: Movement, original: Reference) -> bool:
    same = (movement.kind, movement.store, movement.qty)
    return movement.kind != Kind.COUNT and same == (original.kind, original.store, original.qty)
