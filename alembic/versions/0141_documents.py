"""Documents (chứng từ): what an ERP has posted to the ledger, whole or not at all.

A draft may be replaced, which makes it the next version; a posted one stays as it is until it is
unposted. Amounts are minor units of the company's currency; a document in another one states
`fc_…` amounts and a rate instead, and is worth R(fc · rate). `total` (with VAT) and `vat_total` are
the facts of the document, its lines are held to them.
"""

from alembic import op

revision = "0141_documents"
down_revision = "0140_chart"
branch_labels = None
depends_on = None

TYPES = """'sale', 'sale_return', 'purchase', 'purchase_return', 'transfer', 'cash_in', 'cash_out',
                'manual', 'opening', 'cost'"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""ALTER TABLE books.items ADD COLUMN item_group text COLLATE "C" """)
    op.execute("GRANT UPDATE (item_group) ON books.items TO chot_app")
    op.execute(f"""
        CREATE TABLE books.documents (
            id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            ref_document_id  bigint REFERENCES books.documents,
            cost_run_id      bigint REFERENCES books.cost_runs,
            total            bigint,
            vat_total        bigint,
            created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            version          integer NOT NULL DEFAULT 1 CHECK (version > 0),
            doc_date         date NOT NULL,
            posting_date     date NOT NULL,
            company          text COLLATE "C" NOT NULL REFERENCES books.companies,
            brand            text COLLATE "C",
            type             text COLLATE "C" NOT NULL
                CONSTRAINT documents_type_check CHECK (type IN ({TYPES})),
            doc_no           text COLLATE "C" NOT NULL
                CONSTRAINT documents_no_check CHECK (doc_no <> '' AND length(doc_no) <= 60),
            store            text COLLATE "C",
            to_store         text COLLATE "C",
            party            text COLLATE "C" CHECK (party <> '' AND length(party) <= 60),
            account          text COLLATE "C",
            currency         text COLLATE "C" CHECK (currency ~ '^[A-Z]{{3}}$'),
            fc_rate          numeric CHECK (fc_rate > 0),
            fc_total         numeric,
            fc_vat_total     numeric,
            status           text COLLATE "C" NOT NULL DEFAULT 'draft'
                CONSTRAINT documents_status_check CHECK (status IN ('draft', 'posted', 'void')),
            memo             text CHECK (length(memo) <= 500),
            source           text COLLATE "C" NOT NULL DEFAULT 'api',
            principal        text,
            content_hash     bytea NOT NULL,
            FOREIGN KEY (company, brand) REFERENCES books.brands,
            FOREIGN KEY (company, store) REFERENCES books.stores,
            FOREIGN KEY (company, to_store) REFERENCES books.stores,
            CONSTRAINT documents_target_check
                CHECK ((type = 'transfer') = (to_store IS NOT NULL) AND to_store <> store),
            CONSTRAINT documents_cost_check CHECK ((type = 'cost') = (cost_run_id IS NOT NULL))
        ) WITH (fillfactor = 80)""")
    # Of voided ones as well: a number that was given once names that document for ever.
    op.execute("""
        CREATE UNIQUE INDEX documents_number_key ON books.documents (company, type, doc_no)""")
    op.execute("""
        CREATE INDEX documents_selection_idx
            ON books.documents (company, posting_date, type, id)""")
    op.execute("""
        CREATE INDEX documents_run_idx ON books.documents (cost_run_id)
            WHERE cost_run_id IS NOT NULL""")
    op.execute("""
        CREATE INDEX documents_ref_idx ON books.documents (ref_document_id)
            WHERE ref_document_id IS NOT NULL""")
    op.execute("""
        CREATE TABLE books.document_lines (
            document_id  bigint NOT NULL REFERENCES books.documents,
            qty_base     bigint,
            net          bigint,
            vat          bigint,
            line_no      integer NOT NULL CHECK (line_no > 0),
            item         text COLLATE "C",
            uom          text COLLATE "C",
            qty_doc      numeric,
            vat_rate     numeric CHECK (vat_rate >= 0 AND vat_rate <= 100),
            fc_net       numeric,
            fc_vat       numeric,
            side         text COLLATE "C" CHECK (side IN ('debit', 'credit')),
            account      text COLLATE "C",
            store        text COLLATE "C",
            party        text COLLATE "C",
            lot_id       text COLLATE "C",
            ref_line     integer,
            memo         text CHECK (length(memo) <= 500),
            PRIMARY KEY (document_id, line_no)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE ON books.documents TO chot_app")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.document_lines TO chot_app")
    op.execute("GRANT SELECT ON books.documents, books.document_lines TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.document_lines, books.documents")
    op.execute("ALTER TABLE books.items DROP COLUMN item_group")
