"""How fast a running job moves: its rate, when it last moved, and the fence that said so.

What another fence has left is nobody's pace: a claim need not clear it. No index holds any of
these, so that a heartbeat stays a HOT update.
"""

from alembic import op

revision = "0080_progress_pace"
down_revision = "0078_pending_kind"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.jobs
            ADD COLUMN progress_rate  double precision,
            ADD COLUMN progress_at    timestamptz,
            ADD COLUMN progress_fence bigint""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.jobs
            DROP COLUMN progress_fence, DROP COLUMN progress_at, DROP COLUMN progress_rate""")
