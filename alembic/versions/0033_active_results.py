"""Which run speaks for an item of a brand in a period; readers go through here and nowhere else.

Items are shared by the brands of a company and a pool never leaves its brand, so the brand is part
of the key: a run of one brand must not speak for the others.
"""

from alembic import op

revision = "0033_active_results"
down_revision = "0032_item_errors"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.active_results (
            run_id   bigint NOT NULL REFERENCES books.cost_runs,
            company  text COLLATE "C" NOT NULL,
            brand    text COLLATE "C" NOT NULL,
            period   text COLLATE "C" NOT NULL,
            item     text COLLATE "C" NOT NULL,
            failed   boolean NOT NULL,
            stale    boolean NOT NULL DEFAULT false,
            PRIMARY KEY (company, brand, period, item)
        )""")
    op.execute("CREATE INDEX active_results_run_idx ON books.active_results (run_id)")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON books.active_results TO chot_app")
    op.execute("GRANT SELECT ON books.active_results TO chot_read")
    op.execute("""
        CREATE VIEW books.active_movement_costs AS
        SELECT a.company, a.brand, a.period, a.item, c.movement_id, c.value, c.variance,
               c.qty_diff, a.stale, a.run_id
          FROM books.active_results a
          JOIN books.movement_costs c
            ON c.run_id = a.run_id AND c.brand = a.brand AND c.item = a.item
         WHERE NOT a.failed""")
    op.execute("GRANT SELECT ON books.active_movement_costs TO chot_app, chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP VIEW books.active_movement_costs")
    op.execute("DROP TABLE books.active_results")
