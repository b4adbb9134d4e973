"""Units of an item beside its base unit: one of them is num/den base units, exactly.

A conversion is never changed, since movements were written by it: goods that are packed anew get a
unit of another name.
"""

from alembic import op

revision = "0111_item_units"
down_revision = "0110_late_movements"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.item_units (
            company  text COLLATE "C" NOT NULL,
            item     text COLLATE "C" NOT NULL,
            unit     text COLLATE "C" NOT NULL CHECK (unit <> '' AND length(unit) <= 40),
            num      bigint NOT NULL CHECK (num > 0),
            den      bigint NOT NULL DEFAULT 1 CHECK (den > 0),
            PRIMARY KEY (company, item, unit),
            FOREIGN KEY (company, item) REFERENCES books.items
        )""")
    op.execute("GRANT SELECT, INSERT ON books.item_units TO chot_app")
    op.execute("GRANT SELECT ON books.item_units TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.item_units")
