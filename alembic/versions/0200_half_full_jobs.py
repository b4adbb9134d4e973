"""Pages of jobs are filled by half: what changes all rows of a page at once finds room on it.

Jobs that were made together are marked, claimed, renewed and stored together. At three quarters
(0003) a second version of every row had no room, went to another page and into every index there:
a tenth of the WAL of a drained job, and of the renewals of a hundred leases.
"""

from alembic import op

revision = "0200_half_full_jobs"
down_revision = "0199_uom_words"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs SET (fillfactor = 50)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs SET (fillfactor = 75)")
