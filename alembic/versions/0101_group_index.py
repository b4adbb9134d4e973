"""Members of a group: by id, and by their work, which a group holds once."""

from alembic import op

revision = "0101_group_index"
down_revision = "0100_groups"
branch_labels = None
depends_on = None

INDEXES = {
    "jobs_group_idx": "INDEX CONCURRENTLY jobs_group_idx ON chot.jobs (group_id, id)",
    "jobs_group_work_key": """UNIQUE INDEX CONCURRENTLY jobs_group_work_key
                ON chot.jobs (group_id, fingerprint)""",
}


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        for name, index in INDEXES.items():
            # A build that was interrupted leaves an invalid index behind.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS chot.{name}")
            op.execute(f"CREATE {index} WHERE group_id IS NOT NULL")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        for name in INDEXES:
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS chot.{name}")
