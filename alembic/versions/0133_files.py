"""Files that jobs write and the api streams: exports of cost runs, and whatever comes later.

A file is `building` until the transaction that completes its job, and nobody sees it before. Its
content lies in chunks, so that neither a writer nor a reader ever holds it whole; chunks are written
once and never changed. Files expire: a worker's retention removes them in batches, some time after
the api has stopped to hand them out.
"""

from alembic import op

revision = "0133_files"
down_revision = "0129_period_order"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.files (
            id          uuid PRIMARY KEY DEFAULT chot.uuid7(),
            job_id      uuid NOT NULL,
            created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            ready_at    timestamptz,
            expires_at  timestamptz NOT NULL,
            size        bigint CHECK (size >= 0),
            chunks      integer CHECK (chunks >= 0),
            company     text NOT NULL,
            brand       text,
            principal   text,
            -- A name goes into a header and onto somebody's disk.
            name        text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$'),
            media_type  text NOT NULL CHECK (media_type ~ '^[a-z]+/[A-Za-z0-9.+; =-]{1,100}$'),
            state       text NOT NULL DEFAULT 'building',
            sha256      bytea CHECK (octet_length(sha256) = 32),
            CONSTRAINT files_state_check CHECK (state IN ('building', 'ready')),
            CONSTRAINT files_ready_check
                CHECK ((state = 'ready') = (ready_at IS NOT NULL)
                   AND (state = 'ready') = (size IS NOT NULL)
                   AND (state = 'ready') = (chunks IS NOT NULL)
                   AND (state = 'ready') = (sha256 IS NOT NULL))
        )""")
    op.execute("CREATE INDEX files_expiry_idx ON chot.files (expires_at)")
    op.execute("CREATE INDEX files_job_idx ON chot.files (job_id)")
    op.execute("""
        CREATE TABLE chot.file_chunks (
            file_id  uuid NOT NULL REFERENCES chot.files,
            number   integer NOT NULL CHECK (number >= 0),
            content  bytea NOT NULL CHECK (octet_length(content) BETWEEN 1 AND 262144),
            PRIMARY KEY (file_id, number)
        )""")
    op.execute("GRANT SELECT, INSERT, DELETE ON chot.files, chot.file_chunks TO chot_app")
    op.execute("""
        GRANT UPDATE (state, ready_at, expires_at, size, chunks, sha256) ON chot.files
           TO chot_app""")
    op.execute("GRANT SELECT ON chot.files, chot.file_chunks TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.file_chunks")
    op.execute("DROP TABLE chot.files")
