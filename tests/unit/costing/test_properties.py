"""Whatever happens to an item in a period, quantity and value are conserved to the last unit."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.costing.stocks import POOLS, moved
from worker.costing.movements import ItemStock, Movement, Opening, in_order
from worker.costing.results import (
    Flow,
    ItemCosts,
    ItemFailure,
    Negative,
    Policy,
    PoolResult,
    ResiduePolicy,
)
from worker.costing.weighted_average import cost_item

STORES = ("S1", "S2", "S3", "S4")
PLACES = {**POOLS, "S4": "D"}
KINDS = (
    "opening",
    "receipt",
    "issue",
    "issue",
    "consume",
    "adjust_in",
    "adjust_out",
    "transfer",
    "sales_return",
    "purchase_return",
    "landed_cost",
    "count",
)


@st.composite
def movements(draw: st.DrawFn) -> list[Movement]:
    """A period of one item in three pools; returns refer to anything, good or bad."""
    rows: list[Movement] = []
    for number in range(1, draw(st.integers(1, 25)) + 1):
        kind = draw(st.sampled_from(KINDS))
        store = draw(st.sampled_from(STORES))
        valued = kind in {"opening", "receipt", "landed_cost"} or (
            kind in {"adjust_in", "count"} and draw(st.booleans())
        )
        returns = kind in {"sales_return", "purchase_return"}
        rows.append(
            moved(
                number,
                kind,
                0 if kind == "landed_cost" else draw(st.integers(1, 40)),
                seq=draw(st.integers(1, 5)),
                store=store,
                to_store=draw(st.sampled_from(STORES)) if kind == "transfer" else None,
                value=draw(st.integers(0, 5000)) if valued else None,
                ref=draw(st.sampled_from(rows)).id if returns and rows else None,
                basis=draw(st.sampled_from([None, "average"])) if returns else None,
            )
        )
    return rows


openings = st.lists(
    st.builds(
        Opening, st.sampled_from(STORES), st.integers(0, 200), st.integers(0, 100_000)
    ).filter(lambda opening: opening.qty > 0 or opening.value == 0),
    max_size=3,
)
policies = st.builds(
    Policy,
    residue=st.sampled_from(ResiduePolicy),
    negative=st.sampled_from(Negative),
    unit_cost_digits=st.sampled_from([None, None, 0, 2]),
)


def _cost(rows: list[Movement], opened: list[Opening], policy: Policy) -> ItemCosts | ItemFailure:
    stock = ItemStock(item="A", openings=tuple(opened), movements=in_order(rows), references={})
    return cost_item(stock, PLACES, policy)


def _conserves(pool: PoolResult) -> bool:
    into = (pool.opening, pool.receipt, pool.gain, pool.sales_return, pool.transfer_in)
    out = (pool.issue, pool.usage, pool.purchase_return, pool.transfer_out, pool.closing)
    beside = pool.rounding + pool.true_up
    quantity = sum(flow.qty for flow in into) == sum(flow.qty for flow in out)
    value = sum(flow.value for flow in into) == sum(flow.value for flow in out) + beside
    return quantity and value


@given(movements(), openings, policies)
def test_every_costed_item_conserves_and_has_one_line_a_movement(
    rows: list[Movement], opened: list[Opening], policy: Policy
) -> None:
    costs = _cost(rows, opened, policy)
    if isinstance(costs, ItemFailure):
        assert costs.problems
        return
    assert sorted(line.movement_id for line in costs.lines) == sorted(row.id for row in rows)
    assert sum(p.transfer_in.value for p in costs.pools) == sum(
        p.transfer_out.value for p in costs.pools
    )
    assert sum(p.true_up for p in costs.pools) == sum(line.true_up for line in costs.lines)
    assert sum(p.variance for p in costs.pools) == sum(line.variance for line in costs.lines)
    assert all(_conserves(pool) for pool in costs.pools)
    for pool in costs.pools:
        inside = [store for store in costs.stores if store.pool == pool.pool]
        assert sum(store.closing.qty for store in inside) == pool.closing.qty
        assert sum(store.closing.value for store in inside) == pool.closing.value
        assert sum(store.averaging for store in inside) == -pool.rounding
        assert pool.closing.value >= 0 or pool.closing.qty < 0
        assert pool.closing.qty != 0 or pool.closing == Flow(0, 0)


@given(movements(), openings, policies, st.randoms(use_true_random=False))
def test_the_order_in_which_rows_arrive_changes_nothing(
    rows: list[Movement], opened: list[Opening], policy: Policy, shuffler: random.Random
) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    first, second = _cost(shuffled, opened, policy), _cost(rows, opened, policy)
    assert repr(first).encode() == repr(second).encode()


@given(st.integers(1, 10**12), st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
@pytest.mark.scenario("F51")
def test_issues_that_drain_a_pool_take_exactly_its_value(value: int, sold: list[int]) -> None:
    rows = [moved(0, "receipt", sum(sold), value=value)]
    rows += [moved(number, "issue", quantity) for number, quantity in enumerate(sold, 1)]
    costs = _cost(rows, [], Policy())
    assert isinstance(costs, ItemCosts)
    assert sum(line.value for line in costs.lines if line.movement_id) == value
    assert costs.pools[0].closing == Flow(0, 0)


@given(movements(), openings)
def test_this_periods_closing_is_a_valid_opening_of_the_next(
    rows: list[Movement], opened: list[Opening]
) -> None:
    costs = _cost(rows, opened, Policy())
    if isinstance(costs, ItemFailure):
        return
    carried = [Opening(s.store, s.closing.qty, s.closing.value) for s in costs.stores]
    following = _cost([], carried, Policy())
    assert isinstance(following, ItemCosts)
    assert [p.closing for p in following.pools] == [p.closing for p in costs.pools]
    assert [s.closing.qty for s in following.stores] == [s.closing.qty for s in costs.stores]
