"""What each kind of movement does to the periodic average, case by case."""

import pytest

from tests.unit.costing.stocks import costed, moved, refused, stock_of, values
from worker.costing.movements import Opening, Reference
from worker.costing.results import Flow, Policy, ResiduePolicy

OPENING = (Opening("S1", 10, 1000),)


def test_lines_are_rounded_cumulatively_and_drain_the_pool_exactly() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 3, value=100),
            *(moved(n, "issue", 1) for n in (2, 3, 4)),
        )
    )
    assert values(costs) == {1: 100, 2: 33, 3: 34, 4: 33}
    assert costs.pools[0].closing == Flow(0, 0)


def test_a_transfer_inside_the_pool_is_neutral_and_shows_the_price() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 10, value=1005),
            moved(2, "transfer", 4, to_store="S2"),
            moved(3, "issue", 2, store="S2"),
        )
    )
    (pool,) = costs.pools
    assert pool.closing == Flow(8, 804)
    assert values(costs)[2] == 402
    by_store = {balance.store: balance for balance in costs.stores}
    assert by_store["S1"].closing == Flow(6, 603)
    assert by_store["S2"].closing == Flow(2, 201)
    assert sum(balance.averaging for balance in costs.stores) == 0


def test_store_values_meet_the_pool_even_where_a_store_is_below_zero() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 10, value=997),
            moved(2, "issue", 3, store="S2"),
        )
    )
    by_store = {balance.store: balance.closing for balance in costs.stores}
    assert by_store["S2"].qty == -3
    assert by_store["S1"].value + by_store["S2"].value == costs.pools[0].closing.value


def test_a_sale_returned_whole_gives_back_exactly_its_cost() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 7, value=100),
            moved(2, "issue", 2),
            moved(3, "issue", 3),
            moved(4, "sales_return", 1, ref=3),
            moved(5, "sales_return", 2, ref=3),
        )
    )
    lines = values(costs)
    assert lines[4] + lines[5] == lines[3]
    assert costs.pools[0].closing.value == 100 - lines[2]


def test_residue_of_returns_is_pushed_into_outflows_that_stayed_out() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 4, value=3),
            moved(2, "issue", 2),
            moved(3, "sales_return", 1, ref=2),
            moved(4, "issue", 3),
        )
    )
    assert costs.pools[0].closing == Flow(0, 0)
    assert costs.pools[0].pushes <= 1


def test_a_return_of_an_earlier_sale_comes_in_at_its_known_cost() -> None:
    sale = Reference("issue", "S1", 3, 100, 1)
    costs = costed(
        stock_of(
            moved(1, "sales_return", 1, ref=900),
            moved(2, "sales_return", 1, ref=900),
            openings=OPENING,
            references={900: sale},
        )
    )
    assert values(costs) == {1: 34, 2: 33}
    assert costs.pools[0].closing == Flow(12, 1067)


def test_a_purchase_return_leaves_at_what_it_cost_with_its_freight() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 5, value=500),
            moved(2, "purchase_return", 2, ref=1),
            moved(3, "landed_cost", 0, value=50, ref=1),
        )
    )
    assert values(costs)[2] == 220
    assert costs.pools[0].closing == Flow(3, 330)


def test_a_purchase_return_beyond_the_pools_value_becomes_variance() -> None:
    receipt = Reference("receipt", "S1", 10, 8000, 0)
    costs = costed(
        stock_of(
            moved(1, "purchase_return", 8, ref=900), openings=OPENING, references={900: receipt}
        )
    )
    (line,) = costs.lines
    assert (line.value, line.variance) == (1000, -5400)
    assert costs.pools[0].closing == Flow(2, 0)


def test_a_purchase_return_that_empties_the_pool_takes_all_its_value() -> None:
    receipt = Reference("receipt", "S1", 10, 900, 0)
    costs = costed(
        stock_of(
            moved(1, "purchase_return", 10, ref=900), openings=OPENING, references={900: receipt}
        )
    )
    (line,) = costs.lines
    assert (line.value, line.variance) == (1000, 100)


def test_goods_of_another_pools_receipt_go_back_at_the_average() -> None:
    receipt = Reference("receipt", "S3", 10, 2000, 0)
    costs = costed(
        stock_of(
            moved(1, "purchase_return", 2, ref=900), openings=OPENING, references={900: receipt}
        )
    )
    (line,) = costs.lines
    assert (line.value, line.variance) == (200, -200)


def test_found_goods_take_the_average_and_do_not_move_it() -> None:
    costs = costed(stock_of(moved(1, "adjust_in", 5), openings=OPENING))
    assert costs.pools[0].closing == Flow(15, 1500)


def test_a_count_sets_the_book_to_what_was_counted() -> None:
    costs = costed(
        stock_of(
            moved(1, "issue", 4),
            moved(2, "count", 5),
            moved(3, "count", 7),
            openings=OPENING,
        )
    )
    assert [line.qty_diff for line in costs.lines] == [None, -1, 2]
    assert costs.pools[0].closing == Flow(7, 700)


@pytest.mark.parametrize("value", [None, 0])
def test_a_count_of_nothing_lifts_a_book_below_zero_at_the_average(value: int | None) -> None:
    costs = costed(
        stock_of(
            moved(1, "issue", 4),
            moved(2, "count", 0, value=value),
            moved(3, "receipt", 10, value=1000),
        )
    )
    assert values(costs) == {1: 400, 2: 400, 3: 1000}
    assert costs.pools[0].closing == Flow(10, 1000)


def test_a_count_of_nothing_has_no_goods_to_be_worth_anything() -> None:
    stock = stock_of(moved(1, "issue", 4), moved(2, "count", 0, value=7))
    assert refused(stock) == [("ORPHAN_VALUE", (2,))]


def test_a_count_with_a_value_brings_its_surplus_in_at_that_value() -> None:
    costs = costed(stock_of(moved(1, "count", 50, value=5000)))
    assert costs.pools[0].closing == Flow(50, 5000)


def test_a_reversal_within_the_period_leaves_no_trace_in_the_price() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 10, value=9999),
            moved(2, "receipt", 10, value=9999, reverses=1),
            moved(3, "issue", 2),
            moved(4, "issue", 2, reverses=3),
            openings=OPENING,
        )
    )
    assert costs.pools[0].closing == Flow(10, 1000)
    assert values(costs) == {1: 9999, 2: 9999, 3: 200, 4: 200}


def test_a_reversal_of_an_earlier_period_comes_at_the_original_cost() -> None:
    costs = costed(
        stock_of(
            moved(1, "issue", 2, reverses=900),
            openings=OPENING,
            references={900: Reference("issue", "S1", 2, 150, 0)},
        )
    )
    assert costs.pools[0].closing == Flow(12, 1150)


@pytest.mark.parametrize(
    ("stock", "found"),
    [
        (stock_of(moved(1, "issue", 11), openings=OPENING), [("NEGATIVE_STOCK", (1,))]),
        (
            stock_of(moved(1, "issue", 9), moved(2, "issue", 2), openings=OPENING),
            [("NEGATIVE_STOCK", (2,))],
        ),
        (
            stock_of(moved(1, "receipt", 1), moved(2, "receipt", 1), openings=OPENING),
            [("MISSING_COST", (1, 2))],
        ),
        (stock_of(moved(1, "adjust_in", 1)), [("MISSING_COST", (1,))]),
        (stock_of(moved(1, "landed_cost", 0, value=5)), [("ORPHAN_VALUE", (1,))]),
        (stock_of(moved(1, "sales_return", 1)), [("RETURN_WITHOUT_REF", (1,))]),
        (stock_of(moved(1, "sales_return", 1, ref=77)), [("RETURN_WITHOUT_REF", (1,))]),
        (
            stock_of(moved(1, "issue", 1), moved(2, "sales_return", 2, ref=1), openings=OPENING),
            [("RETURN_EXCEEDS_ISSUE", (2,))],
        ),
        (
            stock_of(
                moved(1, "receipt", 1, value=5),
                moved(2, "purchase_return", 2, ref=1),
                openings=OPENING,
            ),
            [("RETURN_EXCEEDS_RECEIPT", (2,))],
        ),
        (
            stock_of(moved(1, "landed_cost", 0, value=-1001), openings=OPENING),
            [("RETURN_EXCEEDS_VALUE", (1,))],
        ),
        (
            stock_of(moved(1, "issue", 2), moved(2, "issue", 1, reverses=1), openings=OPENING),
            [("REVERSAL_MISMATCH", (2,))],
        ),
        (
            stock_of(moved(1, "receipt", 1, value=2**62), moved(2, "receipt", 1, value=2**62)),
            [("OVERFLOW", (1, 2))],
        ),
        (
            stock_of(openings=(Opening("S1", -1, 0), Opening("S2", 0, 0))),
            [("NEGATIVE_STOCK", ())],
        ),
    ],
)
def test_bad_input_names_its_code_and_its_movements(
    stock: object, found: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert refused(stock) == found  # type: ignore[arg-type]  # a parametrised stock


def test_negative_stock_inside_the_period_is_allowed_and_noted() -> None:
    costs = costed(stock_of(moved(1, "issue", 5), moved(2, "receipt", 5, value=500)))
    assert costs.pools[0].dipped
    assert values(costs)[1] == 500


def test_the_last_issue_absorbs_what_equal_slips_leave() -> None:
    stock = stock_of(moved(1, "receipt", 3, value=100), *(moved(n, "issue", 1) for n in (2, 3, 4)))
    costs = costed(stock, Policy(residue=ResiduePolicy.LAST_ISSUE))
    assert values(costs) == {1: 100, 2: 33, 3: 33, 4: 34}


def test_a_separate_line_carries_the_difference_of_equal_slips() -> None:
    stock = stock_of(moved(1, "receipt", 3, value=100), *(moved(n, "issue", 1) for n in (2, 3, 4)))
    costs = costed(stock, Policy(residue=ResiduePolicy.SEPARATE_LINE))
    assert values(costs) == {1: 100, 2: 33, 3: 33, 4: 33}
    assert costs.pools[0].rounding == 1
    assert costs.pools[0].closing == Flow(0, 0)


def test_a_transfer_line_that_does_not_fit_fails_its_item_and_names_the_movement() -> None:
    stock = stock_of(
        moved(1, "receipt", 1, value=2**63 - 1),
        moved(2, "transfer", 1000, to_store="S2"),
        moved(3, "transfer", 1000, store="S2", to_store="S1"),
    )
    assert refused(stock)[0] == ("OVERFLOW", (2, 3))


def test_a_stores_flow_that_does_not_fit_fails_its_item() -> None:
    there = [moved(n, "transfer", 2**62, to_store="S2") for n in range(2, 6)]
    back = [moved(n, "transfer", 2**62, store="S2", to_store="S1") for n in range(6, 10)]
    assert refused(stock_of(moved(1, "receipt", 1, value=1), *there, *back))[0][0] == "OVERFLOW"
