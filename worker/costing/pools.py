"""Cost one pool: its price from opening and inputs, then the value of every entry."""

from dataclasses import dataclass, field

from worker.costing.entries import Entry, Role
from worker.costing.exact import NO_PRICE, Price, share
from worker.costing.movements import Kind
from worker.costing.problems import Code, Problem, problem
from worker.costing.residues import on_separate_line, outflow_values, push, residue
from worker.costing.results import Flow, Policy


@dataclass(slots=True)
class PoolCosts:
    """Values by movement id, with what they were made from; complete once `cost_pool` returns."""

    price: Price = NO_PRICE
    values: dict[int, int] = field(default_factory=dict)
    variances: dict[int, int] = field(default_factory=dict)
    outs: list[Entry] = field(default_factory=list)
    rounding: int = 0
    pushes: int = 0


def cost_pool(
    pool: str, opening: Flow, entries: list[Entry], policy: Policy
) -> PoolCosts | Problem:
    """The value of every entry, or the one reason why the pool has no price."""
    short = _goes_short(pool, opening, entries)
    if short is not None:
        return short
    costs = PoolCosts()
    own = _known_inputs(opening, entries, costs)
    if own.value < 0:
        reductions = [entry for entry in entries if (entry.value or 0) < 0]
        return problem(Code.RETURN_EXCEEDS_VALUE, pool, _ids(reductions))
    own = _take_returns(own, entries, costs)
    priceless = _has_no_price(pool, own, entries)
    if priceless is not None:
        return priceless
    costs.price = Price(own.value, own.qty)
    gained = _price_gains(entries, costs)
    _price_outs(own.qty + gained.qty, own.value + gained.value, entries, costs, policy)
    for entry in entries:
        if entry.role is Role.INSIDE or entry.role is Role.CANCELLED:
            _price_neutral(entry, costs)
    return costs


def _goes_short(pool: str, opening: Flow, entries: list[Entry]) -> Problem | None:
    """Negative stock: named is the movement that takes what no input of the period covers.

    In between the quantity may be negative: within a period only what there is in all counts.
    """
    if opening.qty < 0:
        return problem(Code.NEGATIVE_STOCK, pool, extra="the opening quantity is negative")
    available = opening.qty + sum(entry.qty for entry in entries if entry.role in _INFLOWS)
    for entry in entries:
        if entry.role is Role.OUT or entry.role is Role.RETURN:
            available -= entry.qty
            if available < 0:
                return problem(Code.NEGATIVE_STOCK, pool, (entry.movement.id,))
    return None


_INFLOWS = frozenset({Role.KNOWN, Role.GAIN, Role.BACK})


def _known_inputs(opening: Flow, entries: list[Entry], costs: PoolCosts) -> Flow:
    quantity, value = opening
    for entry in entries:
        if entry.role is Role.KNOWN:
            assert entry.value is not None, "a known input has a value"
            quantity += entry.qty
            value += entry.value
            costs.values[entry.movement.id] = entry.value
    return Flow(quantity, value)


def _take_returns(own: Flow, entries: list[Entry], costs: PoolCosts) -> Flow:
    """Take supplier returns out of the inputs at their original cost, never below value 0.

    What cannot leave is variance. A return of more than the pool's own inputs leaves at the
    average instead, and one that empties the pool takes all of its value (drain rule).
    """
    quantity, value = own
    last: int | None = None
    for entry in entries:
        if entry.role is Role.OUT or (entry.role is Role.RETURN and entry.qty > quantity):
            costs.outs.append(entry)
        elif entry.role is Role.RETURN:
            assert entry.value is not None, "a return at cost knows its cost"
            last = entry.movement.id
            taken = min(entry.value, value)
            quantity, value = quantity - entry.qty, value - taken
            costs.values[last] = taken
            costs.variances[last] = entry.value - taken
    if quantity == 0 and last is not None:
        costs.values[last] += value
        costs.variances[last] -= value
        value = 0
    return Flow(quantity, value)


def _has_no_price(pool: str, own: Flow, entries: list[Entry]) -> Problem | None:
    if own.qty > 0:
        return None
    gains = [entry for entry in entries if entry.role is Role.GAIN]
    if gains:
        return problem(Code.MISSING_COST, pool, _ids(gains))
    if own.value:
        bearers = [entry for entry in entries if entry.movement.kind == Kind.LANDED_COST]
        return problem(Code.ORPHAN_VALUE, pool, _ids(bearers))
    return None


def _price_gains(entries: list[Entry], costs: PoolCosts) -> Flow:
    """Everything that comes in at the average: found goods now, returned sales in quantity."""
    gains = [entry for entry in entries if entry.role is Role.GAIN]
    values = costs.price.each([entry.qty for entry in gains])
    costs.values.update(zip(_ids(gains), values, strict=True))
    back = sum(entry.qty for entry in entries if entry.role is Role.BACK)
    return Flow(sum(entry.qty for entry in gains) + back, sum(values))


def _price_outs(
    quantity: int, value: int, entries: list[Entry], costs: PoolCosts, policy: Policy
) -> None:
    quantities = [entry.qty for entry in costs.outs]
    values = outflow_values(costs.price, quantities, policy)
    ids = _ids(costs.outs)
    returned = _price_back(
        entries, dict(zip(ids, zip(values, quantities, strict=True), strict=True))
    )
    costs.values.update(returned.values)
    total = sum(quantities)
    before_outs = value + returned.total
    rest = residue(
        quantity - total, before_outs - sum(values), before_outs, costs.price.of(total), policy
    )
    if on_separate_line(policy):
        costs.rounding = rest
    else:
        able = [returned.quantities.get(i, 0) < q for i, q in zip(ids, quantities, strict=True)]
        costs.pushes = push(values, able, rest, policy)
    costs.values.update(zip(ids, values, strict=True))
    for entry, left in zip(costs.outs, values, strict=True):
        if entry.value is not None:
            costs.variances[entry.movement.id] = entry.value - left


@dataclass(slots=True)
class _Returned:
    values: dict[int, int] = field(default_factory=dict)
    quantities: dict[int, int] = field(default_factory=dict)
    total: int = 0


def _price_back(entries: list[Entry], sold: dict[int, tuple[int, int]]) -> _Returned:
    """Returned sales at their own sale's cost, so that returning all gives back exactly that."""
    returned = _Returned()
    for entry in entries:
        if entry.role is Role.BACK:
            assert entry.origin is not None, "a returned sale names its sale"
            cost, quantity = sold[entry.origin]
            before = returned.quantities.get(entry.origin, 0)
            value = share(cost, entry.qty, before, quantity)
            returned.values[entry.movement.id] = value
            returned.quantities[entry.origin] = before + entry.qty
            returned.total += value
    return returned


def _price_neutral(entry: Entry, costs: PoolCosts) -> None:
    """A transfer inside the pool shows the price it moves at; what was taken back, its own."""
    known = entry.role is Role.CANCELLED and entry.value is not None
    value = entry.value if known else costs.price.of(entry.qty)
    assert value is not None, "a value or a price"
    costs.values[entry.movement.id] = value


def _ids(entries: list[Entry]) -> tuple[int, ...]:
    return tuple(entry.movement.id for entry in entries)
