"""Documents of production are found by their id: what a product is made of is costed with it."""

from alembic import op

revision = "0122_production_index"
down_revision = "0121_widest_when_absent"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_production_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY stock_movements_production_idx
                ON books.stock_movements (company, doc_id)
             WHERE kind IN ('produce', 'consume')""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_production_idx")
