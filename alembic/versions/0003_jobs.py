"""The job table: the only truth about who may do what.

The hot row is narrow: payload and outputs live beside it, lease and progress columns stand in no
index (predicates included), and the fill factor leaves room, so that a heartbeat is a HOT update.
No foreign key points at it: one would take KEY SHARE locks on the row that the claim fights for.
"""

from alembic import op

revision = "0003_jobs"
down_revision = "0002_platform"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.jobs (
            id                uuid PRIMARY KEY,
            kind              text NOT NULL,
            company           text NOT NULL,
            brand             text,
            queue             text NOT NULL,
            state             text NOT NULL DEFAULT 'pending',
            priority          smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
            attempt           integer NOT NULL DEFAULT 0,
            max_attempts      integer NOT NULL CHECK (max_attempts > 0),
            lost_leases       integer NOT NULL DEFAULT 0 CHECK (lost_leases >= 0),
            interruptions     integer NOT NULL DEFAULT 0 CHECK (interruptions >= 0),
            fence             bigint NOT NULL DEFAULT 0,
            lease_token       uuid,
            lease_expires_at  timestamptz,
            worker_id         text,
            available_at      timestamptz NOT NULL,
            blocked_by        text CHECK (octet_length(blocked_by) <= 1024),
            checkpoint_no     integer NOT NULL DEFAULT 0 CHECK (checkpoint_no >= 0),
            progress_done     bigint CHECK (progress_done >= 0),
            progress_total    bigint CHECK (progress_total >= 0),
            progress_unit     text CHECK (octet_length(progress_unit) <= 64),
            progress_message  text CHECK (octet_length(progress_message) <= 960),
            published_at      timestamptz,
            publishes         integer NOT NULL DEFAULT 0,
            cleanup_due       boolean NOT NULL DEFAULT false,
            fingerprint       bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
            on_duplicate      text NOT NULL,
            payload_version   integer NOT NULL CHECK (payload_version > 0),
            followup_payload  jsonb CHECK (octet_length(followup_payload::text) <= 262144),
            followup_version  integer,
            followup_principal text,
            group_id          uuid,
            principal         text NOT NULL,
            trace             text CHECK (octet_length(trace) <= 512),
            code_version      text,
            deployment_id     uuid NOT NULL,
            created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            started_at        timestamptz,
            finished_at       timestamptz,
            CONSTRAINT jobs_state_check
                CHECK (state IN ('pending', 'running', 'succeeded', 'cancelled', 'dead')),
            CONSTRAINT jobs_lease_check
                CHECK ((state = 'running') = (lease_token IS NOT NULL)
                   AND (state = 'running') = (lease_expires_at IS NOT NULL)
                   AND (state = 'running') = (worker_id IS NOT NULL)),
            CONSTRAINT jobs_finished_check
                CHECK ((state IN ('succeeded', 'cancelled', 'dead')) = (finished_at IS NOT NULL)),
            CONSTRAINT jobs_counters_check
                CHECK (lost_leases + interruptions <= attempt AND attempt <= fence),
            CONSTRAINT jobs_cleanup_check
                CHECK (NOT cleanup_due OR state IN ('cancelled', 'dead')),
            CONSTRAINT jobs_followup_check
                CHECK ((followup_payload IS NULL) = (followup_version IS NULL)
                   AND (followup_payload IS NULL) = (followup_principal IS NULL))
        ) WITH (fillfactor = 75,
                autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)""")
    op.execute("""
        CREATE UNIQUE INDEX jobs_active_fingerprint_key ON chot.jobs (fingerprint)
         WHERE state IN ('pending', 'running')""")
    op.execute("CREATE INDEX jobs_pending_idx ON chot.jobs (available_at) WHERE state = 'pending'")
    op.execute("CREATE INDEX jobs_running_idx ON chot.jobs (id) WHERE state = 'running'")
    op.execute("CREATE INDEX jobs_dead_idx ON chot.jobs (id) WHERE state = 'dead'")
    op.execute("CREATE INDEX jobs_cleanup_idx ON chot.jobs (id) WHERE cleanup_due")
    op.execute("CREATE INDEX jobs_company_idx ON chot.jobs (company, id)")
    op.execute("""
        CREATE TABLE chot.job_payloads (
            job_id  uuid PRIMARY KEY,
            payload jsonb NOT NULL CHECK (octet_length(payload::text) <= 262144)
        )""")
    # A table of its own: a checkpoint must not rewrite, nor check again, a large payload.
    op.execute("""
        CREATE TABLE chot.job_outputs (
            job_id     uuid PRIMARY KEY,
            checkpoint jsonb CHECK (octet_length(checkpoint::text) <= 65536),
            result     jsonb CHECK (octet_length(result::text) <= 1048576),
            error      jsonb CHECK (octet_length(error::text) <= 16384)
        ) WITH (fillfactor = 75)""")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.jobs, chot.job_payloads TO chot_app")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.job_outputs TO chot_app")
    op.execute("GRANT SELECT ON chot.jobs, chot.job_payloads, chot.job_outputs TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for table in ("job_outputs", "job_payloads", "jobs"):
        op.execute(f"DROP TABLE chot.{table}")
