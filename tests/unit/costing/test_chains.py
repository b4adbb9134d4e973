"""Where periods meet: pools that merge and split, methods that change, stock that is owed.

Of each of many stories by chance: nothing contradicts itself, every row is one that its table takes,
nothing is lost between two periods, and the bytes depend on no order.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.costing_oracle.chains import Told, chains
from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.movements import Method
from worker.costing.results import ResiduePolicy
from worker.costing.units import Unit
from worker.records.cost_results import KEY, LAYERS, POOLS, STORES

IN = ("opening", "receipt", "gain", "sales_return", "transfer_in")
OUT = ("issue", "usage", "purchase_return", "transfer_out", "closing")


@pytest.mark.parametrize("start", range(0, 2_000, 250))
def test_periods_follow_each_other_soundly(start: int) -> None:
    ends = [judged(seed) for seed in range(start, start + 250)]
    assert sum(ends) > 250, "most stories go on"


@pytest.mark.long
@pytest.mark.parametrize("start", range(100_000, 200_000, 20_000))
def test_many_more_periods_follow_each_other_soundly(start: int) -> None:
    for seed in range(start, start + 20_000):
        judged(seed)


def judged(seed: int) -> int:
    """Judge one story; how many of its periods have results."""
    periods = 0
    closing: dict[str, tuple[int, int]] = {}
    for told in chains(seed):
        assert told.results.faults == [], f"seed {seed}: {told.results.faults[0].trace}"
        _depends_on_no_order(told, seed)
        if told.results.errors:
            break
        periods += 1
        _rows_are_taken(told.results, seed)
        closing = _opens_as_closed(told, closing, seed)
        _only_debts_are_settled(told, seed)
    return periods


def _named(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    without_run = [name for name in columns if name != KEY[0]]
    return [dict(zip(without_run, row, strict=True)) for row in rows]


def _rows_are_taken(results: ChunkResults, seed: int) -> None:
    """The CHECKs of the tables, as the migrations have them."""
    for p in _named(POOLS, results.pools):
        where = f"seed {seed}: {p}"
        assert sum(p[f"q_{n}"] for n in IN) == sum(p[f"q_{n}"] for n in OUT), where
        went = sum(p[f"v_{n}"] for n in OUT) + p["v_rounding"] + p["v_true_up"]
        assert sum(p[f"v_{n}"] for n in IN) == went, where
        _is_sound(p["q_closing"] + p["q_owed"], p["v_closing"] + p["v_owed"], where)
        _is_sound(p["q_owed"], p["v_owed"], where)
        assert p["price_num"] >= 0 <= p["price_den"], where
    for layer in _named(LAYERS, results.layers):
        assert layer["qty"] != 0 <= layer["qty"] * layer["value"], f"seed {seed}: {layer}"
    for s in _named(STORES, results.stores):
        came = s["q_opening"] + s["q_in"] + s["q_transfer_in"]
        assert came == s["q_out"] + s["q_transfer_out"] + s["q_closing"], f"seed {seed}: {s}"
        came = s["v_opening"] + s["v_in"] + s["v_transfer_in"] + s["v_averaging"]
        assert came == s["v_out"] + s["v_transfer_out"] + s["v_closing"], f"seed {seed}: {s}"


def _is_sound(qty: int, value: int, where: str) -> None:
    assert qty >= 0 <= value, where
    assert qty or value == 0, where


def _opens_as_closed(
    told: Told, closing: dict[str, tuple[int, int]], seed: int
) -> dict[str, tuple[int, int]]:
    """I10, store by store and for the pools in all; what the next period must open with."""
    rows = _named(STORES, told.results.stores)
    opened = {r["store"]: (r["q_opening"], r["v_opening"]) for r in rows}
    for store in opened.keys() | closing.keys():
        before = closing.get(store, (0, 0))
        assert opened.get(store, (0, 0)) == before, f"seed {seed}: {store} opens"
    for side in ("q", "v"):
        in_pools = sum(p[f"{side}_opening"] for p in _named(POOLS, told.results.pools))
        assert in_pools == sum(r[f"{side}_opening"] for r in rows), f"seed {seed}: pools open"
    return {r["store"]: (r["q_closing"], r["v_closing"]) for r in rows}


def _only_debts_are_settled(told: Told, seed: int) -> None:
    """Value leaves beside all movements only where the opening was put together with a debt."""
    states = [state for state in told.stock.states if state is not None]
    owed = any(qty < 0 for state in states for _, _, qty, _ in state.balances)
    owed = owed or any(layer[2] < 0 for state in states for layer in state.layers)
    separate = told.policy.residue is ResiduePolicy.SEPARATE_LINE
    if owed or (separate and told.stock.method == Method.PERIODIC):
        return
    rounding = [p["v_rounding"] for p in _named(POOLS, told.results.pools)]
    assert not any(rounding), f"seed {seed}: {rounding}"


def _depends_on_no_order(told: Told, seed: int) -> None:
    rows = random.Random(seed).sample(told.stock.movements, len(told.stock.movements))
    other = cost_chunk([Unit([told.stock._replace(movements=rows)], {})], told.layout, told.policy)
    assert other.marks == told.results.marks, f"seed {seed}"
