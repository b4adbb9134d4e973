"""Linear equations, exactly; and how long the largest components take."""

import json
import time
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.costing.stocks import costed, moved, stock_of
from worker.costing.movements import ItemStock, Opening
from worker.costing.results import Flow, ItemCosts
from worker.costing.systems import solve, solve_rational

PUBLISHED = Path(__file__).parents[2] / "cases" / "costing" / "linear_systems.json"
VECTORS = json.loads(PUBLISHED.read_text())["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_published_systems_have_the_published_solutions(vector: dict[str, Any]) -> None:
    matrix = [[Fraction(number) for number in row] for row in vector["A"]]
    found = solve_rational(matrix, [Fraction(number) for number in vector["b"]])
    assert found is not None
    wanted = vector["expected"]["linear_system"]["x"]
    # Whole units are what the source prints; the solution itself is exact.
    digits = vector["minor_digits"]
    assert [round(x, digits) for x in found] == [Fraction(number) for number in wanted]
    for row, side in zip(matrix, vector["b"], strict=True):
        assert sum(a * x for a, x in zip(row, found, strict=True)) == Fraction(side)


def test_a_system_that_does_not_determine_its_unknowns_has_no_solution() -> None:
    assert solve([{0: 5, 1: -5}, {0: -5, 1: 5}], [Fraction(0), Fraction(0)]) is None
    assert solve([{0: 0}], [Fraction(1)]) is None


def test_fractions_on_the_right_stay_exact() -> None:
    found = solve([{0: 3, 1: -1}, {0: -1, 1: 2}], [Fraction(1, 3), Fraction(2, 7)])
    assert found == [Fraction(4, 21), Fraction(5, 21)]


def _stores(count: int, ways: list[tuple[int, int]], seed: int) -> tuple[ItemStock, dict[str, str]]:
    """Stores with some stock, transfers between them, and a sale in each."""
    random = Random(seed)
    openings = [Opening(f"S{n}", 10**6, random.randint(10**9, 10**11)) for n in range(count)]
    rows = [
        moved(n, "transfer", random.randint(1, 5000), store=f"S{a}", to_store=f"S{b}")
        for n, (a, b) in enumerate(ways, 1)
    ]
    rows += [moved(10**6 + n, "issue", 1234, store=f"S{n}") for n in range(count)]
    stock = stock_of(*rows, openings=tuple(openings))
    return stock, {f"S{n}": f"P{n:03}" for n in range(count)}


def _prices_hold(stock: ItemStock, pool_of: dict[str, str], costs: ItemCosts) -> None:
    """Put every price into the formula of its pool, in fractions."""
    price = {pool.pool: Fraction(pool.price_num, pool.price_den) for pool in costs.pools}
    own = {pool_of[o.store]: o for o in stock.openings}
    came = {pool: Flow(0, 0) for pool in price}
    value = {pool: Fraction(0) for pool in price}
    for movement in stock.movements:
        if movement.to_store is not None:
            target, source = pool_of[movement.to_store], pool_of[movement.store]
            came[target] = Flow(came[target].qty + movement.qty, 0)
            value[target] += movement.qty * price[source]
    for pool, unit in price.items():
        assert unit * (own[pool].qty + came[pool].qty) == own[pool].value + value[pool]


@pytest.mark.parametrize(
    ("count", "ways"),
    [
        (200, [(n, (n + 1) % 200) for n in range(200)]),
        (50, [(a, b) for a in range(50) for b in range(50) if a != b]),
    ],
    ids=["a ring of 200 stores", "50 stores that all send to each other"],
)
def test_large_components_are_solved_exactly_and_quickly(
    count: int, ways: list[tuple[int, int]]
) -> None:
    stock, pools = _stores(count, ways, seed=count)
    started = time.process_time()
    costs = costed(stock, pools=pools)
    assert time.process_time() - started < 1
    assert {pool.scc_size for pool in costs.pools} == {count}
    assert max(pool.price_den for pool in costs.pools).bit_length() > 64
    _prices_hold(stock, pools, costs)
