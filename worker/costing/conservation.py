"""The invariants of domain rules I1 to I5 and I7, asserted for every pool that is costed."""

from collections.abc import Iterable

from worker.costing.pools import Book, Pool
from worker.costing.results import Flow, Policy, PoolResult, ResiduePolicy


def assert_conserved(result: PoolResult, pool: Pool, book: Book, policy: Policy) -> None:
    """Stop at once when a pool does not add up: that is a bug of ours, never bad input."""
    r, closing = result, result.closing
    came_in = r.opening.qty + r.receipt.qty + r.gain.qty + r.sales_return.qty + r.transfer_in.qty
    went_out = r.issue.qty + r.usage.qty + r.purchase_return.qty + r.transfer_out.qty
    assert came_in == went_out + closing.qty, "I2: quantity is conserved"
    came_in = r.opening.value + r.receipt.value + r.gain.value + r.sales_return.value
    went_out = r.issue.value + r.usage.value + r.purchase_return.value + r.transfer_out.value
    beside = r.rounding + r.true_up
    assert came_in + r.transfer_in.value == went_out + closing.value + beside, "I1: value is, too"
    assert closing == _left(pool), "and it is what was left when all had gone out"
    if closing.qty >= 0:
        assert closing.value >= 0, "I5: goods are worth no less than nothing"
    assert closing.qty != 0 or closing.value == 0, "I4: an empty pool is worth nothing"
    _assert_near_exact(pool, book, policy)


def assert_sent_is_received(results: Iterable[PoolResult]) -> None:
    """I3: between pools not a unit is lost; both legs of a transfer are one integer."""
    sent = received = 0
    for result in results:
        sent += result.transfer_out.value
        received += result.transfer_in.value
    assert sent == received, "I3: what pools sent is what pools received"


def _assert_near_exact(pool: Pool, book: Book, policy: Policy) -> None:
    numerator, denominator = pool.price
    cumulative = policy.residue is ResiduePolicy.CUMULATIVE and policy.unit_cost_digits is None
    values, moved = book.values, book.moved
    for entry in pool.outs:
        value = values[entry.movement.id]
        assert value >= 0, "I5: nothing leaves at a negative value"
        if cumulative and denominator:
            off = abs(value * denominator - numerator * entry.qty)
            pushes = moved.get(entry.movement.id, 0) if moved else 0
            assert off <= (1 + pushes) * denominator, "I7: near the exact price, but for pushes"


def _left(pool: Pool) -> Flow:
    if pool.opening.qty >= 0:
        return pool.left
    owed = pool.opening.value + pool.settlement - pool.true_up
    return Flow(pool.left.qty + pool.opening.qty + pool.settled, pool.left.value + owed)
