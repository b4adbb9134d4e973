"""Members of a group stay where they are until it has ended and its join has: it reads them."""

from alembic import op

revision = "0103_archive_members"
down_revision = "0102_group_append"
branch_labels = None
depends_on = None

ARCHIVE = "chot.archive_jobs(uuid, interval, integer)"
BEFORE = "AND finished_at < before\n"
NOW = """AND finished_at < before
                       AND (group_id IS NULL OR NOT EXISTS (
                               SELECT FROM chot.groups AS g
                                WHERE g.id = group_id
                                  AND (g.state <> 'ended' OR EXISTS (
                                      SELECT FROM chot.jobs AS w
                                       WHERE w.id = g.join_job_id
                                         AND w.state IN ('pending', 'running')))))
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(BEFORE, NOW)


def _replace(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{ARCHIVE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.archive_jobs is not the one that is known here';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _replace(NOW, BEFORE)
