"""What a cost pool is while its movements are replayed: a quantity and a value, never a price."""

from abc import ABC, abstractmethod

from worker.costing.exact import NO_PRICE, Price, half_up
from worker.costing.problems import Code
from worker.costing.results import ClosingLayer, Negative, Policy

# What moves from pool to pool: quantity, value, and the movement that once brought it in.
Piece = tuple[int, int, int | None]


class RefusedError(Exception):
    """A movement that cannot be costed; the replay makes a problem of its item from it.

    `causes` are other movements that have their part in it.
    """

    def __init__(self, code: Code, extra: str = "", causes: tuple[int, ...] = ()) -> None:
        super().__init__(code)
        self.code = code
        self.extra = extra
        self.causes = causes


class Pool(ABC):
    """The state of one pool. An outflow of the whole quantity takes the whole value.

    A method that lets goods out raises `RefusedError` (and changes nothing) where they are not
    there, unless `provisional` lets them out at the last known cost: quantity and value then fall
    below zero until a receipt covers them. Every value is in minor units, every quantity scaled.
    """

    __slots__ = ("dipped", "last", "name", "policy", "provisional", "qty", "rounding", "value")

    def __init__(self, name: str, policy: Policy, last: Price | None) -> None:
        self.name = name
        self.policy = policy
        self.provisional = policy.negative is Negative.PROVISIONAL
        self.last = last if last is not None and last.denominator else None
        self.qty = 0
        self.value = 0
        self.rounding = 0
        self.dipped = False

    @abstractmethod
    def receive(self, qty: int, value: int, origin: int | None, lot: str | None) -> int:
        """Take goods in; returns the true-up, which only goods that cover what was owed have."""

    @abstractmethod
    def issue(self, qty: int, lot: str | None, hint: int | None) -> int:
        """Let goods out by the method; returns their value. `hint`: what they may be worth."""

    @abstractmethod
    def draw(self, qty: int, lot: str | None, hint: int | None) -> list[Piece]:
        """Let goods out to stay in the books elsewhere: exact values, by what brought them in."""

    @abstractmethod
    def give_back(
        self, qty: int, cost: int, origin: int | None, lot: str | None, hint: int | None
    ) -> int:
        """Let goods out at `cost`, what `origin` brought in first; returns the value that left."""

    @abstractmethod
    def add_value(self, value: int, lot: str | None) -> None:
        """Spread value without quantity over the goods that are here, or refuse to."""

    @abstractmethod
    def left_of(self, origin: int) -> int:
        """How much of what a movement brought in is still here (0 where nobody can tell)."""

    @abstractmethod
    def add_to(self, origin: int, value: int) -> None:
        """Spread value over what is left of one movement's goods; there are some."""

    @abstractmethod
    def open_with(self, qty: int, value: int, origin: int | None, lot: str | None) -> None:
        """Carry a part over from the previous period, the oldest first; below zero: it is owed."""

    @abstractmethod
    def layers(self) -> list[ClosingLayer]:
        """What is left of each receipt in the order in which it will leave."""

    @abstractmethod
    def counted(self, lot: str | None) -> int | None:
        """The quantity that a count is held against; None: what the store's book says."""

    def price(self, lot: str | None = None) -> Price | None:
        """What a unit costs: the average of what is here, else the last known cost, else None."""
        del lot  # only goods that are told apart have prices of their own
        return Price(self.value, self.qty) if self.qty > 0 else self.last

    def shown(self) -> Price:
        """The price that results show: as `price`; of a pool that owes, what that cost a unit."""
        if self.qty < 0:
            return Price(-self.value, -self.qty)
        return Pool.price(self) or NO_PRICE

    def bear(self, value: int) -> None:
        """Refuse value that no goods can carry, and a reduction of more than they are worth."""
        if value and self.qty <= 0:
            raise RefusedError(Code.ORPHAN_VALUE)
        if self.value + value < 0:
            raise RefusedError(Code.RETURN_EXCEEDS_VALUE)

    def owed_value(self, short: int, qty: int, price: Price | None, hint: int | None) -> int:
        """What goods cost that are not there: at the last known cost, else by the hint."""
        if not self.provisional:
            raise RefusedError(Code.NEGATIVE_STOCK)
        if price is not None:
            return price.of(short)
        if hint is None:
            raise RefusedError(Code.NEGATIVE_STOCK, "no cost is known to let it out at")
        return half_up(hint * short, qty)

    def part(self, value: int, part: int, whole: int) -> int:
        """The value of a part, rounded half up once; by the printed unit cost where asked for."""
        digits = self.policy.unit_cost_digits
        if digits is None:
            return half_up(value * part, whole)
        return min(value, printed(Price(value, whole), digits, self.policy).of(part))


def printed(price: Price, digits: int, policy: Policy) -> Price:
    """The price a textbook would print: major units a base unit, rounded to so many digits."""
    minor, scale = 10**policy.minor_digits, 10**policy.qty_scale
    shown = half_up(price.numerator * scale * 10**digits, price.denominator * minor)
    return Price(shown * minor, scale * 10**digits)
