"""Moving average, FIFO and specific identification against numbers worked out by hand."""

from typing import Any

import pytest

from tests.unit.costing.replays import (
    PROVISIONAL,
    REPLAYED,
    closings,
    layers,
    lines,
    move,
    played,
    refusals,
    values,
)
from worker.costing.exact import Price
from worker.costing.movements import Method, Opening, OpeningLayer, Reference
from worker.costing.results import Flow, Policy

MOVING, FIFO, SPECIFIC = REPLAYED
BOUGHT = (move(1, "receipt", 10, value=100), move(2, "receipt", 10, value=200))
LOT_1 = move(1, "receipt", 10, value=100, lot="L1")
LOT_2 = move(2, "receipt", 10, value=200, lot="L2")


def test_the_moving_average_is_the_price_of_that_moment() -> None:
    rows = [*BOUGHT, move(3, "issue", 5), move(4, "receipt", 5, value=200), move(5, "issue", 20)]
    costs = played(MOVING, *rows)
    assert values(costs) == [100, 200, 75, 200, 425]
    assert closings(costs) == {"B/S1": (0, 0)}


def test_the_last_unit_takes_the_rest_of_the_value() -> None:
    rows = [move(1, "receipt", 3, value=100)] + [move(n, "issue", 1) for n in (2, 3, 4)]
    assert values(played(MOVING, *rows)) == [100, 33, 34, 33]
    assert values(played(FIFO, *rows)) == [100, 33, 34, 33]


def test_fifo_takes_whole_layers_and_a_part_of_the_last() -> None:
    costs = played(FIFO, *BOUGHT, move(3, "issue", 13), move(4, "issue", 1))
    assert values(costs) == [100, 200, 160, 20]
    assert layers(costs) == [("B/S1", 6, 120, 2)]


def test_each_lot_is_a_queue_of_its_own() -> None:
    more = move(3, "receipt", 5, value=150, lot="L1")
    costs = played(SPECIFIC, LOT_1, LOT_2, more, move(4, "issue", 12, lot="L1"))
    assert values(costs)[-1] == 160
    assert [(x.lot, x.qty, x.value) for x in costs.layers] == [("L1", 3, 90), ("L2", 10, 200)]


@pytest.mark.parametrize("kind", ["receipt", "issue", "adjust_out", "count"])
def test_goods_that_are_told_apart_need_a_lot(kind: str) -> None:
    row = move(2, kind, 1, value=10 if kind == "receipt" else None)
    assert refusals(SPECIFIC, LOT_1, row) == [("LOT_REQUIRED", (2,))]


def test_a_lot_that_is_empty_is_short_whatever_else_is_there() -> None:
    assert refusals(SPECIFIC, LOT_1, move(3, "issue", 1, lot="L2")) == [("NEGATIVE_STOCK", (3,))]


def test_a_return_takes_the_lot_of_what_it_refers_to() -> None:
    sold = move(3, "issue", 4, lot="L1")
    costs = played(SPECIFIC, LOT_1, LOT_2, sold, move(4, "sales_return", 1, ref=3))
    assert [(x.lot, x.qty, x.value) for x in costs.layers] == [
        ("L1", 6, 60), ("L1", 1, 10), ("L2", 10, 200)
    ]  # fmt: skip


def test_a_transfer_is_one_integer_on_both_sides() -> None:
    rows = [move(1, "receipt", 3, value=100), move(2, "transfer", 1, to_store="S2")]
    for method in (MOVING, FIFO):
        costs = played(method, *rows)
        assert closings(costs) == {"B/S1": (2, 67), "B/S2": (1, 33)}
        sent, received = costs.pools
        assert sent.transfer_out == received.transfer_in == Flow(1, 33)


def test_layers_keep_what_brought_them_in_across_pools() -> None:
    out = [
        move(3, "transfer", 15, to_store="S2"),
        move(4, "transfer", 12, store="S2", to_store="S3"),
    ]
    costs = played(FIFO, *BOUGHT, *out)
    assert layers(costs) == [
        ("B/S1", 5, 100, 2), ("B/S2", 3, 60, 2), ("B/S3", 10, 100, 1), ("B/S3", 2, 40, 2)
    ]  # fmt: skip


def test_a_transfer_inside_a_pool_moves_goods_and_no_value() -> None:
    rows = [
        move(1, "receipt", 10, value=100, store="P1"),
        move(2, "transfer", 4, store="P1", to_store="P2"),
    ]
    for method in (MOVING, FIFO):
        costs = played(method, *rows)
        assert costs.pools[0].transfer_in == costs.pools[0].transfer_out == Flow(0, 0)
        assert [(s.store, s.closing, s.averaging) for s in costs.stores] == [
            ("P1", Flow(6, 60), 0), ("P2", Flow(4, 40), 0)
        ]  # fmt: skip


def test_a_store_of_a_pool_may_be_short_where_the_pool_is_not() -> None:
    rows = [move(1, "receipt", 10, value=100, store="P1"), move(2, "issue", 4, store="P2")]
    costs = played(MOVING, *rows)
    assert [(s.store, s.closing.qty, s.closing.value) for s in costs.stores] == [
        ("P1", 10, 100), ("P2", -4, -40)
    ]  # fmt: skip


def test_returned_sales_bring_back_exactly_what_they_cost() -> None:
    rows = [
        move(1, "receipt", 7, value=100),
        move(2, "issue", 3),
        *(move(n, "sales_return", 1, ref=2) for n in (3, 4, 5)),
    ]
    for method in (MOVING, FIFO):
        found = values(played(method, *rows))
        assert found == [100, 43, 14, 15, 14]
        assert sum(found[2:]) == 43


def test_returned_goods_are_the_youngest_layer() -> None:
    rows = [*BOUGHT, move(3, "issue", 5), move(4, "sales_return", 2, ref=3), move(5, "issue", 16)]
    costs = played(FIFO, *rows)
    assert values(costs)[-2:] == [20, 50 + 200 + 10]
    assert layers(costs) == [("B/S1", 1, 10, 4)]


def test_a_sale_may_come_back_into_another_pool() -> None:
    costs = played(
        MOVING, *BOUGHT, move(3, "issue", 4), move(4, "sales_return", 1, ref=3, store="S2")
    )
    assert closings(costs) == {"B/S1": (16, 240), "B/S2": (1, 15)}


def test_a_sale_of_an_earlier_period_comes_back_at_its_cost_then() -> None:
    sold = {90: Reference("issue", "S1", 3, 100, 1)}
    rows = [move(1, "sales_return", 1, ref=90), move(2, "sales_return", 1, ref=90)]
    assert values(played(FIFO, *rows, references=sold)) == [34, 33]
    assert refusals(FIFO, *rows, move(3, "sales_return", 1, ref=90), references=sold) == [
        ("RETURN_EXCEEDS_ISSUE", (3,))
    ]


@pytest.mark.parametrize("method", [MOVING, FIFO])
def test_a_return_before_its_sale_has_nothing_to_bring_back(method: Method) -> None:
    rows = [*BOUGHT, move(4, "issue", 5), move(3, "sales_return", 1, ref=4)]
    assert refusals(method, *rows) == [("RETURN_EXCEEDS_ISSUE", (3,))]
    assert refusals(method, move(1, "sales_return", 1)) == [("RETURN_WITHOUT_REF", (1,))]


def test_a_return_of_the_same_instant_stands_behind_its_sale() -> None:
    sale, back = move(3, "issue", 5, seq=9), move(4, "sales_return", 2, ref=3, seq=9)
    assert values(played(MOVING, *BOUGHT, sale, back)) == [100, 200, 75, 30]


def test_a_purchase_return_leaves_at_what_it_cost() -> None:
    back = move(4, "purchase_return", 4, ref=2)
    costs = played(MOVING, *BOUGHT, move(3, "issue", 10), back)
    assert (lines(costs)[4].value, lines(costs)[4].variance) == (80, 0)
    assert closings(costs) == {"B/S1": (6, 70)}


def test_a_purchase_return_takes_no_more_than_the_pool_is_worth() -> None:
    """ERPNext 37424: 800 wanted, 181.82 there; the pool keeps 2 units worth nothing."""
    rows = [
        move(1, "receipt", 10, value=100_000),
        move(2, "receipt", 100, value=100_000),
        move(3, "issue", 100),
        move(4, "purchase_return", 8, ref=1),
    ]
    costs = played(MOVING, *rows)
    assert (lines(costs)[4].value, lines(costs)[4].variance) == (18_182, -61_818)
    assert closings(costs) == {"B/S1": (2, 0)}


def test_a_purchase_return_that_empties_a_pool_takes_all_of_it() -> None:
    costs = played(MOVING, *BOUGHT, move(3, "issue", 10), move(4, "purchase_return", 10, ref=1))
    assert (lines(costs)[4].value, lines(costs)[4].variance) == (150, 50)


def test_fifo_gives_the_receipts_own_layer_back_and_then_the_oldest() -> None:
    costs = played(FIFO, *BOUGHT, move(3, "purchase_return", 4, ref=2))
    assert (values(costs)[-1], layers(costs)) == (80, [("B/S1", 10, 100, 1), ("B/S1", 6, 120, 2)])
    rows = [*BOUGHT, move(3, "issue", 8), move(4, "purchase_return", 5, ref=1)]
    costs = played(FIFO, *rows)
    assert (lines(costs)[4].value, lines(costs)[4].variance) == (20 + 60, 80 - 50)


def test_a_part_of_a_layer_goes_back_at_the_receipts_price_not_at_its_rounding() -> None:
    rows = [
        move(1, "receipt", 7, value=10),
        move(2, "issue", 1),
        move(3, "purchase_return", 1, ref=1),
    ]
    costs = played(FIFO, *rows)
    assert (lines(costs)[3].value, lines(costs)[3].variance) == (1, 0)


def test_a_layer_goes_back_from_where_a_transfer_has_brought_it() -> None:
    rows = [
        *BOUGHT,
        move(3, "transfer", 15, to_store="S2"),
        move(4, "purchase_return", 3, ref=2, store="S2"),
    ]
    assert layers(played(FIFO, *rows)) == [
        ("B/S1", 5, 100, 2), ("B/S2", 10, 100, 1), ("B/S2", 2, 40, 2)
    ]  # fmt: skip


def test_a_purchase_return_at_the_average_is_an_issue_with_a_variance() -> None:
    """ERPNext 15148: 516.67 leaves, 16.67 more than what the goods had cost."""
    rows = [
        move(1, "receipt", 10, value=100_000),
        move(2, "receipt", 5, value=55_000),
        move(3, "purchase_return", 5, ref=1, basis="average"),
    ]
    assert lines(played(MOVING, *rows))[3][1:3] == (51_667, 1_667)


def test_more_than_a_receipt_brought_cannot_go_back() -> None:
    rows = [*BOUGHT, move(3, "purchase_return", 8, ref=1), move(4, "purchase_return", 3, ref=1)]
    assert refusals(FIFO, *rows) == [("RETURN_EXCEEDS_RECEIPT", (4,))]
    assert refusals(MOVING, *BOUGHT, move(3, "purchase_return", 1)) == [
        ("RETURN_WITHOUT_REF", (3,))
    ]


def test_landed_cost_of_this_period_joins_its_receipt_before_the_replay() -> None:
    rows = [*BOUGHT, move(3, "issue", 10), move(4, "landed_cost", 0, ref=1, value=50)]
    assert values(played(FIFO, *rows)) == [100, 200, 150, 50]
    assert values(played(MOVING, *rows)) == [100, 200, 175, 50]


def test_late_landed_cost_is_split_by_the_layers_left_in_all_pools() -> None:
    received = {90: Reference("receipt", "S1", 10, 100, 0)}
    opened = (Opening("S1", 4, 40), Opening("S2", 2, 20), Opening("S3", 5, 60))
    left = (
        OpeningLayer("B/S1", None, 4, 40, 90),
        OpeningLayer("B/S2", None, 2, 20, 90),
        OpeningLayer("B/S3", None, 5, 60, 80),
    )
    rows = [move(1, "issue", 1), move(2, "landed_cost", 0, ref=90, value=100)]
    costs = played(FIFO, *rows, references=received, openings=opened, layers=left)
    assert lines(costs)[2][1:3] == (50, 50)
    assert closings(costs) == {"B/S1": (3, 60), "B/S2": (2, 40), "B/S3": (5, 60)}


def test_late_landed_cost_under_the_average_is_split_by_quantity() -> None:
    received = {90: Reference("receipt", "S1", 10, 100, 0)}
    rows = [move(1, "issue", 2), move(2, "landed_cost", 0, ref=90, value=100)]
    costs = played(MOVING, *rows, references=received, openings=(Opening("S1", 8, 80),))
    assert lines(costs)[2][1:3] == (60, 40)
    assert costs.pools[0].variance == 40
    assert closings(costs) == {"B/S1": (6, 120)}


def test_value_without_goods_is_an_orphan() -> None:
    assert refusals(FIFO, move(1, "landed_cost", 0, value=5)) == [("ORPHAN_VALUE", (1,))]
    less = move(3, "landed_cost", 0, value=-301)
    assert refusals(MOVING, *BOUGHT, less) == [("RETURN_EXCEEDS_VALUE", (3,))]
    of_one = move(3, "landed_cost", 0, value=-101, ref=1)
    assert refusals(MOVING, *BOUGHT, of_one) == [("RETURN_EXCEEDS_VALUE", (1, 3))]


def test_a_price_reduction_takes_no_layer_below_nothing() -> None:
    less = move(3, "landed_cost", 0, value=-150)
    assert layers(played(FIFO, *BOUGHT, less)) == [("B/S1", 10, 50, 1), ("B/S1", 10, 100, 2)]


@pytest.mark.parametrize(
    ("counted", "value", "line", "closing"),
    [
        (18, None, (30, -2), (18, 270)),
        (22, None, (30, 2), (22, 330)),
        (20, None, (0, 0), (20, 300)),
        (20, 500, (200, 0), (20, 500)),
        (18, 360, (-60, -2), (18, 360)),
        (22, 220, (-80, 2), (22, 220)),
        (0, None, (300, -20), (0, 0)),
    ],
)
def test_a_count_asserts_a_quantity_and_a_value(
    counted: int, value: int | None, line: tuple[int, int], closing: tuple[int, int]
) -> None:
    costs = played(MOVING, *BOUGHT, move(3, "count", counted, value=value))
    found = lines(costs)[3]
    assert (found.value, found.qty_diff) == line
    assert closings(costs) == {"B/S1": closing}


def test_quantity_and_value_of_a_count_are_gains_or_losses_by_their_own_signs() -> None:
    pool = played(MOVING, *BOUGHT, move(3, "count", 18, value=360)).pools[0]
    assert (pool.gain, pool.usage) == (Flow(0, 60), Flow(2, 0))


def test_a_count_of_one_store_leaves_the_others_of_its_pool_alone() -> None:
    rows = [
        move(1, "receipt", 6, value=60, store="P1"),
        move(2, "receipt", 4, value=40, store="P2"),
        move(3, "count", 3, store="P2"),
        move(4, "count", 6, value=120, store="P1"),
    ]
    for method in (MOVING, FIFO):
        assert closings(played(method, *rows)) == {"B/P": (9, 150)}


def test_found_goods_cost_what_such_goods_cost_last() -> None:
    found = move(3, "adjust_in", 1)
    assert values(played(MOVING, *BOUGHT, found))[-1] == 15
    gone = [move(1, "receipt", 2, value=9), move(2, "issue", 2), found]
    assert values(played(FIFO, *gone))[-1] == 5
    known = {"B/S1": Price(7, 2)}
    assert values(played(MOVING, move(1, "count", 2), last_prices=known)) == [7]
    assert refusals(MOVING, move(1, "adjust_in", 1)) == [("MISSING_COST", (1,))]


def test_what_is_taken_back_within_the_period_has_never_been() -> None:
    rows = [
        *BOUGHT,
        move(3, "receipt", 10, value=900),
        move(4, "receipt", 10, value=900, reverses=3),
    ]
    costs = played(MOVING, *rows, move(5, "issue", 4), move(6, "count", 16))
    assert values(costs) == [100, 200, 900, 900, 60, 0]
    assert costs.pools[0].receipt == Flow(20, 300)
    twisted = [*BOUGHT, move(3, "receipt", 9, value=100, reverses=1)]
    assert refusals(FIFO, *twisted) == [("REVERSAL_MISMATCH", (3,))]


def test_an_earlier_movement_is_taken_back_at_its_cost() -> None:
    earlier = {
        90: Reference("receipt", "S1", 10, 100, 0),
        91: Reference("issue", "S1", 2, 33, 0),
    }
    opened: dict[str, Any] = {
        "openings": (Opening("S1", 14, 180),),
        "layers": (OpeningLayer("B/S1", None, 4, 80, 80), OpeningLayer("B/S1", None, 10, 100, 90)),
    }
    rows = [move(1, "receipt", 10, value=100, reverses=90), move(2, "issue", 2, reverses=91)]
    costs = played(FIFO, *rows, references=earlier, **opened)
    assert values(costs) == [100, 33]
    assert layers(costs) == [("B/S1", 4, 80, 80), ("B/S1", 2, 33, 2)]
    pool = costs.pools[0]
    assert (pool.purchase_return, pool.sales_return) == (Flow(10, 100), Flow(2, 33))


def test_forbid_names_the_first_movement_that_goes_short() -> None:
    rows = [*BOUGHT, move(3, "issue", 19), move(4, "issue", 2), move(5, "issue", 9)]
    for method in (MOVING, FIFO):
        assert refusals(method, *rows) == [("NEGATIVE_STOCK", (4,))]


def test_problems_are_gathered_and_their_consequences_are_not() -> None:
    rows = [
        move(1, "receipt", 5),
        move(2, "issue", 5),
        move(3, "receipt", 5),
        move(4, "sales_return", 1),
    ]
    assert refusals(FIFO, *rows) == [("MISSING_COST", (1, 3)), ("RETURN_WITHOUT_REF", (4,))]


def test_an_opening_below_zero_needs_provisional_costs() -> None:
    opened: dict[str, Any] = {"openings": (Opening("S1", -2, -30),)}
    assert refusals(MOVING, **opened) == [("NEGATIVE_STOCK", ())]
    rows = [move(1, "receipt", 5, value=100)]
    costs = played(MOVING, *rows, policy=PROVISIONAL, **opened)
    assert (lines(costs)[1].true_up, closings(costs)) == (10, {"B/S1": (3, 60)})


@pytest.mark.parametrize("method", [MOVING, FIFO])
def test_who_covers_what_went_short_settles_the_difference(method: Method) -> None:
    rows = [
        move(1, "receipt", 2, value=10),
        move(2, "issue", 5),
        move(3, "receipt", 1, value=9),
        move(4, "receipt", 4, value=28),
    ]
    costs = played(method, *rows, policy=PROVISIONAL)
    assert values(costs) == [10, 25, 9, 28]
    assert [lines(costs)[n].true_up for n in (3, 4)] == [4, 4]
    pool = costs.pools[0]
    assert (pool.closing, pool.true_up, pool.dipped) == (Flow(2, 14), 8, True)
    assert costs.stores[0].averaging == 0


def test_fifo_lets_short_goods_out_at_the_youngest_layers_price() -> None:
    rows = [move(1, "receipt", 1, value=10), move(2, "receipt", 1, value=20), move(3, "issue", 3)]
    costs = played(FIFO, *rows, policy=PROVISIONAL)
    assert values(costs)[-1] == 50
    assert layers(costs) == [("B/S1", -1, -20, None)]
    assert played(MOVING, *rows, policy=PROVISIONAL).lines[-1].value == 45


def test_what_is_owed_is_carried_into_the_next_period() -> None:
    owed: dict[str, Any] = {
        "openings": (Opening("S1", -3, -50),),
        "layers": (
            OpeningLayer("B/S1", None, -1, -10, None),
            OpeningLayer("B/S1", None, -2, -40, None),
        ),
    }
    costs = played(FIFO, move(1, "receipt", 2, value=60), policy=PROVISIONAL, **owed)
    assert lines(costs)[1].true_up == 60 - 10 - 20
    assert layers(costs) == [("B/S1", -1, -20, None)]


def test_a_pool_may_open_owing_one_lot_and_holding_another() -> None:
    """More is owed in value than the lot at hand is worth: the pool as a whole is below zero."""
    opened: dict[str, Any] = {
        "openings": (Opening("S1", 1, -20),),
        "layers": (
            OpeningLayer("B/S1", "X", 2, 10, 1),
            OpeningLayer("B/S1", "Y", -1, -30, None),
        ),
    }
    sold = move(5, "issue", 1, lot="X")
    costs = played(SPECIFIC, sold, policy=PROVISIONAL, **opened)
    assert values(costs) == [5]
    assert closings(costs) == {"B/S1": (0, -25)}
    assert costs.pools[0].dipped


def test_a_cost_that_nobody_knows_is_taken_from_the_hint() -> None:
    rows = [move(1, "issue", 2, value=14), move(2, "issue", 1, value=99)]
    assert values(played(MOVING, *rows, policy=PROVISIONAL)) == [14, 7]
    assert refusals(FIFO, move(1, "issue", 2), policy=PROVISIONAL) == [("NEGATIVE_STOCK", (1,))]


@pytest.mark.parametrize("method", [MOVING, FIFO])
def test_a_chain_of_provisional_costs_is_settled_where_goods_arrive(method: Method) -> None:
    """S1 sends what it does not have, S2 sells it; the receipt at S1 pays the difference."""
    rows = [
        move(1, "receipt", 1, value=10),
        move(2, "transfer", 4, to_store="S2"),
        move(3, "issue", 4, store="S2"),
        move(4, "receipt", 3, value=45),
    ]
    costs = played(method, *rows, policy=PROVISIONAL)
    assert values(costs) == [10, 40, 40, 45]
    assert lines(costs)[4].true_up == 15
    assert closings(costs) == {"B/S1": (0, 0), "B/S2": (0, 0)}


def test_printed_prices_leave_a_residue_line_when_the_pool_is_empty() -> None:
    policy = Policy(unit_cost_digits=0)
    rows = [move(1, "receipt", 3, value=100), move(2, "issue", 1), move(3, "issue", 2)]
    costs = played(MOVING, *rows, policy=policy)
    assert values(costs) == [100, 33, 66]
    assert (costs.pools[0].rounding, costs.pools[0].closing) == (1, Flow(0, 0))
