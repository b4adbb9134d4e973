"""What a run found for each pool of each item; the CHECKs are the proof of conservation."""

from alembic import op

revision = "0031_pool_results"
down_revision = "0030_store_balances"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.pool_results (
            run_id             bigint NOT NULL REFERENCES books.cost_runs,
            q_opening          bigint NOT NULL,
            v_opening          bigint NOT NULL,
            q_receipt          bigint NOT NULL,
            v_receipt          bigint NOT NULL,
            q_gain             bigint NOT NULL,
            v_gain             bigint NOT NULL,
            q_sales_return     bigint NOT NULL,
            v_sales_return     bigint NOT NULL,
            q_issue            bigint NOT NULL,
            v_issue            bigint NOT NULL,
            q_usage            bigint NOT NULL,
            v_usage            bigint NOT NULL,
            q_purchase_return  bigint NOT NULL,
            v_purchase_return  bigint NOT NULL,
            q_closing          bigint NOT NULL,
            v_closing          bigint NOT NULL,
            v_rounding         bigint NOT NULL,
            v_variance         bigint NOT NULL,
            price_num          bigint NOT NULL,
            price_den          bigint NOT NULL,
            pushes             integer NOT NULL,
            dipped             boolean NOT NULL,
            brand              text COLLATE "C" NOT NULL,
            item               text COLLATE "C" NOT NULL,
            pool               text COLLATE "C" NOT NULL,
            PRIMARY KEY (run_id, brand, item, pool),
            CONSTRAINT pool_results_qty_check
                CHECK (q_opening::numeric + q_receipt + q_gain + q_sales_return
                     = q_issue::numeric + q_usage + q_purchase_return + q_closing),
            CONSTRAINT pool_results_value_check
                CHECK (v_opening::numeric + v_receipt + v_gain + v_sales_return
                     = v_issue::numeric + v_usage + v_purchase_return + v_rounding + v_closing),
            CONSTRAINT pool_results_closing_check
                CHECK (q_closing >= 0 AND v_closing >= 0 AND (q_closing > 0 OR v_closing = 0)),
            CONSTRAINT pool_results_price_check CHECK (price_num >= 0 AND price_den >= 0)
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.pool_results TO chot_app")
    op.execute("GRANT SELECT ON books.pool_results TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.pool_results")
