"""The order of publishing: turns, shares and weights of a queue, the messages on their way,
and how many jobs of a kind may run at once.
"""

from alembic import op

revision = "0060_publishing"
down_revision = "0056_outbox_order"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # First what may be interrupted and done again; the rest is one transaction.
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_lane_idx")
        # A lane is what has queue, priority, brand and kind in common; its head is one probe away.
        op.execute("""
            CREATE INDEX CONCURRENTLY outbox_lane_idx ON chot.outbox
                   (queue, priority, (coalesce(brand, '')), kind, next_send_at, id)
             WHERE quarantined_at IS NULL""")
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # turns: messages ever taken; shares: what each lane has left, and when it was served last.
    op.execute("""
        ALTER TABLE chot.queues
          ADD COLUMN turns bigint NOT NULL DEFAULT 0,
          ADD COLUMN shares jsonb NOT NULL DEFAULT '{}',
          ADD COLUMN weights jsonb NOT NULL DEFAULT '{}',
          ADD CONSTRAINT queues_weights_check CHECK (
              jsonb_typeof(weights) = 'object' AND NOT jsonb_path_exists(weights,
                  '$.* ? (@.type() != "number" || @ < 0.01 || @ > 100)')),
          SET (fillfactor = 50)""")
    op.execute("""
        ALTER TABLE chot.kinds ADD COLUMN max_running integer
          CONSTRAINT kinds_max_running_check CHECK (max_running > 0)""")
    # No foreign key: whether a row still counts is read from its job, its fence, its outbox row.
    op.execute("""
        CREATE TABLE chot.published (
            queue      text NOT NULL,
            job_id     uuid NOT NULL,
            kind       text NOT NULL,
            fence      bigint NOT NULL,
            turn       bigint NOT NULL,
            take_token uuid NOT NULL,
            taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (queue, job_id)
        ) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.published TO chot_app")
    op.execute("GRANT SELECT ON chot.published TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP INDEX chot.outbox_lane_idx")
    op.execute("DROP TABLE chot.published")
    op.execute("ALTER TABLE chot.kinds DROP COLUMN max_running")
    op.execute("""
        ALTER TABLE chot.queues DROP COLUMN turns, DROP COLUMN shares, DROP COLUMN weights,
              RESET (fillfactor)""")
