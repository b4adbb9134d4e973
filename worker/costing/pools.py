"""One cost pool: what it has of its own before there is a price, and what the price makes of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from worker.costing.entries import INFLOWS, OUTFLOWS, Entry, Role
from worker.costing.exact import NO_PRICE, Price, share
from worker.costing.movements import Kind
from worker.costing.problems import Code, Problem, problem
from worker.costing.residues import outflow_values
from worker.costing.results import Flow, Negative, Policy

_NOTHING = Flow(0, 0)
_LINKED = frozenset({Role.ARRIVED, Role.MADE})


@dataclass(slots=True)
class Book:
    """What is known of each movement, by id, while items are costed; `values` ends complete.

    `returned` is how much of a sale came back, `sources` the consumptions of what was MADE.
    """

    values: dict[int, int] = field(default_factory=dict)
    variances: dict[int, int] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    true_ups: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    sources: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Pool:
    """One cost pool of one item; each step of `weighted_average` fills more of it.

    `own` is what its opening and its inputs from outside bring to the average; `before_returns`
    has what went back of them, too. `linked` came in at what other lines cost, `outs` leave at the
    price, in order. Where the pool opened below zero, its inputs cover `settled` of that first, at
    the price worth `settlement`. `total` is the value of all that came in, `left` what is there
    of it when the outs are gone. `opening` is without `settled_before`, which left at once.
    """

    item: str
    name: str
    opening: Flow
    last_price: Price = NO_PRICE
    entries: list[Entry] = field(default_factory=list)
    by_role: dict[Role, list[Entry]] = field(default_factory=dict)
    net: int = 0
    before_returns: Flow = _NOTHING
    own: Flow = _NOTHING
    linked: list[Entry] = field(default_factory=list)
    outs: list[Entry] = field(default_factory=list)
    price: Price = NO_PRICE
    partners: int = 1
    settled: int = 0
    settlement: int = 0
    settled_before: int = 0
    total: int = 0
    left: Flow = _NOTHING
    rounding: int = 0
    pushes: int = 0

    def of(self, role: Role) -> Sequence[Entry]:
        """The pool's entries of one role, in order."""
        return self.by_role.get(role, ())

    @property
    def true_up(self) -> int:
        """What covering the negative opening cost beyond the value at which it had gone out."""
        if not self.settled:
            return 0
        return self.settlement - share(-self.opening.value, self.settled, 0, -self.opening.qty)


def take_inputs(pool: Pool, book: Book, policy: Policy) -> Problem | None:
    """Step 1: `own`, what comes in from elsewhere, and what leaves at the price still to be found.

    A problem where more goes out than there is, or inputs are worth less than nothing.
    """
    short = first_short(pool) if policy.negative is Negative.FORBID else None
    if short is not None:
        return short
    if not _LINKED.isdisjoint(pool.by_role):
        pool.linked = [entry for entry in pool.entries if entry.role in _LINKED]
    quantity, value = pool.opening if pool.opening.qty >= 0 else (0, 0)
    for movement, _, _, moved, worth, _ in pool.of(Role.KNOWN):
        assert worth is not None, "a known input has a value"
        quantity += moved
        value += worth
        book.values[movement.id] = worth
    if value < 0 and not pool.linked:
        return problem(Code.RETURN_EXCEEDS_VALUE, pool.name, ids_of(reductions(pool)))
    pool.before_returns = Flow(quantity, value)
    pool.own = _take_returns(pool, quantity, value, book)
    return None


def first_short(pool: Pool) -> Problem | None:
    """Negative stock: named is the movement that takes what no input of the period covers.

    In between the quantity may be negative: within a period only what there is in all counts.
    """
    if pool.opening.qty < 0:
        extra = "the opening quantity is negative"
        return problem(Code.NEGATIVE_STOCK, pool.name, extra=extra)
    if pool.opening.qty + pool.net >= 0:
        return None
    leaving = leaving_of(pool)
    available = pool.opening.qty + pool.net + sum(entry.qty for entry in leaving)
    for entry in leaving:
        available -= entry.qty
        if available < 0:
            return problem(Code.NEGATIVE_STOCK, pool.name, (entry.movement.id,))
    raise AssertionError("more leaves than there is, so that some movement takes the last")


def reductions(pool: Pool) -> list[Entry]:
    """The inputs that take value away: price reductions."""
    return [entry for entry in pool.of(Role.KNOWN) if (entry.value or 0) < 0]


def _take_returns(pool: Pool, quantity: int, value: int, book: Book) -> Flow:
    """Take what goes back at cost out of the inputs, at most what they are worth.

    What cannot leave is variance. A return of more than the pool's own inputs leaves at the
    average instead, and one that empties the pool takes all of its value (drain rule).
    """
    if Role.RETURN not in pool.by_role:
        one_kind = Role.SENT not in pool.by_role
        pool.outs = [*pool.of(Role.OUT)] if one_kind else leaving_of(pool)
        return Flow(quantity, value)
    last: Entry | None = None
    for entry in leaving_of(pool):
        if entry.role is not Role.RETURN or entry.qty > quantity:
            pool.outs.append(entry)
            continue
        assert entry.value is not None, "a return at cost knows its cost"
        last, taken = entry, min(entry.value, max(value, 0))
        quantity, value = quantity - entry.qty, value - taken
        _leave(entry, taken, book)
    if quantity == 0 and last is not None and not pool.linked:
        _leave(last, book.values[last.movement.id] + value, book)
        value = 0
    return Flow(quantity, value)


def leaving_of(pool: Pool) -> list[Entry]:
    """Everything that goes out, in order."""
    return [entry for entry in pool.entries if entry.role in OUTFLOWS]


def _leave(entry: Entry, taken: int, book: Book) -> None:
    """What left, and beside the stock what it should have been; a transfer has only the one."""
    book.values[entry.movement.id] = taken
    if entry.value is not None and entry.movement.kind != Kind.TRANSFER:
        book.variances[entry.movement.id] = taken - entry.value


def value_movements(pool: Pool, book: Book, policy: Policy) -> None:
    """Step 3: the pool's price gives every line its value; only what is linked still waits."""
    gained = _value_gains(pool, book)
    linked = sum(entry.qty for entry in pool.linked)
    there = pool.own.qty + gained.qty + linked
    pool.settled = min(max(0, -pool.opening.qty), there)
    quantities = [entry.qty for entry in pool.outs]
    if pool.settled:
        pool.settlement, *values = outflow_values(pool.price, [pool.settled, *quantities], policy)
    else:
        values = outflow_values(pool.price, quantities, policy)
    book.values.update(zip(ids_of(pool.outs), values, strict=True))
    back = _value_back(pool, book)
    pool.total = pool.own.value + gained.value + back.value
    gone = Flow(pool.settled + sum(quantities), pool.settlement + sum(values))
    pool.left = Flow(there + back.qty - gone.qty, pool.total - gone.value)
    for role in (Role.INSIDE, Role.CANCELLED):
        for entry in pool.of(role):
            _value_neutral(entry, pool, book)


def value_linked(pool: Pool, book: Book) -> None:
    """Step 4: what came in from elsewhere is worth what the lines it came by have cost there."""
    for movement, role, _, qty, added, origin in pool.linked:
        if role is Role.MADE:
            made_of = sum(book.values[source] for source in book.sources[movement.id])
            book.values[movement.id] = (added or 0) + made_of
        elif origin is not None and origin is not movement:
            book.values[movement.id] = _share_of(origin.id, origin.qty, qty, book)
        came = book.values[movement.id]
        pool.total += came
        pool.left = Flow(pool.left.qty, pool.left.value + came)


def finish(pool: Pool, book: Book) -> None:
    """Step 6: what follows from the final values: variances, true-ups, how far lines were moved."""
    for entry in pool.outs:
        if entry.value is not None:
            _leave(entry, book.values[entry.movement.id], book)
    if pool.settled:
        book.true_ups[_covering(pool).movement.id] = pool.true_up
    if book.moved:
        pool.pushes = max((book.moved.get(i, 0) for i in ids_of(pool.outs)), default=0)


def _value_gains(pool: Pool, book: Book) -> Flow:
    """Found goods come in at the average and do not move it."""
    gains = pool.of(Role.GAIN)
    if not gains:
        return _NOTHING
    quantities = [entry.qty for entry in gains]
    values = pool.price.each(quantities)
    book.values.update(zip(ids_of(gains), values, strict=True))
    return Flow(sum(quantities), sum(values))


def _value_back(pool: Pool, book: Book) -> Flow:
    """Returned sales at their own sale's cost, so that returning all gives back exactly that."""
    quantity = value = 0
    for movement, _, _, qty, _, sale in pool.of(Role.BACK):
        assert sale is not None, "a returned sale names its sale"
        worth = book.values[movement.id] = _share_of(sale.id, sale.qty, qty, book)
        quantity += qty
        value += worth
    return Flow(quantity, value)


def _share_of(line: int, whole: int, part: int, book: Book) -> int:
    before = book.returned.get(line, 0)
    book.returned[line] = before + part
    return share(book.values[line], part, before, whole)


def _value_neutral(entry: Entry, pool: Pool, book: Book) -> None:
    """A transfer inside the pool shows the price it moves at; what was taken back, its own."""
    known = entry.role is Role.CANCELLED and entry.value is not None
    value = entry.value if known else pool.price.of(entry.qty)
    assert value is not None, "a value or a price"
    book.values[entry.movement.id] = value


def _covering(pool: Pool) -> Entry:
    """The input that ends the negative opening, or the last one where none does."""
    covered, found = 0, None
    for entry in pool.entries:
        if entry.qty and entry.role in INFLOWS and entry.role is not Role.BACK:
            found = entry
            covered += entry.qty
            if covered >= pool.settled:
                break
    assert found is not None, "some input has settled the negative opening"
    return found


def ids_of(entries: Iterable[Entry]) -> tuple[int, ...]:
    """The movements of entries, in their order."""
    return tuple(entry.movement.id for entry in entries)
