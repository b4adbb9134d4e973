"""Sessions of the pages: what was signed is believed only where a row of it stands here.

A row holds no more than the SHA-256 of the session's 256 random bits, so that a dump with the
secrets that cookies are signed with makes nobody a session. Deleted, it is over in every browser.
"""

from alembic import op

revision = "0196_sessions"
down_revision = "0195_group_retention"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # `key_id` names no row of chot.api_keys where the session is one of CHOT_TOKEN: 'token:'.
    op.execute("""
        CREATE TABLE chot.sessions (
            token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
            key_id     text NOT NULL CHECK (length(key_id) <= 40),
            issued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at timestamptz NOT NULL,
            CONSTRAINT sessions_expires_check CHECK (expires_at > issued_at)
        )""")
    op.execute("CREATE INDEX sessions_key_idx ON chot.sessions (key_id, issued_at)")
    op.execute("CREATE INDEX sessions_expires_idx ON chot.sessions (expires_at)")
    # UPDATE for FOR UPDATE SKIP LOCKED only: retentions of several workers stand in nobody's way.
    op.execute("GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON chot.sessions TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.sessions")
