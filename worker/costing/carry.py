"""What a period leaves and the next one opens with: balances, layers, last prices, their digest."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple

from worker.costing.exact import Price
from worker.costing.meeting import Layer, meet
from worker.costing.movements import Method, Opening, OpeningLayer
from worker.costing.units import Layout, State, Stock, is_shared

LAYERED = frozenset({Method.FIFO, Method.SPECIFIC})


class Carried(NamedTuple):
    """What a stock opens with under today's pools; `received` has the day of a layer's origin.

    `settled` is, by pool, the value that leaves at once beside all movements (see `meeting.py`).
    """

    openings: tuple[Opening, ...]
    layers: tuple[OpeningLayer, ...]
    last_prices: Mapping[str, Price]
    received: Mapping[int, Any]
    settled: Mapping[str, int]


@dataclass(slots=True)
class _OldPool:
    layers: list[Layer] = field(default_factory=list)
    holding: list[Opening] = field(default_factory=list)

    @property
    def owes(self) -> bool:
        """Whether any of its queues does: its stores may then sum up to nothing, or to less."""
        return any(layer.qty < 0 for layer in self.layers)


def carried(stock: Stock, layout: Layout) -> Carried:
    """The opening of a stock, of which no state is missing.

    Pools that were merged queue their layers by day and origin. Where a pool was split nobody
    knows which layer lies in which store: each store opens with one layer, its balance.
    """
    states = [
        (brand, state or State()) for brand, state in zip(stock.brands, stock.states, strict=True)
    ]
    pools = _old_pools(states)
    openings = tuple(opening for old in pools.values() for opening in old.holding)
    received: dict[int, Any] = {}
    layers: list[OpeningLayer] = []
    settled: dict[str, int] = {}
    if openings and (stock.method in LAYERED or not all(map(_is_plain, openings))):
        for pool, queue in sorted(_queues(pools, layout).items()):
            left, rest = meet(queue, by_lot=stock.method == Method.SPECIFIC)
            if rest:
                settled[pool] = rest
            layers.extend(OpeningLayer(pool, *layer[:4]) for layer in left)
            received |= {o: day for *_, o, day in left if o is not None and day is not None}
    if stock.method not in LAYERED:
        layers = []
    prices = _last_prices(states, layout) if any(state.prices for _, state in states) else {}
    return Carried(openings, tuple(layers), prices, received, settled)


def _is_plain(opening: Opening) -> bool:
    return opening.qty > 0 and opening.value >= 0


def _old_pools(states: Sequence[tuple[str, State]]) -> dict[tuple[str, str], _OldPool]:
    pools: dict[tuple[str, str], _OldPool] = {}
    for brand, state in states:
        seen: set[tuple[str, str]] = set()
        for store, pool, qty, value in state.balances:
            key = ("" if is_shared(pool) else brand, pool)
            old = pools.setdefault(key, _OldPool())
            # Each brand of a shared pool has read all of its layers.
            if key not in seen and not old.layers:
                old.layers.extend(Layer(*row[1:]) for row in state.layers if row[0] == pool)
            seen.add(key)
            if qty or value or old.owes:
                old.holding.append(Opening(store, qty, value))
    return pools


def _queues(pools: Mapping[tuple[str, str], _OldPool], layout: Layout) -> dict[str, list[Layer]]:
    """By pool of today all that lies or is owed there, in the order in which it will leave."""
    parts: dict[str, list[list[Layer]]] = {}
    for (_, pool), old in sorted(pools.items()):
        targets = sorted({layout.pool_of[opening.store] for opening in old.holding})
        stays_whole = len(targets) == 1 and is_shared(pool) <= is_shared(targets[0])
        if old.layers and stays_whole:
            parts.setdefault(targets[0], []).append(old.layers)
            continue
        for target in targets:
            lie = [o for o in old.holding if layout.pool_of[o.store] == target]
            if not old.layers:  # costed by another method so far: all of it is one layer
                lie = [Opening("", sum(o.qty for o in lie), sum(o.value for o in lie))]
            left = [Layer(None, o.qty, o.value, None, None) for o in lie]
            parts.setdefault(target, []).append(left)
    return {target: _one_queue(found) for target, found in parts.items()}


def _one_queue(parts: list[list[Layer]]) -> list[Layer]:
    if len(parts) == 1:
        return parts[0]
    return sorted((layer for part in parts for layer in part), key=_age)


def _age(layer: Layer) -> tuple[bool, Any, int]:
    return (
        layer.day is not None,
        layer.day if layer.day is not None else 0,
        layer.origin or 0,
    )


def _last_prices(states: Sequence[tuple[str, State]], layout: Layout) -> dict[str, Price]:
    """By today's pools; one that is new takes the price of the pool its stores were in."""
    own: dict[str, Price] = {}
    heirs: dict[str, Price] = {}
    for brand, state in states:
        for pool, numerator, denominator in state.prices:
            price = Price(numerator, denominator)
            own.setdefault(pool if is_shared(pool) else f"{brand}/{pool}", price)
            for store, lay_in, _, _ in state.balances:
                if lay_in == pool:
                    heirs.setdefault(layout.pool_of[store], price)
    return {**heirs, **own}


def digest_of(state: State | None) -> bytes:
    """What the next period depends on, in 32 bytes; None is a state of its own: not costed."""
    if state is None:
        return FAILED
    if not (state.balances or state.layers or state.prices):
        return EMPTY
    balances = sorted(row for row in state.balances if row[2] or row[3])
    prices = sorted((pool, *_reduced(num, den)) for pool, num, den in state.prices)
    layers = sorted(state.layers, key=lambda layer: layer[0])  # stable: in the order they leave
    return _digest(balances, layers, prices)


def _digest(*parts: list[Any]) -> bytes:
    """Canonical: repr of strings, integers, days and None is the same on every machine."""
    return hashlib.sha256(repr(parts).encode()).digest()


def _reduced(numerator: int, denominator: int) -> tuple[int, int]:
    common = gcd(numerator, denominator) or 1
    return numerator // common, denominator // common


FAILED = hashlib.sha256(b"not costed").digest()
EMPTY = _digest([], [], [])
