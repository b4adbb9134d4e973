"""What rounding leaves goes on along the transfers to who can carry it; every unit is accounted for."""

import pytest

from tests.unit.costing.stocks import costed, moved, pool_of, stock_of, values
from worker.costing.movements import ItemStock, Opening
from worker.costing.results import Flow, ItemCosts, Policy, ResiduePolicy

POOLS = {"S1": "A", "S2": "B", "S3": "C", "S4": "D"}
# Four pieces for 2: each sale and each transfer of one piece is worth a half, rounded in turn.
HALVES = (Opening("S1", 4, 2),)


def _in_turn(first: str, second: str) -> ItemStock:
    """Pool A sends and sells in turn; B passes on what it got, C sells it."""
    turns = [first, second, first, second]
    ends = {"transfer": "S2", "issue": None}
    return stock_of(
        *(moved(n, kind, 1, to_store=ends[kind]) for n, kind in enumerate(turns, 1)),
        moved(5, "transfer", 2, store="S2", to_store="S3"),
        moved(6, "issue", 2, store="S3"),
        openings=HALVES,
    )


def _closings(costs: ItemCosts) -> list[Flow]:
    return [pool.closing for pool in costs.pools]


def test_a_surplus_goes_on_through_pools_that_keep_nothing() -> None:
    """B got 2 for goods worth 1 and sent 1 on: one more goes to C, whose sale carries it out."""
    costs = costed(_in_turn("transfer", "issue"), pools=POOLS)
    assert values(costs) == {1: 1, 2: 0, 3: 1, 4: 0, 5: 2, 6: 2}
    assert _closings(costs) == [Flow(0, 0)] * 3
    assert [pool.pushes for pool in costs.pools] == [0, 1, 1]


def test_a_deficit_is_taken_off_the_same_lines() -> None:
    """B got 0 for goods worth 1 and sent 1 on."""
    costs = costed(_in_turn("issue", "transfer"), pools=POOLS)
    assert values(costs) == {1: 1, 2: 0, 3: 1, 4: 0, 5: 0, 6: 0}
    assert _closings(costs) == [Flow(0, 0)] * 3


def test_stock_that_is_left_takes_what_comes() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 1, to_store="S2"),
            moved(2, "issue", 1),
            moved(3, "transfer", 1, to_store="S2"),
            moved(4, "issue", 1),
            moved(5, "transfer", 2, store="S2", to_store="S3"),
            openings=HALVES,
        ),
        pools=POOLS,
    )
    assert values(costs)[5] == 2
    assert pool_of(costs, "C").closing == Flow(2, 2)


def test_the_nearest_pool_takes_it_and_an_own_sale_before_any_other() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 1, to_store="S2"),
            moved(2, "issue", 1),
            moved(3, "transfer", 1, to_store="S2"),
            moved(4, "issue", 1),
            moved(5, "issue", 1, store="S2"),
            moved(6, "transfer", 1, store="S2", to_store="S3"),
            openings=HALVES,
        ),
        pools=POOLS,
    )
    assert values(costs) == {1: 1, 2: 0, 3: 1, 4: 0, 5: 2, 6: 0}
    assert pool_of(costs, "C").closing == Flow(1, 0)


def test_a_deficit_goes_where_the_lines_are_worth_something() -> None:
    """B has to give back 1; what it sent to D is worth nothing, what it sent to C is."""
    costs = costed(
        stock_of(
            moved(1, "issue", 1),
            moved(2, "transfer", 1, to_store="S2"),
            moved(3, "issue", 1),
            moved(4, "transfer", 1, to_store="S2"),
            moved(5, "transfer", 1, store="S2", to_store="S3"),
            moved(6, "transfer", 1, store="S2", to_store="S4"),
            openings=HALVES,
        ),
        pools=POOLS,
    )
    assert values(costs) == {1: 1, 2: 0, 3: 1, 4: 0, 5: 0, 6: 0}
    assert _closings(costs) == [Flow(0, 0), Flow(0, 0), Flow(1, 0), Flow(1, 0)]


def test_a_sale_that_came_back_whole_keeps_its_cost() -> None:
    """B sells one and gets it back, then passes both on: the transfer carries the residue."""
    costs = costed(
        stock_of(
            moved(1, "transfer", 1, to_store="S2"),
            moved(2, "issue", 1),
            moved(3, "transfer", 1, to_store="S2"),
            moved(4, "issue", 1),
            moved(5, "issue", 1, store="S2"),
            moved(6, "sales_return", 1, store="S2", ref=5),
            moved(7, "transfer", 2, store="S2", to_store="S3"),
            openings=HALVES,
        ),
        pools=POOLS,
    )
    lines = values(costs)
    assert lines[5] == lines[6] == 1
    assert pool_of(costs, "C").closing == Flow(2, 2)


def test_what_goes_into_making_carries_a_residue_on_to_what_is_made() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 1, to_store="S2"),
            moved(2, "issue", 1),
            moved(3, "transfer", 1, to_store="S2"),
            moved(4, "issue", 1),
            moved(5, "consume", 2, store="S2"),
            moved(6, "produce", 2, store="S3", sources=(5,)),
            openings=HALVES,
        ),
        pools=POOLS,
    )
    assert values(costs)[5] == values(costs)[6] == 2
    assert pool_of(costs, "C").closing == Flow(2, 2)


def test_a_separate_line_keeps_what_each_pool_leaves() -> None:
    costs = costed(
        _in_turn("transfer", "issue"), Policy(residue=ResiduePolicy.SEPARATE_LINE), POOLS
    )
    assert values(costs) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}
    assert [pool.rounding for pool in costs.pools] == [-2, 1, 0]
    assert _closings(costs) == [Flow(0, 0)] * 3


def test_the_last_issue_takes_what_equal_slips_leave_and_hands_on_what_it_cannot() -> None:
    costs = costed(_in_turn("transfer", "issue"), Policy(residue=ResiduePolicy.LAST_ISSUE), POOLS)
    assert _closings(costs) == [Flow(0, 0)] * 3
    assert sum(value for line, value in values(costs).items() if line in {2, 4, 6}) == 2


@pytest.mark.parametrize("residue", ResiduePolicy)
@pytest.mark.parametrize("value", [1, 7, 1000, 10**9 + 7])
def test_what_came_in_goes_out_to_the_last_unit_under_every_policy(
    residue: ResiduePolicy, value: int
) -> None:
    """Three pools send to each other in a circle and sell all they have."""
    rows = [moved(n, "transfer", 7, store=f"S{n}", to_store=f"S{n % 3 + 1}") for n in (1, 2, 3)]
    rows += [moved(n, "issue", n, store=f"S{n % 3 + 1}") for n in range(4, 10)]
    need = {"S1": 15, "S2": 11, "S3": 13}
    openings = tuple(Opening(store, qty, value * qty // 7) for store, qty in need.items())
    costs = costed(stock_of(*rows, openings=openings), Policy(residue=residue), POOLS)
    assert _closings(costs) == [Flow(0, 0)] * 3
    sold = sum(pool.issue.value + pool.rounding for pool in costs.pools)
    assert sold == sum(opening.value for opening in openings)
