"""Cost items, each by its method; what is made of other items after them.

A production without a value of its own is worth what it consumed. Items that are made of each
other in a circle are costed together, by their one method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from worker.costing import replay, weighted_average
from worker.costing.components import components
from worker.costing.movements import ItemStock, Kind, Method, Movement, Reference
from worker.costing.problems import Code, problem
from worker.costing.results import ItemCosts, ItemFailure, Policy

Answer = ItemCosts | ItemFailure


def cost_items(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, Answer]:
    """The costs of each item, or why it has none; an item that fails stops no other.

    Movements of each stock are in order (`in_order`), items are named once. Equal inputs give equal
    results. Only an item that is made of a failed one fails with it (SOURCE_NOT_COSTED).
    """
    if len(stocks) == 1:
        return _by_method(stocks, pool_of, policy)
    by_item = {stock.item: stock for stock in stocks}
    owner = {movement.id: stock.item for stock in stocks for movement in stock.movements}
    needs = {stock.item: _made_of(stock, owner) for stock in stocks}
    answers: dict[str, Answer] = {}
    for circle in components(sorted(by_item), needs):
        together = [by_item[item] for item in sorted(circle)]
        outside = sorted({item for stock in together for item in needs[stock.item]} - set(circle))
        refused = _refused(together, owner, [i for i in outside if _failed(answers[i])])
        if refused is not None:
            answers |= refused
            continue
        known = _consumed(outside, by_item, answers)
        fed = [replace(s, references={**s.references, **_of(s, known)}) for s in together]
        answers |= _by_method(fed, pool_of, policy)
    return {stock.item: answers[stock.item] for stock in stocks}


def _made_of(stock: ItemStock, owner: Mapping[int, str]) -> list[str]:
    sources = (source for movement in stock.movements for source in movement.sources)
    return sorted({owner[source] for source in sources if source in owner})


def _failed(answer: Answer) -> bool:
    return isinstance(answer, ItemFailure)


def _refused(
    together: list[ItemStock], owner: Mapping[int, str], failed: list[str]
) -> dict[str, Answer] | None:
    if failed:
        return {stock.item: _not_costed(stock, owner, sorted(failed)) for stock in together}
    if len({stock.method for stock in together}) > 1:
        return {stock.item: _mixed(stock) for stock in together}
    return None


def _by_method(
    together: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, Answer]:
    if together[0].method == Method.PERIODIC:
        return weighted_average.cost_stocks(together, pool_of, policy)
    return replay.cost_stocks(together, pool_of, policy)


def _consumed(
    items: Iterable[str], by_item: Mapping[str, ItemStock], answers: Mapping[str, Answer]
) -> dict[int, Reference]:
    """What the consumptions of items that are costed already have cost."""
    found: dict[int, Reference] = {}
    for item in items:
        costs = answers[item]
        assert isinstance(costs, ItemCosts), "failed items were taken out before"
        values = {line.movement_id: line.value for line in costs.lines}
        found |= {
            m.id: Reference(m.kind, m.store, m.qty, values[m.id], 0)
            for m in by_item[item].movements
            if m.kind == Kind.CONSUME
        }
    return found


def _of(stock: ItemStock, known: Mapping[int, Reference]) -> dict[int, Reference]:
    sources = {source for movement in stock.movements for source in movement.sources}
    return {source: known[source] for source in sources if source in known}


def _not_costed(stock: ItemStock, owner: Mapping[int, str], failed: list[str]) -> ItemFailure:
    bad = set(failed)
    made = tuple(m.id for m in stock.movements if _uses(m, owner, bad))
    named = ", ".join(failed)
    return ItemFailure(problems=(problem(Code.SOURCE_NOT_COSTED, None, made, named),))


def _uses(movement: Movement, owner: Mapping[int, str], items: set[str]) -> bool:
    return any(owner.get(source) in items for source in movement.sources)


def _mixed(stock: ItemStock) -> ItemFailure:
    made = tuple(m.id for m in stock.movements if m.sources)
    return ItemFailure(problems=(problem(Code.METHOD_MISMATCH, None, made),))
