"""Dead messages: what came out of SQS and is no message of ours, kept before it is deleted there."""

from alembic import op

revision = "0007_dead_messages"
down_revision = "0006_idempotency_keys"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # The body is bytes: a message may hold what PostgreSQL's text cannot.
    op.execute("""
        CREATE TABLE chot.dead_messages (
            id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            queue         text NOT NULL,
            message_id    text NOT NULL,
            body          bytea NOT NULL,
            attributes    jsonb NOT NULL,
            reason        text NOT NULL CHECK (octet_length(reason) <= 2048),
            receive_count integer NOT NULL,
            created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
            UNIQUE (queue, message_id)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.dead_messages TO chot_app")
    op.execute("GRANT SELECT ON chot.dead_messages TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.dead_messages")
