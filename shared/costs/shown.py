"""Exact numbers as people read them: scaled integers as decimals, a price as a quotient.

A unit price is never rounded where it is kept: it is a quotient of integers, and what is shown of
it is rounded half up, once, to as many digits as somebody asks for.
"""

from collections.abc import Mapping
from math import gcd
from typing import Any

FEWEST_DIGITS, MOST_DIGITS = 2, 6


def scaled(number: int, digits: int) -> str:
    """An integer of units of 10^-digits as a decimal: 12345 of 2 digits is "123.45"."""
    if digits == 0:
        return str(number)
    said = str(abs(number)).zfill(digits + 1)
    return f"{'-' if number < 0 else ''}{said[:-digits]}.{said[-digits:]}"


def unit_price(num: int, den: int, *, qty_scale: int, minor_digits: int) -> tuple[int, int] | None:
    """Currency a base unit, in lowest terms, of minor units a scaled unit; None without quantity.

    The denominator is positive.
    """
    if den == 0:
        return None
    above, below = num * 10**qty_scale, den * 10**minor_digits
    if below < 0:
        above, below = -above, -below
    shared = gcd(above, below)
    return above // shared, below // shared


def half_up(num: int, den: int, digits: int) -> str:
    """The quotient (den > 0) as a decimal with so many digits, rounded half up."""
    return scaled((2 * num * 10**digits + den) // (2 * den), digits)


def price_view(
    num: int, den: int, *, qty_scale: int, minor_digits: int, digits: int
) -> Mapping[str, Any] | None:
    """As the api shows a price: the exact quotient, and what it is to so many digits."""
    price = unit_price(num, den, qty_scale=qty_scale, minor_digits=minor_digits)
    if price is None:
        return None
    above, below = price
    return {"num": str(above), "den": str(below), "shown": half_up(above, below, digits)}
