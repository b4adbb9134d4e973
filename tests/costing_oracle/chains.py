"""Three periods of an item, told by chance: pools and methods change, stock is owed, lots come in.

Each period opens with the rows of the one before, as the database would give them back. What goes
wrong where periods meet is found here, whatever the rules say that a single period costs.
"""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any, NamedTuple

from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.movements import Method, Reference
from worker.costing.results import Negative, Policy, ResiduePolicy
from worker.costing.units import Layout, State, Stock, Unit

ITEM = "A"
BRANDS = ("G", "R")
STORES = {"R1": "R", "R2": "R", "R3": "R", "G1": "G"}
PERIODS = 3
KINDS = (
    *("receipt", "receipt", "issue", "issue", "transfer", "count", "adjust_out"),
    *("adjust_in", "sales_return", "purchase_return", "landed_cost", "consume"),
)
RETURNS = {"sales_return": "issue", "purchase_return": "receipt", "landed_cost": "receipt"}
# As a movement's row stands in `worker/costing/movements.py`.
ID, DAY, KIND, STORE, QTY, REF, LOT = 0, 1, 3, 4, 6, 8, 11
Row = tuple[Any, ...]


class Told(NamedTuple):
    """One period: what it opened with and what became of it."""

    stock: Stock
    layout: Layout
    policy: Policy
    results: ChunkResults


def chains(seed: int) -> Iterator[Told]:
    """The periods of one story, until its item fails."""
    teller = _Teller(Random(seed))
    for period in range(PERIODS):
        told = teller.tell(period)
        yield told
        if told.results.errors:
            return


class _Teller:
    """Tells a story; every choice comes from the one generator."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.method = chance.choice([*Method]).value
        owing = chance.random() < 0.85
        self.policy = Policy(
            negative=Negative.PROVISIONAL if owing else Negative.FORBID,
            residue=chance.choice([*ResiduePolicy]),
        )
        self.crosses = chance.random() < 0.5
        self.ids = count(1)
        self.states = tuple(State() for _ in BRANDS)
        self.known: dict[int, Reference] = {}
        self.earlier: list[Row] = []

    def tell(self, period: int) -> Told:
        """The next period; the one before has become its opening."""
        chance = self.chance
        if period and chance.random() < 0.3:
            self.method = chance.choice([*Method]).value
        layout = self._layout()
        rows = self._rows(100 * period)
        here = {row[ID] for row in rows}
        named = {row[REF] for row in rows} - here
        references = {number: self.known[number] for number in named & self.known.keys()}
        stock = Stock(ITEM, self.method, BRANDS, self.states, rows, references, None)
        results = cost_chunk([Unit([stock], {})], layout, self.policy)
        if not results.errors:
            self.states = tuple(read_back(brand, results) for brand in BRANDS)
            self._remember(rows, results)
        return Told(stock, layout, self.policy, results)

    def _layout(self) -> Layout:
        style = self.chance.choice(["mixed", "store", "brand", "shared"])
        return Layout(dict(STORES), {store: self._pool(store, style) for store in STORES})

    def _pool(self, store: str, style: str) -> str:
        brand = STORES[store]
        if style == "shared":
            return "/all"
        names = {"mixed": self.chance.choice("XY"), "store": store, "brand": brand}
        return f"{brand}/{names[style]}"

    def _rows(self, first: int) -> list[Row]:
        chance, rows = self.chance, []
        for store in STORES:
            if first == 0 and chance.random() < 0.8:
                worth = chance.choice([chance.randint(0, 50), chance.randint(0, 9000)])
                rows.append(self._row(first, "receipt", store, chance.randint(1, 20), worth))
        for number in range(chance.randint(0, 7)):
            row = self._by_chance(first, rows)
            if row is not None:
                rows.append((row[ID], row[DAY], number, *row[KIND:]))
        return rows

    def _by_chance(self, first: int, rows: list[Row]) -> Row | None:
        chance, kind = self.chance, self.chance.choice(KINDS)
        store, qty = chance.choice([*STORES]), chance.randint(1, 12)
        if kind in RETURNS:
            return self._returned(first, kind, rows)
        if kind == "transfer":
            there = [
                s for s in STORES if s != store and (self.crosses or STORES[s] == STORES[store])
            ]
            return self._row(first, kind, store, qty, to=chance.choice(there)) if there else None
        value = None
        if kind in {"receipt", "adjust_in"}:
            value = chance.choice([0, chance.randint(0, 50), chance.randint(0, 5000)])
        elif kind == "count":
            qty = chance.randint(0, 9)
            value = None if chance.random() < 0.6 else chance.randint(0, 300) * (qty > 0)
        return self._row(first, kind, store, qty, value)

    def _returned(self, first: int, kind: str, rows: list[Row]) -> Row | None:
        origins = [row for row in [*self.earlier, *rows] if row[KIND] == RETURNS[kind]]
        if not origins:
            return None
        origin = self.chance.choice(origins)
        store, qty, value = origin[STORE], self.chance.randint(1, origin[QTY]), None
        if kind == "landed_cost":
            qty, value = 0, self.chance.randint(-20, 300)
        elif kind == "sales_return" and self.crosses:
            store = self.chance.choice([*STORES])
        basis = self.chance.choice([None, "original", "average"]) if "purchase" in kind else None
        row = self._row(first, kind, store, qty, value, of=origin, basis=basis)
        return (row[ID], max(row[DAY], origin[DAY]), *row[2:])

    def _row(
        self,
        first: int,
        kind: str,
        store: str,
        qty: int,
        value: int | None = None,
        *,
        to: str | None = None,
        of: Row | None = None,
        basis: str | None = None,
    ) -> Row:
        day = first + self.chance.randint(0, 9)
        lot = self.chance.choice("LM") if self.method == Method.SPECIFIC else None
        ref, lot = (None, lot) if of is None else (of[ID], of[LOT])
        return (next(self.ids), day, 0, kind, store, to, qty, value, ref, basis, None, lot)

    def _remember(self, rows: list[Row], results: ChunkResults) -> None:
        lines = {line[2]: line[3] for line in results.lines}
        for row in rows:
            known = self.known.get(row[REF])
            if known is not None and row[KIND] != "landed_cost":
                self.known[row[REF]] = known._replace(returned=known.returned + row[QTY])
        self.earlier = [row for row in rows if row[KIND] in {"issue", "receipt"}]
        for row in self.earlier:
            back = (r for r in rows if r[REF] == row[ID] and r[KIND] != "landed_cost")
            returned = sum(r[QTY] for r in back)
            self.known[row[ID]] = Reference(
                row[KIND], row[STORE], row[QTY], lines[row[ID]], returned
            )


def read_back(brand: str, results: ChunkResults) -> State:
    """What the next period reads of a brand's rows (`worker/records/openings.py`)."""
    stores = [row for row in results.stores if row[0] == brand]
    names = {row[3] for row in stores}

    def own(row: Row) -> bool:
        return bool(row[0] == brand or (row[0] == "" and row[2] in names))

    return State(
        balances=[(*row[2:4], *row[14:16]) for row in stores],
        layers=[(row[2], *row[4:]) for row in results.layers if own(row)],
        prices=[
            (row[2], *row[26:28])
            for row in results.pools
            if own(row) and row[17] == 0 and row[27] > 0
        ],
    )
