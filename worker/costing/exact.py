"""Exact arithmetic of the cost engine: integers in, integers out, each rounding named."""

from typing import NamedTuple

# What a bigint column can hold; a pool that grows beyond it is an error of its item.
LARGEST = 2**63 - 1


def half_up(numerator: int, denominator: int) -> int:
    """The quotient rounded to the nearest integer, a half going up; the denominator is positive."""
    assert denominator > 0, "a quotient needs a positive denominator"
    return (2 * numerator + denominator) // (2 * denominator)


def half_down(numerator: int, denominator: int) -> int:
    """The quotient rounded as by `half_up` but a half going down: the two together meet a total."""
    assert denominator > 0, "a quotient needs a positive denominator"
    return -((denominator - 2 * numerator) // (2 * denominator))


class Price(NamedTuple):
    """A unit cost that is never rounded: minor units over scaled quantity.

    A denominator of 0 means that nothing was there to have a price; everything is then worth 0.
    """

    numerator: int
    denominator: int

    def of(self, quantity: int) -> int:
        """The value of a quantity in minor units, rounded once, half up."""
        return half_up(self.numerator * quantity, self.denominator) if self.denominator else 0

    def each(self, quantities: list[int]) -> list[int]:
        """Values by cumulative rounding: each within one unit of exact, the sum rounded once."""
        numerator, denominator = self
        if denominator == 0:
            return [0] * len(quantities)
        values = []
        before = moved = 0
        twice, half = 2 * numerator, 2 * denominator
        for quantity in quantities:
            moved += quantity
            after = (twice * moved + denominator) // half
            values.append(after - before)
            before = after
        return values


NO_PRICE = Price(0, 0)


def share(value: int, part: int, before: int, whole: int) -> int:
    """The part's share of a value when `before` of the whole is already given away.

    Shares telescope: all parts of the whole together take the value to the last unit.
    """
    return half_up(value * (before + part), whole) - half_up(value * before, whole)
