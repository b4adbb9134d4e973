"""What costing an item yields: a line for each movement, a result a pool, a balance a store."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from worker.costing.problems import Problem


class ResiduePolicy(StrEnum):
    """Where the last units of rounding go; all three conserve value."""

    CUMULATIVE = "cumulative"
    LAST_ISSUE = "last_issue"
    SEPARATE_LINE = "separate_line"


class Negative(StrEnum):
    """What happens to goods that go out before any came in."""

    FORBID = "forbid"  # the item fails, naming the first movement that goes short
    PROVISIONAL = "provisional"  # out at the last known cost; who covers it settles the difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to round. `unit_cost_digits` rounds the price first, as textbooks do; parity only."""

    residue: ResiduePolicy = ResiduePolicy.CUMULATIVE
    negative: Negative = Negative.FORBID
    unit_cost_digits: int | None = None
    minor_digits: int = 0
    qty_scale: int = 0


class Line(NamedTuple):
    """The cost of one movement, in minor units; the kind gives the direction.

    Negative only for a price reduction, for what `provisional` let out, and for a count that
    changes value against the direction of its quantity. `variance` is what never went through the
    stock, a debit of 632: of a late landed cost the part of the goods that are gone; of a purchase
    return what left beyond its cost (below zero, a credit: the cost that was not there to leave).
    `qty_diff` is the signed difference a physical count found (None for every other kind).
    `true_up` is what a receipt that covers negative stock costs beyond what went out provisionally
    (account 632); it leaves the pool beside the lines.
    """

    movement_id: int
    value: int
    variance: int
    qty_diff: int | None
    true_up: int = 0


class Flow(NamedTuple):
    """A quantity with its value."""

    qty: int
    value: int


class PoolResult(NamedTuple):
    """One cost pool over the period; open + in = out + close, in quantity and in value.

    opening + receipt + gain + sales_return (and what other pools sent) = issue + usage +
    purchase_return (and what went to other pools) + closing; in value `rounding` (of no movement)
    and `true_up` go out, too. The price is an exact quotient: the period's average, else closing
    value and quantity (or the last known cost where nothing is left). `scc_size` counts the pools
    that its price was solved with (1: none but itself), `pushes` how far residues moved a line.
    `owed` is what went out before it came in, as far as nothing has covered it: closing + owed is
    what is really there. A pool that holds one lot and owes another closes with a sum of any sign.
    """

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
    true_up: int = 0
    scc_size: int = 1
    transfer_in: Flow = Flow(0, 0)
    transfer_out: Flow = Flow(0, 0)
    owed: Flow = Flow(0, 0)


class StoreBalance(NamedTuple):
    """One store's part of its pool: `averaging` is what the common price moved between stores.

    The value of `outgoing` holds the true-ups of what the store received.
    """

    store: str
    pool: str
    opening: Flow
    incoming: Flow
    outgoing: Flow
    transfer_in: Flow
    transfer_out: Flow
    closing: Flow
    averaging: int


class ClosingLayer(NamedTuple):
    """What is left of one receipt at the end, in the order in which it will leave its pool."""

    pool: str
    lot: str | None
    qty: int
    value: int
    origin: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCosts:
    """An item costed whole: every movement has its line, every pool conserves.

    `layers` of a pool (FIFO and specific) add up to its closing quantity and value.
    """

    lines: list[Line]
    pools: list[PoolResult]
    stores: list[StoreBalance]
    layers: list[ClosingLayer] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailure:
    """An item that cannot be costed; nothing of it may be shown as a result."""

    problems: tuple[Problem, ...]
