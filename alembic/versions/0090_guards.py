"""What a job locks before its own row: the roots of its business locks, sorted, on the hot row.

NULL for a job without locks, which is nearly every one: it costs a claim or an exit nothing.
"""

from alembic import op

revision = "0090_guards"
down_revision = "0088_principal_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("CREATE TABLE chot.lock_roots (root text PRIMARY KEY)")
    # FOR UPDATE wants the right to update.
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.lock_roots TO chot_app")
    op.execute("GRANT SELECT ON chot.lock_roots TO chot_read")
    op.execute("ALTER TABLE chot.jobs ADD COLUMN lock_roots text[]")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.jobs DROP COLUMN lock_roots")
    op.execute("DROP TABLE chot.lock_roots")
