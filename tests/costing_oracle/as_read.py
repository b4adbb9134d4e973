"""Companies as a run reads them from the database: units of plain rows, and what rows say back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.costing_oracle.companies import Company
from worker.costing.chunk import ChunkResults
from worker.costing.movements import ItemStock, Movement
from worker.costing.units import Layout, State, Stock, Unit

BRAND = "B"
# Where the rows of results have what the next period opens with, as its SQL names the columns.
_PRICE, _CLOSED = slice(26, 28), 17


def unit_of(number: int, company: Company, states: Mapping[str, State] | None = None) -> Unit:
    """A company as the database would give it, with names of its own.

    It opens with `states` by item (absent there: nothing), or else with what it says itself.
    """
    stocks = [
        Stock(
            item=f"{number}{stock.item}",
            method=stock.method,
            brands=(BRAND,),
            states=(
                _state(number, stock, company.pool_of)
                if states is None
                else states.get(f"{number}{stock.item}", State()),
            ),
            movements=[_row(number, m) for m in stock.movements],
            references=stock.references,
            refusal=None,
        )
        for stock in company.stocks
    ]
    sources = {m.id: m.sources for m in company.movements().values() if m.sources}
    return Unit(stocks, sources)


def layout_of(told: Sequence[Company]) -> Layout:
    """The pools of all stores of these companies, in one brand."""
    pools = {
        f"{number}{store}": f"B/{number}{pool.removeprefix('B/')}"
        for number, company in enumerate(told)
        for store, pool in company.pool_of.items()
    }
    return Layout(dict.fromkeys(pools, BRAND), pools)


def read_back(unit: Unit, results: ChunkResults) -> dict[str, State]:
    """By item, what the next period reads of these rows (`worker/records/openings.py`)."""
    return {stock.item: _read(stock.item, results) for stock in unit.stocks}


def _read(item: str, results: ChunkResults) -> State:
    return State(
        balances=[(*row[2:4], *row[14:16]) for row in _of(item, results.stores)],
        layers=[(row[2], *row[4:]) for row in _of(item, results.layers)],
        prices=[
            (row[2], *row[_PRICE])
            for row in _of(item, results.pools)
            if row[_CLOSED] == 0 and row[_PRICE][1] > 0
        ],
    )


def _of(item: str, rows: Iterable[Any]) -> list[Any]:
    return [row for row in rows if row[1] == item]


def _state(number: int, stock: ItemStock, pool_of: Mapping[str, str]) -> State:
    name = {pool: f"{number}{pool.removeprefix('B/')}" for pool in pool_of.values()}
    prices = [(name[pool], *price) for pool, price in stock.last_prices.items()]
    return State(
        balances=tuple(
            (f"{number}{o.store}", name[pool_of[o.store]], *o[1:]) for o in stock.openings
        ),
        layers=tuple((name[x.pool], x.lot, x.qty, x.value, x.origin, None) for x in stock.layers),
        prices=prices,
    )


def _row(number: int, m: Movement) -> tuple[object, ...]:
    target = None if m.to_store is None else f"{number}{m.to_store}"
    return tuple(m._replace(store=f"{number}{m.store}", to_store=target))[:-1]
