"""Posting rules (định khoản): which lines a document of a type yields, per version, as data.

A rule is never changed, only followed by a version that is valid from a later day; each entry
keeps the version it was made by. Company `*` has the rules of those that have none of their own.
"""

from alembic import op

revision = "0142_posting_rules"
down_revision = "0141_documents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # `rest`: where the difference between lines and stated totals goes, at most one unit a line.
    op.execute("""
        CREATE TABLE books.posting_rules (
            company     text COLLATE "C" NOT NULL,
            doc_type    text COLLATE "C" NOT NULL,
            version     integer NOT NULL CHECK (version > 0),
            valid_from  date NOT NULL,
            series      text COLLATE "C" NOT NULL DEFAULT 'NKC' CHECK (series ~ '^[0-9A-Z-]{1,20}$'),
            rest        text NOT NULL DEFAULT 'largest_line' CONSTRAINT posting_rules_rest_check
                CHECK (rest IN ('largest_line', 'account')),
            memo        text,
            PRIMARY KEY (company, doc_type, version)
        )""")
    # per: once a document, or once each of its lines. account: of the role, unless the document's
    # line (per line) or the document itself (per document) names one and the rule allows it.
    # amount: gross, net, vat of the document or the line; stated: side and account of the line.
    op.execute("""
        CREATE TABLE books.posting_rule_lines (
            company     text COLLATE "C" NOT NULL,
            doc_type    text COLLATE "C" NOT NULL,
            version     integer NOT NULL,
            line_no     integer NOT NULL CHECK (line_no > 0),
            per         text NOT NULL CHECK (per IN ('document', 'line')),
            side        text CHECK (side IN ('debit', 'credit')),
            role        text COLLATE "C" REFERENCES books.role_defaults,
            own_account boolean NOT NULL DEFAULT false,
            amount      text NOT NULL CHECK (amount IN ('gross', 'net', 'vat', 'stated')),
            store       text NOT NULL DEFAULT 'store' CHECK (store IN ('store', 'to_store')),
            PRIMARY KEY (company, doc_type, version, line_no),
            FOREIGN KEY (company, doc_type, version) REFERENCES books.posting_rules,
            CONSTRAINT posting_rule_lines_stated_check CHECK (
                (amount = 'stated') = (side IS NULL) AND (amount <> 'stated' OR per = 'line'))
        )""")
    op.execute("GRANT SELECT, INSERT ON books.posting_rules, books.posting_rule_lines TO chot_app")
    op.execute("GRANT SELECT ON books.posting_rules, books.posting_rule_lines TO chot_read")
    op.execute("""
        INSERT INTO books.posting_rules (company, doc_type, version, valid_from)
        SELECT '*', t, 1, '1900-01-01' FROM unnest(ARRAY['sale', 'sale_return', 'purchase',
            'purchase_return', 'transfer', 'cash_in', 'cash_out', 'manual', 'opening', 'cost']) t""")
    op.execute("""
        INSERT INTO books.posting_rule_lines
            (company, doc_type, version, line_no, per, side, role, own_account, amount, store)
        VALUES
            ('*', 'purchase', 1, 1, 'line', 'debit', 'stock', true, 'net', 'store'),
            ('*', 'purchase', 1, 2, 'document', 'debit', 'vat_in', false, 'vat', 'store'),
            ('*', 'purchase', 1, 3, 'document', 'credit', 'payable', true, 'gross', 'store'),
            ('*', 'purchase_return', 1, 1, 'document', 'debit', 'payable', true, 'gross', 'store'),
            ('*', 'purchase_return', 1, 2, 'line', 'credit', 'stock', true, 'net', 'store'),
            ('*', 'purchase_return', 1, 3, 'document', 'credit', 'vat_in', false, 'vat', 'store'),
            ('*', 'sale', 1, 1, 'document', 'debit', 'receivable', true, 'gross', 'store'),
            ('*', 'sale', 1, 2, 'line', 'credit', 'revenue', true, 'net', 'store'),
            ('*', 'sale', 1, 3, 'document', 'credit', 'vat_out', false, 'vat', 'store'),
            ('*', 'sale_return', 1, 1, 'line', 'debit', 'revenue_return', true, 'net', 'store'),
            ('*', 'sale_return', 1, 2, 'document', 'debit', 'vat_out', false, 'vat', 'store'),
            ('*', 'sale_return', 1, 3, 'document', 'credit', 'receivable', true, 'gross', 'store'),
            ('*', 'transfer', 1, 1, 'line', 'debit', 'stock', true, 'net', 'to_store'),
            ('*', 'transfer', 1, 2, 'line', 'credit', 'stock', true, 'net', 'store'),
            ('*', 'cash_in', 1, 1, 'document', 'debit', 'cash', true, 'gross', 'store'),
            ('*', 'cash_in', 1, 2, 'line', 'credit', 'receivable', true, 'net', 'store'),
            ('*', 'cash_in', 1, 3, 'document', 'credit', 'vat_out', false, 'vat', 'store'),
            ('*', 'cash_out', 1, 1, 'line', 'debit', 'payable', true, 'net', 'store'),
            ('*', 'cash_out', 1, 2, 'document', 'debit', 'vat_in', false, 'vat', 'store'),
            ('*', 'cash_out', 1, 3, 'document', 'credit', 'cash', true, 'gross', 'store'),
            ('*', 'manual', 1, 1, 'line', NULL, NULL, true, 'stated', 'store'),
            ('*', 'opening', 1, 1, 'line', NULL, NULL, true, 'stated', 'store'),
            ('*', 'cost', 1, 1, 'line', NULL, NULL, true, 'stated', 'store')""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.posting_rule_lines, books.posting_rules")
