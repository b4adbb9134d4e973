"""Movements that the peer and we both understand: bought, moved between five shops, sold.

Some fifty an article, as in the large bench. Within a day goods come in before any go out, since
the peer's FIFO takes a day as a whole. Prices are whole units of money with four decimals, as fine
as the peer's own; nothing ever goes below zero.
"""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

STORES = 5
PER_ITEM = 50
RECEIPTS, TRANSFERS = 0.2, 0.15
FIRST_DAY = date(2026, 1, 1)
DAYS = 31
DIGITS = 4  # of prices and values


class Move(NamedTuple):
    """One movement; `price` in ten-thousandths, of receipts only."""

    id: int
    item: int
    kind: str
    store: int
    to_store: int | None
    day: date
    quantity: int
    price: int | None


def peer_movements(count: int, seed: int = 7) -> Iterator[Move]:
    """So many, to the next lower multiple of fifty, in the order of their ids."""
    dice = random.Random(seed)
    made = 0
    for number in range(1, count // PER_ITEM + 1):
        for move in _Item(dice, number).month():
            made += 1
            yield move._replace(id=made)


class _Item:
    """One article and what each shop has of it."""

    def __init__(self, dice: random.Random, number: int) -> None:
        self.dice = dice
        self.number = number
        self.held = [0] * STORES
        self.usual = dice.randint(1_000, 900_000) * 10 ** (DIGITS - 1)

    def month(self) -> Iterator[Move]:
        # The first receipts suffice for all that is sold: nothing ever goes below zero.
        for store in range(STORES):
            yield self._receipt(store, FIRST_DAY, self.dice.randint(90, 140))
        days = Counter(self.dice.randrange(DAYS) for _ in range(PER_ITEM - STORES))
        for passed in sorted(days):
            day = FIRST_DAY + timedelta(passed)
            receipts = sum(self.dice.random() < RECEIPTS for _ in range(days[passed]))
            for _ in range(receipts):
                yield self._receipt(self.dice.randrange(STORES), day, self.dice.randint(20, 90))
            for _ in range(days[passed] - receipts):
                yield self._leaving(day)

    def _receipt(self, store: int, day: date, quantity: int) -> Move:
        self.held[store] += quantity
        price = self.usual + self.dice.randint(-999, 999)
        return Move(0, self.number, "receipt", store, None, day, quantity, price)

    def _leaving(self, day: date) -> Move:
        store = max(range(STORES), key=lambda s: (self.held[s], s))
        quantity = self.dice.randint(1, 9)
        self.held[store] -= quantity
        if self.dice.random() >= TRANSFERS:
            return Move(0, self.number, "issue", store, None, day, quantity, None)
        target = (store + self.dice.randint(1, STORES - 1)) % STORES
        self.held[target] += quantity
        return Move(0, self.number, "transfer", store, target, day, quantity, None)
