"""Uploads: files that clients have sent, whose bytes lie in S3. A row is written before the first
byte arrives, so that whatever is broken off is found and removed.

`digest` is of the whole content: what is read from S3 later is held to it.
"""

from alembic import op

revision = "0169_uploads"
down_revision = "0166_server_load"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.uploads (
            id          uuid PRIMARY KEY DEFAULT chot.uuid7(),
            created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            ready_at    timestamptz,
            expires_at  timestamptz NOT NULL,
            size        bigint CHECK (size >= 0),
            company     text COLLATE "C" NOT NULL,
            brand       text COLLATE "C",
            principal   text NOT NULL,
            name        text NOT NULL
                CONSTRAINT uploads_name_check CHECK (name <> '' AND length(name) <= 200),
            media_type  text NOT NULL CHECK (length(media_type) <= 200),
            object_key  text NOT NULL UNIQUE,
            state       text NOT NULL DEFAULT 'arriving'
                CONSTRAINT uploads_state_check CHECK (state IN ('arriving', 'ready', 'removed')),
            sha256      bytea CHECK (octet_length(sha256) = 32),
            CONSTRAINT uploads_ready_check
                CHECK ((state = 'arriving') = (ready_at IS NULL AND size IS NULL AND sha256 IS NULL)
                    OR state = 'removed')
        )""")
    op.execute("CREATE INDEX uploads_expiry_idx ON chot.uploads (expires_at)")
    op.execute("""
        CREATE INDEX uploads_content_idx ON chot.uploads (company, sha256)
         WHERE state = 'ready'""")
    op.execute("GRANT SELECT, INSERT, DELETE ON chot.uploads TO chot_app")
    op.execute("""
        GRANT UPDATE (state, ready_at, expires_at, size, sha256) ON chot.uploads TO chot_app""")
    op.execute("GRANT SELECT ON chot.uploads TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.uploads")
