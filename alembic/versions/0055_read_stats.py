"""App sees how long other roles' transactions have been open: what keeps dead rows alive.

Where whoever migrates may not grant that, app sees its own role's sessions only, and goes on.
"""

from alembic import op

revision = "0055_read_stats"
down_revision = "0054_archive"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("RESET ROLE")
    # A role is of the whole cluster: another database's migration may be doing the same.
    op.execute("""
        DO $$ BEGIN
            IF NOT pg_has_role('chot_app', 'pg_read_all_stats', 'MEMBER') THEN
                GRANT pg_read_all_stats TO chot_app;
            END IF;
        EXCEPTION WHEN insufficient_privilege OR internal_error OR unique_violation THEN NULL;
        END $$""")
    op.execute("SET ROLE chot_owner")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Roles are cluster-wide and may serve several databases, so a downgrade leaves their rights.
    op.execute("SELECT 1")
