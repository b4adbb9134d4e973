"""Whatever happens to an item: I1 to I6 hold after every prefix, in any order of input, at size."""

import random
import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.costing.replays import PROVISIONAL, REPLAYED, closings, move, played, story
from worker.costing.engine import cost_items
from worker.costing.instants import replay_order
from worker.costing.movements import (
    ItemStock,
    Method,
    Movement,
    Opening,
    OpeningLayer,
    in_order,
)
from worker.costing.results import Flow, ItemCosts, ItemFailure, Negative, Policy, PoolResult

STORES = ("S1", "S2", "P1", "P2")
POOLS = {"S1": "B/S1", "S2": "B/S2", "P1": "B/P", "P2": "B/P"}
KINDS = (
    "receipt",
    "receipt",
    "issue",
    "issue",
    "consume",
    "adjust_in",
    "adjust_out",
    "transfer",
    "transfer",
    "sales_return",
    "purchase_return",
    "landed_cost",
    "count",
    "reversal",
)
VALUED = {"receipt", "landed_cost"}
REFERRING = {"sales_return", "purchase_return", "landed_cost"}


@st.composite
def rows(draw: st.DrawFn) -> list[Movement]:
    """A period of one item in three pools; references are to anything, good or bad."""
    told: list[Movement] = []
    for number in range(1, draw(st.integers(1, 14)) + 1):
        kind = draw(st.sampled_from(KINDS))
        if kind == "reversal":
            if told:
                told.append(_reversed(draw(st.sampled_from(told)), number))
            continue
        store = draw(st.sampled_from(STORES))
        valued = kind in VALUED or (kind in {"adjust_in", "count"} and draw(st.booleans()))
        refers = kind in REFERRING and told and draw(st.integers(0, 4)) > 0
        told.append(
            move(
                number,
                kind,
                0 if kind == "landed_cost" else draw(st.integers(1, 9)),
                seq=draw(st.integers(1, 9)),
                store=store,
                to_store=draw(st.sampled_from([s for s in STORES if s != store]))
                if kind == "transfer"
                else None,
                value=draw(st.integers(0, 500)) if valued else None,
                ref=draw(st.sampled_from(told)).id if refers else None,
                basis=draw(st.sampled_from([None, "average"]))
                if kind == "purchase_return"
                else None,
                lot=draw(st.sampled_from(["x", "x", "y"])),
            )
        )
    return told


def _reversed(original: Movement, number: int) -> Movement:
    return original._replace(id=number, seq=original.seq + 1, reverses=original.id)


def _cost(method: Method, told: list[Movement], policy: Policy) -> ItemCosts | ItemFailure:
    return cost_items([story(method, *told)], POOLS, policy)["A"]


def _holds(pool: PoolResult) -> None:
    into = [pool.opening, pool.receipt, pool.gain, pool.sales_return, pool.transfer_in]
    out = [pool.issue, pool.usage, pool.purchase_return, pool.transfer_out, pool.closing]
    assert sum(flow.qty for flow in into) == sum(flow.qty for flow in out), "I2"
    beside = pool.rounding + pool.true_up
    assert sum(flow.value for flow in into) == sum(flow.value for flow in out) + beside, "I1"
    assert pool.price_num >= 0, "I5"
    if not pool.dipped:
        assert pool.closing.qty > 0 or pool.closing == Flow(0, 0), "I4"
        assert pool.closing.value >= 0, "I5"


def _obeys(costs: ItemCosts, told: list[Movement], method: Method) -> None:
    assert sorted(line.movement_id for line in costs.lines) == sorted(m.id for m in told)
    for pool in costs.pools:
        _holds(pool)
        inside = [store for store in costs.stores if store.pool == pool.pool]
        assert sum(store.closing.qty for store in inside) == pool.closing.qty
        assert sum(store.closing.value for store in inside) == pool.closing.value
        assert sum(store.averaging for store in inside) == -pool.rounding
        if method != Method.MOVING:
            kept = [layer for layer in costs.layers if layer.pool == pool.pool]
            assert sum(layer.qty for layer in kept) == pool.closing.qty, "I6"
            assert sum(layer.value for layer in kept) == pool.closing.value, "I6"
            assert all(layer.qty > 0 or pool.dipped for layer in kept)
    sent = sum(pool.transfer_out.value for pool in costs.pools)
    assert sent == sum(pool.transfer_in.value for pool in costs.pools), "I3"


@pytest.mark.parametrize("policy", [Policy(), PROVISIONAL, Policy(unit_cost_digits=1)])
@pytest.mark.parametrize("method", REPLAYED)
def test_every_prefix_of_a_story_obeys_the_invariants(method: Method, policy: Policy) -> None:
    @given(rows())
    def check(told: list[Movement]) -> None:
        ordered = replay_order([in_order(told)])
        for length in range(1, len(ordered) + 1):
            prefix = ordered[:length]
            costs = _cost(method, prefix, policy)
            if isinstance(costs, ItemCosts):
                _obeys(costs, prefix, method)
            else:
                assert costs.problems

    check()


@pytest.mark.parametrize("method", REPLAYED)
def test_the_order_in_which_rows_arrive_changes_nothing(method: Method) -> None:
    @given(rows(), st.randoms(use_true_random=False))
    def check(told: list[Movement], shuffler: random.Random) -> None:
        shuffled = list(told)
        shuffler.shuffle(shuffled)
        assert _cost(method, shuffled, PROVISIONAL) == _cost(method, told, PROVISIONAL)

    check()


def _carried(costs: ItemCosts, method: Method) -> ItemStock:
    """The next period, opened with what this one left."""
    return ItemStock(
        item="A",
        method=method,
        movements=[],
        openings=tuple(Opening(s.store, *s.closing) for s in costs.stores),
        layers=tuple(OpeningLayer(*layer) for layer in costs.layers),
    )


@pytest.mark.parametrize("method", REPLAYED)
def test_a_period_closes_where_the_next_one_opens(method: Method) -> None:
    @given(rows())
    def check(told: list[Movement]) -> None:
        for negative in Negative:
            policy = Policy(negative=negative)
            costs = _cost(method, told, policy)
            if isinstance(costs, ItemFailure):
                continue
            following = cost_items([_carried(costs, method)], POOLS, policy)["A"]
            owing = [p for p in costs.pools if p.closing.qty == 0 and p.closing.value]
            if owing:
                continue  # lots that are owed beside lots that are there
            assert isinstance(following, ItemCosts)
            assert closings(following) == closings(costs), "I10"
            assert following.layers == costs.layers

    check()


@pytest.mark.parametrize("method", [Method.MOVING, Method.FIFO])
def test_a_year_in_one_run_or_month_by_month_is_the_same(method: Method) -> None:
    @given(rows(), st.integers(0, 14))
    def check(told: list[Movement], cut: int) -> None:
        plain = [m for m in told if m.ref is None and m.reverses is None]
        ordered = in_order(plain)
        whole = _cost(method, ordered, PROVISIONAL)
        first = _cost(method, ordered[:cut], PROVISIONAL)
        if isinstance(whole, ItemFailure) or isinstance(first, ItemFailure):
            return
        prices = {p.pool: (p.price_num, p.price_den) for p in first.pools}
        if any(not price[1] for price in prices.values()) or any(p.dipped for p in whole.pools):
            return
        rest = replace(_carried(first, method), movements=ordered[cut:])
        second = cost_items([rest], POOLS, PROVISIONAL)["A"]
        if isinstance(second, ItemCosts):
            both = {line.movement_id: line.value for line in [*first.lines, *second.lines]}
            inside = {m.id for m in ordered if m.kind == "transfer"}
            assert all(
                both[line.movement_id] == line.value
                for line in whole.lines
                if line.movement_id not in inside
            )

    check()


@pytest.mark.scenario("F51")
@given(st.integers(1, 10**12), st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
def test_issues_that_drain_a_pool_take_exactly_its_value(value: int, sold: list[int]) -> None:
    told = [move(0, "receipt", sum(sold), value=value)]
    told += [move(number, "issue", quantity) for number, quantity in enumerate(sold, 1)]
    for method in (Method.MOVING, Method.FIFO):
        costs = played(method, *told)
        assert sum(line.value for line in costs.lines if line.movement_id) == value
        assert costs.pools[0].closing == Flow(0, 0)


def _many_layers(count: int) -> list[Movement]:
    """Receipts, a sale of half of each, returns of each receipt, transfers of single units."""
    told = [move(n, "receipt", 10, value=100 + n) for n in range(1, count + 1)]
    each = range(1, count + 1)
    told += [move(count + n, "purchase_return", 3, ref=count + 1 - n) for n in each]
    told += [move(2 * count + n, "transfer", 2, to_store="S2") for n in each]
    told += [move(3 * count + n, "issue", 5) for n in each]
    return told


def _seconds(count: int) -> float:
    stock = story(Method.FIFO, *_many_layers(count))
    start = time.process_time()
    answer = cost_items([stock], POOLS, Policy())["A"]
    assert isinstance(answer, ItemCosts)
    return time.process_time() - start


def test_ten_thousand_layers_cost_ten_times_a_thousand() -> None:
    """Nothing walks the queue: with a walk of all layers for each return it would be a hundred."""
    small = min(_seconds(1_000) for _ in range(3))
    assert _seconds(10_000) < 40 * small


def test_a_thousand_serial_numbers_take_the_memory_of_a_thousand_layers() -> None:
    """A lot remembers the layers of its own receipts, not of all that any return names."""
    told = [move(n, "receipt", 2, value=100, lot=f"L{n}") for n in range(1, 1_001)]
    told += [move(1_000 + n, "purchase_return", 1, ref=n, lot=f"L{n}") for n in range(1, 1_001)]
    stock = story(Method.SPECIFIC, *told)
    tracemalloc.start()
    answer = cost_items([stock], POOLS, Policy())["A"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(answer, ItemCosts)
    assert answer.pools[0].closing == Flow(1_000, 50_000)
    assert most < 10 * 2**20
