"""The bytes of a result depend on no order: not of rows, of items, of units, nor on chunks.

And a period opens with what the last one closed with (I10), as rows carry it over.
"""

import random
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.costing_oracle.as_read import layout_of, read_back, unit_of
from tests.costing_oracle.companies import EARLIER_RECEIPT, Company, Taste, companies
from worker.costing.carry import EMPTY, digest_of
from worker.costing.chunk import ChunkResults, Row, cost_chunk
from worker.costing.movements import Method, Movement
from worker.costing.results import Policy
from worker.costing.units import Layout, Unit


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
    layout, policy = layout_of(told), Policy()
    units = [unit_of(number, company) for number, company in enumerate(told)]
    whole = cost_chunk(units, layout, policy)
    assert len(whole.marks) == sum(len(company.stocks) for company in told)
    other = [_shuffled(unit, chance) for unit in chance.sample(units, len(units))]
    parts = [other[i : i + size] for i in range(0, len(other), size)]
    assert _together([cost_chunk(part, layout, policy) for part in parts]) == _together([whole])


def _later(company: Company) -> Company:
    """The same with ids that no movement of the period before has."""

    def shifted(number: int | None) -> int | None:
        return number if number is None or number >= EARLIER_RECEIPT else number + 1000

    def moved(m: Movement) -> Movement:
        return m._replace(
            id=m.id + 1000,
            ref=shifted(m.ref),
            reverses=shifted(m.reverses),
            sources=tuple(source + 1000 for source in m.sources),
        )

    stocks = [replace(s, movements=[moved(m) for m in s.movements]) for s in company.stocks]
    return replace(company, stocks=stocks)


def _by_store(rows: list[Row], first: int) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Quantity and value of each store that has any of an item."""
    return {row[1:3]: row[first : first + 2] for row in rows if any(row[first : first + 2])}


stories = st.sampled_from(
    [Taste(method=m, items=2, stores=3, length=8, careless=0) for m in Method]
).flatmap(lambda taste: st.tuples(companies(taste), companies(taste)))


@given(stories)
def test_a_period_opens_with_what_the_last_one_closed_with(told: tuple[Company, Company]) -> None:
    """I10: every store, whatever pools the next period has; in the same pools, layers and all."""
    first, second = told[0], _later(told[1])
    layout, unit = layout_of([first]), unit_of(0, first)
    closed = cost_chunk([unit], layout, Policy())
    assume(not closed.errors)
    states = read_back(unit, closed)
    left = {mark.item: mark.closing_digest for mark in closed.marks}
    assert {item: digest_of(state) for item, state in states.items()} == left

    quiet = replace(first, stocks=[replace(s, movements=[]) for s in first.stocks])
    idle = cost_chunk([unit_of(0, quiet, states)], layout, Policy())
    assert [(m.opening_digest, m.closing_digest) for m in idle.marks] == [
        (left[m.item], left[m.item]) for m in idle.marks
    ]
    assert idle.layers == closed.layers
    assert [row[:3] + row[3:5] for row in idle.pools if any(row[3:5])] == [
        row[:3] + row[17:19] for row in closed.pools if any(row[17:19])
    ]

    pools = layout_of([second])
    both = Layout(*({**old, **new} for old, new in zip(layout, pools, strict=True)))
    later = cost_chunk([unit_of(0, second, states)], both, Policy())
    items = {mark.item for mark in later.marks if not mark.failed}
    for mark in later.marks:
        assert mark.opening_digest == left.get(mark.item, EMPTY)
    assert _by_store(later.stores, 4) == {
        where: flow for where, flow in _by_store(closed.stores, 14).items() if where[0] in items
    }
