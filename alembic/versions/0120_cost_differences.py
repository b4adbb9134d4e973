"""What a preview would change, an item and account a row, and which accounts a company books on.

The accounts are data: a company that has none of its own gets those of Circular 200/2014.
"""

from alembic import op

revision = "0120_cost_differences"
down_revision = "0119_cost_layers"
branch_labels = None
depends_on = None

ROLES = """'stock', 'cost_of_sales', 'variance', 'rounding', 'true_up', 'usage', 'gain',
                    'purchase_return', 'receipt'"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"""
        CREATE TABLE books.cost_accounts (
            company  text COLLATE "C" NOT NULL REFERENCES books.companies,
            role     text COLLATE "C" NOT NULL
                CONSTRAINT cost_accounts_role_check CHECK (role IN ({ROLES})),
            account  text COLLATE "C" NOT NULL CHECK (account ~ '^[0-9A-Za-z.]{{1,20}}$'),
            PRIMARY KEY (company, role)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE (account) ON books.cost_accounts TO chot_app")
    op.execute("GRANT SELECT ON books.cost_accounts TO chot_read")
    # Amounts are debits less credits of the period's costing, in minor units.
    op.execute("""
        CREATE TABLE books.cost_differences (
            run_id  bigint NOT NULL REFERENCES books.cost_runs,
            before  numeric(38, 0) NOT NULL,
            after   numeric(38, 0) NOT NULL,
            item    text COLLATE "C" NOT NULL,
            brand   text COLLATE "C" NOT NULL,
            account text COLLATE "C" NOT NULL,
            PRIMARY KEY (run_id, item, brand, account),
            CONSTRAINT cost_differences_differ_check CHECK (before <> after)
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.cost_differences TO chot_app")
    op.execute("GRANT SELECT ON books.cost_differences TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.cost_differences, books.cost_accounts")
