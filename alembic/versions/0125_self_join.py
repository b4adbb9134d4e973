"""Groups whose join is the job that has spawned them: it waits, and goes on when they have ended.

They are for this job alone: a cancel of it cancels them.
"""

from alembic import op

revision = "0125_self_join"
down_revision = "0122_production_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.groups ADD COLUMN self_join boolean NOT NULL DEFAULT false")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.groups DROP COLUMN self_join")
