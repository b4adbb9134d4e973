"""Hold an engine's answers against the oracle: every number, and every refusal."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from tests.costing_oracle.companies import Company
from tests.costing_oracle.happened import Exact
from tests.costing_oracle.laws import LARGEST, obeys
from tests.costing_oracle.periodic import exact
from tests.costing_oracle.replay import Layer, Replayed, replayed
from tests.costing_oracle.story import RefusedError
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Method, Movement, Reference
from worker.costing.problems import Code
from worker.costing.results import (
    ItemCosts,
    ItemFailure,
    Negative,
    Policy,
    PoolResult,
    ResiduePolicy,
)

Answers = Mapping[str, ItemCosts | ItemFailure]


def judged(company: Company, policy: Policy | None = None) -> Answers:
    """What the engine says of a company, after it has been held against laws and oracle."""
    policy, told = policy or Policy(), repr(company)
    answers = cost_items(company.stocks, company.pool_of, policy)
    assert repr(company) == told, "I9: what was read, of whatever period, is as it was"
    assert list(answers) == [stock.item for stock in company.stocks]
    provisional = policy.negative is Negative.PROVISIONAL
    for item, answer in answers.items():
        if isinstance(answer, ItemCosts):
            obeys(company, item, answer, provisional=provisional)
        else:
            assert answer.problems, "a failure has a reason"
    for circle in circles(company.stocks):
        _judge(company, circle, answers, policy)
    _depends_on_its_own(company, answers, policy)
    return answers


def _depends_on_its_own(company: Company, answers: Answers, policy: Policy) -> None:
    """I8: what an item costs is the same without all that it is not made of."""
    for item, reach in _reach(company.stocks).items():
        if len(reach) < len(company.stocks):
            scope = [stock for stock in company.stocks if stock.item in reach]
            alone = cost_items(scope, company.pool_of, policy)
            assert alone == {each: answers[each] for each in alone}, f"I8: {item} alone"


def circles(stocks: Sequence[ItemStock]) -> list[list[ItemStock]]:
    """Items that are made of each other, each circle after what it is made of."""
    reach = _reach(stocks)
    groups = {frozenset(o for o in reach if o in reach[i] and i in reach[o]) for i in reach}
    ordered = sorted(groups, key=lambda group: (len(reach[min(group)]), min(group)))
    return [[s for s in stocks if s.item in group] for group in ordered]


def _reach(stocks: Sequence[ItemStock]) -> dict[str, set[str]]:
    """Each item with all that it is made of, through whatever others."""
    owner = {m.id: stock.item for stock in stocks for m in stock.movements}
    needs = {
        stock.item: {owner[s] for m in stock.movements for s in m.sources if s in owner}
        for stock in stocks
    }
    reach = {item: {item} for item in needs}
    for _ in needs:
        for seen in reach.values():
            seen |= {further for each in list(seen) for further in needs[each]}
    return reach


def _judge(company: Company, circle: list[ItemStock], answers: Answers, policy: Policy) -> None:
    mine = {stock.item: answers[stock.item] for stock in circle}
    fed = [_fed(stock, circle, company, answers) for stock in circle]
    if any(stock is None for stock in fed):
        assert all(_codes(answer) == {Code.SOURCE_NOT_COSTED} for answer in mine.values())
        return
    stocks = [stock for stock in fed if stock is not None]
    if any(Code.OVERFLOW in _codes(answer) for answer in mine.values()):
        assert _is_large(stocks), "everything together would have fitted"
        return
    provisional = policy.negative is Negative.PROVISIONAL
    try:
        known = _known(stocks, company, provisional=provisional)
    except RefusedError as refused:
        _is_refused(refused, mine)
        return
    for item, answer in mine.items():
        assert isinstance(answer, ItemCosts), f"{item} can be costed: {answer}"
        if isinstance(known, Exact):
            _is_near(item, answer, known, company, policy)
        else:
            _is_equal(item, answer, known, company)


def _known(stocks: list[ItemStock], company: Company, *, provisional: bool) -> Exact | Replayed:
    if stocks[0].method == Method.PERIODIC:
        return exact(stocks, company.pool_of, provisional=provisional)
    return replayed(stocks, company.pool_of, provisional=provisional)


def _fed(
    stock: ItemStock, circle: list[ItemStock], company: Company, answers: Answers
) -> ItemStock | None:
    """The stock with what its sources outside the circle cost; None where one was not costed."""
    inside = {m.id for each in circle for m in each.movements}
    every = company.movements()
    owner = {m.id: s.item for s in company.stocks for m in s.movements}
    known: dict[int, Reference] = {}
    for source in (s for each in circle for m in each.movements for s in m.sources):
        if source in inside or source not in owner:
            continue
        answer = answers[owner[source]]
        if isinstance(answer, ItemFailure):
            return None
        value = next(line.value for line in answer.lines if line.movement_id == source)
        m = every[source]
        known[source] = Reference(m.kind, m.store, m.qty, value, 0)
    return replace(stock, references={**stock.references, **known})


def _is_large(stocks: list[ItemStock]) -> bool:
    """Whether everything that is said of the items exceeds a bigint if it is put together."""
    quantity = value = 0
    # What is found without a value has that of what is there.
    found = sum(m.kind in {"adjust_in", "count"} for stock in stocks for m in stock.movements)
    for stock in stocks:
        rows = [(o.qty, o.value) for o in stock.openings]
        rows += [(m.qty, m.value or 0) for m in stock.movements]
        rows += [(r.qty, r.value or 0) for r in stock.references.values()]
        quantity += sum(abs(q) for q, _ in rows)
        value += sum(abs(v) for _, v in rows)
    return max(quantity, value * (1 + found)) > LARGEST


def _codes(answer: ItemCosts | ItemFailure) -> set[Code]:
    return set() if isinstance(answer, ItemCosts) else {p.code for p in answer.problems}


def _is_refused(refused: RefusedError, mine: Answers) -> None:
    codes = {code for answer in mine.values() for code in _codes(answer)}
    assert all(isinstance(answer, ItemFailure) for answer in mine.values()), (
        f"{refused} is demanded"
    )
    if refused.code is None:
        return
    assert refused.code in codes, f"{refused} is demanded, found {mine}"
    named = {
        number
        for answer in mine.values()
        if isinstance(answer, ItemFailure)
        for problem in answer.problems
        if problem.code == refused.code
        for number in problem.movement_ids
    }
    assert refused.movement is None or refused.movement in named, f"{refused}, found {mine}"


def _is_near(item: str, costs: ItemCosts, known: Exact, company: Company, policy: Policy) -> None:
    """Prices are equal as rationals; lines are within one unit and one for each push."""
    pools = {pool.pool: pool for pool in costs.pools}
    closing = {pool: found for (i, pool), found in known.closing.items() if i == item}
    empty = {pool for pool in closing if pool not in pools}
    assert not any(any(closing[pool]) for pool in empty), "only what never had anything is left out"
    pushes = sum(pool.pushes for pool in costs.pools)
    for name, pool in pools.items():
        if (item, name) not in known.unpriced:
            _has_price(pool, known.prices.get((item, name)))
        quantity, value = closing.get(name, (0, Fraction(0)))
        assert pool.closing.qty == quantity, f"closing quantity of {name}"
        true_up = known.true_ups.get((item, name), Fraction(0))
        assert abs(pool.true_up - true_up) <= 2 + pushes, f"true-up of {name}: {float(true_up)}"
        lines = 2 + len(costs.lines) + pushes
        assert abs(pool.closing.value - value) <= lines, f"closing value of {name}: {float(value)}"
    if policy.residue is not ResiduePolicy.CUMULATIVE or policy.unit_cost_digits is not None:
        return
    # More of it would be no rounding, and would make the bounds below say nothing.
    assert pushes <= 1 + len(costs.lines) + len(pools), f"{pushes} pushes"
    movements = company.movements()
    _pairs_vanish(costs, known.cancelled, movements)
    for line in costs.lines:
        number = line.movement_id
        if number in known.cancelled:
            continue
        if number in known.known:
            assert line.value == known.known[number], f"line {number} is known: {known.known}"
        elif not _inside(company, number):
            # A return is a part of its sale's line, which is itself rounded.
            more = 2 if movements[number].kind in {"sales_return", "produce"} else 1
            off = abs(line.value - known.lines[number])
            assert off <= more + pushes, f"I7: line {number} is {off} away from exact"
        if number in known.variances and number in known.known:
            assert line.variance == known.variances[number], f"variance of {number}"
        elif number in known.variances:
            assert line.value - line.variance == round(
                known.lines[number] - known.variances[number]
            ), f"variance of {number}"
        else:
            assert line.variance == 0, f"variance of {number}"


def _pairs_vanish(costs: ItemCosts, cancelled: set[int], movements: Mapping[int, Movement]) -> None:
    """Whatever price the two rows of a reversal show, it is the same."""
    lines = {line.movement_id: line for line in costs.lines}
    for number in cancelled & lines.keys():
        origin = movements[number].reverses
        if origin is not None:
            assert lines[number].value == lines[origin].value, "a reversal takes back all of it"
        assert lines[number].variance == lines[number].true_up == 0


def _has_price(pool: PoolResult, price: Fraction | None) -> None:
    if price is None:
        assert pool.price_den == 0 or pool.price_num == 0, f"{pool.pool} has no price"
    else:
        assert pool.price_den, f"{pool.pool} costs {price}"
        assert Fraction(pool.price_num, pool.price_den) == price, f"price of {pool.pool}: {pool}"


def _inside(company: Company, number: int) -> bool:
    """Whether a transfer stays in its pool; its line then only shows a price."""
    movement = company.movements()[number]
    target = movement.to_store
    return target is not None and company.pool_of[target] == company.pool_of[movement.store]


def _is_equal(item: str, costs: ItemCosts, found: Replayed, company: Company) -> None:
    pools = {pool.pool: (pool.closing.qty, pool.closing.value) for pool in costs.pools}
    closing = {pool: known for (i, pool), known in found.closing().items() if i == item}
    for name in pools.keys() | closing.keys():
        assert pools.get(name, (0, 0)) == closing.get(name, (0, 0)), f"closing of {name}"
    _pairs_vanish(costs, found.cancelled, company.movements())
    for line in costs.lines:
        number = line.movement_id
        if number in found.cancelled:
            continue
        if not _inside(company, number):
            assert line.value == found.lines[number], f"line {number}, oracle {found.lines}"
        assert line.variance == found.variances[number], f"variance of {number}"
        assert line.true_up == found.true_ups[number], f"true-up of {number}"
        if line.qty_diff is not None:
            assert line.qty_diff == found.found[number], f"count {number}"
    _has_layers(item, costs, found)


def _has_layers(item: str, costs: ItemCosts, found: Replayed) -> None:
    if not costs.layers:
        return
    mine = sorted(
        (pool, str(lot), n, layer.qty, layer.value)
        for (i, pool, lot), queue in found.queues.items()
        if i == item
        for n, layer in enumerate(
            [*queue.layers, *(Layer(-x.qty, -x.value, None) for x in queue.debts)]
        )
    )
    numbers: dict[tuple[str, str], int] = {}
    theirs = []
    for layer in costs.layers:
        key = (layer.pool, str(layer.lot))
        theirs.append((*key, numbers.get(key, 0), layer.qty, layer.value))
        numbers[key] = numbers.get(key, 0) + 1
    assert sorted(theirs) == mine, "layers"
