"""Parts of a run: the group of the jobs that share its work.

Which part an item is of stands in the work list; null: the run's own job costs it.
"""

from alembic import op

revision = "0127_cost_run_parts"
down_revision = "0126_internal_kinds"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.cost_runs ADD COLUMN parts_group uuid")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.cost_runs DROP COLUMN parts_group")
