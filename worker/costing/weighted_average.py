"""The periodic weighted average (bình quân gia quyền cuối kỳ): what each movement of an item cost.

The price of a pool is (opening + inputs) / (their quantities), kept as that quotient and never
rounded; every line is rounded from it once, and state is always a (quantity, value) pair.
"""

from collections.abc import Mapping, Sequence

from worker.costing.conservation import assert_conserved
from worker.costing.entries import Entry, classify
from worker.costing.exact import LARGEST
from worker.costing.movements import ItemStock
from worker.costing.pools import PoolCosts, cost_pool
from worker.costing.problems import Code, Problem, gathered, problem
from worker.costing.results import (
    Flow,
    ItemCosts,
    ItemFailure,
    Line,
    Policy,
    PoolResult,
    StoreBalance,
)
from worker.costing.stores import balances, summary


def cost_stocks(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, ItemCosts | ItemFailure]:
    """Cost items together: more than one where they are made of each other in a circle."""
    return {stock.item: cost_item(stock, pool_of, policy) for stock in stocks}


def cost_item(
    stock: ItemStock, pool_of: Mapping[str, str], policy: Policy
) -> ItemCosts | ItemFailure:
    """Cost all pools of one item, its movements being in order; a failure names every cause.

    Equal inputs give equal results. Quantity and value are conserved to the last unit.
    """
    entries, differences, problems = classify(stock, pool_of)
    if problems:
        return ItemFailure(problems=gathered(problems))
    costs = ItemCosts(lines=[], pools=[], stores=[])
    openings = _openings(stock, pool_of)
    for pool, members in sorted(_by_pool(openings, entries).items()):
        opening = openings.get(pool, Flow(0, 0))
        costed = cost_pool(pool, opening, members, policy)
        if isinstance(costed, Problem):
            problems.append(costed)
            continue
        result = summary(pool, opening, members, costed)
        if _overflows(result):
            problems.append(problem(Code.OVERFLOW, pool))
            continue
        assert_conserved(result, members, costed, policy)
        costs.pools.append(result)
        costs.stores.extend(balances(stock, pool_of, result, members, costed.values))
        costs.lines.extend(_lines(members, costed, differences))
    problems.extend(_too_large(costs))
    if problems:
        return ItemFailure(problems=gathered(problems))
    assert len(costs.lines) == len(stock.movements), "every movement has its one line"
    return costs


def _lines(entries: list[Entry], costed: PoolCosts, differences: dict[int, int]) -> list[Line]:
    values, variances = costed.values, costed.variances
    ids = [entry.movement.id for entry in entries]
    return [Line(i, values[i], variances.get(i, 0), differences.get(i)) for i in ids]


def _openings(stock: ItemStock, pool_of: Mapping[str, str]) -> dict[str, Flow]:
    openings: dict[str, Flow] = {}
    for store, qty, value in stock.openings:
        so_far = openings.get(pool_of[store], Flow(0, 0))
        openings[pool_of[store]] = Flow(so_far.qty + qty, so_far.value + value)
    return openings


def _by_pool(openings: dict[str, Flow], entries: list[Entry]) -> dict[str, list[Entry]]:
    pools: dict[str, list[Entry]] = {pool: [] for pool in openings}
    for entry in entries:
        pools.setdefault(entry.pool, []).append(entry)
    return pools


def _too_large(costs: ItemCosts) -> list[Problem]:
    """What fits its pool may still not fit a line: a transfer moves the same goods many times."""
    lines = [
        line.movement_id
        for line in costs.lines
        if max(line.value, abs(line.variance), abs(line.qty_diff or 0)) > LARGEST
    ]
    found = [problem(Code.OVERFLOW, None, tuple(lines))] if lines else []
    return found + [
        problem(Code.OVERFLOW, store.pool)
        for store in costs.stores
        if max(abs(number) for number in _numbers(store)) > LARGEST
    ]


def _numbers(balance: StoreBalance) -> list[int]:
    flows = [number for part in balance if isinstance(part, Flow) for number in part]
    return [*flows, balance.averaging]


def _overflows(result: PoolResult) -> bool:
    flows = [part for part in result if isinstance(part, Flow)]
    numbers = [abs(number) for flow in flows for number in flow]
    return max(*numbers, abs(result.rounding), result.price_num, result.price_den) > LARGEST
