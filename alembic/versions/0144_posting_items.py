"""What a posting job has to do: each document of its selection once, and what became of it.

Written once when the job begins; later attempts go on from it and never select again. `codes` has
all that is wrong with a document, in their fixed order; `outcome` is the first of them. An atomic
job notes here which entry a document is to have before it publishes any.
"""

from alembic import op

revision = "0144_posting_items"
down_revision = "0143_ledger"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.posting_items (
            job_id       uuid NOT NULL,
            document_id  bigint NOT NULL,
            entry_id     bigint,
            seq          integer NOT NULL CHECK (seq > 0),
            version      integer,
            rule_version integer,
            series       text COLLATE "C",
            done         boolean NOT NULL DEFAULT false,
            outcome      text COLLATE "C",
            codes        text[] NOT NULL DEFAULT '{}',
            detail       text CHECK (length(detail) <= 1000),
            PRIMARY KEY (job_id, seq),
            CONSTRAINT posting_items_document_key UNIQUE (job_id, document_id),
            CONSTRAINT posting_items_outcome_check CHECK (NOT done OR outcome IS NOT NULL)
        ) WITH (fillfactor = 70)""")
    op.execute("""
        CREATE INDEX posting_items_left_idx ON books.posting_items (job_id, seq) WHERE NOT done""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON books.posting_items TO chot_app")
    op.execute("GRANT SELECT ON books.posting_items TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.posting_items")
