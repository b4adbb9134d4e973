"""Which version of a document was posted last: a document that moves nothing has no entry to tell.

A sale of nothing but gifts, or a transfer in one set of books, is posted all the same. Taken off
the ledger once more it is one that was taken off before, not one that was never posted.
"""

from alembic import op

revision = "0177_posted_versions"
down_revision = "0176_variance_sides"
branch_labels = None
depends_on = None

# Of a document with entries the last one says it; of one without, only that it is posted now.
FILL = """
    UPDATE books.documents d SET posted_version = coalesce(e.version, d.version)
      FROM books.documents k
      LEFT JOIN (SELECT document_id, max(document_version) AS version FROM books.gl_entries
                  GROUP BY document_id) e ON e.document_id = k.id
     WHERE d.id = k.id AND (k.status = 'posted' OR e.version IS NOT NULL)"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.documents ADD COLUMN posted_version integer")
    op.execute("ALTER TABLE books.documents DISABLE TRIGGER documents_posted")
    op.execute(FILL)
    op.execute("ALTER TABLE books.documents ENABLE TRIGGER documents_posted")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.documents DROP COLUMN posted_version")
