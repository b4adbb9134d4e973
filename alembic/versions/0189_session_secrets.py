"""What the cookies of the pages are signed with: made by the api itself, the same for all of them.

Role read sees no row of it, or whoever reads metrics could sign himself a session as admin.
"""

from alembic import op

revision = "0189_session_secrets"
down_revision = "0187_lease_losses"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.session_secrets (
            id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
            created_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON chot.session_secrets TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.session_secrets")
