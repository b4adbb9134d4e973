"""First in, first out (nhập trước xuất trước): a queue of what is left of each receipt.

- receipt (q, v): a layer (q, v) at the end
- outflow of q: from the oldest layer on; a whole one with its whole value, of the last one a part
  with R(v·part / q), so that layers always add up to the pool
- transfer: every layer taken is a layer there, and keeps what brought it in
- purchase return: the receipt's own layers first, at the receipt's cost, then the oldest
- owed (provisional): out at the unit cost of the layer that left last; a queue of what is owed,
  which the next receipts cover from the oldest: true-up = R(v·covered / q) - what it went out at
"""

# ruff: noqa: ARG002 - pools of every method are asked in one way

from collections import deque
from collections.abc import Set as AbstractSet

from worker.costing.exact import Price, half_up, share
from worker.costing.pool_state import Piece, Pool, RefusedError
from worker.costing.problems import Code
from worker.costing.results import ClosingLayer, Policy

# A layer: quantity, value, origin; a list, because its quantity and value shrink where it stands.
Layer = list[int]
Index = dict[int, list[Layer]]
_NOBODY_KNOWS = -(2**64)  # an origin that is no movement's id


class Layers(Pool):
    """The layers of one pool (or of one lot in it), the oldest first.

    `tracked` are the origins that somebody will ask for, one set for all lots. A layer that a
    return took out of the middle stays in the queue with quantity 0 until it is passed.
    """

    __slots__ = ("exact", "index", "lot", "owed", "queue", "tracked")

    def __init__(
        self,
        name: str,
        policy: Policy,
        last: Price | None,
        tracked: AbstractSet[int],
        lot: str | None = None,
    ) -> None:
        super().__init__(name, policy, last)
        self.queue: deque[Layer] = deque()
        self.owed: deque[Layer] = deque()
        self.index: Index = {}
        self.tracked = tracked
        self.exact = policy.unit_cost_digits is None
        self.lot = lot

    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Cover what is owed; the rest becomes the youngest layer."""
        true_up = 0
        if self.owed:
            qty, value, true_up = self._settle(qty, value)
        if qty:
            layer = [qty, value, _NOBODY_KNOWS if origin is None else origin]
            self.queue.append(layer)
            self.qty += qty
            self.value += value
            if layer[2] in self.tracked:
                self.index.setdefault(layer[2], []).append(layer)
        return true_up

    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Out of the oldest layers; of the last one as much as is still asked for."""
        if qty > self.qty:
            return sum(piece[1] for piece in self._owe(qty, hint))
        queue, left, total = self.queue, qty, 0
        have = value = 0
        while left:
            layer = queue[0]
            have, value = layer[0], layer[1]
            if have > left:
                out = (2 * value * left + have) // (2 * have)
                if not self.exact:
                    out = self.part(value, left, have)
                layer[0] = have - left
                layer[1] = value - out
                total += out
                break
            queue.popleft()
            total += value
            left -= have
            layer[0] = layer[1] = 0
        self.qty -= qty
        self.value -= total
        if self.qty == 0:
            self._empty(value, have)
        return total

    def draw(self, qty: int, lot: str | None, hint: int | None) -> list[Piece]:
        """Out of the oldest layers, telling each one that was taken from."""
        if qty > self.qty:
            return self._owe(qty, hint)
        queue, left = self.queue, qty
        pieces: list[Piece] = []
        while left:
            layer = queue[0]
            taken, origin = min(left, layer[0]), layer[2]
            out = layer[1] if taken == layer[0] else half_up(layer[1] * taken, layer[0])
            layer[0] -= taken
            layer[1] -= out
            left -= taken
            if layer[0] == 0:
                queue.popleft()
            if taken:
                pieces.append((taken, out, None if origin == _NOBODY_KNOWS else origin))
        self._left(qty, sum(piece[1] for piece in pieces), pieces[-1][1], pieces[-1][0])
        return pieces

    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Own layers first, each at its share of the cost as far as it has that value."""
        if qty > self.qty or origin is None:
            return sum(piece[1] for piece in self.draw(qty, lot, hint))
        before, left = self.value, qty
        for layer in self._own(origin):
            taken, value = min(left, layer[0]), layer[1]
            wished = share(cost, taken, qty - left, qty)
            out = value if taken == layer[0] else min(wished, value)
            self._left(taken, out, value, layer[0])
            layer[0] -= taken
            layer[1] -= out
            left -= taken
        if left:
            self.draw(left, lot, hint)
        return before - self.value

    def add_value(self, value: int, lot: str | None) -> None:
        """Dearer by quantity, cheaper by value, so that no layer falls below nothing."""
        self.bear(value)
        _spread(value, [layer for layer in self.queue if layer[0]], int(value < 0))
        self.value += value

    def left_of(self, origin: int) -> int:
        """The quantity of the layers that still name the movement."""
        return sum(layer[0] for layer in self._own(origin))

    def add_to(self, origin: int, value: int) -> None:
        """By the quantity of the movement's layers."""
        own = self._own(origin)
        if sum(layer[1] for layer in own) + value < 0:
            raise RefusedError(Code.RETURN_EXCEEDS_VALUE)
        _spread(value, own, int(value < 0))
        self.value += value

    def open_with(self, qty: int, value: int, origin: int | None, lot: str | None) -> None:
        """The next layer, or the next part of what is owed."""
        if qty < 0:
            self.owed.append([-qty, -value, _NOBODY_KNOWS])
            self.qty += qty
            self.value += value
        elif qty > 0:
            self.receive(qty, value, origin, lot)
        else:
            self.value += value  # told as ORPHAN_VALUE

    def layers(self) -> list[ClosingLayer]:
        """What is owed (below zero), then every layer, the oldest first."""
        owed = [ClosingLayer(self.name, self.lot, -q, -v, None) for q, v, _ in self.owed]
        return owed + [
            ClosingLayer(self.name, self.lot, q, v, None if o == _NOBODY_KNOWS else o)
            for q, v, o in self.queue
            if q
        ]

    def counted(self, lot: str | None) -> int | None:
        """A count is held against the store's book."""
        return None

    def _own(self, origin: int) -> list[Layer]:
        own = [layer for layer in self.index.get(origin, ()) if layer[0]]
        if own:
            self.index[origin] = own
        return own

    def _left(self, qty: int, out: int, value: int, whole: int) -> None:
        """Note what went out, and at an empty pool what the layer that left last was worth."""
        self.qty -= qty
        self.value -= out
        if self.qty == 0:
            self._empty(value, whole)

    def _empty(self, value: int, whole: int) -> None:
        self.queue.clear()
        self.last = Price(value, whole) if whole else self.last

    def _owe(self, qty: int, hint: int | None) -> list[Piece]:
        here = max(self.qty, 0)
        short = qty - here
        youngest = next((layer for layer in reversed(self.queue) if layer[0]), None)
        price = Price(youngest[1], youngest[0]) if youngest is not None else self.last
        worth = self.owed_value(short, qty, price, hint)
        pieces = self.draw(here, self.lot, None) if here else []
        self.last = price if price is not None else Price(hint or 0, qty)
        self.owed.append([short, worth, _NOBODY_KNOWS])
        self.qty -= short
        self.value -= worth
        self.dipped = True
        return [*pieces, (short, worth, None)]

    def _settle(self, qty: int, value: int) -> tuple[int, int, int]:
        """Cover what is owed from the oldest; what is left of the receipt, and the true-up."""
        true_up = 0
        self.last = Price(value, qty)
        while self.owed and qty:
            part = self.owed[0]
            taken = min(part[0], qty)
            cost = half_up(value * taken, qty)
            worth = part[1] if taken == part[0] else half_up(part[1] * taken, part[0])
            part[0] -= taken
            part[1] -= worth
            qty, value = qty - taken, value - cost
            self.qty += taken
            self.value += worth
            true_up += cost - worth
            if part[0] == 0:
                self.owed.popleft()
        return qty, value, true_up


def _spread(value: int, layers: list[Layer], weight: int) -> None:
    """Add a value to layers by their quantity (`weight` 0) or value (1), to the last unit."""
    whole = sum(layer[weight] for layer in layers)
    before = 0
    for layer in layers:
        part = layer[weight]
        layer[1] += share(value, part, before, whole) if whole else 0
        before += part
