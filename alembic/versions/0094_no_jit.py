"""Statements of the platform are not compiled: each is short, and planned for more than it meets.

PostgreSQL compiles (jit) what its planner believes to be dear. An exit that wakes waiters looks at a
few rows of each lane, but is planned for thousands: compiled, it held its roots for more than a
second before it did the work of a few milliseconds.
"""

from alembic import op

revision = "0094_no_jit"
down_revision = "0093_locking_index"
branch_labels = None
depends_on = None

ROLES = ("chot_app", "chot_read", "chot_enqueue")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _alter("SET jit = off")


def _alter(what: str) -> None:
    # As whoever has logged in: the owner of the tables may change no role. Who may not either is
    # told; the platform's transactions say it for themselves, too.
    op.execute("RESET ROLE")
    for role in ROLES:
        op.execute(f"""
            DO $$ BEGIN
                EXECUTE format('ALTER ROLE {role} IN DATABASE %I {what}', current_database());
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE WARNING 'run as an administrator: ALTER ROLE {role} IN DATABASE % {what}',
                    quote_ident(current_database());
            END $$""")
    op.execute("SET ROLE chot_owner")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _alter("RESET jit")
