"""Cost documents: what each is about, and the work of a job that makes them.

`key` names what of a period a document holds (a store's day, a group of items, a slip); one
stands for each. `base` is its number before it is told apart from an earlier one of the same run.
What a job has still to do is staged, so that each of its transactions only copies.
"""

from alembic import op

revision = "0157_cost_documents"
down_revision = "0154_posting_lines"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.cost_documents (
            document_id  bigint PRIMARY KEY REFERENCES books.documents,
            company      text COLLATE "C" NOT NULL,
            period       text COLLATE "C" NOT NULL,
            key          text COLLATE "C" NOT NULL,
            base         text COLLATE "C" NOT NULL,
            standing     boolean NOT NULL DEFAULT true,
            FOREIGN KEY (company, period) REFERENCES books.periods
        )""")
    op.execute("""
        CREATE UNIQUE INDEX cost_documents_standing_key
            ON books.cost_documents (company, period, key) WHERE standing""")
    op.execute("CREATE INDEX cost_documents_base_idx ON books.cost_documents (company, base)")
    op.execute("""
        CREATE TABLE books.cost_work (
            job_id           uuid NOT NULL,
            run_id           bigint,
            old_document_id  bigint,
            off              numeric NOT NULL,
            seq              integer NOT NULL,
            lines            integer NOT NULL,
            day              date,
            key              text COLLATE "C" NOT NULL,
            base             text COLLATE "C" NOT NULL,
            brand            text COLLATE "C",
            digest           bytea,
            PRIMARY KEY (job_id, seq),
            CONSTRAINT cost_work_digest_check CHECK (
                (digest IS NULL) = (day IS NULL)
                AND (digest IS NOT NULL OR old_document_id IS NOT NULL))
        )""")
    op.execute("""
        CREATE TABLE books.cost_work_lines (
            job_id   uuid NOT NULL,
            amount   bigint NOT NULL CHECK (amount <> 0),
            seq      integer NOT NULL,
            line_no  integer NOT NULL,
            role     text COLLATE "C" NOT NULL,
            account  text COLLATE "C" NOT NULL,
            store    text COLLATE "C" NOT NULL,
            brand    text COLLATE "C" NOT NULL,
            item     text COLLATE "C",
            PRIMARY KEY (job_id, seq, line_no)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE (standing) ON books.cost_documents TO chot_app")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.cost_work, books.cost_work_lines TO chot_app")
    op.execute("""
        GRANT SELECT ON books.cost_documents, books.cost_work, books.cost_work_lines
            TO chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.cost_work_lines, books.cost_work, books.cost_documents")
