"""The price of every pool: the formula of the periodic average.

A pool w has a quantity Q(w) and a value V(w) of its own: its opening and its inputs from outside.
Pool u sends it T(u, w). Both kinds of goods mix, so that

    price(w) = ( V(w) + Σ T(u, w) · price(u) ) / ( Q(w) + Σ T(u, w) )

which is V/Q where nothing comes from other pools. Pools are priced in the order in which goods
flow; those that send to each other in a circle are one system of equations, solved exactly.
Only what comes in counts: what goes out leaves at the price and does not change it.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from worker.costing.circles import Equation, has_source, negative_price, no_price
from worker.costing.components import components
from worker.costing.entries import Role
from worker.costing.exact import NO_PRICE, Price
from worker.costing.movements import Kind
from worker.costing.pools import Book, Pool, first_short, ids_of, leaving_of
from worker.costing.problems import Code, Problem, problem
from worker.costing.results import Negative, Policy
from worker.costing.systems import solve

Found = list[tuple[Pool, Problem]]


def find_prices(pools: Sequence[Pool], book: Book, policy: Policy, bad: Sequence[Pool]) -> Found:
    """Step 2: give each pool its price, or say why it has none.

    Pools that are `bad` already, and those that they feed, get neither.
    """
    if not any(pool.linked for pool in pools):
        refused = {id(pool) for pool in bad}
        found = [(pool, _alone(pool, policy)) for pool in pools if id(pool) not in refused]
        return [(pool, wrong) for pool, wrong in found if wrong is not None]
    return _System(pools, book, policy).solve(bad)


def _alone(pool: Pool, policy: Policy) -> Problem | None:
    """A pool that no other one feeds."""
    quantity, value = pool.own
    if quantity > 0:
        pool.price = Price(value, quantity)
        return None
    if value:
        # Goods that are found take a price and make none: they carry none of it.
        bearers = [entry for entry in pool.of(Role.KNOWN) if entry.qty == 0]
        return problem(Code.ORPHAN_VALUE, pool.name, ids_of(bearers))
    pool.price = _last_known(pool, policy)
    if pool.price is NO_PRICE and pool.of(Role.GAIN):
        return problem(Code.MISSING_COST, pool.name, ids_of(pool.of(Role.GAIN)))
    return first_short(pool) if pool.price is NO_PRICE else None


def _last_known(pool: Pool, policy: Policy) -> Price:
    """What the goods cost when there last were some, for a pool that has none of its own left."""
    quantity, value = pool.before_returns
    if quantity > 0:
        return Price(value, quantity)
    if pool.last_price.denominator:
        return pool.last_price
    if policy.negative is Negative.FORBID:
        return NO_PRICE
    if pool.opening.qty < 0 and pool.opening.value <= 0:
        return Price(-pool.opening.value, -pool.opening.qty)
    hints = (Price(e.movement.value, e.qty) for e in pool.outs if e.movement.value is not None)
    return next(hints, NO_PRICE)


class _System:
    """All pools of one computation with their equations."""

    def __init__(self, pools: Sequence[Pool], book: Book, policy: Policy) -> None:
        self.pools = pools
        self.policy = policy
        leaving = {
            entry.movement.id: (number, entry.qty)
            for number, pool in enumerate(pools)
            for entry in leaving_of(pool)
        }
        self.equations = [_equation(pool, leaving, book) for pool in pools]

    def solve(self, bad: Sequence[Pool]) -> Found:
        """Component by component, each after those that feed it."""
        needs = {number: sorted(e.sources) for number, e in enumerate(self.equations)}
        refused = {id(pool) for pool in bad}
        lost = {number for number, pool in enumerate(self.pools) if id(pool) in refused}
        found: Found = []
        for circle in components(range(len(self.pools)), needs):
            feeding = {source for member in circle for source in needs[member]}
            if lost.isdisjoint(feeding.union(circle)):
                wrong = self._price(sorted(circle))
                found += wrong
                lost.update(circle if wrong else ())
            else:
                lost.update(circle)
        return found

    def _price(self, circle: list[int]) -> Found:
        pools = [self.pools[member] for member in circle]
        equations = [self.equations[member] for member in circle]
        for pool in pools:
            pool.partners = len(circle)
        if not equations[0].quantity:
            wrong = _alone(pools[0], self.policy)
            return [] if wrong is None else [(pools[0], wrong)]
        prices = self._solved(circle, equations) if has_source(circle, equations) else None
        if prices is None:
            return no_price(circle, pools, equations, self.policy)
        for pool, price in zip(pools, prices, strict=True):
            pool.price = price
        if any(price.numerator < 0 for price in prices):
            return negative_price(pools, equations)
        return []

    def _solved(self, circle: list[int], equations: list[Equation]) -> list[Price] | None:
        """The prices of a circle, those outside being known; None where nothing determines them."""
        if not equations[0].sources:
            return [Price(equations[0].value, equations[0].quantity)]
        column = {member: number for number, member in enumerate(circle)}
        rows, right = [], []
        for member, equation in zip(circle, equations, strict=True):
            row, known = {column[member]: equation.quantity}, Fraction(equation.value)
            for source, quantity in equation.sources.items():
                if source in column:
                    row[column[source]] = row.get(column[source], 0) - quantity
                else:
                    known += quantity * _fraction(self.pools[source].price)
            rows.append(row)
            right.append(known)
        found = solve(rows, right)
        return None if found is None else [Price(x.numerator, x.denominator) for x in found]


def _equation(pool: Pool, leaving: Mapping[int, tuple[int, int]], book: Book) -> Equation:
    """The formula for one pool; `leaving` says of each line that waits which pool it leaves."""
    equation = Equation(pool.own.qty, pool.own.value)
    for movement, role, _, qty, added, origin in pool.linked:
        if role is Role.MADE:
            equation.fed += qty
            equation.value += added or 0
            equation.mixed |= len(book.sources[movement.id]) < len(movement.sources)
            for source in book.sources[movement.id]:
                if source in leaving:
                    equation.feed(*leaving[source], movement.id)
        elif movement.kind == Kind.TRANSFER and movement.id in book.values:
            equation.own += qty
            equation.value += book.values[movement.id]
        else:
            equation.fed += qty
            assert origin is not None, "what came from another pool names its line there"
            equation.feed(leaving[origin.id][0], qty, movement.id)
    return equation


def _fraction(price: Price) -> Fraction:
    return Fraction(*price) if price.denominator else Fraction(0)
