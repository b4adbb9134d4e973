"""The order in which movements are replayed: what refers to another at the same instant follows it.

Sales come back and goods are made of others within one document, whose rows have one day and one
sequence: the rank of their kinds would put a return before its sale.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from worker.costing.movements import RANK, Movement

Place = tuple[Any, ...]


def replay_order(movements: Iterable[Sequence[Movement]]) -> list[Movement]:
    """All movements of the items in one order; place = that of the origin, then its own."""
    groups = list(movements)
    referring = [m for group in groups for m in group if m.ref is not None or m.sources]
    if not referring:
        return list(groups[0]) if len(groups) == 1 else _sorted(groups, {})
    wanted = {m.ref for m in referring} | {s for m in referring for s in m.sources}
    origins = {m.id: m for group in groups for m in group if m.id in wanted}
    moved = {}
    for movement in referring:
        place = _after(movement, origins)
        if place is not None:
            moved[movement.id] = place
    if not moved and len(groups) == 1:
        return list(groups[0])
    return _sorted(groups, moved)


def _sorted(groups: list[Sequence[Movement]], moved: dict[int, Place]) -> list[Movement]:
    def place(movement: Movement) -> Place:
        own = moved.get(movement.id) if moved else None
        return (movement.day, movement.seq, *(own or _own(movement)))

    return sorted((movement for group in groups for movement in group), key=place)


def _after(movement: Movement, origins: dict[int, Movement]) -> Place | None:
    """Where it stands within its instant; None where nothing of that instant is its origin."""
    chain: Place = _own(movement)
    seen = {movement.id}
    found: Place | None = None
    current: Movement | None = movement
    while current is not None:
        current = _origin(current, origins)
        if current is None or current.id in seen:
            break
        seen.add(current.id)
        chain = found = (*_own(current), *chain)
    return found


def _origin(movement: Movement, origins: dict[int, Movement]) -> Movement | None:
    """The last of what it refers to at its own instant."""
    ids = movement.sources or (() if movement.ref is None else (movement.ref,))
    found = [origins[i] for i in ids if i in origins]
    here = [m for m in found if (m.day, m.seq) == (movement.day, movement.seq)]
    return max(here, key=_own, default=None)


def _own(movement: Movement) -> tuple[int, int]:
    return RANK[movement.kind], movement.id
