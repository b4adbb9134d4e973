"""Sort an item's movements into what they mean for the price of their cost pool."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import NamedTuple

from worker.costing.exact import half_up, share
from worker.costing.movements import (
    RECEIVING,
    SENDING,
    ItemStock,
    Kind,
    Movement,
    Reference,
    effects,
)
from worker.costing.problems import Code, Problem, problem


class Role(IntEnum):
    """What an entry does to the average (integers hash fast; the numbers mean nothing)."""

    KNOWN = auto()  # comes in with a value of its own: part of the average
    ARRIVED = auto()  # another pool sent it or had sold it: part of the average, at its cost there
    MADE = auto()  # made of goods that are costed together with it: part of it, at their cost
    GAIN = auto()  # comes in without a value: takes the average, does not move it
    BACK = auto()  # a sale of this period that comes back: leaves the average alone
    OUT = auto()  # goes out at the average
    SENT = auto()  # goes to another pool at the average
    RETURN = auto()  # goes back to where it came from at what it cost: leaves the inputs
    INSIDE = auto()  # stays in its pool
    CANCELLED = auto()  # taken back within the period, or takes back: as if it had never been


INFLOWS = frozenset({Role.KNOWN, Role.ARRIVED, Role.MADE, Role.GAIN, Role.BACK})
OUTFLOWS = frozenset({Role.OUT, Role.SENT, Role.RETURN})
# What an entry's quantity does to its pool.
SIGNS = {role: (role in INFLOWS) - (role in OUTFLOWS) for role in Role}


class Entry(NamedTuple):
    """A movement with its meaning in one pool; a transfer between pools has one in each.

    `value` is the known or wished value (of a MADE what is added to its sources). `origin` is the
    movement that brought the goods about: the sale of a return, the transfer itself.
    """

    movement: Movement
    role: Role
    pool: str
    qty: int
    value: int | None
    origin: Movement | None


@dataclass(slots=True)
class Classified:
    """An item's entries in order, and what was settled while they were read.

    `differences` is what each count found, `variances` the part of late landed costs that never
    reaches the stock, `sources` the consumptions of each MADE entry.
    """

    entries: list[Entry] = field(default_factory=list)
    differences: dict[int, int] = field(default_factory=dict)
    variances: dict[int, int] = field(default_factory=dict)
    sources: dict[int, tuple[int, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def classify(
    stock: ItemStock, pool_of: Mapping[str, str], together: Mapping[int, Movement] | None = None
) -> Classified:
    """What every movement means, and every problem; costs nothing yet.

    `together` has the consumptions of all items that are costed at once (absent: of this item).
    """
    return _Reader(stock, pool_of, together).read_all()


def cancelled_in(stock: ItemStock) -> set[int]:
    """Movements that take back one of the same period, and what they take back."""
    reversing = {m.id: m.reverses for m in stock.movements if m.reverses is not None}
    if not reversing:
        return set()
    here = {movement.id for movement in stock.movements}
    pairs = [pair for pair in reversing.items() if pair[1] in here]
    return {number for pair in pairs for number in pair}


class _RefusedError(Exception):
    """A movement that cannot be costed; becomes a problem of its item."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


class _Reader:
    """Reads one item's movements in order, remembering what returns have already taken."""

    def __init__(
        self,
        stock: ItemStock,
        pool_of: Mapping[str, str],
        together: Mapping[int, Movement] | None,
    ) -> None:
        self.stock = stock
        self.pool_of = pool_of
        self.by_id = {movement.id: movement for movement in stock.movements}
        self.together = self.by_id if together is None else together
        self.references = stock.references
        self.found = Classified()
        self.brought_back: dict[int, int] = {}
        self.cancelled = cancelled_in(stock)
        self.landed = self._landed_costs()
        if any(movement.kind == Kind.COUNT for movement in stock.movements):
            self.found.differences = _count_differences(stock, self.cancelled)
        self.special: Mapping[str, Callable[[Movement, str], Entry]] = {
            Kind.TRANSFER: self._transfer,
            Kind.SALES_RETURN: self._sales_return,
            Kind.PURCHASE_RETURN: self._purchase_return,
            Kind.COUNT: self._count,
            Kind.PRODUCE: self._produce,
            Kind.LANDED_COST: self._landed_cost,
        }

    def read_all(self) -> Classified:
        """Every movement's entry; those that cannot have one become problems."""
        add = self.found.entries.append
        for movement in self.stock.movements:
            entry = self._read(movement)
            if entry is not None:
                add(entry)
        return self.found

    def _landed_costs(self) -> dict[int, int]:
        landed: dict[int, int] = {}
        for movement in self.stock.movements:
            if movement.kind == Kind.LANDED_COST and movement.id not in self.cancelled:
                receipt = movement.ref
                if receipt is not None:
                    landed[receipt] = landed.get(receipt, 0) + (movement.value or 0)
        return landed

    def _read(self, movement: Movement) -> Entry | None:
        pool = self.pool_of.get(movement.store)
        try:
            if pool is None:
                return self._out_of_scope()
            if movement.id in self.cancelled:
                return self._cancelled(movement, pool)
            if movement.reverses is not None:
                return self._reversal(movement, pool)
            return self._plain(movement, pool)
        except _RefusedError as refused:
            self.found.problems.append(problem(refused.code, pool, (movement.id,)))
            return None

    def _out_of_scope(self) -> Entry:
        raise _RefusedError(Code.OUT_OF_SCOPE)

    def _plain(self, movement: Movement, pool: str) -> Entry:
        read = self.special.get(movement.kind)
        if read is not None:
            return read(movement, pool)
        if movement.kind in SENDING:
            return Entry(movement, Role.OUT, pool, movement.qty, None, None)
        if movement.kind == Kind.ADJUST_IN and movement.value is None:
            return Entry(movement, Role.GAIN, pool, movement.qty, None, None)
        return _known(movement, pool, movement.value)

    def _cancelled(self, movement: Movement, pool: str) -> Entry:
        original = self.by_id.get(movement.reverses) if movement.reverses is not None else None
        if original is not None and (
            original.reverses is not None or _shape(movement) != _shape(original)
        ):
            raise _RefusedError(Code.REVERSAL_MISMATCH)
        return Entry(movement, Role.CANCELLED, pool, movement.qty, movement.value, None)

    def _transfer(self, movement: Movement, pool: str, cost: int | None = None) -> Entry:
        """Inside its pool neutral; else it goes out of one pool and arrives in the other.

        One that takes back a transfer of an earlier period goes the other way, at its cost.
        """
        assert movement.to_store is not None, "a transfer names where it goes"
        target = self.pool_of.get(movement.to_store)
        if target is None:
            return self._out_of_scope()
        if target == pool:
            return Entry(movement, Role.INSIDE, pool, movement.qty, None, None)
        source, role = pool, Role.SENT
        if movement.reverses is not None:
            source, target = target, pool
            role = Role.SENT if cost is None else Role.RETURN
        arrival = Entry(movement, Role.ARRIVED, target, movement.qty, None, movement)
        self.found.entries.append(arrival)
        return Entry(movement, role, source, movement.qty, cost, None)

    def _sales_return(self, movement: Movement, pool: str) -> Entry:
        if movement.ref is None:
            if movement.value is None:
                raise _RefusedError(Code.RETURN_WITHOUT_REF)
            return _known(movement, pool, movement.value)
        sale = self.by_id.get(movement.ref)
        if sale is None:
            return self._late_return(movement, pool, self.references.get(movement.ref))
        if sale.kind != Kind.ISSUE or sale.id in self.cancelled or sale.reverses is not None:
            raise _RefusedError(Code.RETURN_WITHOUT_REF)
        self._take(movement, sale.qty, 0, Code.RETURN_EXCEEDS_ISSUE)
        role = Role.BACK if self.pool_of[sale.store] == pool else Role.ARRIVED
        return Entry(movement, role, pool, movement.qty, None, sale)

    def _late_return(self, movement: Movement, pool: str, sale: Reference | None) -> Entry:
        if sale is None or sale.kind != Kind.ISSUE:
            raise _RefusedError(Code.RETURN_WITHOUT_REF)
        before = self._take(movement, sale.qty, sale.returned, Code.RETURN_EXCEEDS_ISSUE)
        if sale.value is None:
            raise _RefusedError(Code.MISSING_COST)
        cost = share(sale.value, movement.qty, before, sale.qty)
        return _known(movement, pool, cost)

    def _purchase_return(self, movement: Movement, pool: str) -> Entry:
        source = self._receipt_of(movement)
        if source is None:
            if movement.ref is not None:
                raise _RefusedError(Code.RETURN_WITHOUT_REF)
            if movement.basis == "average":
                return Entry(movement, Role.OUT, pool, movement.qty, None, None)
            if movement.value is None:
                raise _RefusedError(Code.RETURN_WITHOUT_REF)
            return Entry(movement, Role.RETURN, pool, movement.qty, movement.value, None)
        before = self._take(movement, source.qty, source.returned, Code.RETURN_EXCEEDS_RECEIPT)
        if source.value is None:
            raise _RefusedError(Code.MISSING_COST)
        cost = share(source.value, movement.qty, before, source.qty)
        # Goods that another pool received came here by transfer: they leave at this pool's price.
        own = movement.basis != "average" and self.pool_of.get(source.store) == pool
        return Entry(movement, Role.RETURN if own else Role.OUT, pool, movement.qty, cost, None)

    def _receipt_of(self, movement: Movement) -> Reference | None:
        if movement.ref is None:
            return None
        if movement.ref not in self.by_id:
            known = self.references.get(movement.ref)
            return known if known is not None and known.kind in RECEIVING else None
        receipt = self._standing_receipt(movement.ref)
        if receipt is None:
            return None
        value = None if receipt.sources else receipt.value
        if value is not None:
            value += self.landed.get(receipt.id, 0)
        return Reference(receipt.kind, receipt.store, receipt.qty, value, 0)

    def _standing_receipt(self, number: int) -> Movement | None:
        """Goods that came in within the period and were not taken back."""
        found = self.by_id.get(number)
        stands = found is not None and found.kind in RECEIVING and number not in self.cancelled
        return found if stands else None

    def _take(self, movement: Movement, whole: int, returned: int, excess: Code) -> int:
        """How much was back before this return, which may not bring back more than there was."""
        assert movement.ref is not None, "only a return that names its origin takes from it"
        before = self.brought_back.get(movement.ref, returned)
        if before + movement.qty > whole:
            raise _RefusedError(excess)
        self.brought_back[movement.ref] = before + movement.qty
        return before

    def _produce(self, movement: Movement, pool: str) -> Entry:
        """Worth what it consumed, and what is added to that; without sources its own value."""
        if not movement.sources:
            return _known(movement, pool, movement.value)
        value, unknown = movement.value or 0, []
        for source in movement.sources:
            if source in self.together and source not in self.cancelled:
                unknown.append(source)
                continue
            known = self.references.get(source)
            if known is None or known.value is None:
                raise _RefusedError(Code.MISSING_COST)
            value += known.value
        if not unknown:
            return _known(movement, pool, value)
        self.found.sources[movement.id] = tuple(unknown)
        return Entry(movement, Role.MADE, pool, movement.qty, value, None)

    def _landed_cost(self, movement: Movement, pool: str) -> Entry:
        """Joins the inputs; of a receipt of an earlier period only for what may still be there."""
        value = movement.value
        receipt = None if movement.ref is None else self._standing_receipt(movement.ref)
        if receipt is not None and receipt.store != movement.store:
            # Booked elsewhere, it still is a cost of its receipt: there the goods came in.
            home = self.pool_of.get(receipt.store)
            if home is None:
                return self._out_of_scope()
            return _known(movement._replace(store=receipt.store), home, value)
        late = None if movement.ref is None else self.references.get(movement.ref)
        if value is None or late is None or movement.ref in self.by_id or late.qty == 0:
            return _known(movement, pool, value)
        opened = sum(o.qty for o in self.stock.openings if self.pool_of[o.store] == pool)
        joins = half_up(value * max(0, min(opened, late.qty)), late.qty)
        self.found.variances[movement.id] = value - joins
        return _known(movement, pool, joins)

    def _count(self, movement: Movement, pool: str) -> Entry:
        difference = self.found.differences[movement.id]
        if movement.qty == 0 and movement.value:
            raise _RefusedError(Code.ORPHAN_VALUE)
        if difference < 0:
            return Entry(movement, Role.OUT, pool, -difference, None, None)
        if difference == 0:
            return Entry(movement, Role.INSIDE, pool, 0, None, None)
        if movement.value is None or movement.qty == 0:
            return Entry(movement, Role.GAIN, pool, difference, None, None)
        value = share(movement.value, difference, 0, movement.qty)
        return Entry(movement, Role.KNOWN, pool, difference, value, None)

    def _reversal(self, movement: Movement, pool: str) -> Entry:
        """A row that takes back a movement of an earlier period, at what that movement cost."""
        assert movement.reverses is not None, "only a reversal comes here"
        taken_back = self.references.get(movement.reverses)
        if taken_back is None or not _mirrors(movement, taken_back):
            raise _RefusedError(Code.REVERSAL_MISMATCH)
        if movement.kind == Kind.TRANSFER:
            return self._transfer(movement, pool, taken_back.value)
        if taken_back.value is None:
            raise _RefusedError(Code.MISSING_COST)
        if movement.kind == Kind.LANDED_COST:
            return Entry(movement, Role.KNOWN, pool, 0, -taken_back.value, None)
        role = Role.KNOWN if movement.kind in SENDING else Role.RETURN
        return Entry(movement, role, pool, movement.qty, taken_back.value, None)


def _known(movement: Movement, pool: str, value: int | None) -> Entry:
    if value is None:
        raise _RefusedError(Code.MISSING_COST)
    return Entry(movement, Role.KNOWN, pool, movement.qty, value, None)


def _mirrors(movement: Movement, original: Reference) -> bool:
    same = (movement.kind, movement.store, movement.qty)
    return movement.kind != Kind.COUNT and same == (original.kind, original.store, original.qty)


def _shape(movement: Movement) -> tuple[object, ...]:
    return (movement.kind, movement.store, movement.to_store, movement.qty, movement.value)


def _count_differences(stock: ItemStock, cancelled: set[int]) -> dict[int, int]:
    """Counted minus booked, at the place of each count in the order; a count sets the book.

    The book does not hold what was taken back within the period.
    """
    booked: dict[str, int] = {}
    for opening in stock.openings:
        booked[opening.store] = booked.get(opening.store, 0) + opening.qty
    differences = {}
    for movement in stock.movements:
        if movement.kind == Kind.COUNT:
            taken_back = movement.id in cancelled or movement.reverses is not None
            found = 0 if taken_back else movement.qty - booked.get(movement.store, 0)
            differences[movement.id] = found
            booked[movement.store] = booked.get(movement.store, 0) + found
        elif movement.id not in cancelled:
            for store, quantity in effects(movement):
                booked[store] = booked.get(store, 0) + quantity
    return differences
