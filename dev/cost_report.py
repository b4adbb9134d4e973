"""What a finished cost run says, read back from the database: for the demo and for anyone curious.

Nothing here computes a cost: every number is a query over stored rows, so that the proof does not
depend on the code it proves.
"""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """One store over the period: quantities in base units, values in the company's currency.

    `incoming` and `outgoing` include transfers between stores, which `transfer_in` and
    `transfer_out` show apart; `averaging` is what the common price of the pool
    moved between its stores, and adds up to nothing over a pool. opening + incoming + averaging
    = outgoing + closing.
    """

    brand: str
    store: str
    name: str
    items: int
    q_opening: Decimal
    v_opening: Decimal
    q_incoming: Decimal
    v_incoming: Decimal
    q_outgoing: Decimal
    v_outgoing: Decimal
    v_averaging: Decimal
    q_closing: Decimal
    v_closing: Decimal
    q_transfer_in: Decimal
    v_transfer_in: Decimal
    q_transfer_out: Decimal
    v_transfer_out: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Whether each movement the run has read was costed exactly once."""

    movements: int
    costed: int
    missing: int
    repeated: int
    foreign: int
    in_failed_items: int

    @property
    def exact(self) -> bool:
        """True when every movement of a costed item has its one cost and nothing else has one."""
        whole = self.movements == self.costed + self.in_failed_items
        return whole and not (self.missing or self.repeated or self.foreign)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """One equation of the proof: what came in and what went out, in the company's currency."""

    what: str
    left: Decimal
    right: Decimal

    @property
    def holds(self) -> bool:
        """True when both sides are the same to the last unit."""
        return self.left == self.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """The proof of conservation: sums over movements against sums over results."""

    balances: tuple[Balance, ...]
    pools: int
    pools_unbalanced: int
    empty_pools_with_value: int

    @property
    def holds(self) -> bool:
        """True when every equation holds and no pool breaks a rule."""
        sound = self.pools_unbalanced == 0 and self.empty_pools_with_value == 0
        return sound and all(balance.holds for balance in self.balances)


ACTIVE_RUN = text("""
    SELECT max(run_id) FROM books.active_results
     WHERE company = :company AND period = :period
       AND (CAST(:brand AS text) IS NULL OR brand = :brand)""")


async def active_run(
    conn: AsyncConnection, company: str, period: str, brand: str | None = None
) -> int | None:
    """The newest run that speaks for the period; None when nothing is costed."""
    binds = {"company": company, "period": period, "brand": brand}
    found = (await conn.execute(ACTIVE_RUN, binds)).scalar_one_or_none()
    return None if found is None else int(found)


STORE_ROWS = text("""
    SELECT b.brand, b.store, s.name, count(*) AS items,
           trim_scale(sum(b.q_opening / u.unit)) AS q_opening,
           trim_scale(sum(b.v_opening) / c.unit) AS v_opening,
           trim_scale(sum((b.q_in + b.q_transfer_in) / u.unit)) AS q_incoming,
           trim_scale(sum(b.v_in + b.v_transfer_in) / c.unit) AS v_incoming,
           trim_scale(sum((b.q_out + b.q_transfer_out) / u.unit)) AS q_outgoing,
           trim_scale(sum(b.v_out + b.v_transfer_out) / c.unit) AS v_outgoing,
           trim_scale(sum(b.v_averaging) / c.unit) AS v_averaging,
           trim_scale(sum(b.q_closing / u.unit)) AS q_closing,
           trim_scale(sum(b.v_closing) / c.unit) AS v_closing,
           trim_scale(sum(b.q_transfer_in / u.unit)) AS q_transfer_in,
           trim_scale(sum(b.v_transfer_in) / c.unit) AS v_transfer_in,
           trim_scale(sum(b.q_transfer_out / u.unit)) AS q_transfer_out,
           trim_scale(sum(b.v_transfer_out) / c.unit) AS v_transfer_out
      FROM books.store_balances b
      JOIN books.cost_runs r ON r.id = b.run_id
      JOIN books.stores s ON s.company = r.company AND s.code = b.store
      JOIN (SELECT company, code, power(CAST(10 AS numeric), qty_scale) AS unit FROM books.items) u
        ON u.company = r.company AND u.code = b.item
      JOIN (SELECT code, power(CAST(10 AS numeric), minor_digits) AS unit FROM books.companies) c
        ON c.code = r.company
     WHERE b.run_id = :run_id
     GROUP BY b.brand, b.store, s.name, c.unit ORDER BY b.brand, b.store""")


async def store_rows(conn: AsyncConnection, run_id: int) -> list[StoreRow]:
    """Opening, in, out and closing of every store the run has a balance for, by code."""
    rows = (await conn.execute(STORE_ROWS, {"run_id": run_id})).mappings().all()
    return [StoreRow(**row) for row in rows]


# The rows in scope as the run's snapshot sees them, against the costs it stored.
COVERAGE = text("""
    WITH run AS (SELECT * FROM books.cost_runs WHERE id = :run_id),
    scope AS MATERIALIZED (
        SELECT m.id, w.failed FROM run r
          JOIN books.stock_movements m
            ON m.company = r.company AND m.posting_date BETWEEN r.starts_on AND r.ends_on
           AND (r.brand IS NULL OR m.brand = r.brand)
           AND pg_visible_in_snapshot(m.xid, r.snapshot)
          LEFT JOIN books.cost_run_items w
            ON w.run_id = r.id AND w.brand = m.brand AND w.item = m.item),
    costed AS MATERIALIZED (
        SELECT movement_id, count(*) AS times FROM books.movement_costs
         WHERE run_id = :run_id GROUP BY movement_id)
    SELECT (SELECT count(*) FROM scope) AS movements,
           (SELECT count(*) FROM costed) AS costed,
           (SELECT count(*) FROM scope s LEFT JOIN costed c ON c.movement_id = s.id
             WHERE c.movement_id IS NULL AND s.failed IS NOT TRUE) AS missing,
           (SELECT count(*) FROM costed WHERE times > 1) AS repeated,
           (SELECT count(*) FROM costed c LEFT JOIN scope s ON s.id = c.movement_id
             WHERE s.id IS NULL) AS foreign,
           (SELECT count(*) FROM scope WHERE failed) AS in_failed_items""")


async def coverage(conn: AsyncConnection, run_id: int) -> Coverage:
    """Count movements without a cost, with two, and costs without a movement."""
    row = (await conn.execute(COVERAGE, {"run_id": run_id})).mappings().one()
    return Coverage(**row)


# Sums of the ledger itself on the left, of the run's results on the right.
PROOF = text("""
    WITH run AS (SELECT * FROM books.cost_runs WHERE id = :run_id),
    known AS (
        SELECT coalesce(sum(m.value), 0) AS value FROM run r
          JOIN books.stock_movements m
            ON m.company = r.company AND m.posting_date BETWEEN r.starts_on AND r.ends_on
           AND pg_visible_in_snapshot(m.xid, r.snapshot) AND m.reverses_movement_id IS NULL
           AND m.kind IN ('opening', 'receipt', 'produce', 'landed_cost')
           AND NOT EXISTS (SELECT FROM books.stock_movements x
                            WHERE x.reverses_movement_id = m.id
                              AND pg_visible_in_snapshot(x.xid, r.snapshot))
          JOIN books.cost_run_items w
            ON w.run_id = r.id AND w.brand = m.brand AND w.item = m.item AND NOT w.failed),
    lines AS (
        SELECT coalesce(sum(c.value) FILTER (WHERE m.kind = 'issue'), 0) AS issue
          FROM run r
          JOIN books.movement_costs c ON c.run_id = r.id
          JOIN books.stock_movements m ON m.id = c.movement_id
         WHERE m.reverses_movement_id IS NULL
           AND NOT EXISTS (SELECT FROM books.stock_movements x
                            WHERE x.reverses_movement_id = m.id
                              AND pg_visible_in_snapshot(x.xid, r.snapshot))),
    carried AS (
        SELECT coalesce(sum(b.v_closing), 0) AS value
          FROM books.cost_run_items w
          JOIN books.store_balances b
            ON b.run_id = w.opening_run_id AND b.brand = w.brand AND b.item = w.item
         WHERE w.run_id = :run_id AND NOT w.failed),
    pools AS (
        SELECT coalesce(sum(v_opening + v_receipt), 0) AS known,
               coalesce(sum(CAST(v_opening AS numeric) + v_receipt + v_gain + v_sales_return), 0)
                   AS incoming,
               coalesce(sum(CAST(v_issue AS numeric) + v_usage + v_purchase_return + v_rounding
                            + v_true_up + v_closing), 0) AS outgoing,
               coalesce(sum(v_issue), 0) AS issue, coalesce(sum(v_closing), 0) AS closing,
               count(*) AS pools,
               count(*) FILTER (WHERE CAST(q_opening AS numeric) + q_receipt + q_gain
                   + q_sales_return + q_transfer_in <> CAST(q_issue AS numeric) + q_usage
                   + q_purchase_return + q_transfer_out + q_closing
                   OR CAST(v_opening AS numeric) + v_receipt + v_gain + v_sales_return
                   + v_transfer_in <> CAST(v_issue AS numeric) + v_usage + v_purchase_return
                   + v_transfer_out + v_rounding + v_true_up + v_closing) AS unbalanced,
               count(*) FILTER (WHERE CAST(q_closing AS numeric) + q_owed = 0
                   AND CAST(v_closing AS numeric) + v_owed <> 0
                   OR q_owed = 0 AND v_owed <> 0) AS empty_with_value
          FROM books.pool_results WHERE run_id = :run_id),
    stores AS (
        SELECT coalesce(sum(v_closing), 0) AS closing, coalesce(sum(v_averaging), 0) AS averaging,
               coalesce(sum(CAST(v_opening AS numeric) + v_in), 0) AS incoming,
               coalesce(sum(v_transfer_in), 0) AS transfer_in,
               coalesce(sum(v_transfer_out), 0) AS transfer_out
          FROM books.store_balances WHERE run_id = :run_id)
    SELECT known.value + carried.value AS ledger_known, pools.known, pools.incoming,
           pools.outgoing, lines.issue AS line_issue, pools.issue, stores.closing AS store_closing,
           pools.closing, stores.averaging, stores.incoming AS store_incoming,
           stores.transfer_in, stores.transfer_out, r.v_rounding, r.v_closing, pools.pools,
           pools.unbalanced, pools.empty_with_value,
           power(CAST(10 AS numeric), c.minor_digits) AS unit
      FROM known, carried, lines, pools, stores, run r
      JOIN books.companies c ON c.code = r.company""")


OPENING_AND_IN = "the total row's opening + in"


async def conservation(conn: AsyncConnection, run_id: int) -> Conservation:
    """Prove from stored rows that the run has neither lost nor made a single unit of value."""
    row = (await conn.execute(PROOF, {"run_id": run_id})).one()

    def balance(what: str, left: Decimal, right: Decimal) -> Balance:
        return Balance(what=what, left=_plain(left / row.unit), right=_plain(right / row.unit))

    return Conservation(
        balances=(
            balance(
                "opening stock and purchases: as booked = as costed", row.ledger_known, row.known
            ),
            balance(f"{OPENING_AND_IN} = what the pools took in", row.store_incoming, row.incoming),
            balance("all that came in = all that went out + closing", row.incoming, row.outgoing),
            balance("cost of sales: its lines = its total", row.line_issue, row.issue),
            balance(
                "transfers: what left stores = what reached stores",
                row.transfer_out,
                row.transfer_in,
            ),
            balance("closing stock: the stores = the pools", row.store_closing, row.closing),
            balance("closing stock: the pools = the run", row.closing, row.v_closing),
            balance("averaging adds up to the rounding alone", -row.averaging, row.v_rounding),
        ),
        pools=row.pools,
        pools_unbalanced=row.unbalanced,
        empty_pools_with_value=row.empty_with_value,
    )


def _plain(value: Decimal) -> Decimal:
    """Without an exponent, as one prints money."""
    return Decimal(f"{value.normalize():f}")
