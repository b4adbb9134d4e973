"""What the document behind a movement says: its unit and quantity, its currency, amount and rate.

All may be absent. The facts that are costed stay `qty_base` and `value`, which the next revision
holds to the document once, when the row is written; no later rate or unit changes them.
The checks are not run over rows that were there before: they have none of these columns.
"""

from alembic import op

revision = "0112_movement_documents"
down_revision = "0111_item_units"
branch_labels = None
depends_on = None

COLUMNS = "uom, qty_doc, currency, fc_amount, fc_rate"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.stock_movements
            ADD COLUMN uom        text COLLATE "C",
            ADD COLUMN qty_doc    numeric,
            ADD COLUMN currency   text COLLATE "C",
            ADD COLUMN fc_amount  numeric,
            ADD COLUMN fc_rate    numeric,
            ADD CONSTRAINT stock_movements_uom_check
                CHECK ((uom IS NULL) = (qty_doc IS NULL)) NOT VALID,
            ADD CONSTRAINT stock_movements_currency_check CHECK (
                (currency IS NULL) = (fc_amount IS NULL)
                AND (fc_rate IS NULL OR (fc_rate > 0 AND currency IS NOT NULL))
                AND currency ~ '^[A-Z]{3}$') NOT VALID""")
    op.execute(f"GRANT INSERT ({COLUMNS}) ON books.stock_movements TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.stock_movements
            DROP COLUMN uom, DROP COLUMN qty_doc, DROP COLUMN currency,
            DROP COLUMN fc_amount, DROP COLUMN fc_rate""")
