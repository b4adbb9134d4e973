"""Goods that go out before any came in: at the last known cost, settled by what comes in next."""

import pytest

from tests.unit.costing.stocks import costed, moved, pool_of, refused, stock_of, values
from worker.costing.exact import Price
from worker.costing.movements import Opening
from worker.costing.results import Flow, ItemCosts, Negative, Policy, ResiduePolicy

PROVISIONAL = Policy(negative=Negative.PROVISIONAL)


def _true_ups(costs: ItemCosts) -> dict[int, int]:
    return {line.movement_id: line.true_up for line in costs.lines if line.true_up}


def test_what_goes_short_leaves_at_the_price_of_the_period() -> None:
    costs = costed(stock_of(moved(1, "issue", 8), openings=(Opening("S1", 5, 500),)), PROVISIONAL)
    assert values(costs) == {1: 800}
    assert costs.pools[0].closing == Flow(-3, -300)
    assert [(s.store, s.closing) for s in costs.stores] == [("S1", Flow(-3, -300))]


def test_what_comes_in_next_covers_it_at_its_own_cost() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 5, value=550),
            moved(2, "receipt", 15, value=1650),
            moved(3, "issue", 5),
            openings=(Opening("S1", -5, -500),),
        ),
        PROVISIONAL,
    )
    (pool,) = costs.pools
    assert _true_ups(costs) == {1: 50}
    assert (pool.true_up, pool.closing) == (50, Flow(10, 1100))
    (store,) = costs.stores
    assert (store.outgoing, store.averaging) == (Flow(5, 600), 0)


def test_two_periods_end_where_they_would_have_ended_with_the_goods_there_in_time() -> None:
    """Ten go out of five; five of the next period's twenty are the ones that were missing."""
    first = costed(stock_of(moved(1, "issue", 10), openings=(Opening("S1", 5, 500),)), PROVISIONAL)
    owed = tuple(Opening(s.store, s.closing.qty, s.closing.value) for s in first.stores)
    second = costed(stock_of(moved(2, "receipt", 20, value=2200), openings=owed), PROVISIONAL)

    in_time = costed(
        stock_of(
            moved(1, "issue", 10),
            moved(3, "receipt", 5, value=550),
            openings=(Opening("S1", 5, 500),),
        )
    )
    then = costed(stock_of(moved(2, "receipt", 15, value=1650)))
    assert second.pools[0].closing == then.pools[0].closing
    spent = first.pools[0].issue.value + second.pools[0].true_up
    assert spent == in_time.pools[0].issue.value


def test_a_part_that_is_covered_is_settled_and_the_rest_stays_owed() -> None:
    costs = costed(
        stock_of(moved(1, "receipt", 4, value=480), openings=(Opening("S1", -10, -1000),)),
        PROVISIONAL,
    )
    assert costs.pools[0].closing == Flow(-6, -600)
    assert _true_ups(costs) == {1: 80}


def test_goods_from_another_pool_cover_it_too() -> None:
    costs = costed(
        stock_of(
            moved(1, "transfer", 6, to_store="S3"),
            openings=(Opening("S1", 10, 1200), Opening("S3", -4, -400)),
        ),
        PROVISIONAL,
    )
    assert pool_of(costs, "C").closing == Flow(2, 240)
    assert _true_ups(costs) == {1: 80}
    store = next(store for store in costs.stores if store.store == "S3")
    assert (store.transfer_in, store.outgoing, store.averaging) == (Flow(6, 720), Flow(0, 80), 0)


def test_a_sale_that_comes_back_covers_nothing() -> None:
    costs = costed(
        stock_of(
            moved(1, "receipt", 1, value=130),
            moved(2, "issue", 3),
            moved(3, "sales_return", 3, ref=2),
            openings=(Opening("S1", -2, -200),),
        ),
        PROVISIONAL,
    )
    assert costs.pools[0].closing == Flow(-1, -100)
    assert costs.pools[0].true_up == 30


@pytest.mark.parametrize(
    ("openings", "prices", "hint", "value"),
    [
        ((), {"B": Price(700, 7)}, None, 300),
        ((Opening("S1", -2, -100),), {}, None, 150),
        ((), {}, 360, 360),
        ((Opening("S1", -2, -100),), {"B": Price(80, 1)}, 360, 240),
    ],
    ids=["last known", "what is owed", "the document's own", "in this order"],
)
def test_where_nothing_came_in_the_last_known_cost_speaks(
    openings: tuple[Opening, ...], prices: dict[str, Price], hint: int | None, value: int
) -> None:
    stock = stock_of(moved(1, "issue", 3, value=hint), openings=openings, last_prices=prices)
    costs = costed(stock, PROVISIONAL)
    assert values(costs) == {1: value}
    assert costs.pools[0].closing.value == sum(o.value for o in openings) - value


def test_goods_of_which_no_cost_is_known_do_not_go_out() -> None:
    assert refused(stock_of(moved(1, "issue", 3)), PROVISIONAL) == [("NEGATIVE_STOCK", (1,))]


def test_a_pool_that_is_empty_still_tells_its_last_known_cost() -> None:
    rows = (moved(1, "issue", 1), moved(2, "issue", 1, reverses=1))
    costs = costed(stock_of(*rows, last_prices={"B": Price(35, 2)}))
    assert [(p.pool, p.price_num, p.price_den) for p in costs.pools] == [("B", 35, 2)]
    assert costs.pools[0].closing == Flow(0, 0)


def test_found_goods_take_the_last_known_cost_where_nothing_else_is_there() -> None:
    stock = stock_of(moved(1, "adjust_in", 4), last_prices={"B": Price(35, 2)})
    assert costed(stock).pools[0].closing == Flow(4, 70)


def test_goods_that_go_round_before_any_came_are_all_worth_the_last_known_cost() -> None:
    stock = stock_of(
        moved(1, "transfer", 5, to_store="S3"),
        moved(2, "transfer", 5, store="S3", to_store="S1"),
        last_prices={"C": Price(35, 2)},
    )
    assert refused(stock) == [("CYCLE_WITHOUT_SOURCE", (1, 2))]
    assert values(costed(stock, PROVISIONAL)) == {1: 88, 2: 88}


def test_forbid_refuses_an_opening_below_zero_even_if_it_is_covered() -> None:
    stock = stock_of(moved(1, "receipt", 9, value=900), openings=(Opening("S1", -5, -500),))
    assert refused(stock) == [("NEGATIVE_STOCK", ())]


@pytest.mark.parametrize("residue", ResiduePolicy)
def test_what_is_covered_to_the_last_piece_leaves_nothing(residue: ResiduePolicy) -> None:
    policy = Policy(negative=Negative.PROVISIONAL, residue=residue)
    costs = costed(
        stock_of(
            moved(1, "receipt", 7, value=100),
            moved(2, "issue", 2),
            moved(3, "issue", 2),
            openings=(Opening("S1", -3, -40),),
        ),
        policy,
    )
    (pool,) = costs.pools
    assert pool.closing == Flow(0, 0)
    assert pool.issue.value + pool.true_up + pool.rounding == 60
