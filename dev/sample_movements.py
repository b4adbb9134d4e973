"""A month of stock movements that a shop chain could really have, as an endless, seeded stream.

Goods are received before they are sold, so no shop ever goes below zero; what comes back refers to
what went out. Memory is bounded by the shelves (item × shop), whatever the number of movements.
Habits add what not every chain does: lots, freight on receipts, counts, goods that cross brands.
"""

import random
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import accumulate
from typing import NamedTuple

from dev.sample_catalogue import Item, Store
from dev.sample_shelves import Lot, Shelf, stocked

COLUMNS = (
    "id",
    "company",
    "brand",
    "item",
    "store",
    "to_brand",
    "to_store",
    "kind",
    "doc_id",
    "doc_line",
    "posting_date",
    "posting_seq",
    "qty_base",
    "value",
    "ref_movement_id",
    "cost_basis",
    "lot_id",
)
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How often what happens, of a hundred events; what is missing to a hundred are sales.

    `crossing` is the share of transfers of an article sold by all that go to another brand's shop.
    With `lots` every receipt is a lot of its own, and what leaves comes from one lot.
    """

    receipts: float = 9.0
    transfers: float = 4.0
    sales_returns: float = 2.0
    purchase_returns: float = 0.6
    losses: float = 0.4
    finds: float = 0.2
    freight: float = 0.0
    counts: float = 0.0
    crossing: float = 0.0
    lots: bool = False


HABITS = Habits()
# Everything that costing knows, and goods that go to and fro.
WHOLE = Habits(transfers=8.0, freight=0.8, counts=0.5, crossing=0.3, lots=True)
REMEMBERED = 4_000
LOW = 15
SLIP = {"issue": "BH", "receipt": "NK", "transfer": "CK", "sales_return": "TL"}
SATURDAY = 5
# What a count finds, in units; mostly what the book says.
FOUND = (0, 0, 0, 0, -1, 1)


class Remembered(NamedTuple):
    """A movement that may come back."""

    id: int
    shelf: Shelf
    lot: Lot
    quantity: int
    value: int


@dataclass(slots=True)
class Memory:
    """The latest movements that may come back."""

    latest: deque[Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class Month:
    """The stream of one month. `next_id` hands out movement ids in ascending order."""

    def __init__(
        self,
        dice: random.Random,
        items: Sequence[Item],
        stores: Sequence[Store],
        *,
        company: str,
        first_day: date,
        last_day: date,
        movements: int,
        next_id: Callable[[], int],
        habits: Habits = HABITS,
    ) -> None:
        self.dice = dice
        self.company = company
        self.days = [first_day + timedelta(n) for n in range((last_day - first_day).days + 1)]
        self.movements = movements
        self.next_id = next_id
        self.day = first_day
        self.sequence = 0
        self.documents = 0
        self.arrivals = 0
        self.line = 0
        self.slip = ""
        self.sold = Memory()
        self.bought = Memory()
        self.habits = habits
        self.shelves = stocked(dice, items, stores, movements)
        self.by_store: dict[str, list[Shelf]] = {}
        self.by_item: dict[tuple[str | None, str], list[Shelf]] = {}
        for shelf in self.shelves:
            self.by_store.setdefault(shelf.store.code, []).append(shelf)
            self.by_item.setdefault((shelf.store.brand, shelf.item.code), []).append(shelf)
            if shelf.item.brand is None:
                self.by_item.setdefault((None, shelf.item.code), []).append(shelf)
        # A few articles make most of the turnover, in every shop (Zipf).
        self.popularity = {
            code: list(accumulate(1 / (rank + 3) for rank in range(len(shelves))))
            for code, shelves in self.by_store.items()
        }
        self.open_shops = list(self.by_store)
        self.events: list[tuple[float, Callable[[], Row | None]]] = _cumulative(
            (habits.receipts, self._restock),
            (habits.transfers, self._transfer),
            (habits.sales_returns, self._take_back),
            (habits.purchase_returns, self._send_back),
            (habits.losses, self._lose),
            (habits.finds, self._find),
            (habits.freight, self._freight),
            (habits.counts, self._count),
        )
        self.shares = [share for share, _ in self.events]

    def rows(self) -> Iterator[Row]:
        """Exactly the number of movements asked for, in the order of days."""
        left = self.movements
        for shelf in self.shelves[:left]:
            yield self._open(shelf)
        left -= min(left, len(self.shelves))
        weights = [1.6 if day.weekday() >= SATURDAY else 1.0 for day in self.days]
        bounds = [round(left * part / sum(weights)) for part in accumulate(weights)]
        made = 0
        for day, bound in zip(self.days, bounds, strict=True):
            self.day, self.sequence = day, 0 if day != self.days[0] else self.sequence
            while made < bound:
                yield self._event()
                made += 1

    def _event(self) -> Row:
        chance = self.dice.random() * 100
        place = bisect(self.shares, chance)
        row = self.events[place][1]() if place < len(self.events) else None
        return row or self._sell()

    def _any_shelf(self) -> Shelf:
        store = self.dice.choice(self.open_shops)
        weights = self.popularity[store]
        return self.by_store[store][bisect(weights, self.dice.random() * weights[-1])]

    def _open(self, shelf: Shelf) -> Row:
        quantity = self._units(shelf, 6, 40)
        return self._arrive(shelf, "opening", quantity)[0]

    def _sell(self) -> Row:
        shelf = self._any_shelf()
        wanted = self._units(shelf, 1, 1 if self.dice.random() < 0.6 else 5)
        if shelf.on_hand < wanted:
            return self._receive(shelf)
        lot, wanted = shelf.take(wanted)
        row = self._row(shelf, "issue", wanted, lot=lot)
        self.sold.latest.append(Remembered(_id(row), shelf, lot, wanted, 0))
        return row

    def _restock(self) -> Row | None:
        """Shops order what runs low; what sells out before that is ordered by its next buyer."""
        shelf = self._any_shelf()
        return self._receive(shelf) if shelf.on_hand < LOW * shelf.item.one else None

    def _receive(self, shelf: Shelf) -> Row:
        row, remembered = self._arrive(shelf, "receipt", self._units(shelf, 12, 60))
        self.bought.latest.append(remembered)
        return row

    def _arrive(self, shelf: Shelf, kind: str, quantity: int) -> tuple[Row, Remembered]:
        lot = f"L{self.arrivals}" if self.habits.lots else None
        self.arrivals += 1
        shelf.put(lot, quantity)
        value = self._cost(shelf.item, quantity)
        row = self._row(shelf, kind, quantity, value=value, lot=lot)
        return row, Remembered(_id(row), shelf, lot, quantity, value)

    def _transfer(self) -> Row | None:
        source = self._any_shelf()
        brand: str | None = source.store.brand
        # Only who has the habit throws the dice for it: the other streams stay as they are.
        if self.habits.crossing and source.item.brand is None:
            brand = None if self.dice.random() < self.habits.crossing else brand
        target = self.dice.choice(self.by_item[brand, source.item.code])
        quantity = min(source.on_hand // 2, self._units(source, 1, 12))
        if target is source or quantity <= 0:
            return None
        lot, quantity = source.take(quantity)
        target.put(lot, quantity)
        return self._row(source, "transfer", quantity, target=target.store, lot=lot)

    def _take_back(self) -> Row | None:
        found = self._remembered(self.sold)
        if found is None:
            return None
        shelf, quantity = found.shelf, found.quantity
        back = quantity if self.dice.random() < 0.5 else min(shelf.item.one, quantity)
        shelf.put(found.lot, back)
        return self._row(shelf, "sales_return", back, ref=found.id, lot=found.lot)

    def _send_back(self) -> Row | None:
        found = self._remembered(self.bought)
        if found is None:
            return None
        shelf = found.shelf
        back = min(shelf.lots.get(found.lot, 0), max(1, found.quantity // 12))
        if back == 0:
            return None
        shelf.put(found.lot, -back)
        return self._row(
            shelf, "purchase_return", back, ref=found.id, basis="original", lot=found.lot
        )

    def _remembered(self, memory: Memory) -> Remembered | None:
        """Forgets what it hands out: nothing comes back twice."""
        if not memory.latest:
            return None
        memory.latest.rotate(-self.dice.randrange(min(len(memory.latest), 200)))
        return memory.latest.popleft()

    def _lose(self) -> Row | None:
        shelf = self._any_shelf()
        lost = min(shelf.on_hand, self._units(shelf, 1, 3))
        if lost == 0:
            return None
        lot, lost = shelf.take(lost)
        return self._row(shelf, "adjust_out", lost, lot=lot)

    def _find(self) -> Row | None:
        shelf = self._any_shelf()
        found = self._units(shelf, 1, 2)
        if self.habits.lots and not shelf.on_hand:
            return None  # nobody can say which lot it is of
        lot = shelf.oldest
        shelf.put(lot, found)
        return self._row(shelf, "adjust_in", found, lot=lot)

    def _freight(self) -> Row | None:
        """An invoice for bringing one of the latest receipts; it belongs to that receipt."""
        if not self.bought.latest:
            return None
        receipt = self.dice.choice(self.bought.latest)
        cost = receipt.value * self.dice.randint(1, 5) // 100
        return self._row(
            receipt.shelf, "landed_cost", 0, value=cost, ref=receipt.id, lot=receipt.lot
        )

    def _count(self) -> Row | None:
        """Somebody counts a shelf with one lot on it, so that any method takes it for the whole."""
        shelf = self._any_shelf()
        if len(shelf.lots) != 1:
            return None
        lot, book = shelf.oldest, shelf.on_hand
        counted = max(0, book + self.dice.choice(FOUND) * shelf.item.one)
        shelf.put(lot, counted - book)
        return self._row(shelf, "count", counted, lot=lot)

    def _units(self, shelf: Shelf, low: int, high: int) -> int:
        whole, one = self.dice.randint(low, high), shelf.item.one
        # What is weighed has odd weights: 1.250 kg, 3.475 kg.
        return whole * one - (self.dice.randrange(0, 36) * 25 if one == 1000 else 0)

    def _cost(self, item: Item, quantity: int) -> int:
        """Prices creep up over the month and differ from delivery to delivery."""
        passed = (self.day - self.days[0]).days / len(self.days)
        unit = round(item.cost * (1 + 0.03 * passed + self.dice.uniform(-0.06, 0.06)))
        return (2 * unit * quantity + item.one) // (2 * item.one)

    def _row(
        self,
        shelf: Shelf,
        kind: str,
        quantity: int,
        *,
        value: int | None = None,
        target: Store | None = None,
        ref: int | None = None,
        basis: str | None = None,
        lot: Lot = None,
    ) -> Row:
        self.sequence += 1
        self._next_line(kind, shelf.store.code)
        return (
            self.next_id(),
            self.company,
            shelf.store.brand,
            shelf.item.code,
            shelf.store.code,
            target.brand if target else None,
            target.code if target else None,
            kind,
            self.slip,
            self.line,
            self.day,
            self.sequence,
            quantity,
            value,
            ref,
            basis,
            lot,
        )

    def _next_line(self, kind: str, store: str) -> None:
        """Sales slips and receipts run over a few lines; another shop begins another slip."""
        start = f"{SLIP.get(kind, 'KK')}-{store}-"
        if self.slip.startswith(start) and self.line < 4:
            self.line += 1
            return
        self.documents += 1
        self.line = 1
        self.slip = f"{start}{self.documents:06d}"


def _cumulative(
    *parts: tuple[float, Callable[[], Row | None]],
) -> list[tuple[float, Callable[[], Row | None]]]:
    bounds = accumulate(share for share, _ in parts)
    return [(bound, event) for bound, (_, event) in zip(bounds, parts, strict=True)]


def _id(row: Row) -> int:
    first = row[0]
    assert isinstance(first, int), "a row begins with its id"
    return first
