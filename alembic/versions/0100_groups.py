"""Groups: jobs that belong together, one counter row for all, and a job that runs when they ended.

The row is changed by the very statement that ends a member, whoever ends it, after a statement of
its own has locked it: what it says is the truth at every commit.
"""

from alembic import op

revision = "0100_groups"
down_revision = "0098_running_limits"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # `outcome` is set once it cannot change any more: by what makes the group `cancelling`, or by
    # its end. `join_due`: the group has ended so that its join must not run, and it still waits.
    op.execute("""
        CREATE TABLE chot.groups (
            id          uuid PRIMARY KEY DEFAULT chot.uuid7(),
            company     text NOT NULL,
            brand       text,
            state       text NOT NULL DEFAULT 'open'
                        CHECK (state IN ('open', 'sealed', 'cancelling', 'ended')),
            policy      text NOT NULL CHECK (policy IN ('fail_fast', 'finish', 'join')),
            outcome     text CHECK (outcome IN ('succeeded', 'failed', 'cancelled')),
            generation  integer NOT NULL DEFAULT 1 CHECK (generation > 0),
            total       integer NOT NULL DEFAULT 0,
            remaining   integer NOT NULL DEFAULT 0 CHECK (remaining >= 0),
            succeeded   integer NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
            dead        integer NOT NULL DEFAULT 0 CHECK (dead >= 0),
            cancelled   integer NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
            join_job_id uuid,
            join_due    boolean NOT NULL DEFAULT false,
            principal   text NOT NULL,
            opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            sealed_at   timestamptz,
            ended_at    timestamptz,
            CONSTRAINT groups_total_check
                CHECK (total = remaining + succeeded + dead + cancelled),
            CONSTRAINT groups_end_check
                CHECK ((state = 'ended') = (ended_at IS NOT NULL)
                   AND (state <> 'ended' OR remaining = 0)
                   AND (state IN ('cancelling', 'ended')) = (outcome IS NOT NULL)),
            CONSTRAINT groups_join_check CHECK (NOT join_due OR join_job_id IS NOT NULL)
        ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01,
                autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0)""")
    # What maintenance has something to do for.
    op.execute("""
        CREATE INDEX groups_due_idx ON chot.groups (id) WHERE state = 'cancelling' OR join_due""")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.groups TO chot_app")
    op.execute("GRANT SELECT ON chot.groups TO chot_read")
    # Which group a job waits for and then joins: it is no member of one.
    op.execute("ALTER TABLE chot.jobs ADD COLUMN joins uuid")
    op.execute("""
        ALTER TABLE chot.jobs ADD CONSTRAINT jobs_joins_check
            CHECK (joins IS NULL OR group_id IS NULL) NOT VALID""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs DROP COLUMN joins")
    op.execute("DROP TABLE chot.groups")
