"""A month of stock movements that a shop chain could really have, as an endless, seeded stream.

Goods are received before they are sold, so no shop ever goes below zero; what comes back refers to
what went out. Memory is bounded by the shelves (item × shop), whatever the number of movements.
"""

import random
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import accumulate

from dev.sample_catalogue import Item, Store

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
)
Row = tuple[object, ...]

# Of a hundred events in the shops; what is missing to a hundred are sales.
RECEIPTS, TRANSFERS, SALES_RETURNS, PURCHASE_RETURNS, LOSSES, FINDS = 9.0, 4.0, 2.0, 0.6, 0.4, 0.2
REMEMBERED = 4_000
LOW = 15
OPENING_SHARE = 8  # at most one opening in so many movements
SLIP = {"issue": "BH", "receipt": "NK", "transfer": "CK", "sales_return": "TL"}
SATURDAY = 5


@dataclass(slots=True)
class Shelf:
    """One article in one shop: what is there now, in scaled units."""

    item: Item
    store: Store
    on_hand: int = 0


@dataclass(slots=True)
class Memory:
    """Movements that may come back: id, shelf and quantity of the latest ones."""

    latest: deque[tuple[int, Shelf, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


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
    ) -> None:
        self.dice = dice
        self.company = company
        self.days = [first_day + timedelta(n) for n in range((last_day - first_day).days + 1)]
        self.movements = movements
        self.next_id = next_id
        self.day = first_day
        self.sequence = 0
        self.documents = 0
        self.line = 0
        self.slip = ""
        self.sold = Memory()
        self.bought = Memory()
        self.shelves = _stocked(dice, items, stores, movements)
        self.by_store: dict[str, list[Shelf]] = {}
        self.by_item: dict[tuple[str, str], list[Shelf]] = {}
        for shelf in self.shelves:
            self.by_store.setdefault(shelf.store.code, []).append(shelf)
            self.by_item.setdefault((shelf.store.brand, shelf.item.code), []).append(shelf)
        # A few articles make most of the turnover, in every shop (Zipf).
        self.popularity = {
            code: list(accumulate(1 / (rank + 3) for rank in range(len(shelves))))
            for code, shelves in self.by_store.items()
        }
        self.open_shops = list(self.by_store)
        self.events: list[tuple[float, Callable[[], Row | None]]] = _cumulative(
            (RECEIPTS, self._restock),
            (TRANSFERS, self._transfer),
            (SALES_RETURNS, self._take_back),
            (PURCHASE_RETURNS, self._send_back),
            (LOSSES, self._lose),
            (FINDS, self._find),
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
        shelf.on_hand += quantity
        return self._row(shelf, "opening", quantity, value=self._cost(shelf.item, quantity))

    def _sell(self) -> Row:
        shelf = self._any_shelf()
        wanted = self._units(shelf, 1, 1 if self.dice.random() < 0.6 else 5)
        if shelf.on_hand < wanted:
            return self._receive(shelf)
        shelf.on_hand -= wanted
        row = self._row(shelf, "issue", wanted)
        self.sold.latest.append((_id(row), shelf, wanted))
        return row

    def _restock(self) -> Row | None:
        """Shops order what runs low; what sells out before that is ordered by its next buyer."""
        shelf = self._any_shelf()
        return self._receive(shelf) if shelf.on_hand < LOW * shelf.item.one else None

    def _receive(self, shelf: Shelf) -> Row:
        quantity = self._units(shelf, 12, 60)
        shelf.on_hand += quantity
        row = self._row(shelf, "receipt", quantity, value=self._cost(shelf.item, quantity))
        self.bought.latest.append((_id(row), shelf, quantity))
        return row

    def _transfer(self) -> Row | None:
        source = self._any_shelf()
        others = self.by_item[source.store.brand, source.item.code]
        target = self.dice.choice(others)
        quantity = min(source.on_hand // 2, self._units(source, 1, 12))
        if target is source or quantity <= 0:
            return None
        source.on_hand -= quantity
        target.on_hand += quantity
        return self._row(source, "transfer", quantity, target=target.store)

    def _take_back(self) -> Row | None:
        found = self._remembered(self.sold)
        if found is None:
            return None
        movement, shelf, quantity = found
        back = quantity if self.dice.random() < 0.5 else min(shelf.item.one, quantity)
        shelf.on_hand += back
        return self._row(shelf, "sales_return", back, ref=movement)

    def _send_back(self) -> Row | None:
        found = self._remembered(self.bought)
        if found is None:
            return None
        movement, shelf, quantity = found
        back = min(shelf.on_hand, max(1, quantity // 12))
        if back == 0:
            return None
        shelf.on_hand -= back
        return self._row(shelf, "purchase_return", back, ref=movement, basis="original")

    def _remembered(self, memory: Memory) -> tuple[int, Shelf, int] | None:
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
        shelf.on_hand -= lost
        return self._row(shelf, "adjust_out", lost)

    def _find(self) -> Row:
        shelf = self._any_shelf()
        found = self._units(shelf, 1, 2)
        shelf.on_hand += found
        return self._row(shelf, "adjust_in", found)

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


def _stocked(
    dice: random.Random, items: Sequence[Item], stores: Sequence[Store], movements: int
) -> list[Shelf]:
    """Which shop carries which article, the best sellers of each shop first."""
    shelves = []
    for store in stores:
        carried = [item for item in items if item.brand in {store.brand, None}]
        shelves += [Shelf(item, store) for item in carried if dice.random() < 0.7]
    most = max(len(stores), movements // OPENING_SHARE)
    if len(shelves) > most:
        shelves = dice.sample(shelves, most)
    dice.shuffle(shelves)
    return shelves


def _cumulative(
    *parts: tuple[float, Callable[[], Row | None]],
) -> list[tuple[float, Callable[[], Row | None]]]:
    bounds = accumulate(share for share, _ in parts)
    return [(bound, event) for bound, (_, event) in zip(bounds, parts, strict=True)]


def _id(row: Row) -> int:
    first = row[0]
    assert isinstance(first, int), "a row begins with its id"
    return first
