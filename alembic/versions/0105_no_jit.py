"""No just-in-time compilation for the platform's statements.

They name many tables and look at few rows: the planner expects much, and PostgreSQL then compiles for
half a second what runs for eight milliseconds (measured on 15, where packages come with it). A
login that may not alter roles is told; an administrator may do it at any time.
"""

from alembic import op

revision = "0105_no_jit"
down_revision = "0103_archive_members"
branch_labels = None
depends_on = None

ROLES = ("chot_app", "chot_read", "chot_enqueue")


def _alter(change: str) -> None:
    op.execute("RESET ROLE")
    for role in ROLES:
        op.execute(f"""
            DO $$ BEGIN
                EXECUTE format('ALTER ROLE {role} IN DATABASE %I {change}', current_database());
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE WARNING 'not allowed here: ALTER ROLE {role} {change}';
            END $$""")
    op.execute("SET ROLE chot_owner")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _alter("SET jit = off")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _alter("RESET jit")
