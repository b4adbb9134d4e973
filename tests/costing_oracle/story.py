"""What happened to an item, whatever the method: who cancels whom, what a count found, how far a
return may go. Domain rules 1.4, 1.5 and 1.10.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor

from worker.costing.movements import ItemStock, Movement
from worker.costing.problems import Code

# In the order in which they are read within one instant.
KINDS = [
    "opening",
    "receipt",
    "produce",
    "landed_cost",
    "adjust_in",
    "sales_return",
    "purchase_return",
    "transfer",
    "issue",
    "consume",
    "adjust_out",
    "count",
]
COMES = {"opening", "receipt", "produce", "adjust_in", "sales_return"}
GOES = {"issue", "consume", "adjust_out", "purchase_return"}

Place = tuple[object, ...]


class RefusedError(Exception):
    """The item cannot be costed: a code (None: whichever), and a movement that it must name."""

    def __init__(self, code: Code | None, movement: int | None = None) -> None:
        super().__init__(code, movement)
        self.code, self.movement = code, movement


def rounded(value: Fraction | int) -> int:
    """To the nearest unit, a half going up."""
    return floor(Fraction(value) + Fraction(1, 2))


def part(value: int, of: int, before: int, whole: int) -> int:
    """What `of` units of a whole are worth when `before` of them are gone: it telescopes."""
    return rounded(Fraction(value * (before + of), whole)) - rounded(
        Fraction(value * before, whole)
    )


def signed(movement: Movement) -> list[tuple[str, int]]:
    """What it does to the quantity of each store; a count says that itself."""
    sign = 1 if movement.reverses is None else -1
    if movement.kind == "transfer":
        assert movement.to_store is not None
        return [(movement.store, -sign * movement.qty), (movement.to_store, sign * movement.qty)]
    if movement.kind in COMES:
        return [(movement.store, sign * movement.qty)]
    if movement.kind in GOES:
        return [(movement.store, -sign * movement.qty)]
    return []


def cancelled(stock: ItemStock) -> set[int]:
    """Both rows of every reversal within the period."""
    here = {m.id: m for m in stock.movements}
    gone: set[int] = set()
    for row in stock.movements:
        if row.reverses is None:
            continue
        origin = here.get(row.reverses) or stock.references.get(row.reverses)
        if origin is None or (origin.kind, origin.store, origin.qty) != (
            row.kind,
            row.store,
            row.qty,
        ):
            raise RefusedError(Code.REVERSAL_MISMATCH, row.id)
        if row.reverses in here:
            gone |= {row.id, row.reverses}
    return gone


def places(movements: Iterable[Movement]) -> dict[int, Place]:
    """Where each movement stands: date, sequence, rank of its kind, id; what refers to a movement
    of the same instant stands behind it.
    """
    known = {m.id: m for m in movements}
    found: dict[int, Place] = {}

    def place(m: Movement) -> Place:
        if m.id not in found:
            instant = (m.day, m.seq)
            origins = [m.ref, *m.sources] if m.kind != "landed_cost" else []
            before = [
                place(known[o])[2:]
                for o in origins
                if o in known and (known[o].day, known[o].seq) == instant
            ]
            found[m.id] = (*instant, *max(before, default=()), KINDS.index(m.kind), m.id)
        return found[m.id]

    for movement in known.values():
        place(movement)
    return found


def differences(stock: ItemStock, order: Iterable[Movement]) -> dict[int, int]:
    """By count: what it found beyond what the store's book says at that moment."""
    book: dict[str, int] = defaultdict(int)
    for opening in stock.openings:
        book[opening.store] += opening.qty
    found = {}
    for movement in order:
        if movement.kind == "count":
            found[movement.id] = movement.qty - book[movement.store]
            book[movement.store] = movement.qty
        for store, change in signed(movement):
            book[store] += change
    return found


def returned_before(
    stock: ItemStock, order: Iterable[Movement], lives: Mapping[int, Movement]
) -> dict[int, int]:
    """By return: how much of what it refers to had come or gone back before it.

    Raises where more comes back than went out, or goes back than came in.
    """
    so_far: dict[int, int] = defaultdict(int)
    before = {}
    for movement in order:
        if movement.kind not in {"sales_return", "purchase_return"} or movement.ref is None:
            continue
        if movement.reverses is not None:
            continue
        origin = lives.get(movement.ref) or stock.references.get(movement.ref)
        if origin is None:
            continue
        earlier = stock.references.get(movement.ref)
        start = earlier.returned if earlier is not None and movement.ref not in lives else 0
        before[movement.id] = start + so_far[movement.ref]
        so_far[movement.ref] += movement.qty
        if start + so_far[movement.ref] > origin.qty:
            sale = movement.kind == "sales_return"
            code = Code.RETURN_EXCEEDS_ISSUE if sale else Code.RETURN_EXCEEDS_RECEIPT
            raise RefusedError(code, movement.id)
    return before
