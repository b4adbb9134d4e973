"""Who redrove a job last, when, and who approved it: on the job, where people look."""

from alembic import op

revision = "0077_redriven"
down_revision = "0076_approvals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.jobs
          ADD COLUMN redriven_at timestamptz,
          ADD COLUMN redriven_by text,
          ADD COLUMN redriven_approver text""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.jobs
          DROP COLUMN redriven_at, DROP COLUMN redriven_by, DROP COLUMN redriven_approver""")
