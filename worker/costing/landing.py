"""Landed cost: value without quantity, which belongs to the goods of a receipt.

Of a receipt of this period it joins the value before the replay. Of an earlier one it is split
by what is left of its q goods: FIFO and specific know their layers in all pools, the moving average
takes min(Q, q); that part joins the stock, the rest is variance (632).
"""

from worker.costing.exact import half_up, share
from worker.costing.movements import RECEIVING, Method, Movement, Reference
from worker.costing.places import RECEIPT, VARIANCE, Place
from worker.costing.pool_state import RefusedError
from worker.costing.problems import Code
from worker.costing.results import Line
from worker.costing.running import Running


def landed_cost(running: Running, movement: Movement) -> None:
    """Note what has joined its receipt already; let everything else join what is there now."""
    if movement.value is None:
        raise RefusedError(Code.MISSING_COST)
    if not running.joins(movement):
        land(running, movement, movement.value)
        return
    assert movement.ref is not None, "it joins what it refers to"
    receipt = running.origins[movement.ref]
    running.places[receipt.store].flows[RECEIPT + 1] += movement.value
    running.note(Line(movement.id, movement.value, 0, None, 0))


def land(running: Running, movement: Movement, value: int) -> None:
    """Value that comes later than its goods: split, or without known goods all to the pool."""
    place = running.places[movement.store]
    running.plain = False
    receipt = None if movement.ref is None else running.references.get(movement.ref)
    if receipt is None or receipt.kind not in RECEIVING or receipt.qty == 0:
        joined = value
        _join(place, movement, joined)
    elif running.stock.method == Method.MOVING:
        here = min(max(place.pool.qty, 0), receipt.qty)
        joined = half_up(value * here, receipt.qty)
        _join(place, movement, joined)
    else:
        joined = _over_layers(running, movement, value, receipt)
    place.flows[VARIANCE] += value - joined
    running.note(Line(movement.id, joined, value - joined, None, 0))


def _join(place: Place, movement: Movement, value: int) -> None:
    place.pool.add_value(value, movement.lot)
    place.flows[RECEIPT + 1] += value


def _over_layers(running: Running, movement: Movement, value: int, receipt: Reference) -> int:
    """Over what is left of the receipt in every pool, in the order of their names."""
    assert movement.ref is not None, "the receipt is named"
    holding = [
        (pool, pool.left_of(movement.ref))
        for _, pool in sorted(running.pools.items())
        if pool.left_of(movement.ref)
    ]
    left = sum(qty for _, qty in holding)
    joined = half_up(value * min(left, receipt.qty), receipt.qty)
    before = 0
    for pool, qty in holding:
        part = share(joined, qty, before, left)
        pool.add_to(movement.ref, part)
        _home(running, movement, pool.name).flows[RECEIPT + 1] += part
        before += qty
    return joined


def _home(running: Running, movement: Movement, pool: str) -> Place:
    """Where a pool books value that no store of its own brought: the movement's, else its first."""
    if running.pool_of[movement.store] == pool:
        return running.places[movement.store]
    first = min(store for store, place in running.places.items() if place.pool.name == pool)
    return running.places[first]
