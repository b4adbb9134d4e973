"""Staged lines keep what stands in their cells where that is not how it was read: 1.500,5 for 1500.5.

A line that the books refuse is told in the words of the file that it came by. The index tells the
lines that open one place from those that open others.
"""

from alembic import op

revision = "0181_staged_texts"
down_revision = "0180_movement_writers"
branch_labels = None
depends_on = None

TABLES = ("import_movements", "import_items", "import_documents")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for table in TABLES:
        op.execute(f"ALTER TABLE books.{table} ADD COLUMN IF NOT EXISTS said text")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.import_movements_opening_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY import_movements_opening_idx
                ON books.import_movements (item, store, posting_date, job_id)
             WHERE kind = 'opening'""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.import_movements_opening_idx")
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for table in TABLES:
        op.execute(f"ALTER TABLE books.{table} DROP COLUMN IF EXISTS said")
