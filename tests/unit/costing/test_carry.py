"""What a period opens with under other pools than the last, and the digest that tells."""

from datetime import date

import pytest

from worker.costing.carry import EMPTY, FAILED, LAYERED, carried, digest_of
from worker.costing.exact import Price
from worker.costing.movements import Method, Opening, OpeningLayer
from worker.costing.units import Layout, State, Stock

JANUARY = date(2026, 1, 5)


def stock(*states: tuple[str, State], method: str = Method.FIFO) -> Stock:
    """An item of these brands that did not move."""
    brands, opened = zip(*states, strict=True)
    return Stock("A", method, brands, opened, [], {}, None)


def layout(**pools: str) -> Layout:
    """Stores R1 … of RED and B1 of BLUE in these pools."""
    brand_of = {store: "BLUE" if store == "B1" else "RED" for store in pools}
    return Layout(brand_of, pools)


def test_layers_of_a_pool_that_stays_keep_their_order_and_their_days() -> None:
    layers = [("RED", None, 2, 30, 9, JANUARY), ("RED", None, 1, 5, 4, None)]
    state = State([("R1", "RED", 3, 35)], layers)
    opened = carried(stock(("RED", state)), layout(R1="RED/RED"))
    assert opened.openings == (Opening("R1", 3, 35),)
    assert opened.layers == (
        OpeningLayer("RED/RED", None, 2, 30, 9),
        OpeningLayer("RED/RED", None, 1, 5, 4),
    )
    assert opened.received == {9: JANUARY}


def test_goods_of_another_method_are_one_layer_a_pool() -> None:
    state = State([("R1", "RED", 3, 30), ("R2", "RED", 1, 10)])
    opened = carried(stock(("RED", state)), layout(R1="RED/RED", R2="RED/RED"))
    assert opened.layers == (OpeningLayer("RED/RED", None, 4, 40, None),)


def test_layers_of_a_pool_that_brands_share_are_taken_once() -> None:
    layers = [("/*", None, 5, 50, 9, JANUARY)]
    red = State([("R1", "/*", 3, 30)], layers)
    blue = State([("B1", "/*", 2, 20)], layers)
    shared = carried(stock(("RED", red), ("BLUE", blue)), layout(R1="/*", B1="/*"))
    assert shared.layers == (OpeningLayer("/*", None, 5, 50, 9),)
    parted = carried(stock(("RED", red), ("BLUE", blue)), layout(R1="RED/RED", B1="BLUE/BLUE"))
    assert parted.layers == (
        OpeningLayer("BLUE/BLUE", None, 2, 20, None),
        OpeningLayer("RED/RED", None, 3, 30, None),
    )
    alone = carried(stock(("RED", red)), layout(R1="RED/RED"))
    assert alone.layers == (OpeningLayer("RED/RED", None, 3, 30, None),)


def test_a_pool_that_is_new_takes_the_last_price_of_the_one_its_stores_were_in() -> None:
    state = State([("R1", "RED", 0, 0)], prices=[("RED", 7, 2)])
    opened = carried(stock(("RED", state)), layout(R1="RED/outlet"))
    assert opened.last_prices == {"RED/RED": Price(7, 2), "RED/outlet": Price(7, 2)}


def test_goods_that_are_owed_keep_their_lot() -> None:
    state = State([("R1", "RED", -3, -30)], [("RED", "L1", -3, -30, None, None)])
    opened = carried(stock(("RED", state)), layout(R1="RED/RED"))
    owed = OpeningLayer("RED/RED", "L1", -3, -30, None)
    assert (opened.openings, opened.layers) == ((Opening("R1", -3, -30),), (owed,))


def test_what_one_pool_owes_meets_what_lies_in_another_as_one_layer() -> None:
    """Nothing is covered by putting pools together: the new one opens with the sum of its stores."""
    state = State(
        [("R1", "R1", -3, -30), ("R2", "R2", 5, 75)],
        [("R1", None, -3, -30, None, None), ("R2", None, 5, 75, 9, JANUARY)],
    )
    opened = carried(stock(("RED", state)), layout(R1="RED/Y", R2="RED/Y"))
    assert opened.layers == (OpeningLayer("RED/Y", None, 2, 45, None),)
    lots = State(
        state.balances, [("R1", "L1", -3, -30, None, None), ("R2", "L2", 5, 75, 9, JANUARY)]
    )
    opened = carried(stock(("RED", lots), method=Method.SPECIFIC), layout(R1="RED/Y", R2="RED/Y"))
    assert opened.layers == (
        OpeningLayer("RED/Y", "L1", -3, -30, None),
        OpeningLayer("RED/Y", "L2", 5, 75, 9),
    )


def test_a_value_that_is_left_of_a_lot_without_goods_leaves_and_others_keep_theirs() -> None:
    """3 of L1 that cost 45 cover 3 that had gone out at 30: 15 more, beside all movements."""
    balances = [("R1", "R1", -3, -30), ("R2", "R2", 5, 75)]
    lots = [("R1", "L1", -3, -30, None, None), ("R2", "L1", 3, 45, 8, JANUARY)]
    state = State(balances, [*lots, ("R2", "L2", 2, 30, 9, JANUARY)])
    together = layout(R1="RED/Y", R2="RED/Y")
    opened = carried(stock(("RED", state), method=Method.SPECIFIC), together)
    assert opened.layers == (OpeningLayer("RED/Y", "L2", 2, 30, 9),)
    assert opened.settled == {"RED/Y": 15}
    state = State([("R1", "R1", -3, -30), ("R2", "R2", 3, 45)], lots)
    opened = carried(stock(("RED", state), method=Method.SPECIFIC), together)
    assert (opened.layers, opened.settled) == ((), {"RED/Y": 15})


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(
    ("owed", "held", "left"),
    [
        ((-3, -300), (5, 50), (2, 20)),  # would be 2 units worth less than nothing
        ((-12, -120), (2, 4000), (-10, -100)),  # would be owed, and worth something
        ((-3, -30), (3, 45), (0, 0)),  # would be nothing, worth something
        ((-3, -30), (5, 75), (2, 45)),  # is sound, and stays what it sums up to
    ],
)
def test_what_is_left_where_goods_meet_a_debt_keeps_its_unit_cost(
    method: Method, owed: tuple[int, int], held: tuple[int, int], left: tuple[int, int]
) -> None:
    state = State([("R1", "R1", *owed), ("R2", "R2", *held)])
    if method in LAYERED:
        layers = [("R1", "L", *owed, None, None), ("R2", "L", *held, 9, JANUARY)]
        state = State(state.balances, layers)
    opened = carried(stock(("RED", state), method=method), layout(R1="RED/Y", R2="RED/Y"))
    rest = owed[1] + held[1] - left[1]
    assert opened.settled == ({"RED/Y": rest} if rest else {})
    if method in LAYERED:
        assert [layer[2:4] for layer in opened.layers] == ([left] if left[0] else [])


def test_a_pool_that_owes_as_much_as_it_holds_is_carried_on() -> None:
    """Its one store has nothing, worth nothing; its lots have and owe."""
    lots = [("RED", "X", 1, 90, 9, JANUARY), ("RED", "Y", -1, -90, None, None)]
    state = State([("R1", "RED", 0, 0)], lots)
    opened = carried(stock(("RED", state), method=Method.SPECIFIC), layout(R1="RED/RED"))
    assert [layer[1:4] for layer in opened.layers] == [("Y", -1, -90), ("X", 1, 90)]
    assert opened.openings == (Opening("R1", 0, 0),)


def test_a_pool_of_lots_that_are_told_apart_no_more_opens_with_their_sum() -> None:
    """One store that holds X and owes Y: 0 units worth 10, by whatever method comes next."""
    lots = [("RED", "X", 1, 100, 9, JANUARY), ("RED", "Y", -1, -90, None, None)]
    state = State([("R1", "RED", 0, 10)], lots)
    for method in (Method.PERIODIC, Method.MOVING, Method.FIFO):
        opened = carried(stock(("RED", state), method=method), layout(R1="RED/RED"))
        assert (opened.layers, opened.settled) == ((), {"RED/RED": 10})


def test_the_digest_is_of_what_counts_and_of_nothing_else() -> None:
    state = State([("R1", "RED", 3, 30)], [("RED", None, 3, 30, 9, JANUARY)])
    empty_store = State([("R2", "RED", 0, 0), *state.balances], state.layers)
    assert digest_of(state) == digest_of(empty_store)
    assert digest_of(State(prices=[("RED", 10, 4)])) == digest_of(State(prices=[("RED", 5, 2)]))
    others = {
        digest_of(each)
        for each in (
            state,
            State([("R1", "RED", 3, 31)], state.layers),
            State(state.balances, [("RED", None, 3, 30, 8, JANUARY)]),
            State(state.balances, [("RED", "L", 3, 30, 9, JANUARY)]),
            State(state.balances),
            State(prices=[("RED", 5, 2)]),
        )
    }
    assert len(others | {EMPTY, FAILED}) == 8
    assert digest_of(None) == FAILED
