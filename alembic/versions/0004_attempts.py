"""Attempts: one row a claim, kept for ever; what settles every doubt about a lost answer."""

from alembic import op

revision = "0004_attempts"
down_revision = "0003_jobs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.attempts (
            job_id                uuid NOT NULL,
            fence                 bigint NOT NULL,
            attempt               integer NOT NULL,
            worker_id             text NOT NULL,
            lease_token           uuid NOT NULL,
            code_version          text NOT NULL,
            started_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
            ended_at              timestamptz,
            outcome               text,
            error                 jsonb CHECK (octet_length(error::text) <= 16384),
            claimed_checkpoint_no integer NOT NULL,
            checkpoint_no         integer NOT NULL,
            PRIMARY KEY (job_id, fence),
            CONSTRAINT attempts_outcome_check CHECK (outcome IN
                ('succeeded', 'failed', 'lost_lease', 'released', 'cancelled')),
            CONSTRAINT attempts_ended_check CHECK ((outcome IS NULL) = (ended_at IS NULL)),
            CONSTRAINT attempts_checkpoint_check CHECK (checkpoint_no >= claimed_checkpoint_no)
        ) WITH (fillfactor = 85)""")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.attempts TO chot_app")
    op.execute("GRANT SELECT ON chot.attempts TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.attempts")
