"""Approvals: one account asks for an act, another one has approved it, once and for a while."""

from alembic import op

revision = "0076_approvals"
down_revision = "0075_audit"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.approvals (
            id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            action     text NOT NULL,
            target     text NOT NULL CHECK (octet_length(target) BETWEEN 1 AND 200),
            company    text,
            brand      text,
            approver   text NOT NULL,
            reason     text CHECK (octet_length(reason) <= 2000),
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at timestamptz NOT NULL,
            used_at    timestamptz,
            used_by    text,
            CONSTRAINT approvals_used_check CHECK ((used_at IS NULL) = (used_by IS NULL)),
            CONSTRAINT approvals_four_eyes_check CHECK (used_by <> approver)
        )""")
    # Who approves the same again renews what is open.
    op.execute("""
        CREATE UNIQUE INDEX approvals_open_key ON chot.approvals (action, target, approver)
         WHERE used_at IS NULL""")
    op.execute("GRANT SELECT, INSERT ON chot.approvals TO chot_app")
    op.execute("GRANT UPDATE (reason, expires_at, used_at, used_by) ON chot.approvals TO chot_app")
    op.execute("GRANT SELECT ON chot.approvals TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.approvals")
