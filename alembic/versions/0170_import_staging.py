"""Where imports lay the lines of a file before they are merged: typed, keyed by job and line.

Numbers are still the file's (decimals in the document's unit and currency): what they are in the
books is known where the books are. A document is one row, with the lines of the file it stands in.
"""

from alembic import op

revision = "0170_import_staging"
down_revision = "0169_uploads"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.import_movements (
            job_id         uuid NOT NULL,
            line           bigint NOT NULL CHECK (line > 0),
            posting_seq    bigint,
            posting_date   date NOT NULL,
            doc_line       integer NOT NULL,
            ref_line       integer,
            reverses_line  integer,
            doc_id         text COLLATE "C" NOT NULL,
            kind           text COLLATE "C" NOT NULL,
            brand          text COLLATE "C",
            store          text COLLATE "C" NOT NULL,
            to_store       text COLLATE "C",
            item           text COLLATE "C" NOT NULL,
            uom            text COLLATE "C",
            lot            text COLLATE "C",
            currency       text COLLATE "C",
            ref_doc        text COLLATE "C",
            cost_basis     text COLLATE "C",
            reverses_doc   text COLLATE "C",
            quantity       numeric NOT NULL,
            value          numeric,
            fc_amount      numeric,
            fc_rate        numeric,
            PRIMARY KEY (job_id, line)
        )""")
    op.execute("""
        CREATE TABLE books.import_items (
            job_id          uuid NOT NULL,
            line            bigint NOT NULL CHECK (line > 0),
            unit_num        bigint,
            unit_den        bigint,
            qty_scale       smallint,
            lot_tracked     boolean,
            active          boolean,
            code            text COLLATE "C" NOT NULL,
            name            text NOT NULL,
            base_uom        text NOT NULL,
            costing_method  text COLLATE "C",
            item_group      text COLLATE "C",
            unit            text COLLATE "C",
            PRIMARY KEY (job_id, line)
        )""")
    op.execute("""
        CREATE TABLE books.import_documents (
            job_id  uuid NOT NULL,
            line    bigint NOT NULL CHECK (line > 0),
            type    text COLLATE "C" NOT NULL,
            doc_no  text COLLATE "C" NOT NULL,
            lines   bigint[] NOT NULL,
            body    jsonb NOT NULL,
            PRIMARY KEY (job_id, line)
        )""")
    # Of two lines with one number the first is told to whoever wrote the second. The job comes last:
    # statistics may say that these tables are empty, and no index may then look as good for the
    # lines of a job as the primary key.
    op.execute("""
        CREATE INDEX import_movements_document_idx
            ON books.import_movements (doc_id, doc_line, job_id)""")
    op.execute("""
        CREATE INDEX import_items_code_idx ON books.import_items (code, job_id)""")
    # A document's lines stand together in the file: one that begins again is found by its number.
    op.execute("""
        CREATE INDEX import_documents_number_idx
            ON books.import_documents (doc_no, type, job_id, line)""")
    for table in ("import_movements", "import_items", "import_documents"):
        op.execute(f"GRANT SELECT, INSERT, DELETE ON books.{table} TO chot_app")
        op.execute(f"GRANT SELECT ON books.{table} TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.import_documents, books.import_items, books.import_movements")
