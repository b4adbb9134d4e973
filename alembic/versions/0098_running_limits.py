"""How many jobs may run at once of a kind, of a company, of a brand, and of a kind there.

What is reserved for a job that runs alone says whose job that is, so that it holds its place in
every limit.
"""

from alembic import op

revision = "0098_running_limits"
down_revision = "0097_stops"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.running_limits (
            id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            kind        text,
            company     text,
            brand       text,
            max_running integer NOT NULL CHECK (max_running > 0),
            principal   text NOT NULL,
            set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT running_limits_of_key UNIQUE NULLS NOT DISTINCT (kind, company, brand),
            CONSTRAINT running_limits_of_check CHECK (
                (kind IS NOT NULL OR company IS NOT NULL)
                AND (brand IS NULL OR company IS NOT NULL))
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.running_limits TO chot_app")
    op.execute("GRANT SELECT ON chot.running_limits TO chot_read")
    op.execute("ALTER TABLE chot.queues ADD COLUMN alone_company text, ADD COLUMN alone_brand text")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.queues DROP COLUMN alone_company, DROP COLUMN alone_brand")
    op.execute("DROP TABLE chot.running_limits")
