"""What is wrong with pools that have no price, or a negative one: which goods go round and where.

A circle is a set of pools each of which feeds every other one, on whatever way.
Goods are its source: its own, or what comes from other pools or items. Value alone is none.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from worker.costing.entries import Role
from worker.costing.exact import Price
from worker.costing.pools import Pool, ids_of, reductions
from worker.costing.problems import Code, Problem, problem
from worker.costing.results import Negative, Policy

Found = list[tuple[Pool, Problem]]


@dataclass(slots=True)
class Equation:
    """One pool's `quantity`·price − Σ sources·price(source) = `value`.

    `own` came in at a known cost, `fed` from `sources`; `lines` are the movements by which each
    source feeds the pool. `mixed`: some of it was made of goods that are costed already, too.
    """

    own: int
    value: int
    fed: int = 0
    mixed: bool = False
    sources: dict[int, int] = field(default_factory=dict)
    lines: dict[int, list[int]] = field(default_factory=dict)

    @property
    def quantity(self) -> int:
        """All that comes in at a cost."""
        return self.own + self.fed

    def feed(self, source: int, quantity: int, line: int) -> None:
        """Add what another pool gives, in its own units."""
        self.sources[source] = self.sources.get(source, 0) + quantity
        self.lines.setdefault(source, []).append(line)


def has_source(circle: Sequence[int], equations: Sequence[Equation]) -> bool:
    """Whether any of the goods in a circle have ever come from outside of it.

    Goods that only move keep their number, so that without a source nothing determines a price.
    Production may make two of one: then there is a solution (nothing, or what was added to them
    divided by what became more), but still no goods that this could be the cost of (rule 1.6).
    """
    inside = set(circle)
    return any(e.own or e.mixed or not inside.issuperset(e.sources) for e in equations)


def negative_price(pools: Sequence[Pool], equations: Sequence[Equation]) -> Found:
    """The cause of a price below zero: too much was taken off, or more is made than there was."""
    reduced = [pool for pool in pools if reductions(pool)]
    if reduced:
        return [_problem(Code.RETURN_EXCEEDS_VALUE, p, ids_of(reductions(p))) for p in reduced]
    negative = [p for p, equation in zip(pools, equations, strict=True) if equation.value < 0]
    if negative:
        return [_problem(Code.RETURN_EXCEEDS_VALUE, pool) for pool in negative]
    gaining = _gaining(pools)
    if gaining:
        return gaining
    below = [pool for pool in pools if pool.price.numerator < 0]
    return [_problem(Code.NEGATIVE_STOCK, pool, ids_of(pool.outs)) for pool in below]


def no_price(
    circle: Sequence[int], pools: Sequence[Pool], equations: Sequence[Equation], policy: Policy
) -> Found:
    """Pools whose prices nothing determines: goods go round that never came from anywhere.

    Goods that only go round are all worth the same. So where they may be taken from nowhere for a
    while, one pool's last known price prices them all. Value that cannot leave is orphaned.
    """
    if has_source(circle, equations):
        bearing = ids_of(pools[0].of(Role.KNOWN)) or ids_of(pools[0].of(Role.MADE))
        return [_problem(Code.ORPHAN_VALUE, pools[0], bearing)]
    gaining = _gaining(pools)
    level = _level(pools) if gaining or policy.negative is Negative.PROVISIONAL else None
    only_sent = all(sum(e.sources.values()) == e.fed for e in equations)
    if level is not None and only_sent and not any(equation.value for equation in equations):
        for pool in pools:
            pool.price = level
        return []
    return gaining or _circle_without_source(circle, pools, equations)


def _gaining(pools: Sequence[Pool]) -> Found:
    """Found goods are a source, but nobody said of which value."""
    gaining = [(pool, pool.of(Role.GAIN)) for pool in pools]
    return [_problem(Code.MISSING_COST, pool, ids_of(gains)) for pool, gains in gaining if gains]


def _level(pools: Sequence[Pool]) -> Price | None:
    return next((pool.last_price for pool in pools if pool.last_price.denominator), None)


def _circle_without_source(
    circle: Sequence[int], pools: Sequence[Pool], equations: Sequence[Equation]
) -> Found:
    """Name one way round, the shortest from the first pool, and its movements of each step."""
    by_number = dict(zip(circle, pools, strict=True))
    feeds = dict(zip(circle, equations, strict=True))
    path = _way_round(circle[0], feeds)
    steps = [feeds[target].lines[source] for source, target in pairwise(path)]
    movements = [line for row in zip_longest(*steps) for line in row if line is not None]
    named = [by_number[number] for number in path]
    several = len({pool.item for pool in pools}) > 1
    way = " → ".join(f"{pool.item} in {pool.name}" if several else pool.name for pool in named)
    items = {pool.item: pool for pool in reversed(named)}
    return [
        (pool, problem(Code.CYCLE_WITHOUT_SOURCE, pool.name, tuple(movements), way))
        for _, pool in sorted(items.items())
    ]


def _way_round(start: int, feeds: dict[int, Equation]) -> list[int]:
    """The pools on the shortest way on which goods come back to where they started."""
    came_by: dict[int, int] = {}
    queue = deque([start])
    while start not in came_by:
        target = queue.popleft()
        for source in sorted(feeds[target].sources):
            if source in feeds and source not in came_by:
                came_by[source] = target
                queue.append(source)
    path = [start]
    while len(path) == 1 or path[-1] != start:
        path.append(came_by[path[-1]])
    return path


def _problem(code: Code, pool: Pool, movements: tuple[int, ...] = ()) -> tuple[Pool, Problem]:
    return pool, problem(code, pool.name, movements)
