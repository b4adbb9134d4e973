"""Sort an item's movements into what they mean for the price of their cost pool."""

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from typing import NamedTuple

from worker.costing.exact import share
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
    GAIN = auto()  # comes in without a value: takes the average, does not move it
    BACK = auto()  # a sale of this period that comes back: leaves the average alone
    OUT = auto()  # goes out at the average
    RETURN = auto()  # goes back to its supplier at what it cost: leaves the average's inputs
    INSIDE = auto()  # stays in its pool
    CANCELLED = auto()  # taken back within the period, or takes back: as if it had never been


class Entry(NamedTuple):
    """A movement with its meaning. `value` is the known or wished value, `origin` a sale's id."""

    movement: Movement
    role: Role
    pool: str
    qty: int
    value: int | None
    origin: int | None


class _RefusedError(Exception):
    """A movement that cannot be costed; becomes a problem of its item."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


class _Reader:
    """Reads one item's movements in order, remembering what returns have already taken."""

    def __init__(self, stock: ItemStock, pool_of: Mapping[str, str]) -> None:
        self.pool_of = pool_of
        self.by_id = {movement.id: movement for movement in stock.movements}
        self.references = stock.references
        self.cancelled: set[int] = set()
        self.landed: dict[int, int] = {}
        self.brought_back: dict[int, int] = {}
        self.problems: list[Problem] = []
        self.special: Mapping[str, Callable[[Movement, str], Entry]] = {
            Kind.TRANSFER: self._transfer,
            Kind.SALES_RETURN: self._sales_return,
            Kind.PURCHASE_RETURN: self._purchase_return,
            Kind.COUNT: self._count,
        }
        for movement in stock.movements:
            if movement.reverses is not None and movement.reverses in self.by_id:
                self.cancelled |= {movement.id, movement.reverses}
            if movement.kind == Kind.LANDED_COST and movement.ref is not None:
                self.landed[movement.ref] = self.landed.get(movement.ref, 0) + (movement.value or 0)
        self.differences = _count_differences(stock) if self._counts(stock) else {}

    @staticmethod
    def _counts(stock: ItemStock) -> bool:
        return any(movement.kind == Kind.COUNT for movement in stock.movements)

    def read(self, movement: Movement) -> Entry | None:
        """The movement's entry; None after noting the problem that stands in its way."""
        pool = self.pool_of[movement.store]
        try:
            if movement.id in self.cancelled:
                return self._cancelled(movement, pool)
            if movement.reverses is not None:
                return self._reversal(movement, pool)
            return self._plain(movement, pool)
        except _RefusedError as refused:
            self.problems.append(problem(refused.code, pool, (movement.id,)))
            return None

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

    def _transfer(self, movement: Movement, pool: str) -> Entry:
        assert movement.to_store is not None, "a transfer names where it goes"
        if self.pool_of[movement.to_store] != pool:
            raise _RefusedError(Code.CROSS_POOL_TRANSFER)
        return Entry(movement, Role.INSIDE, pool, movement.qty, None, None)

    def _sales_return(self, movement: Movement, pool: str) -> Entry:
        if movement.ref is None:
            if movement.value is None:
                raise _RefusedError(Code.RETURN_WITHOUT_REF)
            return _known(movement, pool, movement.value)
        sale = self.by_id.get(movement.ref)
        if sale is None:
            return self._late_return(movement, pool, self.references.get(movement.ref))
        if sale.kind != Kind.ISSUE or sale.id in self.cancelled:
            raise _RefusedError(Code.RETURN_WITHOUT_REF)
        if self.pool_of[sale.store] != pool:
            raise _RefusedError(Code.CROSS_POOL_RETURN)
        self._take(movement, sale.qty, 0, Code.RETURN_EXCEEDS_ISSUE)
        return Entry(movement, Role.BACK, pool, movement.qty, None, sale.id)

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
            if movement.basis == "average":
                return Entry(movement, Role.OUT, pool, movement.qty, None, None)
            if movement.value is None or movement.ref is not None:
                raise _RefusedError(Code.RETURN_WITHOUT_REF)
            return Entry(movement, Role.RETURN, pool, movement.qty, movement.value, None)
        before = self._take(movement, source.qty, source.returned, Code.RETURN_EXCEEDS_RECEIPT)
        if source.value is None:
            raise _RefusedError(Code.MISSING_COST)
        cost = share(source.value, movement.qty, before, source.qty)
        # Goods that another pool received came here by transfer: they leave at this pool's price.
        own = movement.basis != "average" and self.pool_of[source.store] == pool
        return Entry(movement, Role.RETURN if own else Role.OUT, pool, movement.qty, cost, None)

    def _receipt_of(self, movement: Movement) -> Reference | None:
        if movement.ref is None:
            return None
        receipt = self.by_id.get(movement.ref)
        if receipt is None:
            known = self.references.get(movement.ref)
            return known if known is not None and known.kind in RECEIVING else None
        if receipt.kind not in RECEIVING or receipt.id in self.cancelled:
            return None
        value = receipt.value
        if value is not None:
            value += self.landed.get(receipt.id, 0)
        return Reference(receipt.kind, receipt.store, receipt.qty, value, 0)

    def _take(self, movement: Movement, whole: int, returned: int, excess: Code) -> int:
        """How much was back before this return, which may not bring back more than there was."""
        assert movement.ref is not None, "only a return that names its origin takes from it"
        before = self.brought_back.get(movement.ref, returned)
        if before + movement.qty > whole:
            raise _RefusedError(excess)
        self.brought_back[movement.ref] = before + movement.qty
        return before

    def _count(self, movement: Movement, pool: str) -> Entry:
        difference = self.differences[movement.id]
        if difference < 0:
            return Entry(movement, Role.OUT, pool, -difference, None, None)
        if difference == 0:
            return Entry(movement, Role.INSIDE, pool, 0, None, None)
        if movement.value is None:
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
            return self._transfer(movement, pool)
        if taken_back.value is None:
            raise _RefusedError(Code.MISSING_COST)
        if movement.kind == Kind.LANDED_COST:
            return Entry(movement, Role.KNOWN, pool, 0, -taken_back.value, None)
        role = Role.KNOWN if movement.kind in SENDING else Role.RETURN
        return Entry(movement, role, pool, movement.qty, taken_back.value, None)


def classify(
    stock: ItemStock, pool_of: Mapping[str, str]
) -> tuple[list[Entry], dict[int, int], list[Problem]]:
    """Entries in order, what each count found, and every problem; costs nothing yet."""
    reader = _Reader(stock, pool_of)
    entries = [entry for entry in map(reader.read, stock.movements) if entry is not None]
    return entries, reader.differences, reader.problems


def _known(movement: Movement, pool: str, value: int | None) -> Entry:
    if value is None:
        raise _RefusedError(Code.MISSING_COST)
    return Entry(movement, Role.KNOWN, pool, movement.qty, value, None)


def _mirrors(movement: Movement, original: Reference) -> bool:
    same = (movement.kind, movement.store, movement.qty)
    return movement.kind != Kind.COUNT and same == (original.kind, original.store, original.qty)


def _shape(movement: Movement) -> tuple[object, ...]:
    return (movement.kind, movement.store, movement.to_store, movement.qty, movement.value)


def _count_differences(stock: ItemStock) -> dict[int, int]:
    """Counted minus booked, at the place of each count in the order; a count sets the book."""
    booked: dict[str, int] = {}
    for opening in stock.openings:
        booked[opening.store] = booked.get(opening.store, 0) + opening.qty
    reversed_ids = {m.reverses for m in stock.movements if m.reverses is not None}
    differences = {}
    for movement in stock.movements:
        if movement.kind == Kind.COUNT:
            found = movement.qty - booked.get(movement.store, 0)
            taken_back = movement.id in reversed_ids or movement.reverses is not None
            differences[movement.id] = 0 if taken_back else found
            booked[movement.store] = booked.get(movement.store, 0) + differences[movement.id]
        for store, quantity in effects(movement):
            booked[store] = booked.get(store, 0) + quantity
    return differences
