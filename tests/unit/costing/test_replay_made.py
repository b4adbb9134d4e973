"""Goods made of others, and documents whose rows have one instant, under the replayed methods."""

import pytest

from tests.unit.costing.replays import FIFO_AND_MOVING, POOLS, move, played, refusals, values
from worker.costing.engine import Answer, cost_items
from worker.costing.instants import replay_order
from worker.costing.movements import ItemStock, Method, Movement, in_order
from worker.costing.problems import Code
from worker.costing.results import ItemCosts, ItemFailure, Policy


def _together(method: Method, **items: list[Movement]) -> dict[str, Answer]:
    stocks = [
        ItemStock(item=item, method=method, movements=in_order(rows))
        for item, rows in items.items()
    ]
    return cost_items(stocks, POOLS, Policy())


def _values(answer: Answer) -> list[int]:
    assert isinstance(answer, ItemCosts), answer
    return values(answer)


def _codes(answer: Answer) -> list[tuple[str, tuple[int, ...]]]:
    assert isinstance(answer, ItemFailure), answer
    return [(problem.code, problem.movement_ids) for problem in answer.problems]


@pytest.mark.parametrize("method", FIFO_AND_MOVING)
def test_a_backdated_repack_needs_no_stock_between_its_rows(method: Method) -> None:
    """ERPNext 46980: 100 came, a repack of one instant turns them into 102, 100 are sold later."""
    rows = [
        move(1, "receipt", 100, value=1000, seq=1),
        move(2, "issue", 100, seq=9),
        move(3, "produce", 102, seq=5, sources=(4,), value=20),
        move(4, "consume", 100, seq=5),
    ]
    costs = played(method, *rows)
    assert values(costs) == [1000, 1000, 1020, 1000]
    assert [tuple(pool.closing) for pool in costs.pools] == [(2, 20)]


def test_a_repack_that_takes_more_than_there_is_is_short() -> None:
    rows = [
        move(1, "receipt", 5, value=50, seq=1),
        move(2, "produce", 8, seq=5, sources=(3,)),
        move(3, "consume", 6, seq=5),
    ]
    assert refusals(Method.FIFO, *rows) == [("NEGATIVE_STOCK", (3,))]


@pytest.mark.parametrize("method", FIFO_AND_MOVING)
def test_items_made_of_each_other_are_replayed_in_one_order(method: Method) -> None:
    """A of B, and later B of A: no circle in time."""
    found = _together(
        method,
        A=[move(2, "produce", 2, seq=2, sources=(3,)), move(4, "consume", 1, seq=4)],
        B=[
            move(1, "receipt", 3, value=90, seq=1),
            move(3, "consume", 1, seq=2),
            move(5, "produce", 1, seq=4, sources=(4,), value=5),
        ],
    )
    assert _values(found["A"]) == [30, 15]
    assert _values(found["B"]) == [90, 30, 20]


def test_goods_made_of_what_is_still_to_be_consumed_have_no_cost() -> None:
    found = _together(
        Method.FIFO,
        A=[move(2, "produce", 2, sources=(3,)), move(4, "consume", 1)],
        B=[
            move(1, "receipt", 3, value=90),
            move(3, "consume", 1),
            move(5, "produce", 1, sources=(4,)),
        ],
    )
    assert _codes(found["A"]) == [(Code.MISSING_COST, (2,))]
    assert _codes(found["B"]) == [(Code.SOURCE_NOT_COSTED, (5,))]


def test_what_fails_takes_only_what_is_made_of_it_along() -> None:
    found = _together(
        Method.FIFO,
        A=[move(1, "receipt", 3), move(2, "consume", 1)],
        B=[move(3, "produce", 2, sources=(2,))],
        C=[move(4, "receipt", 1, value=7)],
    )
    assert _codes(found["A"]) == [(Code.MISSING_COST, (1,))]
    assert _codes(found["B"]) == [(Code.SOURCE_NOT_COSTED, (3,))]
    assert _values(found["C"]) == [7]


def test_rows_of_one_instant_stand_behind_what_they_refer_to() -> None:
    sale, again = move(7, "issue", 1, seq=5), move(3, "issue", 1, seq=5)
    back = move(1, "sales_return", 1, ref=7, seq=5)
    made = move(2, "produce", 1, seq=5, sources=(8, 9))
    consumed = [move(8, "consume", 1, seq=5), move(9, "consume", 1, seq=4)]
    rows = in_order([sale, again, back, made, *consumed])
    assert [m.id for m in replay_order([rows])] == [9, 3, 7, 1, 8, 2]


def test_a_chain_of_references_of_one_instant_is_followed_to_its_end() -> None:
    bought = move(9, "receipt", 5, value=5, seq=1)
    rows = in_order(
        [
            bought,
            move(5, "consume", 1, seq=5),
            move(1, "produce", 1, seq=5, sources=(5,)),
            move(4, "purchase_return", 1, seq=5, ref=1),
        ]
    )
    assert [m.id for m in replay_order([rows])] == [9, 5, 1, 4]
