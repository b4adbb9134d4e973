"""A merge that raises a job's priority moves its message, too; old jobs leave the archive by when
they ended; what is reserved for a job that runs alone says of which kind the job is.
"""

from alembic import op

revision = "0061_priorities"
down_revision = "0060_publishing"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
# What the message says is read from the job: two merges at once may each have raised half of it.
MOVED_BY_DUE_TIME = ("IF due < twin.available_at THEN", "twin.priority, due);")
MOVED_BY_EITHER = (
    "IF due < twin.available_at OR enqueue.priority > twin.priority THEN",
    """(SELECT j.priority FROM chot.jobs AS j WHERE j.id = twin.id),
                                    (SELECT j.available_at FROM chot.jobs AS j
                                      WHERE j.id = twin.id));""",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for old, new in zip(MOVED_BY_DUE_TIME, MOVED_BY_EITHER, strict=True):
        _replace_in_enqueue(old, new)
    _remove_archived("""
            WITH old AS (
                SELECT id FROM chot.archived_jobs WHERE finished_at < before
                 ORDER BY finished_at LIMIT remove_archived_jobs.most)""")
    op.execute("ALTER TABLE chot.queues ADD COLUMN alone_kind text")


def _replace_in_enqueue(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{ENQUEUE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.enqueue is not the one that 0009 made';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def _remove_archived(old: str) -> None:
    # In a variable: a clock that may change within the statement could not go by an index.
    op.execute(f"""
        CREATE OR REPLACE FUNCTION chot.remove_archived_jobs(age interval, most integer)
        RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            removed integer;
            before timestamptz := clock_timestamp() - remove_archived_jobs.age;
        BEGIN{old}
            DELETE FROM chot.archived_jobs a USING old WHERE a.id = old.id;
            GET DIAGNOSTICS removed = ROW_COUNT;
            RETURN removed;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE chot.queues DROP COLUMN alone_kind")
    _remove_archived("""
            WITH old AS (
                SELECT o.id FROM (SELECT id, finished_at FROM chot.archived_jobs
                                   ORDER BY id LIMIT remove_archived_jobs.most) AS o
                 WHERE o.finished_at < before)""")
    for old, new in zip(MOVED_BY_EITHER, MOVED_BY_DUE_TIME, strict=True):
        _replace_in_enqueue(old, new)
