"""Goods between cost pools: prices from the linear system, one integer for both ends."""

import pytest

from tests.unit.costing.stocks import costed, moved, pool_of, refused, stock_of, values
from worker.costing.engine import cost_items
from worker.costing.movements import Opening, Reference
from worker.costing.results import Flow, ItemCosts, ItemFailure, Policy
from worker.costing.weighted_average import cost_item

# S1 lies in pool B, S3 in pool C.
BOTH = (Opening("S1", 10, 1000), Opening("S3", 6, 900))
SOURCE = (Opening("S1", 10, 1000),)
RING = {f"S{n}": f"P{n}" for n in range(1, 5)}


def test_a_transfer_joins_the_average_of_the_pool_it_reaches() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 4, to_store="S3"),
            moved(2, "issue", 5, store="S3"),
            openings=BOTH,
        )
    )
    assert values(costs) == {1: 400, 2: 650}
    sent, reached = pool_of(costs, "B"), pool_of(costs, "C")
    assert (sent.transfer_out, sent.closing) == (Flow(4, 400), Flow(6, 600))
    assert (reached.transfer_in, reached.closing) == (Flow(4, 400), Flow(5, 650))
    assert (reached.price_num, reached.price_den) == (130, 1)
    assert [pool.scc_size for pool in costs.pools] == [1, 1]
    assert [store.averaging for store in costs.stores] == [0, 0]


def test_pools_that_send_to_each_other_are_solved_together() -> None:
    """130a - 30b = 1 000 000 and -40a + 90b = 800 000: a = 76 000/7, b = 96 000/7."""
    costs = costed(
        stock_of(
            moved(1, "transfer", 40, to_store="S3"),
            moved(2, "transfer", 30, store="S3", to_store="S1"),
            moved(3, "issue", 60),
            moved(4, "issue", 20, store="S3"),
            openings=(Opening("S1", 100, 1_000_000), Opening("S3", 50, 800_000)),
        )
    )
    assert values(costs) == {1: 434_286, 2: 411_429, 3: 651_428, 4: 274_285}
    prices = {(pool.price_num, pool.price_den, pool.scc_size) for pool in costs.pools}
    assert prices == {(76_000, 7, 2), (96_000, 7, 2)}
    assert [pool.closing for pool in costs.pools] == [Flow(30, 325_715), Flow(40, 548_572)]


def test_goods_that_only_pass_through_keep_their_price() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 10, to_store="S2"),
            moved(2, "transfer", 10, store="S2", to_store="S3"),
            moved(3, "issue", 3, store="S3"),
            openings=SOURCE,
        ),
        pools=RING,
    )
    assert values(costs) == {1: 1000, 2: 1000, 3: 300}
    assert pool_of(costs, "P2").closing == Flow(0, 0)


def test_a_sale_that_comes_back_to_another_pool_joins_its_average() -> None:
    costs = costed(
        stock_of(
            moved(1, "issue", 4),
            moved(2, "sales_return", 3, ref=1, store="S3"),
            openings=(Opening("S1", 10, 1000), Opening("S3", 2, 170)),
        )
    )
    assert values(costs) == {1: 400, 2: 300}
    reached = pool_of(costs, "C")
    assert (reached.sales_return, reached.closing) == (Flow(3, 300), Flow(5, 470))
    assert pool_of(costs, "B").closing == Flow(6, 600)


def test_a_sale_that_comes_back_elsewhere_in_parts_gives_back_exactly_its_cost() -> None:
    costs = costed(
        stock_of(
            moved(1, "issue", 3),
            moved(2, "sales_return", 1, ref=1, store="S3"),
            moved(3, "sales_return", 1, ref=1),
            moved(4, "sales_return", 1, ref=1, store="S3"),
            openings=(Opening("S1", 7, 100),),
        )
    )
    lines = values(costs)
    assert lines[2] + lines[3] + lines[4] == lines[1]


def test_a_return_and_a_transfer_close_a_circle() -> None:
    """12b - 2c = 1000 and 2c = 2b: both are 100."""
    costs = costed(
        stock_of(
            moved(1, "issue", 4),
            moved(2, "sales_return", 2, ref=1, store="S3"),
            moved(3, "transfer", 2, store="S3", to_store="S1"),
            openings=SOURCE,
        )
    )
    assert values(costs) == {1: 400, 2: 200, 3: 200}
    assert [pool.scc_size for pool in costs.pools] == [2, 2]


def test_a_transfer_taken_back_within_the_period_leaves_no_trace() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 4, to_store="S3"),
            moved(2, "transfer", 4, to_store="S3", reverses=1),
            openings=BOTH,
        )
    )
    assert [pool.closing for pool in costs.pools] == [Flow(10, 1000), Flow(6, 900)]


def test_a_transfer_of_an_earlier_period_is_taken_back_at_what_it_had_cost() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 2, to_store="S3", reverses=900),
            openings=BOTH,
            references={900: Reference("transfer", "S1", 2, 210, 0)},
        )
    )
    assert values(costs) == {1: 210}
    assert [pool.closing for pool in costs.pools] == [Flow(12, 1210), Flow(4, 690)]
    assert pool_of(costs, "C").transfer_out == Flow(2, 210)
    assert [pool.variance for pool in costs.pools] == [0, 0]
    assert {store.store: store.transfer_out for store in costs.stores}["S3"] == Flow(2, 210)


def test_more_than_a_pool_has_of_its_own_is_taken_back_at_its_price() -> None:
    """Pool C has 6 of its own and got 4: ten at 130; all ten go back."""
    costs = costed(
        stock_of(
            moved(1, "transfer", 4, to_store="S3"),
            moved(2, "transfer", 10, to_store="S3", reverses=900),
            openings=BOTH,
            references={900: Reference("transfer", "S1", 10, 700, 0)},
        )
    )
    assert pool_of(costs, "C").closing == Flow(0, 0)
    assert sum(pool.closing.value for pool in costs.pools) == 1900


def test_goods_that_came_by_transfer_go_back_to_the_supplier_at_the_pools_price() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 10, value=1200),
            moved(2, "transfer", 5, to_store="S3"),
            moved(3, "purchase_return", 2, ref=1, store="S3"),
        )
    )
    line = next(line for line in costs.lines if line.movement_id == 3)
    assert (line.value, line.variance) == (240, 0)
    assert pool_of(costs, "C").closing == Flow(3, 360)


def test_a_price_reduction_may_come_where_the_goods_went() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 5, to_store="S3"),
            moved(2, "landed_cost", 0, store="S3", value=-100),
            openings=SOURCE,
        )
    )
    assert pool_of(costs, "C").closing == Flow(5, 400)
    too_much = stock_of(
        moved(1, "transfer", 5, to_store="S3"),
        moved(2, "landed_cost", 0, store="S3", value=-501),
        openings=SOURCE,
    )
    assert refused(too_much) == [("RETURN_EXCEEDS_VALUE", (2,))]


def test_goods_that_go_round_and_came_from_nowhere_name_their_way() -> None:
    stock = stock_of(
        moved(1, "transfer", 5, to_store="S2"),
        moved(2, "transfer", 5, store="S2", to_store="S3"),
        moved(3, "transfer", 5, store="S3", to_store="S1"),
        moved(4, "transfer", 2, to_store="S2"),
        moved(5, "transfer", 2, store="S2", to_store="S1"),
    )
    failure = cost_item(stock, RING, Policy())
    assert isinstance(failure, ItemFailure)
    (found,) = failure.problems
    assert found.code == "CYCLE_WITHOUT_SOURCE"
    assert found.detail.endswith("P1 → P2 → P1")
    assert found.movement_ids == (1, 5, 4)


def test_every_circle_without_a_source_is_named_and_every_pool_that_goes_short() -> None:
    stock = stock_of(
        moved(1, "transfer", 5, to_store="S2"),
        moved(2, "transfer", 5, store="S2", to_store="S1"),
        moved(3, "issue", 1, store="S4"),
        moved(4, "transfer", 1, store="S4", to_store="S3"),
        moved(5, "issue", 1, store="S3"),
    )
    assert refused(stock, pools=RING) == [
        ("NEGATIVE_STOCK", (3,)),
        ("CYCLE_WITHOUT_SOURCE", (1, 2)),
    ]


def test_found_goods_that_go_round_still_need_a_cost() -> None:
    stock = stock_of(
        moved(1, "adjust_in", 5),
        moved(2, "transfer", 5, to_store="S3"),
        moved(3, "transfer", 5, store="S3", to_store="S1"),
    )
    assert refused(stock) == [("MISSING_COST", (1,))]


@pytest.mark.parametrize("ends", [("S1", "S9"), ("S9", "S1")])
def test_goods_that_cross_the_border_of_the_run_are_out_of_its_scope(ends: tuple[str, str]) -> None:
    stock = stock_of(moved(1, "transfer", 1, store=ends[0], to_store=ends[1]), openings=SOURCE)
    assert refused(stock) == [("OUT_OF_SCOPE", (1,))]


@pytest.mark.parametrize(
    ("opened", "joins"),
    [(6, 60), (10, 100), (25, 100), (0, 0)],
    ids=["part", "all", "more", "none"],
)
def test_freight_of_an_earlier_receipt_is_split_by_what_may_still_be_there(
    opened: int, joins: int
) -> None:
    costs = costed(
        stock_of(
            moved(1, "landed_cost", 0, value=100, ref=900),
            openings=(Opening("S1", opened, opened * 100),),
            references={900: Reference("receipt", "S1", 10, 1000, 0)},
        )
    )
    (line,) = costs.lines
    assert (line.value, line.variance) == (joins, 100 - joins)
    assert costs.pools[0].closing == Flow(opened, opened * 100 + joins)
    assert costs.pools[0].variance == 100 - joins


def test_items_that_are_made_of_each_other_are_solved_together() -> None:
    """12x - 2y = 1000 and 5y - 5x = 50: x = 102, y = 112."""
    x = stock_of(
        moved(1, "consume", 5),
        moved(2, "produce", 2, sources=(4,)),
        openings=SOURCE,
        item="X",
    )
    y = stock_of(moved(3, "produce", 5, sources=(1,), value=50), moved(4, "consume", 2), item="Y")
    answers = cost_items([y, x], {"S1": "B"}, Policy())
    costs = [answers["X"], answers["Y"]]
    assert all(isinstance(answer, ItemCosts) for answer in costs)
    closing = [a.pools[0].closing for a in costs if isinstance(a, ItemCosts)]
    assert closing == [Flow(7, 714), Flow(3, 336)]
    assert [a.pools[0].scc_size for a in costs if isinstance(a, ItemCosts)] == [2, 2]


def test_goods_packed_anew_carry_what_was_added_to_them() -> None:
    """14a - 4a = 1008."""
    costs = costed(
        stock_of(
            moved(1, "consume", 4),
            moved(2, "produce", 4, sources=(1,), value=8),
            openings=SOURCE,
        )
    )
    assert values(costs) == {1: 403, 2: 411}
    assert costs.pools[0].closing == Flow(10, 1008)


def test_goods_that_are_used_up_in_their_own_making_have_no_price() -> None:
    stock = stock_of(
        moved(1, "consume", 20),
        moved(2, "produce", 10, sources=(1,)),
        openings=SOURCE,
    )
    assert [code for code, _ in refused(stock)] == ["ORPHAN_VALUE"]


def test_items_made_of_each_other_fail_together_and_say_which_one_did() -> None:
    x = stock_of(moved(1, "consume", 5), moved(2, "produce", 2, sources=(4,)), item="X")
    y = stock_of(moved(3, "produce", 5, sources=(1,)), moved(4, "consume", 2), item="Y")
    answers = cost_items([x, y], {"S1": "B"}, Policy())
    codes = {
        i: [p.code for p in a.problems] for i, a in answers.items() if isinstance(a, ItemFailure)
    }
    assert codes == {"X": ["NEGATIVE_STOCK"], "Y": ["SOURCE_NOT_COSTED"]}


def test_freight_booked_in_another_pool_is_a_cost_of_its_receipt() -> None:
    """As the replayed methods have it; where it was booked there may be no goods at all."""
    costs = costed(
        stock_of(
            moved(1, "receipt", 10, value=1000),
            moved(2, "landed_cost", 0, value=50, ref=1, store="S3"),
            moved(3, "issue", 4),
        )
    )
    assert values(costs) == {1: 1000, 2: 50, 3: 420}
    assert [(store.store, store.closing) for store in costs.stores] == [("S1", Flow(6, 630))]
