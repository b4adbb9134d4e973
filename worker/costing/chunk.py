"""Cost a chunk of whole units: plain tuples in, rows ready for COPY out, so that it can cross a
process boundary cheaply.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from worker.costing.carry import FAILED, Carried, carried, digest_of
from worker.costing.engine import cost_items
from worker.costing.exact import Price
from worker.costing.faults import FAULTS, Fault, fault_of
from worker.costing.movements import ItemStock, Method, Movement, in_order
from worker.costing.problems import Code, problem
from worker.costing.results import Flow, ItemCosts, ItemFailure, Policy, PoolResult
from worker.costing.units import (
    ID,
    STORE,
    Layout,
    State,
    Stock,
    Unit,
    is_shared,
    pool_name,
)

Row = tuple[Any, ...]


class Mark(NamedTuple):
    """What became of one item of one brand; the digests say what was made of what."""

    brand: str
    item: str
    failed: bool
    out_of_scope: bool
    tied: bool
    refers: bool
    digest: bytes
    opening_digest: bytes
    closing_digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResults:
    """Rows as the result tables take them, without the run's id; a mark an item of a brand.

    `faults` are for the log: their items have failed, in the errors.
    """

    lines: list[Row] = field(default_factory=list)
    pools: list[Row] = field(default_factory=list)
    stores: list[Row] = field(default_factory=list)
    layers: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def cost_chunk(units: Iterable[Unit], layout: Layout, policy: Policy) -> ChunkResults:
    """Cost every unit; one that fails leaves its errors and stops no other.

    That goes for a bug of ours as well: its family fails with ENGINE_FAULT. The digest of an item
    depends on its own rows alone, so that the checksum over all digests does not depend on how
    units were put into chunks.
    """
    results = ChunkResults()
    for unit in units:
        tied = len({brand for stock in unit.stocks for brand in stock.brands}) > 1
        try:
            openings, answers = _cost_unit(unit, layout, policy)
        except FAULTS as error:
            fault = fault_of(unit, error)
            results.faults.append(fault)
            openings, answers = {}, {stock.item: fault.failure(stock) for stock in unit.stocks}
        for stock in unit.stocks:
            rows = _Rows(stock, layout, openings.get(stock.item))
            rows.write(answers[stock.item], results, tied=tied)
    return results


Answer = ItemCosts | ItemFailure


def _cost_unit(
    unit: Unit, layout: Layout, policy: Policy
) -> tuple[dict[str, Carried], dict[str, Answer]]:
    answers: dict[str, Answer] = _refused(unit)
    openings: dict[str, Carried] = {}
    stocks: list[ItemStock] = []
    for stock in unit.stocks:
        if stock.item not in answers:
            openings[stock.item] = opening = carried(stock, layout)
            stocks.append(
                ItemStock(
                    item=stock.item,
                    method=Method(stock.method),
                    openings=opening.openings,
                    layers=opening.layers,
                    movements=in_order(_movements(stock, unit.sources)),
                    references=stock.references,
                    last_prices=opening.last_prices,
                    settled=opening.settled,
                )
            )
    if stocks:
        answers |= cost_items(stocks, layout.pool_of, policy)
    return openings, answers


def _movements(stock: Stock, sources: Mapping[int, tuple[int, ...]]) -> Iterable[Movement]:
    if not sources:
        return (Movement(*row) for row in stock.movements)
    return (Movement._make((*row, sources.get(row[ID], ()))) for row in stock.movements)


def _refused(unit: Unit) -> dict[str, Answer]:
    """Failures of what must not be costed, and of what is made of it."""
    refused: dict[str, Answer] = {
        stock.item: ItemFailure(
            problems=(problem(stock.refusal.code, None, stock.refusal.movement_ids),)
        )
        for stock in unit.stocks
        if stock.refusal is not None
    }
    ids = {stock.item: {row[ID] for row in stock.movements} for stock in unit.stocks if refused}
    found = bool(refused and unit.sources)
    while found:
        found = False
        gone = {i for item in refused for i in ids[item]}
        made_of = {made for made, used in unit.sources.items() if gone.intersection(used)}
        for item, own in ids.items():
            made = tuple(sorted(own & made_of))
            if made and item not in refused:
                failed = problem(Code.SOURCE_NOT_COSTED, None, made)
                refused[item] = ItemFailure(problems=(failed,))
                found = True
    return refused


class _Rows:
    """Writes the rows of one stock."""

    def __init__(self, stock: Stock, layout: Layout, opening: Carried | None) -> None:
        self.stock = stock
        self.layout = layout
        self.opening = opening
        self.alone = stock.brands[0] if len(stock.brands) == 1 else None

    def write(self, answer: Answer, results: ChunkResults, *, tied: bool) -> None:
        """Add all rows of an item, and a mark for each of its brands."""
        closings: dict[str, bytes] = dict.fromkeys(self.stock.brands, FAILED)
        lines: list[Row] = []
        pools: list[Row] = []
        stores: list[Row] = []
        layers: list[Row] = []
        errors: list[Row] = []
        if isinstance(answer, ItemFailure):
            errors = self._errors(answer)
        else:
            lines, layers = self._lines(answer), self._layers(answer)
            found = [*answer.pools, *self._idle(answer)]
            pools = [self._pool(result) for result in found]
            stores = self._stores(answer)
            closings = {b: digest_of(_closing(b, pools, stores, layers)) for b in closings}
        digest = _digest(self.stock, (lines, pools, stores, layers, errors))
        results.lines.extend(lines)
        results.pools.extend(pools)
        results.stores.extend(stores)
        results.layers.extend(layers)
        results.errors.extend(errors)
        refusal = self.stock.refusal
        outside = refusal is not None and refusal.code is Code.OUT_OF_SCOPE
        for brand, state in zip(self.stock.brands, self.stock.states, strict=True):
            results.marks.append(
                Mark(
                    brand,
                    self.stock.item,
                    bool(errors),
                    outside,
                    tied,
                    bool(self.stock.references),
                    digest,
                    digest_of(state),
                    closings[brand],
                )
            )

    def _lines(self, costs: ItemCosts) -> list[Row]:
        item = self.stock.item
        if self.alone is not None:
            return [(self.alone, item, *line) for line in costs.lines]
        brand_of = self.layout.brand_of
        brands = {row[ID]: brand_of[row[STORE]] for row in self.stock.movements}
        return [(brands[line.movement_id], item, *line) for line in costs.lines]

    def _idle(self, costs: ItemCosts) -> list[PoolResult]:
        """Pools in which nothing was nor moved keep their last known price."""
        assert self.opening is not None, "a stock that was costed was opened"
        shown = {result.pool for result in costs.pools}
        prices = self.opening.last_prices
        return [_idle_pool(p, prices[p]) for p in sorted(prices) if p not in shown]

    def _brand_and_name(self, key: str) -> tuple[str, str]:
        """Of a pool; one that brands share belongs to none of them."""
        if is_shared(key):
            return "", key
        if self.alone is not None:
            return self.alone, pool_name(self.alone, key)
        brand = next(b for b in self.stock.brands if key.startswith(f"{b}/"))
        return brand, pool_name(brand, key)

    def _pool(self, p: PoolResult) -> Row:
        brand, pool = self._brand_and_name(p.pool)
        return (
            brand,
            self.stock.item,
            pool,
            *p.opening,
            *p.receipt,
            *p.gain,
            *p.sales_return,
            *p.issue,
            *p.usage,
            *p.purchase_return,
            *p.closing,
            *p.transfer_in,
            *p.transfer_out,
            p.rounding,
            p.variance,
            p.true_up,
            p.price_num,
            p.price_den,
            p.pushes,
            p.dipped,
            p.scc_size,
            *p.owed,
        )

    def _stores(self, costs: ItemCosts) -> list[Row]:
        brand_of = self.layout.brand_of
        return [
            (
                brand_of[s.store],
                self.stock.item,
                s.store,
                pool_name(brand_of[s.store], s.pool),
                *s.opening,
                *s.incoming,
                *s.outgoing,
                *s.transfer_in,
                *s.transfer_out,
                *s.closing,
                s.averaging,
            )
            for s in costs.stores
        ]

    def _layers(self, costs: ItemCosts) -> list[Row]:
        if not costs.layers:
            return []
        assert self.opening is not None, "a stock that was costed was opened"
        days = {row[ID]: row[1] for row in self.stock.movements}
        received = {**self.opening.received, **days}
        numbers: dict[str, int] = {}
        rows: list[Row] = []
        for layer in costs.layers:
            brand, pool = self._brand_and_name(layer.pool)
            number = numbers[layer.pool] = numbers.get(layer.pool, 0) + 1
            day = None if layer.origin is None else received.get(layer.origin)
            rows.append(
                (
                    brand,
                    self.stock.item,
                    pool,
                    number,
                    layer.lot,
                    layer.qty,
                    layer.value,
                    layer.origin,
                    day,
                )
            )
        return rows

    def _errors(self, failure: ItemFailure) -> list[Row]:
        """A problem belongs to the brand of its pool; of several brands it belongs to none."""
        rows: list[Row] = []
        for number, p in enumerate(failure.problems, start=1):
            brand, pool = self.alone or "", p.pool
            if p.pool is not None:
                brand, pool = self._brand_and_name(p.pool)
            rows.append(
                (brand, self.stock.item, number, pool, p.code.value, p.detail, list(p.movement_ids))
            )
        return rows


def _idle_pool(pool: str, price: Price) -> PoolResult:
    none = Flow(0, 0)
    return PoolResult(
        pool=pool,
        opening=none,
        receipt=none,
        gain=none,
        sales_return=none,
        issue=none,
        usage=none,
        purchase_return=none,
        closing=none,
        rounding=0,
        variance=0,
        price_num=price.numerator,
        price_den=price.denominator,
        pushes=0,
        dipped=False,
    )


# Where the rows above have what the next period will read.
_CLOSING_OF_POOL, _PRICE_OF_POOL = 17, 26
_CLOSING_OF_STORE = 14


def _closing(brand: str, pools: list[Row], stores: list[Row], layers: list[Row]) -> State:
    """What a brand's item leaves, exactly as it will be read back from its rows."""
    own = [row for row in stores if row[0] == brand]
    names = {row[3] for row in own}
    seen = [row for row in pools if row[0] == brand or (row[0] == "" and row[2] in names)]
    return State(
        balances=[(*row[2:4], *row[_CLOSING_OF_STORE : _CLOSING_OF_STORE + 2]) for row in own],
        layers=[
            (row[2], *row[4:])
            for row in layers
            if row[0] == brand or (row[0] == "" and row[2] in names)
        ],
        prices=[
            (row[2], *row[_PRICE_OF_POOL : _PRICE_OF_POOL + 2])
            for row in seen
            if row[_CLOSING_OF_POOL] == 0 and row[_PRICE_OF_POOL + 1]
        ],
    )


def _digest(stock: Stock, rows: tuple[list[Row], ...]) -> bytes:
    """Canonical: repr of strings, integers, booleans and None is the same on every machine."""
    lines, *others = rows
    in_id_order = sorted(lines, key=lambda line: line[2])
    whole = (stock.item, tuple(stock.brands), in_id_order, *others)
    return hashlib.sha256(repr(whole).encode()).digest()
