"""Migration runs: how far each is, what its last batches were, and the rows it could not take.

What a run has done is committed with the row that says so: the cursor here and the data it stands
for are of one transaction. Keys are kept as text, in the order of the task's key columns.
"""

from alembic import op

revision = "0164_migration_runs"
down_revision = "0162_job_approver"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Of a job, not of an attempt: a redriven one goes on from its cursor.
    op.execute("""
        CREATE TABLE chot.migration_runs (
            job_id           uuid PRIMARY KEY,
            company          text COLLATE "C" NOT NULL,
            brand            text COLLATE "C",
            task             text COLLATE "C" NOT NULL,
            version          integer NOT NULL CHECK (version > 0),
            phase            text NOT NULL DEFAULT 'preparing'
                CONSTRAINT migration_runs_phase_check
                CHECK (phase IN ('preparing', 'running', 'retrying', 'finishing', 'over', 'done')),
            dry_run          boolean NOT NULL,
            fence            bigint NOT NULL,
            upper_bound      text[],
            cursor_key       text[],
            rows_total       bigint,
            rows_done        bigint NOT NULL DEFAULT 0 CHECK (rows_done >= 0),
            rows_failed      bigint NOT NULL DEFAULT 0
                CONSTRAINT migration_runs_failed_check CHECK (rows_failed BETWEEN 0 AND rows_done),
            counts           jsonb NOT NULL DEFAULT '{}',
            state            jsonb,
            batches          bigint NOT NULL DEFAULT 0,
            failed_tries     bigint NOT NULL DEFAULT 0,
            batch_size       integer NOT NULL CHECK (batch_size > 0),
            last_batch_ms    integer,
            efficiency       double precision,
            throttles        bigint NOT NULL DEFAULT 0,
            throttle_reason  text CHECK (length(throttle_reason) <= 1000),
            throttled_at     timestamptz,
            check_before     jsonb,
            check_after      jsonb,
            started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
            finished_at      timestamptz
        ) WITH (fillfactor = 50)""")
    op.execute("""
        CREATE INDEX migration_runs_company_idx ON chot.migration_runs (company, job_id)""")
    # The newest tries of each run, failed ones too.
    op.execute("""
        CREATE TABLE chot.migration_batches (
            job_id     uuid NOT NULL REFERENCES chot.migration_runs ON DELETE CASCADE,
            number     bigint NOT NULL,
            fence      bigint NOT NULL,
            size       integer NOT NULL,
            rows       integer NOT NULL,
            ms         integer NOT NULL,
            outcome    text NOT NULL CONSTRAINT migration_batches_outcome_check
                CHECK (outcome IN ('ok', 'split', 'timeout', 'conflict', 'rejected')),
            key_from   text[],
            key_to     text[],
            error      text CHECK (length(error) <= 500),
            at         timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (job_id, number)
        )""")
    # `line` and `field` are of tasks that read a file.
    op.execute("""
        CREATE TABLE chot.migration_rejects (
            job_id  uuid NOT NULL REFERENCES chot.migration_runs ON DELETE CASCADE,
            seq     bigint NOT NULL,
            line    bigint,
            key     text[],
            field   text CHECK (length(field) <= 200),
            value   text CHECK (length(value) <= 500),
            code    text COLLATE "C" NOT NULL CHECK (length(code) <= 100),
            rule    text NOT NULL CHECK (length(rule) <= 1000),
            retried boolean NOT NULL DEFAULT false,
            PRIMARY KEY (job_id, seq)
        )""")
    op.execute("""
        GRANT SELECT, INSERT, UPDATE, DELETE
            ON chot.migration_runs, chot.migration_batches, chot.migration_rejects TO chot_app""")
    op.execute("""
        GRANT SELECT ON chot.migration_runs, chot.migration_batches, chot.migration_rejects
            TO chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.migration_rejects, chot.migration_batches, chot.migration_runs")
