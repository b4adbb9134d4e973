"""Small stories in which one rule matters, each told by hand and judged by the oracle."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.costing_oracle.companies import Company
from tests.costing_oracle.judge import judged
from worker.costing.exact import Price
from worker.costing.movements import ItemStock, Method, Movement, Opening, Reference, in_order
from worker.costing.problems import Code
from worker.costing.results import ItemCosts, ItemFailure, Negative, Policy

Told = list[tuple[str, int, dict[str, Any]]]
SALES: Told = [("receipt", 3, {"value": 10}), ("issue", 1, {}), ("issue", 1, {})]


PROVISIONAL = Policy(negative=Negative.PROVISIONAL)
# Receipts and sales of an earlier period.
EARLIER = {
    901: Reference("receipt", "S1", 21, 0, 0),
    902: Reference("receipt", "S1", 1, 4, 0),
}


def answered(
    method: Method,
    *told: tuple[str, int, dict[str, Any]],
    policy: Policy | None = None,
    opening: Sequence[Opening] = (),
) -> ItemCosts | ItemFailure:
    """What engine and oracle agree on; ids from 1 in the order told, each a day after the last."""
    lot = "x" if method == Method.SPECIFIC else None
    rows = []
    for number, (kind, quantity, more) in enumerate(told, 1):
        fields: dict[str, Any] = {"id": number, "kind": kind, "qty": quantity, "day": number}
        fields |= {"seq": 0, "store": "S1", "to_store": None, "value": None}
        fields |= {"ref": None, "basis": None, "reverses": None, "lot": lot, "sources": ()}
        rows.append(Movement(**(fields | more)))
    stock = ItemStock(
        item="A",
        method=method,
        openings=tuple(opening),
        movements=in_order(rows),
        references=EARLIER,
    )
    return judged(Company(stocks=[stock], pool_of={"S1": "B/P1", "S2": "B/P2"}), policy)["A"]


def costed(method: Method, *told: tuple[str, int, dict[str, Any]], **more: Any) -> dict[int, int]:
    """Lines by movement."""
    answer = answered(method, *told, **more)
    assert isinstance(answer, ItemCosts), answer
    return {line.movement_id: line.value for line in answer.lines}


def refused(
    method: Method, *told: tuple[str, int, dict[str, Any]], **more: Any
) -> list[tuple[Code, tuple[int, ...]]]:
    """Codes, each with the movements that it names."""
    answer = answered(method, *told, **more)
    assert isinstance(answer, ItemFailure), answer
    return [(problem.code, problem.movement_ids) for problem in answer.problems]


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


AVERAGE = {"basis": "average"}


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("basis", ["average", None])
def test_a_return_that_names_no_standing_receipt_has_no_cost_to_go_back_at(
    method: Method, basis: str | None
) -> None:
    """Neither a receipt that nobody knows nor one that was taken back; a value of its own is none."""
    ten = ("receipt", 10, {"value": 1000})
    unknown = ("purchase_return", 1, {"basis": basis, "ref": 999, "value": 100})
    assert refused(method, ten, unknown) == [(Code.RETURN_WITHOUT_REF, (2,))]
    taken_back: Told = [
        ("receipt", 5, {"value": 500}),
        ("receipt", 5, {"value": 500, "reverses": 2}),
    ]
    named = ("purchase_return", 1, {"basis": basis, "ref": 2, "value": 100})
    assert refused(method, ten, *taken_back, named) == [(Code.RETURN_WITHOUT_REF, (4,))]


@pytest.mark.parametrize("method", Method)
def test_a_return_at_the_average_need_not_name_a_receipt(method: Method) -> None:
    lines = costed(method, ("receipt", 10, {"value": 1000}), ("purchase_return", 3, AVERAGE))
    assert lines[2] == 300


def test_a_moving_average_that_owes_receives_a_transfer_as_one() -> None:
    """S2 lends 8 units: 1 of its own worth 0, 7 owed at 0. S1 owes 15 at 1 in all: R(8/15) = 1."""
    opening = [Opening("S1", -15, -1), Opening("S2", 1, 0)]
    sent = ("transfer", 8, {"store": "S2", "to_store": "S1"})
    answer = answered(Method.MOVING, sent, opening=opening, policy=PROVISIONAL)
    assert isinstance(answer, ItemCosts), answer
    (line,) = answer.lines
    assert (line.value, line.true_up) == (0, -1)
    closing = {pool.pool: tuple(pool.closing) for pool in answer.pools}
    assert closing == {"B/P1": (-7, 0), "B/P2": (-7, 0)}


def test_value_without_goods_is_orphaned_though_goods_are_found() -> None:
    """What is found takes the price and makes none: the denominator of rule 1.4 is 0."""
    freight = ("landed_cost", 0, {"value": 1})
    found = refused(Method.PERIODIC, freight, ("adjust_in", 2, {}))
    assert found == [(Code.ORPHAN_VALUE, (1,))]
    assert refused(Method.PERIODIC, ("adjust_in", 2, {})) == [(Code.MISSING_COST, (1,))]


BACK_TO_VENDOR: Told = [
    ("adjust_in", 8, {"value": 0}),
    ("purchase_return", 21, {"ref": 901}),
]
THIRTEEN = [Opening("S1", 13, 1), Opening("S2", 1, 0)]


def test_a_return_that_empties_a_pool_takes_the_last_of_its_value() -> None:
    lines = costed(Method.PERIODIC, *BACK_TO_VENDOR, opening=THIRTEEN[:1])
    assert lines[2] == 1


def test_a_return_of_all_that_is_a_pools_own_leaves_value_where_other_goods_are_left() -> None:
    """The drain rule is about the whole quantity: one unit came from S2, and stays, worth 1."""
    sent = ("transfer", 1, {"store": "S2", "to_store": "S1"})
    answer = answered(Method.PERIODIC, *BACK_TO_VENDOR, sent, opening=THIRTEEN)
    assert isinstance(answer, ItemCosts), answer
    assert {line.movement_id: line.value for line in answer.lines} == {1: 0, 2: 0, 3: 0}
    assert {p.pool: tuple(p.closing) for p in answer.pools} == {"B/P1": (1, 1), "B/P2": (0, 0)}


def test_freight_that_is_booked_elsewhere_joins_the_pool_of_its_receipt() -> None:
    told: Told = [("receipt", 4, {"value": 10}), ("landed_cost", 0, {"value": 6, "ref": 1})]
    told[1][2]["store"] = "S2"
    for method in (Method.PERIODIC, Method.MOVING, Method.FIFO):
        assert costed(method, *told, ("issue", 1, {}))[3] == 4


@pytest.mark.parametrize("method", Method)
def test_nothing_that_was_counted_is_worth_nothing(method: Method) -> None:
    ten = ("receipt", 10, {"value": 1000})
    assert refused(method, ten, ("count", 0, {"value": 7})) == [(Code.ORPHAN_VALUE, (2,))]
    assert costed(method, ten, ("count", 0, {"value": 0}))[2] == 1000


def test_a_lot_that_owes_takes_nothing_from_the_price_of_those_that_are_here() -> None:
    """Two of lot x are owed at 0 and one of lot y is worth 1: −1 unit in all, worth 1."""
    told: Told = [("receipt", 4, {"value": 0}), ("receipt", 1, {"value": 1, "lot": "y"})]
    answer = answered(Method.SPECIFIC, *told, ("issue", 6, {}), policy=PROVISIONAL)
    assert isinstance(answer, ItemCosts), answer
    (pool,) = answer.pools
    assert (pool.closing, pool.price_num, pool.price_den) == ((-1, 1), 1, 1)
    assert [(layer.lot, layer.qty, layer.value) for layer in answer.layers] == [
        ("x", -2, 0),
        ("y", 1, 1),
    ]


def test_what_is_found_when_all_went_back_costs_what_that_had_cost() -> None:
    back = ("purchase_return", 10, {"ref": 1})
    told: Told = [("receipt", 10, {"value": 1000}), back, ("adjust_in", 2, {})]
    assert costed(Method.PERIODIC, *told)[3] == 200


def round_of(made: int, added: int | None) -> Told:
    """One unit is consumed (1), and so many are made of it (2)."""
    more = {"value": added, "sources": (1,), "day": 1}
    return [("consume", 1, {}), ("produce", made, more)]


@pytest.mark.parametrize("added", [None, 40])
def test_goods_that_are_made_of_themselves_alone_came_from_nowhere(added: int | None) -> None:
    """One that becomes two has a solution (0, or what was added), but no source (rule 1.6).

    A receipt of an earlier period that goes back is none either: it takes, and brings nothing.
    """
    back = ("purchase_return", 1, {"ref": 901})
    nowhere = [(Code.CYCLE_WITHOUT_SOURCE, (2,))]
    for made in (1, 2, 3):
        assert refused(Method.PERIODIC, *round_of(made, added)) == nowhere
    for made in (2, 3):
        assert refused(Method.PERIODIC, *round_of(made, added), back) == nowhere
    short = refused(Method.PERIODIC, *round_of(1, added), back)
    assert short == [(Code.NEGATIVE_STOCK, (3,))]


def test_one_unit_from_outside_is_a_source_of_what_is_made_of_it() -> None:
    """2 own for 10 in all; 3 are made of 1: the price is (10 + 40 + price) / 5, 12½."""
    told = [*round_of(3, 40), ("issue", 1, {})]
    lines = costed(Method.PERIODIC, *told, opening=[Opening("S1", 2, 10)])
    assert (lines[1], lines[2], lines[3]) == (13, 53, 12)


def test_a_return_takes_no_value_of_goods_that_were_made() -> None:
    """Rule 1.4: at most the pool's own, quantity and value; its 5 receipts brought nothing.

    So the 4 that the goods had cost are beside the stock, and 6 units carry the 40 that were added,
    less the one consumed: the price is 40 / 5.
    """
    told = [*round_of(2, 40), ("receipt", 5, {"value": 0}), ("purchase_return", 1, {"ref": 902})]
    answer = answered(Method.PERIODIC, *told)
    assert isinstance(answer, ItemCosts), answer
    assert {n: (value, beside) for n, value, beside, *_ in answer.lines} == {
        1: (8, 0),
        2: (48, 0),
        3: (0, 0),
        4: (0, -4),
    }
    assert answer.pools[0].closing == (5, 40)


@pytest.mark.parametrize(("made", "closing"), [(105, (100, 1000)), (5, None)])
def test_what_goes_into_itself_with_other_goods_came_with_them(
    made: int, closing: tuple[int, int] | None
) -> None:
    """Yoghurt of milk and yoghurt: the milk is its source. What only makes itself bears no value."""
    fields = (None, None, None, None)
    rows = [
        Movement(1, 1, 0, "receipt", "S1", None, 100, 1000, *fields, ()),
        Movement(2, 2, 0, "consume", "S1", None, 100, None, *fields, ()),
        Movement(3, 2, 0, "consume", "S1", None, 5, None, *fields, ()),
        Movement(4, 2, 0, "produce", "S1", None, made, None, *fields, (2, 3)),
    ]
    stocks = [
        ItemStock(item=item, method=Method.PERIODIC, movements=in_order(own))
        for item, own in (("milk", rows[:2]), ("yoghurt", rows[2:]))
    ]
    answer = judged(Company(stocks=stocks, pool_of={"S1": "B/P1"}))["yoghurt"]
    if closing is None:
        assert isinstance(answer, ItemFailure), answer
        assert [(p.code, p.movement_ids) for p in answer.problems] == [(Code.ORPHAN_VALUE, (4,))]
    else:
        assert isinstance(answer, ItemCosts), answer
        assert answer.pools[0].closing == closing


ROUND: Told = [
    ("transfer", 1, {"to_store": "S2"}),
    ("transfer", 1, {"store": "S2", "to_store": "S1"}),
]


def test_found_goods_that_go_round_did_come_from_somewhere() -> None:
    assert refused(Method.PERIODIC, *ROUND) == [(Code.CYCLE_WITHOUT_SOURCE, (1, 2))]
    assert refused(Method.PERIODIC, *ROUND, ("adjust_in", 2, {})) == [(Code.MISSING_COST, (3,))]
    assert refused(Method.PERIODIC, *ROUND, ("issue", 1, {})) == [(Code.NEGATIVE_STOCK, (3,))]


def test_found_goods_cannot_cost_what_only_a_price_below_zero_would_make_true() -> None:
    """8 units worth 1 and one that was found make ten with one that they make: 9·p = 1 + 10·p."""
    told: Told = [
        ("receipt", 8, {"value": 1}),
        ("adjust_in", 1, {}),
        ("consume", 10, {"day": 4}),
        ("produce", 1, {"sources": (3,), "day": 4}),
    ]
    assert refused(Method.PERIODIC, *told) == [(Code.MISSING_COST, (2,))]


def test_what_goes_round_from_nowhere_is_lent_at_the_last_known_price() -> None:
    unknown = (None, None, None, None, None)
    rows = [
        Movement(1, 1, 0, "transfer", "S1", "S2", 1, *unknown),
        Movement(2, 2, 0, "transfer", "S2", "S1", 1, *unknown),
    ]
    lent = ItemStock(
        item="A", method=Method.PERIODIC, movements=rows, last_prices={"B/P1": Price(7, 2)}
    )
    company = Company(stocks=[lent], pool_of={"S1": "B/P1", "S2": "B/P2"})
    answer = judged(company, PROVISIONAL)["A"]
    assert isinstance(answer, ItemCosts), answer
    assert [line.value for line in answer.lines] == [4, 4]
