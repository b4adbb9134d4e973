"""Where goods meet what is owed of them: pools were put together, or lots are told apart no more.

A queue opens with the sum (Q, V) of what it is put together from: nothing is covered, and no cost
made up, by moving. But goods cannot be worth less than nothing, nor a debt, nor nothing something.
Where the sum would be, what there is more of keeps the unit cost that it had:

- goods (q, v) and a debt of less than q: Q of them are left, worth R(v·Q / q)
- a debt of more than there are goods: as much of it is left, at what that went out at
- of both the same: nothing is left, worth nothing

and the rest of V leaves the stock beside all movements (`rounding`, 632): it is what the goods
that cover the debt cost beyond what had gone out for them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from worker.costing.exact import half_up


class Layer(NamedTuple):
    """What is left of one receipt, or (below zero) of what went out before any; with its day."""

    lot: str | None
    qty: int
    value: int
    origin: int | None
    day: Any


def meet(layers: list[Layer], *, by_lot: bool) -> tuple[list[Layer], int]:
    """What is left of a pool's layers, each lot apart or all as one; and the value that leaves.

    Layers stay what they are unless goods meet a debt; they keep their order. Together they are
    worth what they were, less the value that leaves.
    """
    if all(_is_sound(layer) and layer.qty > 0 for layer in layers):
        return layers, 0
    lots: dict[str | None, list[Layer]] = {}
    for layer in layers:
        lots.setdefault(layer.lot if by_lot else None, []).append(layer)
    met = {lot: _met(lot, lots[lot]) for lot in sorted(lots, key=lambda lot: lot or "")}
    before = sum(layer.value for layer in layers)
    left = [layer for lot in met for layer in met[lot] if layer.qty < 0]
    left += [layer for lot in met for layer in met[lot] if layer.qty > 0]
    return left, before - sum(layer.value for layer in left)


def _met(lot: str | None, layers: Sequence[Layer]) -> Sequence[Layer]:
    signs = {layer.qty > 0 for layer in layers}
    if len(signs) == 1 and all(map(_is_sound, layers)):
        return layers
    quantity, value = sum(layer.qty for layer in layers), sum(layer.value for layer in layers)
    whole = Layer(lot, quantity, value, None, None)
    if not _is_sound(whole):
        whole = whole._replace(value=_kept(whole.qty, layers))
    return [whole]


def _kept(left: int, layers: Sequence[Layer]) -> int:
    """What is left is worth what such goods were worth, or such a debt."""
    same = [layer for layer in layers if layer.qty * left > 0]
    quantity, value = sum(layer.qty for layer in same), sum(layer.value for layer in same)
    if left == 0 or quantity * value <= 0:
        return 0
    worth = half_up(abs(value * left), abs(quantity))
    return worth if left > 0 else -worth


def _is_sound(layer: Layer) -> bool:
    """Goods are worth no less than nothing, a debt no more, and nothing nothing."""
    if layer.qty == 0:
        return layer.value == 0
    return layer.value >= 0 if layer.qty > 0 else layer.value <= 0
