"""The work list of a cost run: one row an item of a brand, done when its results are stored."""

from alembic import op

revision = "0028_cost_run_items"
down_revision = "0027_cost_runs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.cost_run_items (
            run_id          bigint NOT NULL REFERENCES books.cost_runs,
            movements       bigint NOT NULL CHECK (movements >= 0),
            opening_run_id  bigint,
            brand           text COLLATE "C" NOT NULL,
            item            text COLLATE "C" NOT NULL,
            opening_failed  boolean NOT NULL DEFAULT false,
            done            boolean NOT NULL DEFAULT false,
            failed          boolean NOT NULL DEFAULT false,
            digest          bytea CHECK (octet_length(digest) = 32),
            PRIMARY KEY (run_id, brand, item),
            CONSTRAINT cost_run_items_done_check CHECK (done = (digest IS NOT NULL))
        ) WITH (fillfactor = 70)""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON books.cost_run_items TO chot_app")
    op.execute("GRANT SELECT ON books.cost_run_items TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.cost_run_items")
