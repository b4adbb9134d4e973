"""What moves stock, as the cost engine sees it, and the one order in which it is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from worker.costing.exact import Price


class Kind(StrEnum):
    """Every kind of stock movement; the order of the members is the order within one instant."""

    OPENING = "opening"
    RECEIPT = "receipt"
    PRODUCE = "produce"
    LANDED_COST = "landed_cost"
    ADJUST_IN = "adjust_in"
    SALES_RETURN = "sales_return"
    PURCHASE_RETURN = "purchase_return"
    TRANSFER = "transfer"
    ISSUE = "issue"
    CONSUME = "consume"
    ADJUST_OUT = "adjust_out"
    COUNT = "count"


class Method(StrEnum):
    """How an item is costed; the words of items, policies and worked examples."""

    PERIODIC = "periodic_avg"
    MOVING = "moving_avg"
    FIFO = "fifo"
    SPECIFIC = "specific"


RANK: Mapping[str, int] = {kind: rank for rank, kind in enumerate(Kind)}
RECEIVING = frozenset({Kind.OPENING, Kind.RECEIPT, Kind.PRODUCE, Kind.ADJUST_IN, Kind.SALES_RETURN})
SENDING = frozenset({Kind.ISSUE, Kind.CONSUME, Kind.ADJUST_OUT, Kind.PURCHASE_RETURN})


class Movement(NamedTuple):
    """One stock movement; a tuple, because a period has millions and each crosses a process.

    `qty` is scaled and positive (what was counted, for a count; 0 for a landed cost). `value` is
    in minor units and given only where the world knows it. `ref` names the movement a return or
    a landed cost belongs to, `reverses` the one this row takes back. `day` is any ordered value.
    `lot` is the lot or serial number. `sources` are the consumptions that a production is made of:
    it is worth what they cost, and `value` is then what is added to that. The `value` of an issue
    is a hint for provisional costs, used only where no cost is known.
    """

    id: int
    day: Any
    seq: int
    kind: str
    store: str
    to_store: str | None
    qty: int
    value: int | None
    ref: int | None
    basis: str | None
    reverses: int | None
    lot: str | None = None
    sources: tuple[int, ...] = ()


class Opening(NamedTuple):
    """What the previous period left in one store: quantity and value, never a price."""

    store: str
    qty: int
    value: int


class OpeningLayer(NamedTuple):
    """What is left of one receipt in a pool, as FIFO and specific identification carry it over.

    `origin` is the movement that brought the goods in (None when nobody knows any more). Layers of
    a pool stand in the order in which they leave; with them the openings of its stores only say
    where the goods lie.
    """

    pool: str
    lot: str | None
    qty: int
    value: int
    origin: int | None


class Reference(NamedTuple):
    """A movement outside the stock at hand that it refers to: earlier, or of another item.

    `value` is its cost (an input's own value, or what the active run of its period found), None
    when nobody knows it. `returned` is the quantity that earlier periods already brought back.
    """

    kind: str
    store: str
    qty: int
    value: int | None
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStock:
    """Everything the engine needs to cost one item: all its pools, one period.

    `layers` are there for FIFO and specific identification. `last_prices` has, by pool, the last
    known cost of a pool that opens with no stock, for what `provisional` lets out of it. `settled`
    is, by pool, what of its opening value leaves at once beside all movements, where goods have met
    what was owed of them (`meeting.py`); layers come without it.
    """

    item: str
    method: Method = Method.PERIODIC
    openings: tuple[Opening, ...] = ()
    layers: tuple[OpeningLayer, ...] = ()
    movements: list[Movement]
    references: Mapping[int, Reference] = field(default_factory=dict)
    last_prices: Mapping[str, Price] = field(default_factory=dict)
    settled: Mapping[str, int] = field(default_factory=dict)


def in_order(movements: Iterable[Movement]) -> list[Movement]:
    """The deterministic order: day, sequence, rank of the kind, id; never a wall clock."""
    return sorted(movements, key=_place)


def effects(movement: Movement) -> tuple[tuple[str, int], ...]:
    """Signed quantity by store; a reversal has the opposite effect, a count none of its own."""
    sign = -1 if movement.reverses is not None else 1
    kind, quantity = movement.kind, sign * movement.qty
    if kind == Kind.TRANSFER:
        assert movement.to_store is not None, "a transfer names where it goes"
        return ((movement.store, -quantity), (movement.to_store, quantity))
    if kind in RECEIVING:
        return ((movement.store, quantity),)
    if kind in SENDING:
        return ((movement.store, -quantity),)
    return ()


def _place(movement: Movement) -> tuple[Any, int, int, int]:
    return movement.day, movement.seq, RANK[movement.kind], movement.id
