"""The invariants of domain rules I1 to I5 and I7, asserted for every pool that is costed."""

from collections.abc import Iterable

from worker.costing.laws import assert_lawful
from worker.costing.pools import Book, Pool
from worker.costing.results import Flow, Policy, PoolResult, ResiduePolicy


def assert_conserved(result: PoolResult, pool: Pool, book: Book, policy: Policy) -> None:
    """Stop at once when a pool does not add up: that is a bug of ours, never bad input."""
    assert_lawful(result)
    assert result.closing == _left(pool), "what is there is what was left when all had gone out"
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
