"""The moving average (bình quân gia quyền sau mỗi lần nhập): the price after each receipt.

- receipt (q, v): Q += q, V += v
- outflow of q: x = V if q == Q else R(V·q / Q); Q -= q, V -= x
- purchase return: x = min(cost, V), and V if q == Q; x - cost is variance
- owed (provisional; Q < 0, V < 0): out at the last known cost; a receipt of q covers
  k = min(q, -Q) of it first: true-up = R(v·k / q) - R(V·k / Q)
"""

# ruff: noqa: ARG002 - pools of every method are asked in one way

from worker.costing.exact import Price, half_up
from worker.costing.pool_state import Piece, Pool, printed
from worker.costing.results import ClosingLayer, Policy


class MovingAverage(Pool):
    """A pool whose every outflow leaves at the average of that moment."""

    __slots__ = ()

    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Join the average; what is owed is covered first."""
        if self.qty < 0:
            return self._settle(qty, value)
        self.qty += qty
        self.value += value
        return 0

    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Out at the average; the last unit takes the rest of the value."""
        have, value = self.qty, self.value
        if qty < have:
            out = (2 * value * qty + have) // (2 * have)
            self.qty = have - qty
            self.value = value - out
            return out
        if qty > have:
            return self._owe(qty, hint)
        self.last = Price(value, qty)
        self.qty = self.value = 0
        return value

    def draw(self, qty: int, lot: str | None, hint: int | None) -> list[Piece]:
        """Out at the average; where it came from is not known."""
        return [(qty, MovingAverage.issue(self, qty, lot, hint), None)]

    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Out at the cost as far as the value goes, at the whole value with the last unit."""
        if qty >= self.qty:
            return MovingAverage.issue(self, qty, lot, hint)
        out = min(cost, self.value)
        self.qty -= qty
        self.value -= out
        return out

    def add_value(self, value: int, lot: str | None) -> None:
        """Dearer or cheaper from now on."""
        self.bear(value)
        self.value += value

    def left_of(self, origin: int) -> int:
        """Nobody knows which goods are left: the late cost of a receipt asks for the quantity."""
        return 0

    def add_to(self, origin: int, value: int) -> None:
        """As `add_value`: goods are all alike."""
        self.add_value(value, None)

    def open_with(self, qty: int, value: int, origin: int | None, lot: str | None) -> None:
        """Only the sum of the openings matters."""
        self.qty += qty
        self.value += value

    def layers(self) -> list[ClosingLayer]:
        """None: the average knows no layers."""
        return []

    def counted(self, lot: str | None) -> int | None:
        """A count is held against the store's book."""
        return None

    def _owe(self, qty: int, hint: int | None) -> int:
        price = self.price()
        here, worth = max(self.qty, 0), self.value if self.qty > 0 else 0
        out = worth + self.owed_value(qty - here, qty, price, hint)
        self.last = price if price is not None else Price(hint or 0, qty)
        self.qty -= qty
        self.value -= out
        self.dipped = True
        return out

    def _settle(self, qty: int, value: int) -> int:
        owed, worth = -self.qty, -self.value
        covered = min(qty, owed)
        cost = half_up(value * covered, qty)
        released = half_up(worth * covered, owed)
        self.qty += qty
        self.value += released + value - cost
        self.last = Price(value, qty)
        return cost - released


class PrintedAverage(MovingAverage):
    """Sells at the price that a textbook prints; for parity with such examples only.

    The price is printed when goods come in, and holds for all that goes out until the next do.
    """

    __slots__ = ("shelf",)

    def __init__(self, name: str, policy: Policy, last: Price | None) -> None:
        super().__init__(name, policy, last)
        self.shelf: Price | None = None

    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Join the average, which is printed anew."""
        self.shelf = None
        return super().receive(qty, value, origin, lot)

    def add_value(self, value: int, lot: str | None) -> None:
        """Dearer or cheaper from now on: printed anew."""
        self.shelf = None
        super().add_value(value, lot)

    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Out at the cost, which leaves another average: printed anew."""
        self.shelf = None
        return super().give_back(qty, cost, origin, lot, hint)

    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Out at the rounded price; what an empty pool has left goes to a line beside."""
        digits = self.policy.unit_cost_digits
        if digits is None or not 0 < qty <= self.qty:
            return super().issue(qty, lot, hint)
        price = self.shelf or printed(Price(self.value, self.qty), digits, self.policy)
        self.shelf = self.last = price
        drained = qty == self.qty
        out = price.of(qty) if drained else min(price.of(qty), self.value)
        self.qty -= qty
        self.value -= out
        if drained:
            self.rounding += self.value
            self.value = 0
        return out
