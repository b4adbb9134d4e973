"""A variance is a debit of 632, whatever moved: those of returns had the other sign.

A late landed cost told the cost of goods that are gone, a debit; a purchase return the cost that was
not there to leave, a credit. Sums of both meant nothing. Rows of before are turned round here.
"""

from alembic import op

revision = "0176_variance_sides"
down_revision = "0175_owed_stock"
branch_labels = None
depends_on = None

LINES = """
    UPDATE books.movement_costs c SET variance = -c.variance
      FROM books.stock_movements m
     WHERE c.variance <> 0 AND m.id = c.movement_id AND m.kind <> 'landed_cost'"""
POOLS = """
    UPDATE books.pool_results p SET v_variance = p.v_variance + 2 * t.turned
      FROM (SELECT c.run_id, c.item, b.pool, sum(c.variance) AS turned,
                   CASE WHEN b.pool LIKE '/%' THEN '' ELSE b.brand END AS brand
              FROM books.movement_costs c
              JOIN books.stock_movements m ON m.id = c.movement_id AND m.kind <> 'landed_cost'
              JOIN books.store_balances b
                ON b.run_id = c.run_id AND b.brand = c.brand AND b.item = c.item
               AND b.store = m.store
             WHERE c.variance <> 0
             GROUP BY c.run_id, c.item, b.pool, 5) AS t
     WHERE p.run_id = t.run_id AND p.brand = t.brand AND p.item = t.item AND p.pool = t.pool"""
RUNS = """
    UPDATE books.cost_runs r SET v_variance = s.v_variance
      FROM (SELECT p.run_id, sum(p.v_variance) AS v_variance FROM books.pool_results p
             GROUP BY p.run_id) AS s
     WHERE s.run_id = r.id AND r.v_variance <> s.v_variance"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _turn()


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _turn()


def _turn() -> None:
    for statement in (LINES, POOLS, RUNS):
        op.execute(statement)
