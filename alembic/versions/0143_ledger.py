"""The ledger (sổ cái): entries of documents and their lines, only ever added to.

What takes an entry back is another one that names it. The keys hold even if a worker is wrong: a
version of a document is in the ledger once, a number is given once, an entry is reversed once.
Lines are written before their entry, so that the number, which everybody waits for, comes last;
`xid` holds both to one transaction. App writes lines itself, entries through the function of
0145_append_entries only.
"""

from alembic import op

revision = "0143_ledger"
down_revision = "0142_posting_rules"
branch_labels = None
depends_on = None

WRITABLE = (
    "entry_id, debit, credit, qty_base, line_no, posting_date, company, brand, account, party, "
    "store, item, currency, fc_amount, memo"
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.gl_series (
            company      text COLLATE "C" NOT NULL REFERENCES books.companies,
            series       text COLLATE "C" NOT NULL,
            fiscal_year  integer NOT NULL,
            last_no      bigint NOT NULL DEFAULT 0 CHECK (last_no >= 0),
            last_hash    bytea NOT NULL DEFAULT '',
            PRIMARY KEY (company, series, fiscal_year)
        ) WITH (fillfactor = 50)""")
    op.execute("""
        CREATE TABLE books.gl_entries (
            id                 bigint NOT NULL,
            document_id        bigint NOT NULL REFERENCES books.documents,
            reverses_entry_id  bigint REFERENCES books.gl_entries (id),
            entry_no           bigint NOT NULL CHECK (entry_no > 0),
            fence              bigint NOT NULL,
            job_id             uuid NOT NULL,
            created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
            document_version   integer NOT NULL,
            rule_version       integer NOT NULL,
            fiscal_year        integer NOT NULL,
            posting_date       date NOT NULL,
            company            text COLLATE "C" NOT NULL REFERENCES books.companies,
            brand              text COLLATE "C",
            series             text COLLATE "C" NOT NULL,
            role               text COLLATE "C" NOT NULL
                CONSTRAINT gl_entries_role_check CHECK (role IN ('main', 'cost', 'adjust')),
            kind               text COLLATE "C" NOT NULL
                CONSTRAINT gl_entries_kind_check CHECK (kind IN ('normal', 'reversal')),
            xid                xid8 NOT NULL DEFAULT pg_current_xact_id(),
            memo               text,
            prev_hash          bytea NOT NULL,
            hash               bytea NOT NULL CHECK (octet_length(hash) = 32),
            PRIMARY KEY (id),
            CONSTRAINT gl_entries_reversal_check
                CHECK ((kind = 'reversal') = (reverses_entry_id IS NOT NULL)),
            CONSTRAINT gl_entries_document_key UNIQUE (document_id, document_version, role, kind),
            CONSTRAINT gl_entries_number_key UNIQUE (company, series, fiscal_year, entry_no),
            CONSTRAINT gl_entries_reverses_key UNIQUE (reverses_entry_id),
            CONSTRAINT gl_entries_xid_key UNIQUE (id, xid)
        )""")
    op.execute("""
        CREATE INDEX gl_entries_date_idx ON books.gl_entries (company, posting_date, id)""")
    op.execute("CREATE SEQUENCE books.gl_entries_id_seq OWNED BY books.gl_entries.id CACHE 1")
    op.execute("""
        CREATE TABLE books.gl_lines (
            entry_id      bigint NOT NULL,
            debit         bigint NOT NULL DEFAULT 0,
            credit        bigint NOT NULL DEFAULT 0,
            qty_base      bigint,
            xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
            line_no       integer NOT NULL CHECK (line_no > 0),
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
            PRIMARY KEY (entry_id, line_no),
            CONSTRAINT gl_lines_entry_fkey FOREIGN KEY (entry_id, xid)
                REFERENCES books.gl_entries (id, xid) DEFERRABLE INITIALLY DEFERRED,
            CONSTRAINT gl_lines_account_fkey FOREIGN KEY (company, account)
                REFERENCES books.gl_accounts,
            CONSTRAINT gl_lines_side_check CHECK (
                debit >= 0 AND credit >= 0 AND (debit > 0) <> (credit > 0))
        ) WITH (autovacuum_vacuum_insert_scale_factor = 0.02)""")
    # A trial balance sums it up without the table.
    op.execute("""
        CREATE INDEX gl_lines_account_idx
            ON books.gl_lines (company, account, posting_date, entry_id)
            INCLUDE (debit, credit, brand)""")
    op.execute(f"GRANT SELECT, INSERT ({WRITABLE}) ON books.gl_lines TO chot_app")
    op.execute("GRANT SELECT ON books.gl_series, books.gl_entries TO chot_app")
    op.execute("GRANT USAGE ON SEQUENCE books.gl_entries_id_seq TO chot_app")
    op.execute("GRANT SELECT ON books.gl_series, books.gl_entries, books.gl_lines TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.gl_lines, books.gl_entries, books.gl_series")
