"""Small stories in which one rule matters, each told by hand and judged by the oracle."""

from typing import Any

import pytest

from tests.costing_oracle.companies import Company
from tests.costing_oracle.judge import judged
from worker.costing.movements import ItemStock, Method, Movement, in_order
from worker.costing.results import ItemCosts

Told = list[tuple[str, int, dict[str, Any]]]
SALES: Told = [("receipt", 3, {"value": 10}), ("issue", 1, {}), ("issue", 1, {})]


def costed(method: Method, *told: tuple[str, int, dict[str, Any]]) -> dict[int, int]:
    """Lines by movement, ids from 1 in the order told; every one a day later than the last."""
    lot = "x" if method == Method.SPECIFIC else None
    rows = []
    for number, (kind, quantity, more) in enumerate(told, 1):
        fields: dict[str, Any] = {"id": number, "kind": kind, "qty": quantity, "day": number}
        fields |= {"seq": 0, "store": "S1", "to_store": None, "value": None}
        fields |= {"ref": None, "basis": None, "reverses": None, "lot": lot, "sources": ()}
        rows.append(Movement(**(fields | more)))
    stock = ItemStock(item="A", method=method, movements=in_order(rows))
    answer = judged(Company(stocks=[stock], pool_of={"S1": "B/P1", "S2": "B/P2"}))["A"]
    assert isinstance(answer, ItemCosts), answer
    return {line.movement_id: line.value for line in answer.lines}


@pytest.mark.parametrize("method", Method)
def test_what_comes_back_in_parts_gives_back_the_whole(method: Method) -> None:
    back = [("sales_return", 1, {"ref": 2})] * 3
    lines = costed(method, ("receipt", 3, {"value": 10}), ("issue", 3, {}), *back)
    assert [lines[n] for n in (3, 4, 5)] == [3, 4, 3]


@pytest.mark.parametrize("method", Method)
def test_a_half_goes_up_and_the_last_unit_takes_the_rest(method: Method) -> None:
    lines = costed(method, ("receipt", 2, {"value": 1}), ("issue", 1, {}), ("issue", 1, {}))
    assert (lines[2], lines[3]) == (1, 0)


@pytest.mark.parametrize("method", Method)
def test_three_units_of_ten_are_not_three_times_a_rounded_price(method: Method) -> None:
    lines = costed(method, *SALES, ("issue", 1, {}))
    assert sum(lines[n] for n in (2, 3, 4)) == 10
    assert max(lines[n] for n in (2, 3, 4)) == 4


@pytest.mark.parametrize("method", Method)
def test_what_comes_at_the_instant_of_an_issue_comes_before_it(method: Method) -> None:
    at_once = {"day": 1}
    lines = costed(method, ("issue", 3, at_once), ("receipt", 3, at_once | {"value": 10}))
    assert lines[1] == 10


@pytest.mark.parametrize("method", Method)
def test_a_return_stands_behind_its_sale_of_the_same_instant(method: Method) -> None:
    at_once = {"day": 2}
    told: Told = [("sales_return", 1, at_once | {"ref": 2}), ("issue", 3, at_once)]
    lines = costed(method, *told, ("receipt", 3, {"value": 10, "day": 1}))
    assert (lines[1], lines[2]) == (3, 10)


def test_the_date_decides_and_not_the_id() -> None:
    """A back-dated receipt has a larger id than the issue that it comes before."""
    told: Told = [("issue", 2, {"day": 5}), ("receipt", 2, {"day": 4, "value": 40})]
    early = ("receipt", 2, {"day": 1, "value": 10})
    assert costed(Method.FIFO, *told, early)[1] == 10
    assert costed(Method.MOVING, *told, early)[1] == 25


def test_the_oldest_goods_leave_first() -> None:
    two: Told = [("receipt", 2, {"value": 10}), ("receipt", 2, {"value": 40})]
    assert costed(Method.FIFO, *two, ("issue", 2, {}))[3] == 10
    assert costed(Method.FIFO, *two, ("issue", 3, {}))[3] == 30


def test_a_pool_that_sells_all_it_got_sells_it_for_what_it_got() -> None:
    """Its price is 3⅓, but 4 came with the one unit: the residue is pushed into the issue."""
    sent = ("transfer", 1, {"to_store": "S2"})
    lines = costed(Method.PERIODIC, *SALES[:2], sent, ("issue", 1, {"store": "S2"}))
    assert (lines[3], lines[4]) == (4, 4)
