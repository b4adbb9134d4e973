"""What costing an item yields: a line for each movement, a result a pool, a balance a store."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from worker.costing.problems import Problem


class ResiduePolicy(StrEnum):
    """Where the last units of rounding go; all three conserve value."""

    CUMULATIVE = "cumulative"
    LAST_ISSUE = "last_issue"
    SEPARATE_LINE = "separate_line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to round. `unit_cost_digits` rounds the price first, as textbooks do; parity only."""

    residue: ResiduePolicy = ResiduePolicy.CUMULATIVE
    unit_cost_digits: int | None = None
    minor_digits: int = 0
    qty_scale: int = 0


class Line(NamedTuple):
    """The cost of one movement, in minor units, never negative; the kind gives the direction.

    `variance` is what a purchase return was worth beyond what left the stock (account 632), and
    `qty_diff` the signed difference a physical count found (None for every other kind).
    """

    movement_id: int
    value: int
    variance: int
    qty_diff: int | None


class Flow(NamedTuple):
    """A quantity with its value."""

    qty: int
    value: int


class PoolResult(NamedTuple):
    """One cost pool over the period; open + in = out + close, in quantity and in value."""

    pool: str
    opening: Flow
    receipt: Flow
    gain: Flow
    sales_return: Flow
    issue: Flow
    usage: Flow
    purchase_return: Flow
    closing: Flow
    rounding: int
    variance: int
    price_num: int
    price_den: int
    pushes: int
    dipped: bool


class StoreBalance(NamedTuple):
    """One store's part of its pool: `averaging` is what the common price moved between stores."""

    store: str
    pool: str
    opening: Flow
    incoming: Flow
    outgoing: Flow
    transfer_in: Flow
    transfer_out: Flow
    closing: Flow
    averaging: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCosts:
    """An item costed whole: every movement has its line, every pool conserves."""

    lines: list[Line]
    pools: list[PoolResult]
    stores: list[StoreBalance]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailure:
    """An item that cannot be costed; nothing of it may be shown as a result."""

    problems: tuple[Problem, ...]
