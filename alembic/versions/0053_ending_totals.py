"""The jobs that had ended before endings were noted are counted once, without any lock.

The trigger is there and committed: each final job of this statement's snapshot was moved before
it, or has its row among the endings. The difference is what is missing, to the job.
"""

from alembic import op

revision = "0053_ending_totals"
down_revision = "0052_endings"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        INSERT INTO chot.ending_totals AS t (kind, state, jobs)
        SELECT kind, state, sum(jobs) FROM (
            SELECT kind, state, count(*) AS jobs FROM chot.jobs
             WHERE state IN ('succeeded', 'cancelled') GROUP BY kind, state
            UNION ALL SELECT kind, state, -count(*) FROM chot.endings GROUP BY kind, state
            UNION ALL SELECT kind, state, -jobs FROM chot.ending_totals) AS missing
         GROUP BY kind, state HAVING sum(jobs) <> 0 ORDER BY kind, state
        ON CONFLICT (kind, state) DO UPDATE SET jobs = t.jobs + excluded.jobs""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DELETE FROM chot.ending_totals")
