"""Read what items open with: the balances, layers and last prices that earlier runs have left."""

from collections.abc import Sequence
from typing import Any

from worker.costing.units import State
from worker.records.work_list import PendingItem

# All rows of a store, empty ones too: they tell which pool it was in.
READ_BALANCES = """
    SELECT w.n, b.store, b.pool, b.q_closing, b.v_closing
      FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS w (n, brand, item, run_id)
      JOIN books.store_balances b
        ON b.run_id = w.run_id AND b.brand = w.brand AND b.item = w.item
     WHERE b.run_id = ANY ($4::bigint[])"""

# A pool that brands share stands under no brand; `names` of a brand are those its stores lie in.
READ_LAYERS = """
    SELECT w.n, l.pool, l.lot, l.qty, l.value, l.origin_movement_id, l.received_on
      FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS w (n, brand, item, run_id)
      JOIN books.cost_layers l
        ON l.run_id = w.run_id AND l.brand IN (w.brand, '') AND l.item = w.item
     WHERE l.run_id = ANY ($4::bigint[])
     ORDER BY w.n, l.pool, l.number"""
READ_PRICES = """
    SELECT w.n, p.pool, p.price_num, p.price_den
      FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS w (n, brand, item, run_id)
      JOIN books.pool_results p
        ON p.run_id = w.run_id AND p.brand IN (w.brand, '') AND p.item = w.item
     WHERE p.q_closing = 0 AND p.price_den > 0"""


async def read_states(driver: Any, pending: Sequence[PendingItem]) -> list[State | None]:
    """What each pending item opens with; None where that is not known."""
    opened = [(n, p) for n, p in enumerate(pending) if p.opening_run_id is not None]
    if not opened:
        return [None if p.opening_failed else State() for p in pending]
    scope = (
        [n for n, _ in opened],
        [p.brand for _, p in opened],
        [p.item for _, p in opened],
        [p.opening_run_id for _, p in opened],
    )
    balances, layers, prices = [
        _by_number(await driver.fetch(query, *scope), len(pending))
        for query in (READ_BALANCES, READ_LAYERS, READ_PRICES)
    ]
    return [
        None if p.opening_failed else _state(balances[n], layers[n], prices[n])
        for n, p in enumerate(pending)
    ]


def _by_number(rows: Sequence[Any], count: int) -> list[list[tuple[Any, ...]]]:
    found: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    for row in rows:
        found[row[0]].append(tuple(row)[1:])
    return found


def _state(
    balances: list[tuple[Any, ...]], layers: list[tuple[Any, ...]], prices: list[tuple[Any, ...]]
) -> State:
    if not layers and not prices:
        return State(balances=balances)
    names = {row[1] for row in balances}
    return State(
        balances=balances,
        layers=[row for row in layers if _is_own(row[0], names)],
        prices=[(row[0], int(row[1]), int(row[2])) for row in prices if _is_own(row[0], names)],
    )


def _is_own(pool: str, names: set[str]) -> bool:
    return not pool.startswith("/") or pool in names
