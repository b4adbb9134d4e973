"""The bytes of a result depend on no order: not of rows, of items, of units, nor on chunks."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.costing_oracle.companies import Company, Taste, companies
from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.movements import ItemStock, Method, Movement
from worker.costing.results import Policy
from worker.costing.units import Layout, State, Stock, Unit

BRAND = "B"


def _state(number: int, stock: ItemStock, pool_of: dict[str, str]) -> State:
    name = {pool: f"{number}{pool.removeprefix('B/')}" for pool in pool_of.values()}
    return State(
        balances=tuple(
            (f"{number}{o.store}", name[pool_of[o.store]], *o[1:]) for o in stock.openings
        ),
        layers=tuple((name[x.pool], x.lot, x.qty, x.value, x.origin, None) for x in stock.layers),
    )


def _row(number: int, m: Movement) -> tuple[object, ...]:
    target = None if m.to_store is None else f"{number}{m.to_store}"
    return tuple(m._replace(store=f"{number}{m.store}", to_store=target))[:-1]


def _unit(number: int, company: Company) -> Unit:
    """A company as the database would give it, with names of its own."""
    stocks = [
        Stock(
            item=f"{number}{stock.item}",
            method=stock.method,
            brands=(BRAND,),
            states=(_state(number, stock, company.pool_of),),
            movements=[_row(number, m) for m in stock.movements],
            references=stock.references,
            refusal=None,
        )
        for stock in company.stocks
    ]
    sources = {m.id: m.sources for m in company.movements().values() if m.sources}
    return Unit(stocks, sources)


def _layout(told: list[Company]) -> Layout:
    pools = {
        f"{number}{store}": f"B/{number}{pool.removeprefix('B/')}"
        for number, company in enumerate(told)
        for store, pool in company.pool_of.items()
    }
    return Layout(dict.fromkeys(pools, BRAND), pools)


def _shuffled(unit: Unit, chance: random.Random) -> Unit:
    """The same unit as another plan of the same query would read it."""
    stocks = [
        s._replace(movements=chance.sample(s.movements, len(s.movements))) for s in unit.stocks
    ]
    return unit._replace(stocks=chance.sample(stocks, len(stocks)))


def _together(chunks: list[ChunkResults]) -> list[list[str]]:
    """Everything that reaches the database, in no order."""
    names = ("lines", "pools", "stores", "layers", "errors", "marks")
    return [sorted(repr(row) for c in chunks for row in getattr(c, name)) for name in names]


tastes = st.sampled_from(
    [Taste(method=m, items=2, stores=3, length=8, any_day=m == Method.PERIODIC) for m in Method]
)


@given(
    st.lists(tastes.flatmap(companies), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
)
def test_no_order_and_no_chunk_changes_a_byte(
    told: list[Company], chance: random.Random, size: int
) -> None:
    layout, policy = _layout(told), Policy()
    units = [_unit(number, company) for number, company in enumerate(told)]
    whole = cost_chunk(units, layout, policy)
    assert len(whole.marks) == sum(len(company.stocks) for company in told)
    other = [_shuffled(unit, chance) for unit in chance.sample(units, len(units))]
    parts = [other[i : i + size] for i in range(0, len(other), size)]
    assert _together([cost_chunk(part, layout, policy) for part in parts]) == _together([whole])
