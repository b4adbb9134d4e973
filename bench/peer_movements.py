"""Movements that the peer and we both understand: bought, moved between five shops, sold.

Some fifty an article, as in the large bench. Within a day goods come in before any go out, since
the peer's FIFO takes a day as a whole. Prices are whole units of money with four decimals, as fine
as the peer's own; nothing ever goes below zero.
"""

import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

STORES = 5
PER_ITEM = 50
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
    """Exactly so many, in the order of their ids; days ascend within each item."""
    dice = random.Random(seed)
    made = 0
    for item in range(1, count // PER_ITEM + 1):
        held = [0] * STORES
        usual = dice.randint(1_000, 900_000) * 10 ** (DIGITS - 1)
        for move in _of_item(dice, item, held, usual):
            made += 1
            yield move._replace(id=made)


def _of_item(dice: random.Random, item: int, held: list[int], usual: int) -> Iterator[Move]:
    days = sorted(dice.randrange(DAYS) for _ in range(PER_ITEM - STORES))
    for store in range(STORES):
        yield _receipt(dice, item, held, store, FIRST_DAY, usual)
    for passed in sorted(set(days)):
        day = FIRST_DAY + timedelta(passed)
        wanted = days.count(passed)
        receipts = sum(dice.random() < 0.2 for _ in range(wanted))
        for _ in range(receipts):
            yield _receipt(dice, item, held, dice.randrange(STORES), day, usual)
        for _ in range(wanted - receipts):
            yield _leaving(dice, item, held, day) or _transfer_of_all(item, held, day)


def _receipt(
    dice: random.Random, item: int, held: list[int], store: int, day: date, usual: int
) -> Move:
    quantity = dice.randint(20, 90)
    held[store] += quantity
    return Move(0, item, "receipt", store, None, day, quantity, usual + dice.randint(-999, 999))


def _leaving(dice: random.Random, item: int, held: list[int], day: date) -> Move | None:
    store = max(range(STORES), key=lambda s: (held[s], s))
    quantity = min(held[store], dice.randint(1, 9))
    if quantity < held[store] and dice.random() < 0.15:
        target = (store + dice.randint(1, STORES - 1)) % STORES
        held[store] -= quantity
        held[target] += quantity
        return Move(0, item, "transfer", store, target, day, quantity, None)
    if quantity == 0:
        return None
    held[store] -= quantity
    return Move(0, item, "issue", store, None, day, quantity, None)


def _transfer_of_all(item: int, held: list[int], day: date) -> Move:
    raise AssertionError(f"item {item} is sold out on {day}: {held}")
