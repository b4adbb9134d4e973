"""One item while its movements are replayed: its stores and pools, its lines, its problems."""

from collections.abc import Callable, Iterable, Mapping

from worker.costing.exact import LARGEST
from worker.costing.fifo import Layers
from worker.costing.movements import RECEIVING, ItemStock, Kind, Method, Movement
from worker.costing.moving_average import MovingAverage, PrintedAverage
from worker.costing.places import (
    OPENING,
    TRUE_UP,
    VARIANCE,
    Place,
    assert_replayed,
    pool_result,
    store_balances,
)
from worker.costing.pool_state import Pool, RefusedError
from worker.costing.problems import Code, Problem, problem
from worker.costing.results import ItemCosts, Line, Negative, Policy
from worker.costing.specific import Lots

# Told only of an item that has no other problem: what was refused before may have caused it.
_CONSEQUENCES = frozenset(
    {
        Code.NEGATIVE_STOCK,
        Code.ORPHAN_VALUE,
        Code.RETURN_EXCEEDS_VALUE,
        Code.SOURCE_NOT_COSTED,
    }
)


# A quarter of what `Line(…)` takes; a period has a million of them.
new_line = tuple.__new__


class Known:
    """What the movements of items that are replayed together cost, as far as others refer to it."""

    def __init__(self, stocks: Iterable[ItemStock]) -> None:
        self.wanted: set[int] = set()
        for stock in stocks:
            for movement in stock.movements:
                if movement.ref is not None:
                    self.wanted.add(movement.ref)
                if movement.reverses is not None:
                    self.wanted.add(movement.reverses)
                if movement.sources:
                    self.wanted.update(movement.sources)
        self.costs: dict[int, int] = {}
        self.refused: set[int] = set()


class Running:
    """The state of one item. Steps change it by the methods below and by nothing else."""

    def __init__(
        self, stock: ItemStock, pool_of: Mapping[str, str], policy: Policy, known: Known
    ) -> None:
        self.stock = stock
        self.pool_of = pool_of
        self.known = known
        self.plain = not known.wanted  # no line is larger than the sums that it is in
        self.references = stock.references
        self.lines: list[Line] = []
        self.note: Callable[[Line], None] = self._remember if known.wanted else self.lines.append
        self.problems: list[Problem] = []
        wanted = known.wanted
        self.origins = {m.id: m for m in stock.movements if m.id in wanted} if wanted else {}
        self.cancelled = _cancelled(stock, self.origins) if known.wanted else set()
        self.landed = self._landed() if known.wanted else {}
        self.brought_back: dict[int, int] = {}
        self.pools: dict[str, Pool] = {}
        self.places = _Places(self)
        self._new_pool = _maker(stock, policy, self.origins)
        self._open(policy)

    def pool(self, name: str) -> Pool:
        """The pool of that name, which is made when it is first asked for."""
        found = self.pools.get(name)
        if found is None:
            found = self.pools[name] = self._new_pool(name)
        return found

    def enter(
        self, movement: Movement, column: int, qty: int, value: int, *, found: int | None = None
    ) -> None:
        """Goods come in at a value; `found` is the difference of a count."""
        place = self.places[movement.store]
        more = self.landed.get(movement.id, 0) if self.landed else 0
        if value + more < 0:
            raise RefusedError(Code.RETURN_EXCEEDS_VALUE, causes=self._landed_on(movement))
        lot = movement.lot if movement.ref is None else self.lot_of(movement)
        true_up = place.pool.receive(qty, value + more, movement.id, lot)
        place.flows[column] += qty
        place.flows[column + 1] += value
        place.flows[TRUE_UP] += true_up
        self.note(new_line(Line, (movement.id, value, 0, found, true_up)))

    def left(self, movement: Movement, column: int, value: int, *, cost: int | None = None) -> None:
        """Note that goods have left at a value; what that is beyond their cost is variance."""
        place = self.places[movement.store]
        variance = 0 if cost is None else value - cost
        place.add(column, movement.qty, value)
        place.flows[VARIANCE] += variance
        self.note(Line(movement.id, value, variance, None, 0))

    def lot_of(self, movement: Movement) -> str | None:
        """The lot that it names, else that of what it refers to."""
        if movement.lot is not None or movement.ref is None:
            return movement.lot
        origin = self.origins.get(movement.ref)
        return origin.lot if origin is not None else None

    def take(self, movement: Movement, whole: int, returned: int, excess: Code) -> int:
        """How much was back before this return, which may not bring back more than there was."""
        assert movement.ref is not None, "only a return that names its origin takes from it"
        before = self.brought_back.get(movement.ref, returned)
        if before + movement.qty > whole:
            raise RefusedError(excess)
        self.brought_back[movement.ref] = before + movement.qty
        return before

    def cost_of(self, origin: int, unknown: Code) -> int:
        """What a movement of this replay has cost; `unknown` where it is still to come."""
        cost = self.known.costs.get(origin)
        if cost is None:
            consequence = origin in self.known.refused
            raise RefusedError(Code.SOURCE_NOT_COSTED if consequence else unknown)
        return cost + self.landed.get(origin, 0)

    def refuse(self, movement: Movement, error: RefusedError) -> None:
        """Note why a movement cannot be costed, unless an earlier problem may be the reason."""
        self.known.refused.add(movement.id)
        if error.code in _CONSEQUENCES and self.problems:
            return
        pool = self.pool_of[movement.store]
        named = (movement.id, *error.causes)
        self.problems.append(problem(error.code, pool, named, error.extra))

    def results(self) -> ItemCosts:
        """Everything in the order of pools and stores, with the invariants asserted."""
        costs = ItemCosts(lines=self.lines, pools=[], stores=[])
        by_pool: dict[str, list[Place]] = {name: [] for name in sorted(self.pools)}
        for store in sorted(self.places):
            by_pool[self.places[store].pool.name].append(self.places[store])
        for name, places in by_pool.items():
            pool = self.pools[name]
            layers = pool.layers()
            result = pool_result(pool, places, layers)
            assert_replayed(result, pool, layers)
            costs.pools.append(result)
            costs.stores.extend(store_balances(result, places))
            costs.layers.extend(layers)
        return costs

    def is_small(self) -> bool:
        """Whether no number can have left the range of a bigint, which is soon told of most items.

        Lines of a plain item are parts of sums that only grow.
        """
        moved = sum(sum(map(abs, place.flows)) for place in self.places.values())
        apart = any(pool.dipped or pool.rounding for pool in self.pools.values())
        return self.plain and 2 * moved < LARGEST and not apart

    def _remember(self, line: Line) -> None:
        self.lines.append(line)
        if line.movement_id in self.known.wanted:
            self.known.costs[line.movement_id] = line.value

    def _landed(self) -> dict[int, int]:
        """Landed costs of this period's own receipts: they join them before the replay."""
        landed: dict[int, int] = {}
        for movement in self.stock.movements:
            if movement.kind == Kind.LANDED_COST and self.joins(movement):
                assert movement.ref is not None, "it joins what it refers to"
                landed[movement.ref] = landed.get(movement.ref, 0) + (movement.value or 0)
        return landed

    def _landed_on(self, receipt: Movement) -> tuple[int, ...]:
        landed = (m for m in self.stock.movements if m.ref == receipt.id and self.joins(m))
        return tuple(m.id for m in landed if m.kind == Kind.LANDED_COST)

    def joins(self, movement: Movement) -> bool:
        """Whether a landed cost belongs to goods that this very period brought in."""
        origin = None if movement.ref is None else self.origins.get(movement.ref)
        standing = movement.reverses is None and movement.id not in self.cancelled
        return (
            origin is not None
            and standing
            and origin.kind in RECEIVING
            and origin.reverses is None
            and origin.id not in self.cancelled
        )

    def _open(self, policy: Policy) -> None:
        for opening in self.stock.openings:
            self.places[opening.store].add(OPENING, opening.qty, opening.value)
        layered = set()
        for layer in self.stock.layers:
            pool = self.pool(layer.pool)
            pool.open_with(layer.qty, layer.value, layer.origin, layer.lot)
            layered.add(layer.pool)
        for name, pool in sorted(self.pools.items()):
            places = [place for place in self.places.values() if place.pool is pool]
            qty = sum(place.flows[OPENING] for place in places)
            value = sum(place.flows[OPENING + 1] for place in places)
            pool.rounding = self.stock.settled.get(name, 0)
            value -= pool.rounding
            if name not in layered:
                pool.open_with(qty, value, None, None)
            assert (pool.qty, pool.value) == (qty, value), "layers add up to the openings"
            self._check_opening(pool, policy)

    def _check_opening(self, pool: Pool, policy: Policy) -> None:
        if pool.qty < 0 and policy.negative is Negative.FORBID:
            words = "the opening quantity is negative"
            self.problems.append(problem(Code.NEGATIVE_STOCK, pool.name, extra=words))
        elif pool.qty == 0 and pool.value != 0 and not pool.dipped:
            self.problems.append(problem(Code.ORPHAN_VALUE, pool.name))
        pool.dipped = pool.dipped or pool.qty < 0


class _Places(dict[str, Place]):
    """The stores of the item, each made when it is first met."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running = running

    def __missing__(self, store: str) -> Place:
        place = Place(store, self.running.pool(self.running.pool_of[store]))
        self[store] = place
        return place


def _maker(
    stock: ItemStock, policy: Policy, origins: Mapping[int, Movement]
) -> Callable[[str], Pool]:
    """How a pool of the item's method is made; it tracks the goods that somebody asks for."""
    if stock.method == Method.MOVING:
        average = MovingAverage if policy.unit_cost_digits is None else PrintedAverage
        return lambda name: average(name, policy, stock.last_prices.get(name))
    tracked = _tracked(stock, origins)
    kind = Layers if stock.method == Method.FIFO else Lots
    return lambda name: kind(name, policy, stock.last_prices.get(name), tracked)


def _tracked(stock: ItemStock, origins: Mapping[int, Movement]) -> set[int]:
    if not origins and not stock.references:
        return set()
    asked = set()
    for movement in stock.movements:
        if movement.kind in {Kind.PURCHASE_RETURN, Kind.LANDED_COST} and movement.ref is not None:
            asked.add(movement.ref)
        if movement.reverses is not None and movement.reverses not in origins:
            asked.add(movement.reverses)
    return asked


def _cancelled(stock: ItemStock, origins: Mapping[int, Movement]) -> set[int]:
    """Both rows of every pair that this period takes back: as if they had never been."""
    cancelled = set()
    for movement in stock.movements:
        if movement.reverses is not None and movement.reverses in origins:
            cancelled |= {movement.id, movement.reverses}
    return cancelled
