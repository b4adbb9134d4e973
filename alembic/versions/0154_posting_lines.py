"""Staged lines: what an atomic posting will write into the ledger, until it does so in one go.

Keyed by job; nobody reads them but the job that wrote them, and they leave with its publication or
its cleanup.
"""

from alembic import op

revision = "0154_posting_lines"
down_revision = "0153_whole_fingerprint"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.posting_lines (
            job_id        uuid NOT NULL,
            entry_id      bigint NOT NULL,
            debit         bigint NOT NULL,
            credit        bigint NOT NULL,
            qty_base      bigint,
            line_no       integer NOT NULL,
            posting_date  date NOT NULL,
            company       text COLLATE "C" NOT NULL,
            brand         text COLLATE "C",
            account       text COLLATE "C" NOT NULL,
            party         text COLLATE "C",
            store         text COLLATE "C",
            item          text COLLATE "C",
            currency      text COLLATE "C",
            fc_amount     numeric,
            memo          text,
            PRIMARY KEY (job_id, entry_id, line_no)
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.posting_lines TO chot_app")
    op.execute("GRANT SELECT ON books.posting_lines TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.posting_lines")
