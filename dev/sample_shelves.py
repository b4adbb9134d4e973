"""The shelves of the sample shops: which article lies where, how much of it and of which lots."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from dev.sample_catalogue import Item, Store

OPENING_SHARE = 8  # at most one opening in so many movements
Lot = str | None


@dataclass(slots=True)
class Shelf:
    """One article in one shop: what is there now, in scaled units, by lots in order of arrival.

    Goods that nobody tells apart are one lot named None.
    """

    item: Item
    store: Store
    on_hand: int = 0
    lots: dict[Lot, int] = field(default_factory=dict)

    @property
    def oldest(self) -> Lot:
        """The lot that has been here longest; None on an empty shelf."""
        return next(iter(self.lots), None)

    def put(self, lot: Lot, quantity: int) -> None:
        """Add to a lot; a negative quantity takes away, and never more than is there."""
        self.on_hand += quantity
        left = self.lots.get(lot, 0) + quantity
        if left:
            self.lots[lot] = left
        else:
            self.lots.pop(lot, None)

    def take(self, wanted: int) -> tuple[Lot, int]:
        """Take up to so much of the oldest lot; what was taken. The shelf is not empty."""
        lot = self.oldest
        taken = min(wanted, self.lots[lot])
        self.on_hand -= taken
        if taken == self.lots[lot]:
            del self.lots[lot]
        else:
            self.lots[lot] -= taken
        return lot, taken


def stocked(
    dice: random.Random, items: Sequence[Item], stores: Sequence[Store], movements: int
) -> list[Shelf]:
    """Which shop carries which article, the best sellers of each shop first."""
    shelves = []
    for store in stores:
        carried = [item for item in items if item.brand in {store.brand, None}]
        shelves += [Shelf(item, store) for item in carried if dice.random() < 0.7]
    most = max(len(stores), movements // OPENING_SHARE)
    if len(shelves) > most:
        shelves = dice.sample(shelves, most)
    dice.shuffle(shelves)
    return shelves
