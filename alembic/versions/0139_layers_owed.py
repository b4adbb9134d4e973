"""Layers below zero: what went out provisionally and nothing has covered yet.

By first in first out and by lots that is a layer of its own, which the next period opens with. The
check knew none, so one such item ended the whole run.
"""

from alembic import op

revision = "0139_layers_owed"
down_revision = "0138_pools_of_closed_periods"
branch_labels = None
depends_on = None

# A partition has a copy of its own beside the one that it inherits.
DROP = """
    DO $$
    DECLARE part regclass;
    BEGIN
        ALTER TABLE books.cost_layers DROP CONSTRAINT {name};
        FOR part IN
            SELECT inhrelid FROM pg_inherits WHERE inhparent = 'books.cost_layers'::regclass
        LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS {name}', part);
        END LOOP;
    END $$"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(DROP.format(name="cost_layers_left_check"))
    op.execute("""
        ALTER TABLE books.cost_layers ADD CONSTRAINT cost_layers_side_check
            CHECK ((qty > 0 AND value >= 0) OR (qty < 0 AND value <= 0))""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(DROP.format(name="cost_layers_side_check"))
    op.execute("""
        ALTER TABLE books.cost_layers ADD CONSTRAINT cost_layers_left_check
            CHECK (qty > 0 AND value >= 0) NOT VALID""")
