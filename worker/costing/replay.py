"""Methods that replay movements in their order: moving average, FIFO, specific identification.

State is always a quantity and a value in integers; time orders everything, so that transfers
between pools make no circle. The formulas: `moving_average.py`, `fifo.py`, `specific.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from worker.costing.exact import LARGEST
from worker.costing.giving_back import reversal
from worker.costing.instants import replay_order
from worker.costing.movements import ItemStock, Movement
from worker.costing.overflow import too_large
from worker.costing.pool_state import RefusedError
from worker.costing.problems import Code, Problem, gathered, problem
from worker.costing.results import (
    Flow,
    ItemCosts,
    ItemFailure,
    Policy,
    PoolResult,
    StoreBalance,
)
from worker.costing.running import Known, Running
from worker.costing.steps import STEPS, cancelled

Step = Callable[[Running, Movement], None]


def cost_stocks(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, ItemCosts | ItemFailure]:
    """Cost items of one method together: more than one where they are made of each other.

    Movements of each are in order (`in_order`). Equal inputs give equal results. Of items that are
    made of each other one that fails takes all with it (SOURCE_NOT_COSTED).
    """
    known = Known(stocks)
    running = {stock.item: Running(stock, pool_of, policy, known) for stock in stocks}
    movements = replay_order([stock.movements for stock in stocks])
    special = _special(movements, running.values()) if known.wanted else {}
    if len(stocks) == 1:
        _replay(movements, running[stocks[0].item], special)
    else:
        owner = {m.id: running[stock.item] for stock in stocks for m in stock.movements}
        for movement in movements:
            _replay([movement], owner[movement.id], special)
    return _answers(running)


def _replay(movements: list[Movement], running: Running, special: Mapping[int, Step]) -> None:
    steps: Mapping[str, Step] = STEPS
    for movement in movements:
        step = steps[movement.kind]
        if special:
            step = special.get(movement.id, step)
        try:
            step(running, movement)
        except RefusedError as refused:
            running.refuse(movement, refused)


def _special(movements: list[Movement], running: Iterable[Running]) -> dict[int, Step]:
    """The steps of movements that are taken back, or take back one of an earlier period."""
    special: dict[int, Step] = {m.id: reversal for m in movements if m.reverses is not None}
    for one in running:
        special |= dict.fromkeys(one.cancelled, cancelled)
    return special


def _answers(running: Mapping[str, Running]) -> dict[str, ItemCosts | ItemFailure]:
    answers: dict[str, ItemCosts | ItemFailure] = {
        item: _answer(one) for item, one in running.items()
    }
    failed = sorted(item for item, answer in answers.items() if isinstance(answer, ItemFailure))
    if failed:
        for item in [i for i in answers if not isinstance(answers[i], ItemFailure)]:
            made = tuple(m.id for m in running[item].stock.movements if m.sources)
            found = problem(Code.SOURCE_NOT_COSTED, None, made, ", ".join(failed))
            answers[item] = ItemFailure(problems=(found,))
    return answers


def _answer(running: Running) -> ItemCosts | ItemFailure:
    if running.problems:
        return ItemFailure(problems=gathered(running.problems))
    costs = running.results()
    assert len(costs.lines) == len(running.stock.movements), "every movement has its one line"
    exceeding = _exceeding(costs, running)
    return ItemFailure(problems=gathered(exceeding)) if exceeding else costs


def _exceeding(costs: ItemCosts, running: Running) -> list[Problem]:
    """Numbers that no bigint column holds, where they stand."""
    if running.is_small():
        return []
    rows: list[PoolResult | StoreBalance] = [*costs.pools, *costs.stores]
    pools = dict.fromkeys(row.pool for row in rows if _exceeds(row))
    movements, pool_of = running.stock.movements, running.pool_of
    found = [too_large(pool, movements, pool_of, costs.lines) for pool in pools]
    large = tuple(line[0] for line in costs.lines if _beyond([line[1], line[2], line[4]]))
    return found + ([problem(Code.OVERFLOW, None, large)] if large else [])


def _exceeds(row: PoolResult | StoreBalance) -> bool:
    numbers: list[int] = []
    for part in row:
        if isinstance(part, Flow):
            numbers += part
        elif isinstance(part, int):
            numbers.append(part)
    return _beyond(numbers)


def _beyond(numbers: list[int]) -> bool:
    return max(numbers) > LARGEST or min(numbers) < -LARGEST
