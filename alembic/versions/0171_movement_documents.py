"""A movement is found by its document and line: what is imported twice is there once.

Not unique: an ERP may number as it likes. Led by what is looked up, so that no statistics (of a table
that was empty when they were made) can prefer another index: that would read all of a company.
"""

from alembic import op

revision = "0171_movement_documents"
down_revision = "0170_import_staging"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_document_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY stock_movements_document_idx
                ON books.stock_movements (doc_id, doc_line, company)""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_opening_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY stock_movements_opening_idx
                ON books.stock_movements (item, store, posting_date) WHERE kind = 'opening'""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_opening_idx")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_document_idx")
