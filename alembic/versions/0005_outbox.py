"""The outbox: a message exists exactly if the job's transaction committed."""

from alembic import op

revision = "0005_outbox"
down_revision = "0004_attempts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.outbox (
            id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            job_id         uuid NOT NULL,
            queue          text NOT NULL,
            kind           text NOT NULL,
            brand          text,
            trace          text,
            priority       smallint NOT NULL,
            next_send_at   timestamptz NOT NULL,
            sends          integer NOT NULL DEFAULT 0,
            take_token     uuid,
            last_error     text CHECK (octet_length(last_error) <= 2048),
            quarantined_at timestamptz,
            created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
        ) WITH (fillfactor = 70,
                autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)""")
    op.execute("""
        CREATE INDEX outbox_due_idx ON chot.outbox (next_send_at)
         WHERE quarantined_at IS NULL""")
    op.execute("CREATE INDEX outbox_job_idx ON chot.outbox (job_id)")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.outbox TO chot_app")
    op.execute("GRANT SELECT ON chot.outbox TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.outbox")
