"""The periodic weighted average (bình quân gia quyền cuối kỳ): what each movement of an item cost.

The formula is in `prices`. A price is kept as an exact quotient and never rounded; every line is
rounded from it once, and state is always a (quantity, value) pair.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter

from worker.costing.conservation import assert_conserved, assert_sent_is_received
from worker.costing.entries import SIGNS, Classified, Role, cancelled_in, classify
from worker.costing.exact import LARGEST, NO_PRICE
from worker.costing.movements import ItemStock, Kind, Movement
from worker.costing.overflow import too_large
from worker.costing.pools import (
    Book,
    Pool,
    finish,
    take_inputs,
    value_linked,
    value_movements,
)
from worker.costing.prices import find_prices
from worker.costing.problems import Code, Problem, gathered, problem
from worker.costing.pushes import push_residues
from worker.costing.results import (
    Flow,
    ItemCosts,
    ItemFailure,
    Line,
    Policy,
    PoolResult,
)
from worker.costing.stores import balances, summary

Answer = ItemCosts | ItemFailure
Problems = dict[str, list[Problem]]
# What of a line is a number of its own: value, variance, true-up. Its quantity is its pool's, too.
_LINE_NUMBERS = (1, 2, 4)


def cost_stocks(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, Answer]:
    """Cost items together: more than one where they are made of each other in a circle.

    Movements are in order. A failure names every cause; what is made of a failed item fails, too.
    Equal inputs give equal results. Quantity and value are conserved to the last unit.
    """
    consumed = _consumed(stocks) if len(stocks) > 1 else None
    read = {stock.item: classify(stock, pool_of, consumed) for stock in stocks}
    problems = {item: found.problems for item, found in read.items() if found.problems}
    if problems:
        return _failures(stocks, problems)
    book, pools = Book(), []
    for stock in stocks:
        pools += _pools(stock, pool_of, read[stock.item])
        book.variances |= read[stock.item].variances
        book.sources |= read[stock.item].sources
    problems = _cost(pools, book, policy)
    if problems:
        return _failures(stocks, problems)
    answers: dict[str, Answer] = {}
    for stock in stocks:
        own = [pool for pool in pools if pool.item == stock.item]
        costs = _shown(stock, pool_of, own, book, policy)
        costs.lines.extend(_lines(own, book, read[stock.item]))
        assert len(costs.lines) == len(stock.movements), "every movement has its one line"
        answers[stock.item] = costs
        exceeding = _exceeding(costs, stock, pool_of)
        if exceeding:
            problems[stock.item] = exceeding
    return _failures(stocks, problems) if problems else answers


def cost_item(stock: ItemStock, pool_of: Mapping[str, str], policy: Policy) -> Answer:
    """As `cost_stocks`, for one item."""
    return cost_stocks([stock], pool_of, policy)[stock.item]


def _cost(pools: Sequence[Pool], book: Book, policy: Policy) -> Problems:
    """The six steps, each for all pools."""
    found = [(pool, take_inputs(pool, book, policy)) for pool in pools]
    wrong = [(pool, problem) for pool, problem in found if problem is not None]
    wrong += find_prices(pools, book, policy, [pool for pool, _ in wrong])
    if wrong:
        return _by_item(wrong)
    for pool in pools:
        value_movements(pool, book, policy)
    for pool in pools:
        value_linked(pool, book)
    wrong = push_residues(pools, book, policy)
    if wrong:
        return _by_item(wrong)
    for pool in pools:
        finish(pool, book)
    return {}


def _by_item(wrong: Sequence[tuple[Pool, Problem]]) -> Problems:
    problems: Problems = {}
    for pool, found in wrong:
        problems.setdefault(pool.item, []).append(found)
    return problems


def _failures(stocks: Sequence[ItemStock], problems: Problems) -> dict[str, Answer]:
    """Why each item failed; one that is only made of a failed one says so."""
    failed = ", ".join(sorted(problems))
    answers: dict[str, Answer] = {}
    for stock in stocks:
        made = tuple(movement.id for movement in stock.movements if movement.sources)
        found = problems.get(stock.item) or [problem(Code.SOURCE_NOT_COSTED, None, made, failed)]
        answers[stock.item] = ItemFailure(problems=gathered(found))
    return answers


def _consumed(stocks: Sequence[ItemStock]) -> dict[int, Movement]:
    """The consumptions that stand: what is made of one that was taken back has no cost."""
    consumed = {m.id: m for stock in stocks for m in stock.movements if m.kind == Kind.CONSUME}
    for number in set().union(*map(cancelled_in, stocks)):
        consumed.pop(number, None)
    return consumed


def _pools(stock: ItemStock, pool_of: Mapping[str, str], read: Classified) -> list[Pool]:
    """The item's pools in the order of their names, each with its opening and its entries."""
    pools: dict[str, Pool] = {}

    def pool(name: str) -> Pool:
        known = pools.get(name)
        if known is None:
            price = stock.last_prices.get(name, NO_PRICE)
            known = pools[name] = Pool(stock.item, name, Flow(0, 0), price)
        return known

    for store, qty, value in stock.openings:
        opened = pool(pool_of[store])
        opened.opening = Flow(opened.opening.qty + qty, opened.opening.value + value)
    for name, value in stock.settled.items():
        opened = pool(name)
        opened.settled_before = value
        opened.opening = Flow(opened.opening.qty, opened.opening.value - value)
    for entry in read.entries:
        there = pools.get(entry.pool) or pool(entry.pool)
        there.entries.append(entry)
        there.net += SIGNS[entry.role] * entry.qty
        of_role = there.by_role.get(entry.role)
        if of_role is None:
            there.by_role[entry.role] = [entry]
        else:
            of_role.append(entry)
    return [pools[name] for name in sorted(pools)]


def _shown(
    stock: ItemStock, pool_of: Mapping[str, str], pools: Sequence[Pool], book: Book, policy: Policy
) -> ItemCosts:
    costs = ItemCosts(lines=[], pools=[], stores=[])
    for pool in pools:
        result = summary(pool, book)
        assert_conserved(result, pool, book, policy)
        costs.pools.append(result)
        costs.stores.extend(balances(stock, pool_of, result, pool, book))
    assert_sent_is_received(costs.pools)
    return costs


def _lines(pools: Sequence[Pool], book: Book, read: Classified) -> list[Line]:
    """One line a movement; what arrives from another pool has its line where it left."""
    values, differences = book.values, read.differences
    beside = book.variances or differences or book.true_ups
    ids = [
        movement.id
        for pool in pools
        for movement, role, _, _, _, origin in pool.entries
        if role is not Role.ARRIVED or origin is not movement
    ]
    if not beside:
        return [Line(number, values[number], 0, None) for number in ids]
    variances, true_ups = book.variances, book.true_ups
    return [
        Line(i, values[i], variances.get(i, 0), differences.get(i), true_ups.get(i, 0)) for i in ids
    ]


def _exceeding(costs: ItemCosts, stock: ItemStock, pool_of: Mapping[str, str]) -> list[Problem]:
    """What fits its pool may still not fit a line: a transfer moves the same goods many times."""
    columns = (map(itemgetter(column), costs.lines) for column in _LINE_NUMBERS)
    fit = not costs.lines or _fits(*chain.from_iterable(columns))
    lines = [] if fit else [line.movement_id for line in costs.lines if _line_overflows(line)]
    pools = [pool.pool for pool in costs.pools if _pool_overflows(pool)]
    pools += [s.pool for s in costs.stores if not _fits(*chain(*s[2:8]), s.averaging)]
    movements = stock.movements
    found = [problem(Code.OVERFLOW, None, tuple(lines))] if lines else []
    return found + [
        too_large(pool, movements, pool_of, costs.lines) for pool in dict.fromkeys(pools)
    ]


def _line_overflows(line: Line) -> bool:
    return not _fits(line.value, line.variance, line.true_up)


def _pool_overflows(result: PoolResult) -> bool:
    """The price is kept without bounds; everything else is what a column holds."""
    flows = chain(*result[1:9], result.transfer_in, result.transfer_out)
    return not _fits(*flows, result.rounding, result.variance, result.true_up)


def _fits(*numbers: int) -> bool:
    return min(numbers) >= -LARGEST and max(numbers) <= LARGEST
