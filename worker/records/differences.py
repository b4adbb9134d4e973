"""What a preview would change: by item and account, against the results that readers see."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun

# Debits less credits of the costing on each account; stock is its closing balance. Role by role,
# with the accounts of Circular 200/2014 for a company that has named none.
AMOUNTS = """
    SELECT p.item, p.brand, x.role, x.amount
      FROM books.pool_results p
     CROSS JOIN LATERAL (VALUES
           ('stock', CAST(p.v_closing AS numeric)),
           ('cost_of_sales', CAST(p.v_issue AS numeric) - p.v_sales_return),
           ('variance', p.v_variance), ('rounding', p.v_rounding), ('true_up', p.v_true_up),
           ('usage', p.v_usage), ('gain', -CAST(p.v_gain AS numeric)),
           ('purchase_return', CAST(p.v_purchase_return AS numeric)),
           ('receipt', -CAST(p.v_receipt AS numeric))) AS x (role, amount)"""
# What of a line went beside the stock has another side, too: the invoice of late freight is owed
# whole, a supplier gives back what the goods had cost, whatever left.
OTHER_SIDES = """
    SELECT c.item, CASE WHEN CAST(r.pools -> m.store ->> 2 AS boolean) THEN '' ELSE c.brand END
           AS brand,
           CASE m.kind WHEN 'landed_cost' THEN 'receipt' WHEN 'sales_return' THEN 'cost_of_sales'
                       WHEN 'adjust_in' THEN 'gain' WHEN 'produce' THEN 'production'
                       ELSE 'purchase_return' END AS role,
           -CAST(c.variance AS numeric) AS amount
      FROM books.movement_costs c
      JOIN books.stock_movements m ON m.id = c.movement_id
      JOIN books.cost_runs r ON r.id = c.run_id"""
# What a pool counts elsewhere than cost documents book it. What is consumed and what is made of it
# meet on an account of their own: a pool counts them as used and received. And what takes back an
# adjustment of an earlier period goes against what that was booked on: a pool counts it as the
# opposite flow (used, found, sent back).
ELSEWHERE = """
    SELECT c.item, CASE WHEN CAST(r.pools -> m.store ->> 2 AS boolean) THEN '' ELSE c.brand END
           AS brand, x.role, x.amount
      FROM books.movement_costs c
      JOIN books.stock_movements m ON m.id = c.movement_id
       AND (m.kind IN ('consume', 'produce')
            OR m.kind IN ('adjust_in', 'adjust_out') AND m.reverses_movement_id IS NOT NULL)
      JOIN books.cost_runs r ON r.id = c.run_id
      LEFT JOIN LATERAL (SELECT f.posting_date FROM books.stock_movements f
                          WHERE f.id = m.reverses_movement_id OFFSET 0) f ON true
      LEFT JOIN LATERAL (SELECT t.posting_date FROM books.stock_movements t
                          WHERE t.reverses_movement_id = m.id
                            AND pg_visible_in_snapshot(t.xid, r.snapshot) OFFSET 0) t ON true
     CROSS JOIN LATERAL (
           SELECT c.value * CASE WHEN (m.kind IN ('consume', 'adjust_out'))
                                      = (f.posting_date IS NULL) THEN 1 ELSE -1 END AS debit) d
     CROSS JOIN LATERAL (VALUES
           (CASE m.kind WHEN 'adjust_in' THEN 'gain' WHEN 'adjust_out' THEN 'usage'
                        ELSE 'production' END, CAST(d.debit AS numeric)),
           (CASE WHEN f.posting_date IS NULL
                 THEN CASE m.kind WHEN 'consume' THEN 'usage' ELSE 'receipt' END
                 ELSE CASE m.kind WHEN 'produce' THEN 'purchase_return' WHEN 'adjust_in'
                                  THEN 'usage' ELSE 'gain' END END,
            -CAST(d.debit AS numeric))) AS x (role, amount)
     WHERE coalesce(f.posting_date NOT BETWEEN r.starts_on AND r.ends_on, true)
       AND coalesce(t.posting_date NOT BETWEEN r.starts_on AND r.ends_on, true)"""
STORE_DIFFERENCES = text(f"""
    INSERT INTO books.cost_differences (run_id, item, brand, account, before, after)
    WITH listed AS MATERIALIZED (
        SELECT DISTINCT brand, item FROM books.cost_run_items
         WHERE run_id = :run_id AND NOT out_of_scope),
    spoken AS MATERIALIZED (
        SELECT a.run_id, a.brand, a.item FROM listed w
          JOIN books.active_results a
            ON a.company = :company AND a.brand = w.brand AND a.period = :period
           AND a.item = w.item AND NOT a.failed),
    old AS MATERIALIZED (
        SELECT run_id, brand, item FROM spoken UNION SELECT run_id, '', item FROM spoken),
    sides AS (
        SELECT x.item, x.brand, x.role, x.amount AS before, CAST(0 AS numeric) AS after
          FROM old o
         CROSS JOIN LATERAL ({AMOUNTS} WHERE p.run_id = o.run_id AND p.brand = o.brand
                                         AND p.item = o.item) AS x
        UNION ALL
        SELECT x.item, x.brand, x.role, 0, x.amount
          FROM ({AMOUNTS} WHERE p.run_id = :run_id) AS x
        UNION ALL
        SELECT x.item, x.brand, x.role, x.amount, 0
          FROM spoken o
         CROSS JOIN LATERAL ({OTHER_SIDES} WHERE c.run_id = o.run_id AND c.brand = o.brand
                                             AND c.item = o.item AND c.variance <> 0) AS x
        UNION ALL
        SELECT x.item, x.brand, x.role, 0, x.amount
          FROM ({OTHER_SIDES} WHERE c.run_id = :run_id AND c.variance <> 0) AS x
        UNION ALL
        SELECT x.item, x.brand, x.role, x.amount, 0
          FROM spoken o
         CROSS JOIN LATERAL ({ELSEWHERE} AND c.run_id = o.run_id AND c.brand = o.brand
                                         AND c.item = o.item) AS x
        UNION ALL
        SELECT x.item, x.brand, x.role, 0, x.amount
          FROM ({ELSEWHERE} AND c.run_id = :run_id) AS x)
    SELECT :run_id, s.item, s.brand, a.account, sum(s.before), sum(s.after)
      FROM sides s
      JOIN (SELECT d.role, books.role_account(:company, d.role) AS account
              FROM books.role_defaults d) a ON a.role = s.role
     GROUP BY s.item, s.brand, a.account
    HAVING sum(s.before) <> sum(s.after)""")
BY_ACCOUNT = text("""
    SELECT account, count(DISTINCT item) AS items, sum(before) AS before, sum(after) AS after
      FROM books.cost_differences WHERE run_id = :run_id GROUP BY account ORDER BY account""")
ERRORS_BY_CODE = text("""
    SELECT code, count(DISTINCT item) AS items FROM books.item_errors
     WHERE run_id = :run_id GROUP BY code ORDER BY code""")
END_PREVIEW = text("""
    UPDATE books.cost_runs SET status = 'previewed', fence = :fence
     WHERE id = :run_id AND status = 'building' AND dry_run""")
# Of one scope only the latest preview's findings are kept.
_OF_EARLIER = """ t USING books.cost_runs r
     WHERE r.id = t.run_id AND r.company = :company AND r.period = :period
       AND r.status = 'previewed' AND r.id <> :run_id
       AND r.brand IS NOT DISTINCT FROM CAST(:brand AS text)"""
FORGET_DIFFERENCES = text(f"DELETE FROM books.cost_differences {_OF_EARLIER}")
FORGET_ERRORS = text(f"DELETE FROM books.item_errors {_OF_EARLIER}")


async def end_preview(conn: AsyncConnection, run: CostRun, fence: int) -> list[dict[str, Any]]:
    """Store the preview's differences and end it; nobody's results are touched.

    Returns the differences by account, in minor units of the company.
    """
    await conn.execute(STORE_DIFFERENCES, run.binds)
    ended = await conn.execute(END_PREVIEW, {"run_id": run.id, "fence": fence})
    assert ended.rowcount == 1, "only a preview that is being built ends as one"
    for forget in (FORGET_DIFFERENCES, FORGET_ERRORS):
        await conn.execute(forget, run.binds)
    rows = (await conn.execute(BY_ACCOUNT, {"run_id": run.id})).mappings().all()
    return [dict(row) for row in rows]


async def errors_by_code(conn: AsyncConnection, run: CostRun) -> dict[str, int]:
    """How many items failed, by the code of their problems."""
    rows = (await conn.execute(ERRORS_BY_CODE, {"run_id": run.id})).all()
    return {row.code: row.items for row in rows}
