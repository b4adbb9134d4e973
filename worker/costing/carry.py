"""What a period leaves and the next one opens with: balances, layers, last prices, their digest."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple

from worker.costing.exact import Price
from worker.costing.movements import Method, Opening, OpeningLayer
from worker.costing.units import Layout, State, Stock, is_shared

LAYERED = frozenset({Method.FIFO, Method.SPECIFIC})


class Carried(NamedTuple):
    """What a stock opens with under today's pools; `received` has the day of a layer's origin."""

    openings: tuple[Opening, ...]
    layers: tuple[OpeningLayer, ...]
    last_prices: Mapping[str, Price]
    received: Mapping[int, Any]


# Lot, quantity, value, the movement that brought the goods in, and its day.
_Layer = tuple[str | None, int, int, int | None, Any]


@dataclass(slots=True)
class _OldPool:
    layers: list[_Layer] = field(default_factory=list)
    holding: list[Opening] = field(default_factory=list)


def carried(stock: Stock, layout: Layout) -> Carried:
    """The opening of a stock, of which no state is missing.

    Pools that were merged queue their layers by day and origin. Where a pool was split nobody
    knows which layer lies in which store: each store opens with one layer, its balance.
    """
    states = [
        (brand, state or State()) for brand, state in zip(stock.brands, stock.states, strict=True)
    ]
    openings = tuple(
        Opening(store, qty, value)
        for _, state in states
        for store, _, qty, value in state.balances
        if qty or value
    )
    received: dict[int, Any] = {}
    layers: list[OpeningLayer] = []
    if stock.method in LAYERED and openings:
        for pool, parts in sorted(_queues(_old_pools(states), layout).items()):
            for lot, qty, value, origin, day in _one_queue(parts):
                if qty:
                    layers.append(OpeningLayer(pool, lot, qty, value, origin))
                if origin is not None and day is not None:
                    received[origin] = day
    prices = _last_prices(states, layout) if any(state.prices for _, state in states) else {}
    return Carried(openings, tuple(layers), prices, received)


def _old_pools(states: Sequence[tuple[str, State]]) -> dict[tuple[str, str], _OldPool]:
    pools: dict[tuple[str, str], _OldPool] = {}
    for brand, state in states:
        seen: set[tuple[str, str]] = set()
        for store, pool, qty, value in state.balances:
            key = ("" if is_shared(pool) else brand, pool)
            old = pools.setdefault(key, _OldPool())
            if qty:
                old.holding.append(Opening(store, qty, value))
            # Each brand of a shared pool has read all of its layers.
            if key not in seen and not old.layers:
                old.layers.extend(layer[1:] for layer in state.layers if layer[0] == pool)
            seen.add(key)
    return pools


def _queues(
    pools: Mapping[tuple[str, str], _OldPool], layout: Layout
) -> dict[str, list[list[_Layer]]]:
    queues: dict[str, list[list[_Layer]]] = {}
    for (_, pool), old in sorted(pools.items()):
        targets = sorted({layout.pool_of[opening.store] for opening in old.holding})
        stays_whole = len(targets) == 1 and is_shared(pool) <= is_shared(targets[0])
        if old.layers and stays_whole:
            queues.setdefault(targets[0], []).append(old.layers)
            continue
        for target in targets:
            lie = [o for o in old.holding if layout.pool_of[o.store] == target]
            if not old.layers:  # costed by another method so far: all of it is one layer
                lie = [Opening("", sum(o.qty for o in lie), sum(o.value for o in lie))]
            left: list[_Layer] = [(None, o.qty, o.value, None, None) for o in lie]
            queues.setdefault(target, []).append(_netted(left))
    return queues


def _one_queue(parts: list[list[_Layer]]) -> Iterable[_Layer]:
    if len(parts) == 1:
        return parts[0]
    return _netted(sorted((layer for part in parts for layer in part), key=_age))


def _netted(layers: list[_Layer]) -> list[_Layer]:
    """What is owed in one pool or store meets what lies in another: of that lot the net is left.

    A pool opens with what its stores sum up to: nothing is covered, and no cost made up, by moving.
    """
    owed = {lot for lot, qty, *_ in layers if qty < 0}
    if not owed or len(layers) == 1:
        return layers
    nets = [
        _net(lot, [layer for layer in layers if layer[0] == lot]) for lot in sorted(owed, key=str)
    ]
    if any(not net[1] and net[2] for net in nets):  # a value without goods is of all that is here
        return [_net(None, layers)]
    return nets + [layer for layer in layers if layer[0] not in owed]


def _net(lot: str | None, layers: list[_Layer]) -> _Layer:
    qty, value = sum(layer[1] for layer in layers), sum(layer[2] for layer in layers)
    return (lot, qty, value, None, None)


def _age(layer: _Layer) -> tuple[bool, Any, int]:
    origin, day = layer[3], layer[4]
    return (day is not None, day if day is not None else 0, origin or 0)


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
