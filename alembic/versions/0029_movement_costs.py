"""The cost of each movement in each run; one partition a run, so that an old run can be dropped.

The key begins with brand and item: a run writes it in that order, and a changed item's rows are
found without an index of their own.
"""

from alembic import op

revision = "0029_movement_costs"
down_revision = "0028_cost_run_items"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.movement_costs (
            run_id       bigint NOT NULL,
            movement_id  bigint NOT NULL,
            value        bigint NOT NULL,
            variance     bigint NOT NULL DEFAULT 0,
            qty_diff     bigint,
            brand        text COLLATE "C" NOT NULL,
            item         text COLLATE "C" NOT NULL,
            PRIMARY KEY (run_id, brand, item, movement_id)
        ) PARTITION BY LIST (run_id)""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.movement_costs TO chot_app")
    op.execute("GRANT SELECT ON books.movement_costs TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.movement_costs")
