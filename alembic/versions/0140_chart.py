"""Chart of accounts, and which account plays which role: data of each company, never an enum.

What a preview's differences stand on (`cost_accounts`) is a part of the same roles, so the table
gets the name of the whole; a view keeps the old name for processes that are still running.
"""

from alembic import op

revision = "0140_chart"
down_revision = "0139_layers_owed"
branch_labels = None
depends_on = None

OLD_ROLES = """'stock', 'cost_of_sales', 'variance', 'rounding', 'true_up', 'usage', 'gain',
                    'purchase_return', 'receipt'"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # A dimension that is needed must stand in every line of the account. The balances of accounts
    # that are stock are, item by item and pool by pool, what costing says the goods are worth.
    op.execute("""
        CREATE TABLE books.gl_accounts (
            company      text COLLATE "C" NOT NULL REFERENCES books.companies,
            code         text COLLATE "C" NOT NULL CONSTRAINT gl_accounts_code_check
                CHECK (code ~ '^[0-9A-Za-z.]{1,20}$'),
            name         text NOT NULL,
            name_vi      text,
            kind         text NOT NULL CONSTRAINT gl_accounts_kind_check CHECK (kind IN
                ('asset', 'liability', 'equity', 'revenue', 'expense', 'result')),
            postable     boolean NOT NULL DEFAULT true,
            needs_party  boolean NOT NULL DEFAULT false,
            needs_store  boolean NOT NULL DEFAULT false,
            needs_item   boolean NOT NULL DEFAULT false,
            is_stock     boolean NOT NULL DEFAULT false,
            active_from  date,
            active_to    date,
            PRIMARY KEY (company, code),
            CONSTRAINT gl_accounts_active_check CHECK (active_from <= active_to)
        )""")
    op.execute("""
        GRANT SELECT, INSERT, UPDATE (name, name_vi, postable, needs_party, needs_store, needs_item,
            is_stock, active_from, active_to) ON books.gl_accounts TO chot_app""")
    op.execute("GRANT SELECT ON books.gl_accounts TO chot_read")
    # What a role stands for where a company has named no account of its own.
    op.execute("""
        CREATE TABLE books.role_defaults (
            role     text COLLATE "C" PRIMARY KEY,
            account  text COLLATE "C" NOT NULL
        )""")
    op.execute("""
        INSERT INTO books.role_defaults (role, account) VALUES
            ('stock', '1561'), ('cost_of_sales', '632'), ('variance', '632'), ('rounding', '632'),
            ('true_up', '632'), ('usage', '1381'), ('gain', '3381'), ('purchase_return', '331'),
            ('receipt', '331'), ('production', '154'), ('receivable', '131'), ('payable', '331'),
            ('vat_in', '1331'), ('vat_out', '33311'), ('revenue', '5111'),
            ('revenue_return', '5212'), ('cash', '1111'), ('bank', '1121'), ('fx_gain', '515'),
            ('fx_loss', '635')""")
    op.execute("GRANT SELECT ON books.role_defaults TO chot_app, chot_read")
    op.execute("ALTER TABLE books.cost_accounts RENAME TO account_roles")
    op.execute("""
        ALTER TABLE books.account_roles
            DROP CONSTRAINT cost_accounts_role_check,
            ADD CONSTRAINT account_roles_role_fkey FOREIGN KEY (role)
                REFERENCES books.role_defaults""")
    op.execute("CREATE VIEW books.cost_accounts AS SELECT * FROM books.account_roles")
    op.execute("GRANT SELECT ON books.cost_accounts TO chot_app, chot_read")
    op.execute("""
        CREATE FUNCTION books.role_account(company text, role text) RETURNS text
        LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT coalesce((SELECT r.account FROM books.account_roles r
                              WHERE r.company = $1 AND r.role = $2),
                            (SELECT d.account FROM books.role_defaults d WHERE d.role = $2))
        $$""")
    op.execute("REVOKE ALL ON FUNCTION books.role_account(text, text) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION books.role_account(text, text) TO chot_app, chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION books.role_account(text, text)")
    op.execute("DROP VIEW books.cost_accounts")
    op.execute("ALTER TABLE books.account_roles RENAME TO cost_accounts")
    op.execute("ALTER TABLE books.cost_accounts DROP CONSTRAINT account_roles_role_fkey")
    op.execute(f"DELETE FROM books.cost_accounts WHERE role NOT IN ({OLD_ROLES})")
    op.execute(f"""
        ALTER TABLE books.cost_accounts ADD CONSTRAINT cost_accounts_role_check
            CHECK (role IN ({OLD_ROLES}))""")
    op.execute("DROP TABLE books.role_defaults, books.gl_accounts")
