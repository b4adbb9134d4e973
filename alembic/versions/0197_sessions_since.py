"""Since when sessions have rows: written by the first api process that knows them.

Apis of the version before go on beside it for a while, and what they sign has no row: it is
believed as they believe it where it began before, or within the hour of a deployment.
"""

from alembic import op

revision = "0197_sessions_since"
down_revision = "0196_sessions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.deployment ADD COLUMN sessions_since timestamptz")
    op.execute("GRANT UPDATE (sessions_since) ON chot.deployment TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.deployment DROP COLUMN sessions_since")
