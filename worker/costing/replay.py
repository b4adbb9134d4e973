"""Methods that replay movements in their order: moving average, FIFO, specific identification."""

from collections.abc import Mapping, Sequence

from worker.costing.movements import ItemStock
from worker.costing.problems import Code, problem
from worker.costing.results import ItemCosts, ItemFailure, Policy


def cost_stocks(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], policy: Policy
) -> dict[str, ItemCosts | ItemFailure]:
    """Cost items of one method together: more than one where they are made of each other."""
    assert pool_of is not None
    assert policy is not None
    refused = ItemFailure(problems=(problem(Code.METHOD_MISMATCH, None),))
    return dict.fromkeys((stock.item for stock in stocks), refused)
