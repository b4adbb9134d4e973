"""4111 takes entries in both templates: what stands below it is for joint-stock companies only.

41111 and 41112 are ordinary and preference shares. A limited company has none and books what its
owners have paid in on 4111 itself; as a heading it had no account to name. What a company has
adopted already is its own, and is changed by whoever keeps its chart.
"""

from alembic import op

revision = "0179_contributed_capital"
down_revision = "0178_slip_costs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("UPDATE books.chart_templates SET postable = true WHERE code = '4111'")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("UPDATE books.chart_templates SET postable = false WHERE code = '4111'")
