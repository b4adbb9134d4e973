"""What an operator stops beside queues: a kind, and the books of a company or of one of its brands.

A freeze without a brand is of the whole company.
"""

from alembic import op

revision = "0097_stops"
down_revision = "0096_company_lanes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.kinds ADD COLUMN paused boolean NOT NULL DEFAULT false")
    op.execute("""
        CREATE TABLE chot.freezes (
            id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            company   text NOT NULL,
            brand     text,
            reason    text CHECK (octet_length(reason) <= 1000),
            principal text NOT NULL,
            frozen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT freezes_books_key UNIQUE NULLS NOT DISTINCT (company, brand)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.freezes TO chot_app")
    op.execute("GRANT SELECT ON chot.freezes TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.freezes")
    op.execute("ALTER TABLE chot.kinds DROP COLUMN paused")
