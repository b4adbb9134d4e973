"""The cost pool of each store, by date: without a row a store lies in the pool of its brand.

A pool is named inside its brand, so that no two brands can share one. The rows in force are
copied into a run when it starts.
"""

from alembic import op

revision = "0022_cost_pool_map"
down_revision = "0021_items"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.cost_pool_map (
            company     text COLLATE "C" NOT NULL,
            store       text COLLATE "C" NOT NULL,
            valid_from  date NOT NULL,
            pool        text COLLATE "C" NOT NULL CHECK (pool <> '' AND length(pool) <= 40),
            PRIMARY KEY (company, store, valid_from),
            FOREIGN KEY (company, store) REFERENCES books.stores
        )""")
    op.execute("GRANT SELECT, INSERT ON books.cost_pool_map TO chot_app")
    op.execute("GRANT SELECT ON books.cost_pool_map TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.cost_pool_map")
