"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A migration that cannot have its lock gives up instead of queueing everybody behind it.
    op.execute("SET LOCAL lock_timeout = '800ms'")
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    ${downgrades if downgrades else "pass"}
