"""Who approved the act that a job is: on the job, beside who asked for it (`principal`)."""

from alembic import op

revision = "0162_job_approver"
down_revision = "0161_approved_kinds"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.jobs
          ADD COLUMN approver text,
          ADD COLUMN approval_id uuid""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs DROP COLUMN approver, DROP COLUMN approval_id")
