"""Small item stocks for tests, written the way an accountant would say them."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from worker.costing.exact import Price
from worker.costing.movements import ItemStock, Movement, Opening, Reference, in_order
from worker.costing.results import ItemCosts, ItemFailure, Policy, PoolResult
from worker.costing.weighted_average import cost_item

POOLS = {"S1": "B", "S2": "B", "S3": "C"}
DAY = date(2026, 1, 5)


def moved(number: int, kind: str, qty: int, **more: Any) -> Movement:
    """One movement at store S1, in the order of its number."""
    return Movement(
        id=number,
        day=more.get("day", DAY),
        seq=more.get("seq", number),
        kind=kind,
        store=more.get("store", "S1"),
        to_store=more.get("to_store"),
        qty=qty,
        value=more.get("value"),
        ref=more.get("ref"),
        basis=more.get("basis"),
        reverses=more.get("reverses"),
        lot=more.get("lot"),
        sources=more.get("sources", ()),
    )


def stock_of(
    *movements: Movement,
    openings: tuple[Opening, ...] = (),
    references: dict[int, Reference] | None = None,
    last_prices: dict[str, Price] | None = None,
    item: str = "A",
) -> ItemStock:
    """An item with these movements, whatever order they are given in."""
    return ItemStock(
        item=item,
        openings=openings,
        movements=in_order(movements),
        references=references or {},
        last_prices=last_prices or {},
    )


def costed(
    stock: ItemStock, policy: Policy | None = None, pools: Mapping[str, str] = POOLS
) -> ItemCosts:
    """The costs of a stock that is expected to have some."""
    costs = cost_item(stock, pools, policy or Policy())
    assert isinstance(costs, ItemCosts), costs
    return costs


def refused(
    stock: ItemStock, policy: Policy | None = None, pools: Mapping[str, str] = POOLS
) -> list[tuple[str, tuple[int, ...]]]:
    """Codes and causing movements of a stock that is expected to have no costs."""
    failure = cost_item(stock, pools, policy or Policy())
    assert isinstance(failure, ItemFailure), failure
    return [(str(found.code), found.movement_ids) for found in failure.problems]


def pool_of(costs: ItemCosts, name: str) -> PoolResult:
    """The result of one pool."""
    (found,) = [pool for pool in costs.pools if pool.pool == name]
    return found


def values(costs: ItemCosts) -> dict[int, int]:
    """Line values by movement."""
    return {line.movement_id: line.value for line in costs.lines}
