"""Items: what is bought and sold, in which unit, to how many decimals, costed by which method."""

from alembic import op

revision = "0021_items"
down_revision = "0020_company"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.items (
            company         text COLLATE "C" NOT NULL REFERENCES books.companies,
            code            text COLLATE "C" NOT NULL CHECK (code <> '' AND length(code) <= 40),
            name            text NOT NULL,
            base_uom        text NOT NULL,
            qty_scale       smallint NOT NULL DEFAULT 0 CHECK (qty_scale BETWEEN 0 AND 6),
            costing_method  text NOT NULL DEFAULT 'periodic_avg' CONSTRAINT items_method_check
                CHECK (costing_method IN ('periodic_avg', 'moving_avg', 'fifo', 'specific')),
            lot_tracked     boolean NOT NULL DEFAULT false,
            active          boolean NOT NULL DEFAULT true,
            PRIMARY KEY (company, code)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE (name, active) ON books.items TO chot_app")
    op.execute("GRANT SELECT ON books.items TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.items")
