"""The invariants of domain rules I1 to I5 and I7, asserted for every pool that is costed."""

from worker.costing.entries import Entry
from worker.costing.pools import PoolCosts
from worker.costing.results import Flow, Policy, PoolResult, ResiduePolicy


def assert_conserved(
    result: PoolResult, entries: list[Entry], costs: PoolCosts, policy: Policy
) -> None:
    """Stop at once when a pool does not add up: that is a bug of ours, never bad input."""
    came_in = _plus(result.opening, result.receipt, result.gain, result.sales_return)
    went_out = _plus(result.issue, result.usage, result.purchase_return)
    closing = result.closing
    assert came_in.qty == went_out.qty + closing.qty, "I2: quantity is conserved"
    assert came_in.value == went_out.value + closing.value + result.rounding, "I1: value too"
    assert len(costs.values) == len(entries), "every entry has its one value (I3: one integer)"
    assert closing.qty >= 0, "negative stock was refused before"
    assert closing.value >= 0, "I5: no pool is worth less than nothing"
    assert closing.qty != 0 or closing.value == 0, "I4: an empty pool is worth nothing"
    _assert_near_exact(costs, policy)


def _assert_near_exact(costs: PoolCosts, policy: Policy) -> None:
    numerator, denominator = costs.price
    cumulative = policy.residue is ResiduePolicy.CUMULATIVE and policy.unit_cost_digits is None
    allowed = (1 + costs.pushes) * denominator
    for entry in costs.outs:
        value = costs.values[entry.movement.id]
        assert value >= 0, "I5: nothing leaves at a negative value"
        if cumulative and denominator:
            off = abs(value * denominator - numerator * entry.qty)
            assert off <= allowed, "I7: a line is within one unit a push of the exact price"


def _plus(*flows: Flow) -> Flow:
    return Flow(sum(flow.qty for flow in flows), sum(flow.value for flow in flows))
