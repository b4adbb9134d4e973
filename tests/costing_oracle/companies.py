"""Random companies: what may happen to items of several pools in a period, told in time order.

A `Teller` keeps the book while it tells, so that most stories are possible; some are not, and the
engines must say so. Ids are dealt at the end in any order, as back-dated documents get them.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import strategies as st

from worker.costing.exact import Price
from worker.costing.movements import (
    ItemStock,
    Method,
    Movement,
    Opening,
    OpeningLayer,
    Reference,
    in_order,
)

COMMON = [
    "receipt",
    "receipt",
    "receipt",
    "issue",
    "issue",
    "issue",
    "transfer",
    "transfer",
    "sales_return",
    "purchase_return",
    "consume",
    "adjust_in",
    "adjust_out",
    "landed_cost",
    "count",
    "reversal",
    "earlier",
]
# The movements of earlier periods that a story may refer to have these ids.
EARLIER_RECEIPT, EARLIER_SALE = 9001, 9002
EDGE = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Company:
    """Items that belong together, and the pool of each store."""

    stocks: list[ItemStock]
    pool_of: dict[str, str]

    def movements(self) -> dict[int, Movement]:
        return {m.id: m for stock in self.stocks for m in stock.movements}


@dataclass(frozen=True, kw_only=True)
class Taste:
    """What a story may hold."""

    method: Method = Method.PERIODIC
    items: int = 1
    stores: int = 4
    length: int = 16
    kinds: tuple[str, ...] = tuple(COMMON)
    any_day: bool = False  # the days are in no order: a pool may dip within the period
    careless: int = 24  # one quantity of so many does not look at the book
    short: bool = False  # goods may go out before any came in
    owed: bool = False  # pools may open below zero, or empty with a cost that is still known
    huge: bool = False  # near the edge of what a bigint column can hold


@dataclass
class Told:
    """One item while its story is told; `sold` and `bought` are what may still come or go back."""

    name: str
    openings: list[Opening] = field(default_factory=list)
    layers: list[OpeningLayer] = field(default_factory=list)
    references: dict[int, Reference] = field(default_factory=dict)
    rows: list[Movement] = field(default_factory=list)
    book: dict[tuple[str, str | None], int] = field(default_factory=lambda: defaultdict(int))
    left: dict[int, int] = field(default_factory=dict)
    last_prices: dict[str, Price] = field(default_factory=dict)


class Teller:
    """Tells what happens, one movement after the other; ids are in time order until they are dealt."""

    def __init__(self, draw: st.DrawFn, taste: Taste) -> None:
        self.draw, self.taste = draw, taste
        self.stores = [f"S{n}" for n in range(1, draw(st.integers(1, taste.stores)) + 1)]
        pools = draw(
            st.lists(
                st.integers(1, len(self.stores)),
                min_size=len(self.stores),
                max_size=len(self.stores),
            )
        )
        self.pool_of = {s: f"B/P{p}" for s, p in zip(self.stores, pools, strict=True)}
        self.unit = draw(st.sampled_from([1, 1, 1, 7, 1000, 10**6]))
        self.amounts = draw(
            st.sampled_from(
                [st.integers(0, 5000), st.integers(0, 9), st.integers(0, 10**12)],
            )
        )
        if taste.huge:
            self.unit = draw(st.sampled_from([1, 2**57, 2**59, 2**60]))
            self.amounts = st.sampled_from([0, 1, EDGE, EDGE - 1, EDGE // 2, EDGE // 3])
        names = "ABC"[: draw(st.integers(1, taste.items))]
        self.items = [Told(name) for name in names]
        self.day = self.seq = 1
        self.count = 0

    def tell(self) -> Company:
        for item in self.items:
            self._open(item)
        for _ in range(self.draw(st.integers(1, self.taste.length))):
            if self.draw(st.integers(0, 5)):
                self.seq += 1
            if not self.draw(st.integers(0, 3)):
                self.day += 1
            item = self.draw(st.sampled_from(self.items))
            kind = self.draw(st.sampled_from(self.taste.kinds))
            getattr(self, f"_{kind}", self._plain)(item, kind)
        return Company(stocks=self._dealt(), pool_of=self.pool_of)

    # The past

    def _open(self, item: Told) -> None:
        for store in self.stores:
            quantity = self._some(0, 20)
            if not quantity:
                continue
            lot = self._lot()
            value = self.draw(self.amounts)
            item.openings.append(Opening(store, quantity, value))
            origin = self.draw(st.sampled_from([None, EARLIER_RECEIPT]))
            layer = OpeningLayer(self.pool_of[store], lot, quantity, value, origin)
            item.layers.append(layer)
            item.book[self.pool_of[store], lot] += quantity
        if self.taste.method in {Method.PERIODIC, Method.MOVING}:
            item.layers.clear()
        if self.taste.owed:
            self._owe(item)
        store = self.draw(st.sampled_from(self.stores))
        for number, kind in ((EARLIER_RECEIPT, "receipt"), (EARLIER_SALE, "issue")):
            quantity, gone = self._some(1, 30), self._some(0, 5)
            if number == EARLIER_RECEIPT:
                gone += sum(layer.qty for layer in item.layers if layer.origin == number)
            value = self.draw(self.amounts)
            item.references[number] = Reference(
                kind, store, quantity + gone, value, min(gone, quantity)
            )
            item.left[number] = quantity + gone - min(gone, quantity)

    def _owe(self, item: Told) -> None:
        """Pools that open with nothing may owe, or only remember a price."""
        held = {self.pool_of[opening.store] for opening in item.openings}
        for store in self.stores:
            pool = self.pool_of[store]
            if pool in held or not self.draw(st.booleans()):
                continue
            held.add(pool)
            quantity, value = self._some(1, 6), self.draw(self.amounts)
            item.last_prices[pool] = Price(value, quantity)
            if self.draw(st.booleans()):
                lot = self._lot()
                item.openings.append(Opening(store, -quantity, -value))
                item.book[pool, lot] -= quantity
                if self.taste.method in {Method.FIFO, Method.SPECIFIC}:
                    item.layers.append(OpeningLayer(pool, lot, -quantity, -value, None))

    # What happens

    def _plain(self, item: Told, kind: str) -> None:
        store, lot = self._store(), self._lot()
        known = kind == "receipt" or (kind == "adjust_in" and self.draw(st.booleans()))
        # An issue may say what it would cost if nobody knew.
        hints = self.taste.short and self.taste.method != Method.PERIODIC
        known = known or (kind == "issue" and hints and self.draw(st.booleans()))
        incoming = kind in {"receipt", "adjust_in"}
        quantity = self._some(1, 20) if incoming else self._held(item, store, lot)
        if quantity:
            value = self.draw(self.amounts) if known else None
            self._add(item, kind, store, quantity, value=value, lot=lot)

    def _transfer(self, item: Told, kind: str) -> None:
        store, lot = self._store(), self._lot()
        target = self.draw(st.sampled_from(self.stores))
        quantity = self._held(item, store, lot)
        if quantity and target != store:
            self._add(item, kind, store, quantity, to_store=target, lot=lot)

    def _sales_return(self, item: Told, kind: str) -> None:
        sales = [m.id for m in item.rows if m.kind == "issue" and m.reverses is None]
        self._goes_back(item, kind, [*sales, EARLIER_SALE], self._store())

    def _purchase_return(self, item: Told, kind: str) -> None:
        receipts = [m.id for m in item.rows if m.kind == "receipt" and m.reverses is None]
        stores = {m.id: m.store for m in item.rows}
        origin: int = self.draw(st.sampled_from([*receipts, EARLIER_RECEIPT]))
        store = stores.get(origin, item.references[EARLIER_RECEIPT].store)
        if not self.draw(st.integers(0, 5)):
            store = self._store()
        self._goes_back(item, kind, [origin], store)

    def _goes_back(self, item: Told, kind: str, origins: list[int], store: str) -> None:
        origin: int = self.draw(st.sampled_from(origins))
        lot = next((m.lot for m in item.rows if m.id == origin), self._lot())
        most = item.left.get(origin, 0)
        average = kind == "purchase_return" and not self.draw(st.integers(0, 3))
        if kind == "purchase_return":
            most = min(most, item.book[self.pool_of[store], lot])
        if self._careless():
            most += 1
        if most <= 0:
            return
        quantity = self.draw(st.integers(1, most))
        item.left[origin] = item.left.get(origin, 0) - quantity
        basis = "average" if average else None
        named = None if average and not self.draw(st.integers(0, 3)) else origin
        self._add(item, kind, store, quantity, ref=named, lot=lot, basis=basis)

    def _landed_cost(self, item: Told, kind: str) -> None:
        receipts = [m for m in item.rows if m.kind == "receipt" and m.reverses is None]
        store, ref = item.references[EARLIER_RECEIPT].store, EARLIER_RECEIPT
        if self.draw(st.integers(0, 2)) and receipts:
            receipt: Movement = self.draw(st.sampled_from(receipts))
            store, ref = receipt.store, receipt.id
        if not self.draw(st.integers(0, 5)):
            store = self._store()
        self._add(item, kind, store, 0, value=self.draw(self.amounts), ref=ref, lot=self._lot())

    def _count(self, item: Told, kind: str) -> None:
        store, lot = self._store(), self._lot()
        pool = self.pool_of[store]
        alone = list(self.pool_of.values()).count(pool) == 1
        if not alone or (lot is not None and item.openings):
            return
        held = item.book[pool, lot]
        quantity = max(0, held + self.draw(st.integers(-3, 3)) * self.unit)
        replays = self.taste.method != Method.PERIODIC
        priced = replays and quantity > 0 and not self.draw(st.integers(0, 2))
        value = self.draw(self.amounts) if priced else None
        self._add(item, kind, store, quantity, value=value, lot=lot)
        item.book[pool, lot] = quantity

    def _consume(self, item: Told, kind: str) -> None:
        """Something is made of it, at the same instant."""
        if len(self.items) == 1 or not self.draw(st.integers(0, 3)):
            self._plain(item, kind)
            return
        store, lot = self._store(), self._lot()
        sources = []
        # Of two goods, or twice of the same: what is made may go into itself with others.
        for used in [item, *self.draw(st.lists(st.sampled_from(self.items), max_size=1))]:
            quantity = self._held(used, store, lot)
            if quantity:
                sources.append(self._add(used, kind, store, quantity, lot=lot))
        if sources:
            made = self.draw(st.sampled_from(self.items))
            extra = self.draw(st.sampled_from([None, 0, 40]))
            amount = self._some(1, 10)
            self._add(made, "produce", store, amount, value=extra, lot=lot, sources=tuple(sources))

    def _reversal(self, item: Told, _kind: str) -> None:
        """What somebody entered by mistake is taken back, within the period."""
        named = {m.ref for m in item.rows} | {m.reverses for m in item.rows}
        plain = {"receipt", "issue", "transfer", "adjust_out", "adjust_in"}
        rows = [m for m in item.rows if m.kind in plain and m.id not in named and not m.reverses]
        if rows:
            origin: Movement = self.draw(st.sampled_from(rows))
            item.left.pop(origin.id, None)
            self._again(item, origin)

    def _earlier(self, item: Told, _kind: str) -> None:
        """A movement of an earlier period is taken back."""
        if any(m.ref in item.references or m.reverses in item.references for m in item.rows):
            return
        number = self.draw(st.sampled_from([EARLIER_RECEIPT, EARLIER_SALE]))
        reference = item.references[number]
        lot = self._lot()
        if reference.returned:
            return
        if (
            number == EARLIER_RECEIPT
            and reference.qty > item.book[self.pool_of[reference.store], lot]
        ):
            return
        item.left[number] = 0
        self._add(item, reference.kind, reference.store, reference.qty, reverses=number, lot=lot)

    def _again(self, item: Told, origin: Movement) -> None:
        self._add(
            item,
            origin.kind,
            origin.store,
            origin.qty,
            to_store=origin.to_store,
            value=origin.value,
            lot=origin.lot,
            reverses=origin.id,
        )

    def _add(
        self,
        item: Told,
        kind: str,
        store: str,
        quantity: int,
        *,
        to_store: str | None = None,
        value: int | None = None,
        ref: int | None = None,
        basis: str | None = None,
        reverses: int | None = None,
        lot: str | None = None,
        sources: tuple[int, ...] = (),
    ) -> int:
        self.count += 1
        row = Movement(
            self.count, self.day, self.seq, kind, store, to_store, quantity, value, ref, basis,
            reverses, lot, sources,
        )  # fmt: skip
        item.rows.append(row)
        item.left[row.id] = quantity
        sign = 1 if reverses is None else -1
        if kind in {"receipt", "adjust_in", "sales_return", "produce"}:
            item.book[self.pool_of[store], lot] += sign * quantity
        elif kind not in {"landed_cost", "count"}:
            item.book[self.pool_of[store], lot] -= sign * quantity
        if to_store is not None:
            item.book[self.pool_of[to_store], lot] += sign * quantity
        return self.count

    # Draws

    def _store(self) -> str:
        return self.draw(st.sampled_from(self.stores))

    def _lot(self) -> str | None:
        if self.taste.method != Method.SPECIFIC:
            return None
        return self.draw(st.sampled_from(["x", "y"]))

    def _some(self, least: int, most: int) -> int:
        few = self.draw(st.integers(least, most))
        return few * self.unit + (self.draw(st.integers(0, 3)) if few and self.unit > 1 else 0)

    def _careless(self) -> bool:
        return self.taste.careless > 0 and self.draw(st.integers(1, self.taste.careless)) == 1

    def _held(self, item: Told, store: str, lot: str | None) -> int:
        """A quantity that the pool can give, quite often all of it."""
        held = item.book[self.pool_of[store], lot]
        if self.taste.short and not self.draw(st.integers(0, 2)):
            return max(held, 0) + self._some(1, 5)
        if self._careless():
            return max(held, 0) + 1
        if held <= 0:
            return 0
        return held if not self.draw(st.integers(0, 3)) else self.draw(st.integers(1, held))

    # The end

    def _dealt(self) -> list[ItemStock]:
        """Ids in any order, as documents are entered; and days, too, where the taste says so."""
        numbers = self.draw(st.permutations(range(1, self.count + 1)))
        new = dict(enumerate(numbers, 1))
        days = {n: self.draw(st.integers(1, 5)) for n in new} if self.taste.any_day else {}
        return [
            ItemStock(
                item=item.name,
                method=self.taste.method,
                openings=tuple(item.openings),
                layers=tuple(item.layers),
                movements=in_order(
                    m._replace(
                        id=new[m.id],
                        day=days.get(m.id, m.day),
                        ref=new.get(m.ref, m.ref) if m.ref is not None else None,
                        reverses=new.get(m.reverses, m.reverses) if m.reverses else None,
                        sources=tuple(new[s] for s in m.sources),
                    )
                    for m in item.rows
                ),
                references=item.references,
                last_prices=item.last_prices,
            )
            for item in self.items
        ]


@st.composite
def companies(draw: st.DrawFn, taste: Taste) -> Company:
    """A company of this taste."""
    return Teller(draw, taste).tell()
