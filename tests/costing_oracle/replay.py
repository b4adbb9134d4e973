"""Moving average, FIFO and specific identification as domain rule 1.5 states them: one movement
after the other, over all items together, in integers. A moving average is a queue of one layer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.costing_oracle.story import (
    RefusedError,
    cancelled,
    part,
    places,
    returned_before,
    rounded,
    signed,
)
from worker.costing.movements import ItemStock, Movement, Reference
from worker.costing.problems import Code

Node = tuple[str, str]
Where = tuple[str, str, str | None]  # item, pool, lot


@dataclass
class Layer:
    """Some units that came together, what they are worth, and the movement that brought them."""

    qty: int
    value: int
    origin: int | None
    lot: str | None = None
    owed: bool = False


@dataclass
class Queue:
    """What a pool holds, the oldest first; `debts` are units that went out before they came."""

    layers: list[Layer] = field(default_factory=list)
    debts: list[Layer] = field(default_factory=list)
    last: Fraction | None = None

    @property
    def qty(self) -> int:
        return sum(x.qty for x in self.layers) - sum(x.qty for x in self.debts)

    @property
    def value(self) -> int:
        return sum(x.value for x in self.layers) - sum(x.value for x in self.debts)

    def price(self) -> Fraction | None:
        return Fraction(self.value, self.qty) if self.layers else self.last


@dataclass
class Replayed:
    """The answer: integers, all of them. `inside` are transfers that stay in their pool."""

    lines: dict[int, int] = field(default_factory=dict)
    variances: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    true_ups: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    found: dict[int, int] = field(default_factory=dict)
    queues: dict[Where, Queue] = field(default_factory=lambda: defaultdict(Queue))
    inside: set[int] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)

    def closing(self) -> dict[Node, tuple[int, int]]:
        """Quantity and value by pool."""
        sums: dict[Node, tuple[int, int]] = {}
        for (item, pool, _), queue in self.queues.items():
            qty, value = sums.get((item, pool), (0, 0))
            sums[item, pool] = (qty + queue.qty, value + queue.value)
        return sums


def replayed(
    stocks: Sequence[ItemStock],
    pool_of: Mapping[str, str],
    *,
    provisional: bool = False,
) -> Replayed:
    """Cost items that belong together; raises `RefusedError` as the rules demand."""
    return _Replay(stocks, pool_of, provisional=provisional).answer()


class _Replay:
    def __init__(
        self, stocks: Sequence[ItemStock], pool_of: Mapping[str, str], *, provisional: bool
    ) -> None:
        self.stocks = {stock.item: stock for stock in stocks}
        self.pool_of, self.provisional = pool_of, provisional
        self.method = stocks[0].method
        self.result = Replayed()
        self.every = {m.id: m for stock in stocks for m in stock.movements}
        self.owner = {m.id: stock.item for stock in stocks for m in stock.movements}
        self.gone: set[int] = set()
        self.before: dict[int, int] = {}
        self.last: dict[Node, Fraction] = {}
        self.freight: dict[int, int] = defaultdict(int)
        self.book: dict[tuple[str, str, str | None], int] = defaultdict(int)

    def answer(self) -> Replayed:
        place = places(self.every.values())
        order = sorted(self.every.values(), key=lambda m: place[m.id])
        for stock in self.stocks.values():
            self._open(stock)
            self.gone |= cancelled(stock)
        lives = {m.id: m for m in order if m.id not in self.gone}
        for stock in self.stocks.values():
            mine = [m for m in lives.values() if self.owner[m.id] == stock.item]
            self.before |= returned_before(stock, mine, lives)
        for m in lives.values():
            if m.kind == "landed_cost" and m.ref in lives and m.reverses is None:
                self.freight[m.ref] += m.value or 0
        for m in order:
            if m.id not in self.gone:
                self._happen(self.stocks[self.owner[m.id]], m)
        self.result.cancelled = self.gone
        return self.result

    def _lot(self, m: Movement) -> str | None:
        return m.lot if self.method == "specific" else None

    def _where(self, m: Movement, store: str | None = None) -> Where:
        return self.owner[m.id], self.pool_of[store or m.store], self._lot(m)

    def _open(self, stock: ItemStock) -> None:
        for opening in stock.openings:
            self.book[stock.item, opening.store, None] += opening.qty
        if self.method == "moving_avg":
            held: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for opening in stock.openings:
                held[self.pool_of[opening.store]][0] += opening.qty
                held[self.pool_of[opening.store]][1] += opening.value
            for pool, (qty, value) in held.items():
                self._begin((stock.item, pool, None), Layer(qty, value, None))
        for kept in stock.layers if self.method != "moving_avg" else ():
            lot = kept.lot if self.method == "specific" else None
            self._begin((stock.item, kept.pool, lot), Layer(kept.qty, kept.value, kept.origin, lot))
        for pool, price in stock.last_prices.items():
            if price.denominator:
                known = Fraction(price.numerator, price.denominator)
                self.last[stock.item, pool] = known

    def _begin(self, where: Where, layer: Layer) -> None:
        if layer.qty < 0:
            debt = Layer(-layer.qty, -layer.value, layer.origin, layer.lot)
            self.result.queues[where].debts.append(debt)
        elif layer.qty:
            self.result.queues[where].layers.append(layer)
        elif layer.value:
            raise RefusedError(Code.ORPHAN_VALUE)

    # One movement

    def _happen(self, stock: ItemStock, m: Movement) -> None:
        difference = self._differs(stock, m)
        if m.reverses is not None:
            self._take_back(stock, m)
        elif m.kind in {"issue", "consume", "adjust_out"}:
            self._go(m, m.qty)
        elif m.kind == "purchase_return":
            self._return_purchase(stock, m)
        elif m.kind == "transfer":
            self._transfer(m)
        elif m.kind == "sales_return":
            self._come(m, self._sold_at(stock, m))
        elif m.kind == "landed_cost":
            self._freight(stock, m)
        elif m.kind == "count":
            self._count(m, difference)
        else:
            self._come(m, self._worth(stock, m))

    def _differs(self, stock: ItemStock, m: Movement) -> int:
        lot = self._lot(m)
        here = (stock.item, m.store, lot)
        difference = m.qty - self.book[here] if m.kind == "count" else 0
        self.book[here] += difference
        for store, change in signed(m):
            self.book[stock.item, store, lot] += change
        return difference

    def _worth(self, stock: ItemStock, m: Movement) -> int:
        if m.sources:
            return (m.value or 0) + sum(self._cost(stock, s, m) for s in m.sources)
        if m.value is None and m.kind == "adjust_in":
            return self._at_price(m, m.qty)
        if m.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        value = m.value + self.freight[m.id]
        if value < 0:
            raise RefusedError(Code.RETURN_EXCEEDS_VALUE)
        return value

    def _cost(self, stock: ItemStock, source: int, m: Movement) -> int:
        if source in self.owner:
            return self.result.lines[source]
        reference = stock.references.get(source)
        if reference is None or reference.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        return reference.value

    def _at_price(self, m: Movement, quantity: int) -> int:
        price = self._last_cost(self._where(m))
        if price is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        return rounded(price * quantity)

    def _last_cost(self, where: Where) -> Fraction | None:
        """Of the lot: its average, else what it last cost; else of the pool, in the same way."""
        found = self.result.queues[where].price()
        if found is None:
            inside = [q for w, q in self.result.queues.items() if w[:2] == where[:2]]
            layers = [x for q in inside for x in q.layers]
            held = sum(x.qty for x in layers)
            found = Fraction(sum(x.value for x in layers), held) if held else None
        return self.last.get(where[:2]) if found is None else found

    def _come(self, m: Movement, value: int) -> None:
        """Units with their value: what is owed takes of them first."""
        where = self._where(m)
        self.result.lines[m.id] = value - self.freight[m.id]
        self.result.true_ups[m.id] += self._put(where, Layer(m.qty, value, m.id, where[2]))

    def _put(self, where: Where, layer: Layer) -> int:
        queue = self.result.queues[where]
        true_up = 0
        if queue.debts and layer.qty:
            queue.last = self.last[where[:2]] = Fraction(layer.value, layer.qty)
        while queue.debts and layer.qty:
            true_up += self._settle(queue, layer)
        if layer.qty and queue.layers and self.method == "moving_avg":
            queue.layers[0].qty += layer.qty
            queue.layers[0].value += layer.value
        elif layer.qty:
            queue.layers.append(layer)
        return true_up

    @staticmethod
    def _settle(queue: Queue, layer: Layer) -> int:
        """The oldest debt takes of what came; what that costs beyond what it went out for."""
        debt = queue.debts[0]
        some = min(debt.qty, layer.qty)
        was, cost = part(debt.value, some, 0, debt.qty), part(layer.value, some, 0, layer.qty)
        debt.qty, debt.value = debt.qty - some, debt.value - was
        layer.qty, layer.value = layer.qty - some, layer.value - cost
        if not debt.qty:
            queue.debts.pop(0)
        return cost - was

    def _take(
        self, m: Movement, quantity: int, first: int | None = None, original: int = 0
    ) -> list[Layer]:
        """Whole layers take their whole value; what is short goes at the last known cost.

        Goods of `first` leave before all others and, as far as their layers can give it, at what
        they had cost: their part of `original`.
        """
        queue = self.result.queues[self._where(m)]
        if quantity > sum(x.qty for x in queue.layers) and not self.provisional:
            raise RefusedError(Code.NEGATIVE_STOCK, m.id)
        own = [x for x in queue.layers if first is not None and x.origin == first]
        others = [x for x in queue.layers if first is None or x.origin != first]
        taken: list[Layer] = []
        for layer in [*own, *others]:
            some = min(layer.qty, quantity)
            if not some:
                break
            queue.last = self.last[self._where(m)[:2]] = Fraction(layer.value, layer.qty)
            value = part(layer.value, some, 0, layer.qty)
            if layer.origin == first and first is not None and some < layer.qty:
                so_far = sum(x.qty for x in taken)
                value = min(part(original, some, so_far, m.qty), layer.value)
            taken.append(Layer(some, value, layer.origin, layer.lot))
            layer.qty, layer.value = layer.qty - some, layer.value - value
            quantity -= some
        queue.layers = [x for x in queue.layers if x.qty]
        if quantity:
            taken.append(self._owe(m, queue, quantity))
        return taken

    def _owe(self, m: Movement, queue: Queue, quantity: int) -> Layer:
        cost = self._last_cost(self._where(m))
        if cost is not None:
            value = rounded(cost * quantity)
        elif m.value is not None and m.kind in {"issue", "consume", "adjust_out", "transfer"}:
            value = part(m.value, quantity, 0, m.qty)
            queue.last = self.last[self._where(m)[:2]] = Fraction(m.value, m.qty)
        else:
            raise RefusedError(Code.NEGATIVE_STOCK, m.id)
        if queue.debts and self.method == "moving_avg":
            queue.debts[0].qty += quantity
            queue.debts[0].value += value
        else:
            queue.debts.append(Layer(quantity, value, m.id))
        return Layer(quantity, value, m.id, self._lot(m), owed=True)

    def _go(self, m: Movement, quantity: int) -> None:
        self.result.lines[m.id] = sum(x.value for x in self._take(m, quantity))

    def _transfer(self, m: Movement) -> None:
        assert m.to_store is not None
        target = self._where(m, m.to_store)
        if target == self._where(m):
            self.result.inside.add(m.id)
            self.result.lines[m.id] = 0
            return
        moved = self._take(m, m.qty)
        self.result.lines[m.id] = sum(x.value for x in moved)
        if self.method == "moving_avg":
            moved = [Layer(m.qty, self.result.lines[m.id], m.id)]
        for layer in moved:
            self.result.true_ups[m.id] += self._put(target, layer)

    def _sold_at(self, stock: ItemStock, m: Movement) -> int:
        if m.ref in self.result.lines and m.ref not in self.gone:
            assert m.ref is not None
            sale = self.every[m.ref]
            return part(self.result.lines[m.ref], m.qty, self.before[m.id], sale.qty)
        earlier = stock.references.get(m.ref) if m.ref is not None else None
        if earlier is not None and earlier.value is not None:
            return part(earlier.value, m.qty, self.before[m.id], earlier.qty)
        if m.value is None:
            code = Code.RETURN_WITHOUT_REF if earlier is None else Code.MISSING_COST
            raise RefusedError(code, m.id)
        return m.value

    def _return_purchase(self, stock: ItemStock, m: Movement) -> None:
        receipt: Movement | Reference | None = None
        if m.ref is not None:
            receipt = self.every.get(m.ref) if m.ref not in self.gone else None
            receipt = receipt or stock.references.get(m.ref)
        if m.ref is not None and receipt is None:
            raise RefusedError(Code.RETURN_WITHOUT_REF, m.id)
        original, first = m.value, None
        if receipt is not None and receipt.value is not None and m.ref is not None:
            whole = receipt.value + self.freight[m.ref]
            original, first = part(whole, m.qty, self.before[m.id], receipt.qty), m.ref
        if m.basis == "average":
            self._go(m, m.qty)
            if original is not None:
                self.result.variances[m.id] = self.result.lines[m.id] - original
        elif original is None:
            raise RefusedError(Code.RETURN_WITHOUT_REF, m.id)
        else:
            self._go_at(m, original, first)

    def _go_at(self, m: Movement, original: int, first: int | None) -> None:
        """Goods leave at what they had cost, as far as the pool can give it."""
        if self.method == "moving_avg":
            for layer in self.result.queues[self._where(m)].layers:
                layer.origin = first = -1
        value = sum(x.value for x in self._take(m, m.qty, first, original))
        self.result.lines[m.id] = value
        self.result.variances[m.id] = value - original

    def _take_back(self, stock: ItemStock, m: Movement) -> None:
        """The opposite effect of a movement of an earlier period, at its cost."""
        assert m.reverses is not None
        reference = stock.references[m.reverses]
        if reference.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        if m.kind in {"issue", "consume", "adjust_out"}:
            self._come(m, reference.value)
        else:
            self._go_at(m, reference.value, m.reverses)

    def _freight(self, stock: ItemStock, m: Movement) -> None:
        """What comes later than its receipt's period is shared with what is still there."""
        if m.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        self.result.lines[m.id] = m.value
        if m.ref in self.every and m.ref not in self.gone:
            return
        mine, queue = self._where(m), self.result.queues[self._where(m)]
        every = sorted(self.result.queues.items(), key=lambda each: str(each[0]))
        reference = stock.references.get(m.ref) if m.ref is not None else None
        if reference is None:
            inside = [q for w, q in every if w[:2] == mine[:2] and mine[2] in {None, w[2]}]
            self._spread([x for q in inside for x in q.layers], m.value, m)
            return
        held: dict[str, list[Layer]] = defaultdict(list)
        if self.method == "moving_avg":
            held[self.pool_of[m.store]] = queue.layers
        else:
            for (item, pool, _), each in every:
                if item == stock.item:
                    held[pool] += [x for x in each.layers if x.origin == m.ref]
        found = {pool: sum(x.qty for x in layers) for pool, layers in held.items()}
        left = min(sum(found.values()), reference.qty)
        joined = rounded(Fraction(m.value * left, reference.qty))
        so_far = 0
        for pool, layers in held.items():
            if found[pool]:
                here = part(joined, found[pool], so_far, sum(found.values()))
                self._spread(layers, here, m)
                so_far += found[pool]
        self.result.lines[m.id] = joined
        self.result.variances[m.id] = m.value - joined

    @staticmethod
    def _spread(layers: list[Layer], value: int, m: Movement) -> None:
        so_far, total = 0, sum(x.qty for x in layers)
        if value and not total:
            raise RefusedError(Code.ORPHAN_VALUE, m.id)
        for layer in layers:
            layer.value += part(value, layer.qty, so_far, total)
            so_far += layer.qty

    def _count(self, m: Movement, difference: int) -> None:
        """An assertion: so many units are there and, where it says so, worth so much."""
        self.result.found[m.id] = difference
        where = self._where(m)
        queue = self.result.queues[where]
        if m.value and not m.qty:
            raise RefusedError(Code.ORPHAN_VALUE, m.id)
        if m.value is not None and m.qty:
            was = queue.value
            queue.last = queue.price()
            queue.layers = [Layer(m.qty, m.value, m.id, where[2])]
            change = m.value - was
            self.result.lines[m.id] = change if difference >= 0 else -change
        elif difference > 0:
            value = self._at_price(m, difference)
            self.result.lines[m.id] = value
            self.result.true_ups[m.id] += self._put(where, Layer(difference, value, m.id, where[2]))
        elif difference < 0:
            self._go(m, -difference)
        else:
            self.result.lines[m.id] = 0
