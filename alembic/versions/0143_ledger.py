"""The ledger (sổ cái): entries of documents and their lines, only ever added to.

What takes an entry back is another one that names it. The keys hold even if a worker is wrong: a
version of a document is in the ledger once, a number is given once, an entry is reversed once.
Lines may be written before their entry, so that the number, which everybody waits for, comes last.
"""

from alembic import op

revision = "0143_ledger"
down_revision = "0142_posting_rules"
branch_labels = None
depends_on = None


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
            memo               text,
            prev_hash          bytea NOT NULL,
            hash               bytea NOT NULL CHECK (octet_length(hash) = 32),
            PRIMARY KEY (id),
            CONSTRAINT gl_entries_reversal_check
                CHECK ((kind = 'reversal') = (reverses_entry_id IS NOT NULL)),
            CONSTRAINT gl_entries_document_key UNIQUE (document_id, document_version, role, kind),
            CONSTRAINT gl_entries_number_key UNIQUE (company, series, fiscal_year, entry_no),
            CONSTRAINT gl_entries_reverses_key UNIQUE (reverses_entry_id)
        )""")
    op.execute("""
        CREATE INDEX gl_entries_date_idx ON books.gl_entries (company, posting_date, id)""")
    op.execute("CREATE SEQUENCE books.gl_entries_id_seq OWNED BY books.gl_entries.id CACHE 1")
    op.execute("""
        CREATE TABLE books.gl_lines (
            entry_id      bigint NOT NULL REFERENCES books.gl_entries DEFERRABLE INITIALLY DEFERRED,
            debit         bigint NOT NULL DEFAULT 0,
            credit        bigint NOT NULL DEFAULT 0,
            qty_base      bigint,
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
            CONSTRAINT gl_lines_account_fkey FOREIGN KEY (company, account)
                REFERENCES books.gl_accounts,
            CONSTRAINT gl_lines_side_check CHECK (
                debit >= 0 AND credit >= 0 AND (debit > 0) <> (credit > 0))
        )""")
    op.execute("""
        CREATE INDEX gl_lines_account_idx
            ON books.gl_lines (company, account, posting_date, entry_id)""")
    op.execute("GRANT SELECT, INSERT, UPDATE (last_no, last_hash) ON books.gl_series TO chot_app")
    op.execute("GRANT SELECT, INSERT ON books.gl_entries, books.gl_lines TO chot_app")
    op.execute("GRANT USAGE ON SEQUENCE books.gl_entries_id_seq TO chot_app")
    op.execute("GRANT SELECT ON books.gl_series, books.gl_entries, books.gl_lines TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.gl_lines, books.gl_entries, books.gl_series")
