"""Stories of one item for the replayed methods, and what a replay makes of them."""

from typing import Any

from tests.unit.costing.stocks import moved
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Method, Movement, in_order
from worker.costing.results import ItemCosts, ItemFailure, Line, Negative, Policy

# Two stores share pool B/P, the others are pools of their own.
POOLS = {"S1": "B/S1", "S2": "B/S2", "S3": "B/S3", "P1": "B/P", "P2": "B/P"}
PROVISIONAL = Policy(negative=Negative.PROVISIONAL)
REPLAYED = (Method.MOVING, Method.FIFO, Method.SPECIFIC)
FIFO_AND_MOVING = (Method.MOVING, Method.FIFO)


def move(number: int, kind: str, qty: int, **more: Any) -> Movement:
    """A movement at store S1 in the order of its number, with its lot and sources."""
    row = moved(number, kind, qty, **more)
    return row._replace(lot=more.get("lot"), sources=more.get("sources", ()))


def story(method: Method, *rows: Movement, **more: Any) -> ItemStock:
    """An item A of a method with these movements."""
    return ItemStock(item="A", method=method, movements=in_order(rows), **more)


def played(method: Method, *rows: Movement, policy: Policy | None = None, **more: Any) -> ItemCosts:
    """The costs of a story that is expected to have some."""
    costs = cost_items([story(method, *rows, **more)], POOLS, policy or Policy())["A"]
    assert isinstance(costs, ItemCosts), costs
    return costs


def refusals(
    method: Method, *rows: Movement, policy: Policy | None = None, **more: Any
) -> list[tuple[str, tuple[int, ...]]]:
    """Codes and causing movements of a story that is expected to have no costs."""
    failure = cost_items([story(method, *rows, **more)], POOLS, policy or Policy())["A"]
    assert isinstance(failure, ItemFailure), failure
    return [(str(found.code), found.movement_ids) for found in failure.problems]


def lines(costs: ItemCosts) -> dict[int, Line]:
    """Lines by movement."""
    return {line.movement_id: line for line in costs.lines}


def values(costs: ItemCosts) -> list[int]:
    """Line values in the order of the movements' ids."""
    return [line.value for line in sorted(costs.lines)]


def closings(costs: ItemCosts) -> dict[str, tuple[int, int]]:
    """Closing quantity and value by pool."""
    return {pool.pool: (pool.closing.qty, pool.closing.value) for pool in costs.pools}


def layers(costs: ItemCosts) -> list[tuple[str, int, int, int | None]]:
    """Pool, quantity, value and origin of every layer."""
    return [(layer.pool, layer.qty, layer.value, layer.origin) for layer in costs.layers]
