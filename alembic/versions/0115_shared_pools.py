"""Pools of cost may span brands: a pool named in the company, and one pool for all of it."""

from alembic import op

revision = "0115_shared_pools"
down_revision = "0114_reference_lookups"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.cost_pool_map ADD COLUMN shared boolean NOT NULL DEFAULT false")
    op.execute("""
        ALTER TABLE books.cost_runs DROP CONSTRAINT cost_runs_pool_check,
            ADD CONSTRAINT cost_runs_pool_check
                CHECK (pool_policy IN ('brand', 'store', 'map', 'company'))""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.cost_runs DROP CONSTRAINT cost_runs_pool_check,
            ADD CONSTRAINT cost_runs_pool_check
                CHECK (pool_policy IN ('brand', 'store', 'map')) NOT VALID""")
    op.execute("ALTER TABLE books.cost_pool_map DROP COLUMN shared")
