"""Idempotency keys: the stored answer of a request, byte for byte."""

from alembic import op

revision = "0006_idempotency_keys"
down_revision = "0005_outbox"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.idempotency_keys (
            principal      text NOT NULL,
            key            text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
            request_digest bytea NOT NULL CHECK (octet_length(request_digest) = 32),
            digest_version smallint NOT NULL,
            status         smallint NOT NULL CHECK (status BETWEEN 200 AND 499),
            headers        jsonb NOT NULL,
            body           bytea NOT NULL,
            job_id         uuid,
            created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at     timestamptz NOT NULL,
            PRIMARY KEY (principal, key)
        )""")
    op.execute("CREATE INDEX idempotency_keys_expires_idx ON chot.idempotency_keys (expires_at)")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.idempotency_keys TO chot_app")
    op.execute("GRANT SELECT ON chot.idempotency_keys TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.idempotency_keys")
