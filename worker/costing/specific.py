"""Specific identification (đích danh): goods are told apart by lot or serial number.

- every movement of goods names its lot (a return: that of what it refers to)
- each lot of a pool is a queue of its own, costed as in `fifo.py`
"""

from collections.abc import Set as AbstractSet

from worker.costing.exact import NO_PRICE, Price, share
from worker.costing.fifo import Layers
from worker.costing.pool_state import Piece, Pool, RefusedError
from worker.costing.problems import Code
from worker.costing.results import ClosingLayer, Policy


class Lots(Pool):
    """The lots of one pool, each with its layers; the pool's quantity and value are their sums."""

    __slots__ = ("queues", "tracked")

    def __init__(
        self, name: str, policy: Policy, last: Price | None, tracked: AbstractSet[int]
    ) -> None:
        super().__init__(name, policy, last)
        self.tracked = tracked
        self.queues: dict[str | None, Layers] = {}

    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Into the lot's queue."""
        queue = self._named(lot)
        owed = queue.qty < 0
        true_up = queue.receive(qty, value, origin, lot)
        if owed:
            self.last = queue.last
        self._follow(qty, value - true_up)
        return true_up

    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Out of the lot's queue, whatever else is here."""
        queue, lent = self._sending(lot)
        out = queue.issue(qty, lot, hint)
        self._gone(queue, qty, out, lent=lent)
        return out

    def draw(self, qty: int, lot: str | None, hint: int | None) -> list[Piece]:
        """Out of the lot's queue, layer by layer."""
        queue, lent = self._sending(lot)
        pieces = queue.draw(qty, lot, hint)
        self._gone(queue, qty, sum(piece[1] for piece in pieces), lent=lent)
        return pieces

    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Out of the lot's queue, the receipt's own layer first."""
        queue, lent = self._sending(lot)
        out = queue.give_back(qty, cost, origin, lot, hint)
        self._gone(queue, qty, out, lent=lent)
        return out

    def add_value(self, value: int, lot: str | None) -> None:
        """To the lot; where none is named over all of them by quantity (cheaper: by value)."""
        if lot is not None:
            self._of(lot).add_value(value, lot)
            self.value += value
            return
        queues = [queue for queue in self._in_order() if queue.qty > 0]
        if value and not queues:
            raise RefusedError(Code.ORPHAN_VALUE)
        if sum(queue.value for queue in queues) + value < 0:
            raise RefusedError(Code.RETURN_EXCEEDS_VALUE)
        weights = [queue.value if value < 0 else queue.qty for queue in queues]
        before, whole = 0, sum(weights)
        for queue, weight in zip(queues, weights, strict=True):
            queue.add_value(share(value, weight, before, whole) if whole else 0, None)
            before += weight
        self.value += value

    def left_of(self, origin: int) -> int:
        """In whatever lot it lies."""
        return sum(queue.left_of(origin) for queue in self.queues.values())

    def add_to(self, origin: int, value: int) -> None:
        """Over the lots that hold goods of the movement: as a rule one."""
        queues = [queue for queue in self._in_order() if queue.left_of(origin)]
        before, whole = 0, self.left_of(origin)
        for queue in queues:
            part = queue.left_of(origin)
            queue.add_to(origin, share(value, part, before, whole))
            before += part
        self.value += value

    def open_with(self, qty: int, value: int, origin: int | None, lot: str | None) -> None:
        """Into the lot's queue; goods of a time before lots may have none."""
        self._of(lot).open_with(qty, value, origin, lot)
        self.dipped = self.dipped or qty < 0
        self._follow(qty, value)

    def layers(self) -> list[ClosingLayer]:
        """Lot by lot in the order of their names."""
        return [layer for queue in self._in_order() for layer in queue.layers()]

    def counted(self, lot: str | None) -> int | None:
        """A lot is counted for its pool: it is one thing, wherever in the pool it lies."""
        return self._named(lot).qty

    def price(self, lot: str | None = None) -> Price | None:
        """What the lot costs or has cost, else the average of the lots here, else the last cost."""
        queue = self.queues.get(lot)
        own = queue.price() if queue is not None else None
        return own if own is not None else self._average()

    def shown(self) -> Price:
        """Of the lots that are here; what others owe takes nothing from what these cost."""
        signs = {queue.qty > 0 for queue in self.queues.values() if queue.qty}
        return (self._average() or NO_PRICE) if len(signs) > 1 else super().shown()

    def _average(self) -> Price | None:
        here = [queue for queue in self.queues.values() if queue.qty > 0]
        if not here:
            return self.last
        return Price(sum(queue.value for queue in here), sum(queue.qty for queue in here))

    def _named(self, lot: str | None) -> Layers:
        if lot is None:
            raise RefusedError(Code.LOT_REQUIRED)
        return self._of(lot)

    def _of(self, lot: str | None) -> Layers:
        queue = self.queues.get(lot)
        if queue is None:
            queue = Layers(self.name, self.policy, None, self.tracked, lot)
            self.queues[lot] = queue
        return queue

    def _sending(self, lot: str | None) -> tuple[Layers, bool]:
        """The lot's queue; one that has never cost anything is lent what goods cost here."""
        queue = self._named(lot)
        lent = queue.qty <= 0 and queue.last is None and self._average() is not None
        if lent:
            queue.last = self._average()
        return queue, lent

    def _gone(self, queue: Layers, qty: int, value: int, *, lent: bool) -> None:
        if lent:
            queue.last = None
        elif queue.qty <= 0 < queue.qty + qty or self.last is None:
            self.last = queue.last
        self.dipped = self.dipped or queue.dipped
        self._follow(-qty, -value)

    def _follow(self, qty: int, value: int) -> None:
        self.qty += qty
        self.value += value

    def _in_order(self) -> list[Layers]:
        return [self.queues[lot] for lot in sorted(self.queues, key=lambda lot: lot or "")]
