"""Specific identification (đích danh): goods are told apart by lot or serial number.

- every movement of goods names its lot (a return: that of what it refers to)
- each lot of a pool is a queue of its own, costed as in `fifo.py`
"""

from collections.abc import Iterable

from worker.costing.exact import Price, share
from worker.costing.fifo import Layers
from worker.costing.pool_state import Piece, Pool, RefusedError
from worker.costing.problems import Code
from worker.costing.results import ClosingLayer, Policy


class Lots(Pool):
    """The lots of one pool, each with its layers; the pool's quantity and value are their sums."""

    __slots__ = ("queues", "tracked")

    def __init__(
        self, name: str, policy: Policy, last: Price | None, tracked: Iterable[int]
    ) -> None:
        super().__init__(name, policy, last)
        self.tracked = tuple(tracked)
        self.queues: dict[str | None, Layers] = {}

    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Into the lot's queue."""
        queue = self._named(lot)
        true_up = queue.receive(qty, value, origin, lot)
        self._follow(qty, value - true_up)
        return true_up

    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Out of the lot's queue, whatever else is here."""
        out = self._sending(lot).issue(qty, lot, hint)
        self._gone(qty, out, lot)
        return out

    def draw(self, qty: int, lot: str | None, hint: int | None) -> list[Piece]:
        """Out of the lot's queue, layer by layer."""
        pieces = self._sending(lot).draw(qty, lot, hint)
        self._gone(qty, sum(piece[1] for piece in pieces), lot)
        return pieces

    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Out of the lot's queue, the receipt's own layer first."""
        out = self._sending(lot).give_back(qty, cost, origin, lot, hint)
        self._gone(qty, out, lot)
        return out

    def add_value(self, value: int) -> None:
        """Over the lots by quantity; cheaper: by value."""
        self._spread(value, [q for q in self._in_order() if q.qty > 0], by_value=value < 0)

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
        self._follow(qty, value)

    def layers(self) -> list[ClosingLayer]:
        """Lot by lot in the order of their names."""
        return [layer for queue in self._in_order() for layer in queue.layers()]

    def counted(self, lot: str | None) -> int | None:
        """A lot is counted for its pool: it is one thing, wherever in the pool it lies."""
        return self._named(lot).qty

    def price(self, lot: str | None = None) -> Price | None:
        """What the lot costs, else the average of the pool, else the last known cost."""
        queue = self.queues.get(lot)
        own = queue.price() if queue is not None else None
        return own if own is not None else super().price()

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

    def _sending(self, lot: str | None) -> Layers:
        queue = self._named(lot)
        if queue.qty <= 0 and queue.last is None:
            queue.last = super().price()
        return queue

    def _gone(self, qty: int, value: int, lot: str | None) -> None:
        queue = self.queues[lot]
        self.dipped = self.dipped or queue.dipped
        if self.qty > 0:
            self.last = Price(self.value, self.qty)
        self._follow(-qty, -value)

    def _follow(self, qty: int, value: int) -> None:
        self.qty += qty
        self.value += value

    def _in_order(self) -> list[Layers]:
        return [self.queues[lot] for lot in sorted(self.queues, key=lambda lot: lot or "")]

    def _spread(self, value: int, queues: list[Layers], *, by_value: bool) -> None:
        weights = [queue.value if by_value else queue.qty for queue in queues]
        before, whole = 0, sum(weights)
        for queue, weight in zip(queues, weights, strict=True):
            queue.add_value(share(value, weight, before, whole) if whole else 0)
            before += weight
        self.value += value
