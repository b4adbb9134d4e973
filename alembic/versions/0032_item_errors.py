"""Why a run could not cost an item, with the movements that cause it."""

from alembic import op

revision = "0032_item_errors"
down_revision = "0031_pool_results"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.item_errors (
            run_id        bigint NOT NULL REFERENCES books.cost_runs,
            number        integer NOT NULL CHECK (number > 0),
            brand         text COLLATE "C" NOT NULL,
            item          text COLLATE "C" NOT NULL,
            pool          text COLLATE "C",
            code          text NOT NULL CHECK (code ~ '^[A-Z_]{3,40}$'),
            detail        text NOT NULL CHECK (octet_length(detail) <= 1024),
            movement_ids  bigint[] NOT NULL CHECK (cardinality(movement_ids) <= 20),
            PRIMARY KEY (run_id, brand, item, number)
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.item_errors TO chot_app")
    op.execute("GRANT SELECT ON books.item_errors TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.item_errors")
