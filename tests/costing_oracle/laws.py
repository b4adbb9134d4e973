"""The invariants of domain rule 1.10 that a result shows by itself, and where the others are.

After every company that is told:
- here I1 value, I2 quantity, I3 transfers, I4 an empty pool, I5 nothing below zero, I6 layers;
- I7 near the exact price: `judge.py`; equal bytes: `test_oracle_chunks.py`, `test_same_bytes.py`;
- I8 a run touches what is in its scope: here by name, and in `judge.py`: an item costs alone what
  it costs beside others;
- I9 closed periods do not change: `judge.py`: all that is said of earlier periods stays as it was
  (the tables themselves: `tests/protocol`);
- I10 a period opens with what the last one closed with: `test_oracle_chunks.py`, by way of rows.

I11, that the ledger agrees, is for the tests of posting.
"""

from collections import defaultdict

from tests.costing_oracle.companies import Company
from worker.costing.movements import ItemStock, Method
from worker.costing.results import ItemCosts, PoolResult

LARGEST = 2**63 - 1
IN = ("opening", "receipt", "gain", "sales_return", "transfer_in")
OUT = ("issue", "usage", "purchase_return", "transfer_out", "closing")


def obeys(company: Company, item: str, costs: ItemCosts, *, provisional: bool = False) -> None:
    """Assert every law for one item's result."""
    stock = next(s for s in company.stocks if s.item == item)
    numbers = sorted(line.movement_id for line in costs.lines)
    assert numbers == sorted(m.id for m in stock.movements), "each movement has its one line"
    _stays_in_scope(company, stock, costs)
    _lines_are_sound(company, costs, provisional=provisional)
    for pool in costs.pools:
        _conserves(pool)
        assert min(pool.price_num, pool.price_den) >= 0, f"I5: {pool}"
        if not (provisional and stock.method == Method.SPECIFIC):
            # A pool may hold one lot and owe another.
            _is_sound(pool, provisional=provisional)
    sent, got = _sums(costs, "transfer_out"), _sums(costs, "transfer_in")
    assert sent == got, "I3: what left one pool has come to another, the same integer"
    _lines_are_flows(company, costs)
    _stores_make_pools(costs)
    if stock.method in {Method.FIFO, Method.SPECIFIC}:
        _layers_make_pools(costs)
    _fits(costs)


def _stays_in_scope(company: Company, stock: ItemStock, costs: ItemCosts) -> None:
    """I8: only stores that the item was in, and only their pools."""
    stores = {m.store for m in stock.movements} | {o.store for o in stock.openings}
    stores |= {m.to_store for m in stock.movements if m.to_store is not None}
    # Freight is a cost of its receipt, wherever that came in.
    stores |= {reference.store for reference in stock.references.values()}
    pools = {company.pool_of[store] for store in stores}
    assert {store.store for store in costs.stores} <= stores, "I8: stores"
    named = [pool.pool for pool in costs.pools] + [layer.pool for layer in costs.layers]
    assert {*named, *(store.pool for store in costs.stores)} <= pools, "I8: pools"


def _lines_are_sound(company: Company, costs: ItemCosts, *, provisional: bool) -> None:
    """I5: nothing moves at less than nothing; a count may take value from what it finds."""
    movements = company.movements()
    for line in costs.lines:
        movement = movements[line.movement_id]
        told = movement.value is not None and movement.value < 0
        if not (provisional or told or movement.kind in {"landed_cost", "count"}):
            assert line.value >= 0, f"I5: {line}"


def _conserves(pool: PoolResult) -> None:
    came = sum(getattr(pool, name).qty for name in IN)
    went = sum(getattr(pool, name).qty for name in OUT)
    assert came == went, f"I2: {pool}"
    came = sum(getattr(pool, name).value for name in IN)
    went = sum(getattr(pool, name).value for name in OUT)
    assert came == went + pool.rounding + pool.true_up, f"I1: {pool}"


def _is_sound(pool: PoolResult, *, provisional: bool) -> None:
    closing = pool.closing
    assert provisional or closing.qty >= 0, "nothing is less than nothing"
    assert closing.qty != 0 or closing.value == 0, f"I4: {pool}"
    assert closing.qty < 0 or closing.value >= 0, f"I5: {pool}"
    assert closing.qty >= 0 or closing.value <= 0, "what is owed is worth no more than nothing"


def _sums(costs: ItemCosts, name: str) -> tuple[int, int]:
    flows = [getattr(pool, name) for pool in costs.pools]
    return sum(flow.qty for flow in flows), sum(flow.value for flow in flows)


def _lines_are_flows(company: Company, costs: ItemCosts) -> None:
    """What the lines of sales and transfers say is what the pools say."""
    kinds = company.movements()
    sums: dict[str, int] = defaultdict(int)
    for line in costs.lines:
        movement = kinds[line.movement_id]
        if movement.reverses is not None:
            return  # where a reversal stands is told by the pools' conservation
        sums[movement.kind] += line.value
    assert sums["issue"] == _sums(costs, "issue")[1]
    assert sums["sales_return"] == _sums(costs, "sales_return")[1]
    assert sums["purchase_return"] == _sums(costs, "purchase_return")[1]
    assert sum(line.true_up for line in costs.lines) == sum(pool.true_up for pool in costs.pools)
    variance = sum(line.variance for line in costs.lines)
    assert variance == sum(pool.variance for pool in costs.pools)


def _stores_make_pools(costs: ItemCosts) -> None:
    for pool in costs.pools:
        inside = [store for store in costs.stores if store.pool == pool.pool]
        assert sum(store.closing.qty for store in inside) == pool.closing.qty
        assert sum(store.closing.value for store in inside) == pool.closing.value
    for store in costs.stores:
        came = store.opening.value + store.incoming.value + store.transfer_in.value
        went = store.outgoing.value + store.transfer_out.value + store.closing.value
        assert came + store.averaging == went, f"I1: {store}"
        came = store.opening.qty + store.incoming.qty + store.transfer_in.qty
        assert came == store.outgoing.qty + store.transfer_out.qty + store.closing.qty, (
            f"I2: {store}"
        )


def _layers_make_pools(costs: ItemCosts) -> None:
    for pool in costs.pools:
        layers = [layer for layer in costs.layers if layer.pool == pool.pool]
        assert sum(layer.qty for layer in layers) == pool.closing.qty, "I6"
        assert sum(layer.value for layer in layers) == pool.closing.value, "I6"
        assert all(layer.qty != 0 for layer in layers), "a layer without goods is none"


def _fits(costs: ItemCosts) -> None:
    """Nothing that a bigint column cannot hold; the price has columns without a bound."""
    for line in costs.lines:
        assert all(abs(n) <= LARGEST for n in line if n is not None)
    for pool in costs.pools:
        for name in (*IN, *OUT):
            assert all(abs(n) <= LARGEST for n in getattr(pool, name))
    for store in costs.stores:
        for flow in store[2:8]:
            assert all(abs(n) <= LARGEST for n in flow)
