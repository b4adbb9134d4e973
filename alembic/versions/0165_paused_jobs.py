"""A single job may be paused: it stays `pending` and is not claimable until it is resumed.

On the job's own row, so that a claim that waits for the row judges it by what stands there then.
"""

from alembic import op

revision = "0165_paused_jobs"
down_revision = "0164_migration_runs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs ADD COLUMN paused_at timestamptz")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs DROP COLUMN paused_at")
