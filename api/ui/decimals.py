"""Decimals as the api writes them, compared without losing a digit."""

from decimal import Decimal


def minus(now: str | None, before: str | None) -> str | None:
    """The difference of two decimals; None where one is not known."""
    return None if now is None or before is None else str(Decimal(now) - Decimal(before))
