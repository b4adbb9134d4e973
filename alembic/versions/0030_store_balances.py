"""Each store's part of its pool in each run: the closing of one period, the opening of the next."""

from alembic import op

revision = "0030_store_balances"
down_revision = "0029_movement_costs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.store_balances (
            run_id          bigint NOT NULL,
            q_opening       bigint NOT NULL,
            v_opening       bigint NOT NULL,
            q_in            bigint NOT NULL,
            v_in            bigint NOT NULL,
            q_out           bigint NOT NULL,
            v_out           bigint NOT NULL,
            q_transfer_in   bigint NOT NULL,
            v_transfer_in   bigint NOT NULL,
            q_transfer_out  bigint NOT NULL,
            v_transfer_out  bigint NOT NULL,
            q_closing       bigint NOT NULL,
            v_closing       bigint NOT NULL,
            v_averaging     bigint NOT NULL,
            brand           text COLLATE "C" NOT NULL,
            item            text COLLATE "C" NOT NULL,
            store           text COLLATE "C" NOT NULL,
            pool            text COLLATE "C" NOT NULL,
            PRIMARY KEY (run_id, brand, item, store),
            CONSTRAINT store_balances_qty_check
                CHECK (q_opening::numeric + q_in + q_transfer_in
                     = q_out::numeric + q_transfer_out + q_closing),
            CONSTRAINT store_balances_value_check
                CHECK (v_opening::numeric + v_in + v_transfer_in + v_averaging
                     = v_out::numeric + v_transfer_out + v_closing)
        ) PARTITION BY LIST (run_id)""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.store_balances TO chot_app")
    op.execute("GRANT SELECT ON books.store_balances TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.store_balances")
