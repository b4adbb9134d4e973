"""What every method costs: true-ups, flows between pools, and prices larger than a bigint.

Stock may be left negative (`provisional`): both of its numbers are below zero then.
"""

from alembic import op

revision = "0117_cost_numbers"
down_revision = "0116_costing_methods"
branch_labels = None
depends_on = None

VIEW = """
    CREATE {replace} VIEW books.active_movement_costs AS
    SELECT a.company, a.brand, a.period, a.item, c.movement_id, c.value, c.variance,
           c.qty_diff, a.stale, a.run_id{more}
      FROM books.active_results a
      JOIN books.movement_costs c
        ON c.run_id = a.run_id AND c.brand = a.brand AND c.item = a.item
     WHERE NOT a.failed"""
CHECKS = ("pool_results_qty_check", "pool_results_value_check", "pool_results_closing_check")
DROP_CHECKS = ", ".join(f"DROP CONSTRAINT {check}" for check in CHECKS)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.movement_costs ADD COLUMN true_up bigint NOT NULL DEFAULT 0")
    op.execute(VIEW.format(replace="OR REPLACE", more=", c.true_up"))
    op.execute(f"""
        ALTER TABLE books.pool_results
            ADD COLUMN q_transfer_in bigint NOT NULL DEFAULT 0,
            ADD COLUMN v_transfer_in bigint NOT NULL DEFAULT 0,
            ADD COLUMN q_transfer_out bigint NOT NULL DEFAULT 0,
            ADD COLUMN v_transfer_out bigint NOT NULL DEFAULT 0,
            ADD COLUMN v_true_up bigint NOT NULL DEFAULT 0,
            ADD COLUMN scc_size integer NOT NULL DEFAULT 1,
            ALTER COLUMN price_num TYPE numeric,
            ALTER COLUMN price_den TYPE numeric,
            {DROP_CHECKS},
            ADD CONSTRAINT pool_results_qty_check
                CHECK (q_opening::numeric + q_receipt + q_gain + q_sales_return + q_transfer_in
                     = q_issue::numeric + q_usage + q_purchase_return + q_transfer_out
                       + q_closing),
            ADD CONSTRAINT pool_results_value_check
                CHECK (v_opening::numeric + v_receipt + v_gain + v_sales_return + v_transfer_in
                     = v_issue::numeric + v_usage + v_purchase_return + v_transfer_out
                       + v_rounding + v_true_up + v_closing),
            ADD CONSTRAINT pool_results_closing_check
                CHECK (CASE WHEN q_closing > 0 THEN v_closing >= 0
                            WHEN q_closing = 0 THEN v_closing = 0 ELSE v_closing <= 0 END)""")
    op.execute("""
        ALTER TABLE books.cost_runs ADD COLUMN v_true_up numeric(38, 0),
            DROP CONSTRAINT cost_runs_conserved_check""")
    op.execute("UPDATE books.cost_runs SET v_true_up = 0 WHERE v_closing IS NOT NULL")
    op.execute("""
        ALTER TABLE books.cost_runs ADD CONSTRAINT cost_runs_conserved_check
            CHECK (v_opening + v_receipt + v_gain + v_sales_return
                 = v_issue + v_usage + v_purchase_return + v_rounding + v_true_up + v_closing)""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.cost_runs DROP CONSTRAINT cost_runs_conserved_check,
            DROP COLUMN v_true_up,
            ADD CONSTRAINT cost_runs_conserved_check
                CHECK (v_opening + v_receipt + v_gain + v_sales_return
                     = v_issue + v_usage + v_purchase_return + v_rounding + v_closing) NOT VALID""")
    op.execute(f"""
        ALTER TABLE books.pool_results {DROP_CHECKS},
            DROP COLUMN q_transfer_in, DROP COLUMN v_transfer_in,
            DROP COLUMN q_transfer_out, DROP COLUMN v_transfer_out,
            DROP COLUMN v_true_up, DROP COLUMN scc_size,
            ALTER COLUMN price_num TYPE bigint,
            ALTER COLUMN price_den TYPE bigint,
            ADD CONSTRAINT pool_results_qty_check
                CHECK (q_opening::numeric + q_receipt + q_gain + q_sales_return
                     = q_issue::numeric + q_usage + q_purchase_return + q_closing) NOT VALID,
            ADD CONSTRAINT pool_results_value_check
                CHECK (v_opening::numeric + v_receipt + v_gain + v_sales_return
                     = v_issue::numeric + v_usage + v_purchase_return + v_rounding + v_closing)
                NOT VALID,
            ADD CONSTRAINT pool_results_closing_check
                CHECK (q_closing >= 0 AND v_closing >= 0 AND (q_closing > 0 OR v_closing = 0))
                NOT VALID""")
    op.execute("DROP VIEW books.active_movement_costs")
    op.execute("ALTER TABLE books.movement_costs DROP COLUMN true_up")
    op.execute(VIEW.format(replace="", more=""))
    op.execute("GRANT SELECT ON books.active_movement_costs TO chot_app, chot_read")
