"""Groups that are removed look for their jobs in the archive by its index, whatever a planner knows.

Of an archive without statistics (a month is filled by inserts alone), or of many times as many jobs
as there are groups to look at, a planner read all of it for each five hundred groups: seven
gigabytes, twenty times a minute, once a year at 100,000 jobs a day had its first month archived.
"""

from alembic import op

revision = "0205_group_removal"
down_revision = "0204_submit"
branch_labels = None
depends_on = None

FUNCTION = "chot.remove_groups(uuid, interval, integer)"
SETTINGS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for setting in SETTINGS:
        op.execute(f"ALTER FUNCTION {FUNCTION} SET {setting} = off")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for setting in SETTINGS:
        op.execute(f"ALTER FUNCTION {FUNCTION} RESET {setting}")
