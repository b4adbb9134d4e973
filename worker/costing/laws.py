"""What every pool's result must be, whatever the method: I1, I2, I4 and I5 of the domain.

They are the CHECKs of `books.pool_results`: a row that they refused would end the whole run, so an
item's numbers are held against them while it still is one item.
"""

from worker.costing.results import PoolResult


def assert_lawful(result: PoolResult) -> None:
    """Stop where a pool does not add up: that is a bug of ours, never bad input."""
    r, closing, owed = result, result.closing, result.owed
    came_in = r.opening.qty + r.receipt.qty + r.gain.qty + r.sales_return.qty + r.transfer_in.qty
    went_out = r.issue.qty + r.usage.qty + r.purchase_return.qty + r.transfer_out.qty
    assert came_in == went_out + closing.qty, "I2: quantity is conserved"
    came_in = r.opening.value + r.receipt.value + r.gain.value + r.sales_return.value
    went_out = r.issue.value + r.usage.value + r.purchase_return.value + r.transfer_out.value
    beside = r.rounding + r.true_up
    assert came_in + r.transfer_in.value == went_out + closing.value + beside, "I1: value is, too"
    there, worth = closing.qty + owed.qty, closing.value + owed.value
    assert there >= 0 <= owed.qty, "what is owed is told apart"
    assert worth >= 0 <= owed.value, "I5: goods are worth no less than nothing, debts no more"
    assert there or worth == 0, "I4: an empty pool is worth nothing"
    assert owed.qty or owed.value == 0, "I4: nor is a debt of nothing"
    assert r.price_num >= 0 <= r.price_den, "I5: no price is below nothing"
