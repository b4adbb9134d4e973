"""The deployment, its queues, the kinds it knows, the workers that live."""

from alembic import op

revision = "0002_platform"
down_revision = "0001_roles"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.deployment (
            one           boolean PRIMARY KEY DEFAULT true CHECK (one),
            deployment_id uuid NOT NULL DEFAULT gen_random_uuid(),
            created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
        )""")
    op.execute("INSERT INTO chot.deployment DEFAULT VALUES")
    op.execute("""
        CREATE TABLE chot.queues (
            name         text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,39}$'),
            paused       boolean NOT NULL DEFAULT false,
            alone_worker text,
            alone_until  timestamptz,
            CONSTRAINT queues_alone_check CHECK ((alone_worker IS NULL) = (alone_until IS NULL))
        )""")
    op.execute("""
        CREATE TABLE chot.kinds (
            name               text PRIMARY KEY,
            queue              text NOT NULL REFERENCES chot.queues (name),
            payload_version    integer NOT NULL CHECK (payload_version > 0),
            fingerprint_fields text[] NOT NULL,
            on_duplicate       text NOT NULL
                               CHECK (on_duplicate IN ('join', 'merge', 'follow_up')),
            max_attempts       integer NOT NULL CHECK (max_attempts > 0),
            max_attempts_cap   integer NOT NULL CHECK (max_attempts_cap >= max_attempts),
            timeout_seconds    double precision NOT NULL CHECK (timeout_seconds > 0),
            locks              jsonb,
            updated_at         timestamptz NOT NULL DEFAULT clock_timestamp()
        )""")
    op.execute("""
        CREATE TABLE chot.workers (
            worker_id    text PRIMARY KEY,
            host         text NOT NULL,
            pid          integer NOT NULL,
            code_version text NOT NULL,
            kinds        jsonb NOT NULL,
            state        text NOT NULL CHECK (state IN ('working', 'alone', 'draining')),
            started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            seen_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            live_until   timestamptz NOT NULL
        )""")
    op.execute("""
        CREATE TABLE chot.worker_queues (
            worker_id        text NOT NULL REFERENCES chot.workers ON DELETE CASCADE,
            queue            text NOT NULL,
            slots            integer NOT NULL CHECK (slots > 0),
            free_slots       integer NOT NULL CHECK (free_slots BETWEEN 0 AND slots),
            free_since       timestamptz,
            empty_receive_at timestamptz,
            PRIMARY KEY (worker_id, queue)
        )""")
    op.execute("GRANT SELECT ON chot.deployment TO chot_app, chot_read")
    op.execute("""GRANT SELECT, INSERT, UPDATE, DELETE
        ON chot.queues, chot.kinds, chot.workers, chot.worker_queues TO chot_app""")
    op.execute("""GRANT SELECT
        ON chot.queues, chot.kinds, chot.workers, chot.worker_queues TO chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for table in ("worker_queues", "workers", "kinds", "queues", "deployment"):
        op.execute(f"DROP TABLE chot.{table}")
