"""The archive: jobs that ended long ago leave the tables that work is done in, and still answer.

App may not delete a job; it may ask the owner's function to move old ones that are succeeded or
cancelled. Pending, running and dead ones it does not touch, whatever it is asked.
"""

from alembic import op

revision = "0054_archive"
down_revision = "0053_ending_totals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # The job is kept as it was, as JSON: a column that comes later must not rewrite the archive.
    op.execute("""
        CREATE TABLE chot.archived_jobs (
            id          uuid PRIMARY KEY,
            finished_at timestamptz NOT NULL,
            job         jsonb NOT NULL,
            payload     jsonb,
            result      jsonb,
            error       jsonb,
            attempts    jsonb NOT NULL
        )""")
    op.execute("""
        CREATE FUNCTION chot.archive_jobs(after uuid, age interval, most integer)
        RETURNS TABLE (moved integer, last uuid)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            ids uuid[];
            edge uuid;
            before timestamptz := clock_timestamp() - archive_jobs.age;
        BEGIN
            -- One at a time; who comes second has nothing to do.
            IF NOT pg_try_advisory_xact_lock(hashtextextended('chot archive', 0)) THEN
                RETURN QUERY SELECT 0, NULL::uuid;
                RETURN;
            END IF;
            -- Ids are in the order of time: the walk ends at the first batch of young ones.
            SELECT max(w.id::text COLLATE "C")::uuid INTO edge
              FROM (SELECT id, created_at FROM chot.jobs WHERE id > archive_jobs.after
                     ORDER BY id LIMIT archive_jobs.most) AS w
            HAVING min(w.created_at) < before;
            SELECT array_agg(o.id) INTO ids
              FROM (SELECT id FROM chot.jobs
                     WHERE id > archive_jobs.after AND id <= edge
                       AND state IN ('succeeded', 'cancelled') AND NOT cleanup_due
                       AND finished_at < before
                     ORDER BY id FOR UPDATE SKIP LOCKED) AS o;
            INSERT INTO chot.archived_jobs (id, finished_at, job, payload, result, error, attempts)
            SELECT j.id, j.finished_at, to_jsonb(j), p.payload, o.result, o.error,
                   coalesce((SELECT jsonb_agg(to_jsonb(a) ORDER BY a.fence)
                               FROM chot.attempts a WHERE a.job_id = j.id), '[]')
              FROM chot.jobs j
              LEFT JOIN chot.job_payloads p ON p.job_id = j.id
              LEFT JOIN chot.job_outputs o ON o.job_id = j.id
             WHERE j.id = ANY(ids);
            DELETE FROM chot.outbox WHERE job_id = ANY(ids);
            DELETE FROM chot.attempts WHERE job_id = ANY(ids);
            DELETE FROM chot.job_outputs WHERE job_id = ANY(ids);
            DELETE FROM chot.job_payloads WHERE job_id = ANY(ids);
            DELETE FROM chot.jobs WHERE id = ANY(ids) AND state IN ('succeeded', 'cancelled');
            RETURN QUERY SELECT coalesce(cardinality(ids), 0), edge;
        END $$""")
    op.execute("""
        CREATE FUNCTION chot.remove_archived_jobs(age interval, most integer) RETURNS integer
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE removed integer;
        BEGIN
            WITH old AS (
                SELECT o.id FROM (SELECT id, finished_at FROM chot.archived_jobs
                                   ORDER BY id LIMIT remove_archived_jobs.most) AS o
                 WHERE o.finished_at < clock_timestamp() - remove_archived_jobs.age)
            DELETE FROM chot.archived_jobs a USING old WHERE a.id = old.id;
            GET DIAGNOSTICS removed = ROW_COUNT;
            RETURN removed;
        END $$""")
    op.execute("""REVOKE ALL ON FUNCTION chot.archive_jobs(uuid, interval, integer),
        chot.remove_archived_jobs(interval, integer) FROM PUBLIC""")
    op.execute("""GRANT EXECUTE ON FUNCTION chot.archive_jobs(uuid, interval, integer),
        chot.remove_archived_jobs(interval, integer) TO chot_app""")
    op.execute("GRANT SELECT ON chot.archived_jobs TO chot_app, chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Locked first: a worker may be moving a batch of jobs at this very moment.
    op.execute("LOCK TABLE chot.archived_jobs IN ACCESS EXCLUSIVE MODE")
    op.execute("""
        DO $$ BEGIN
            IF EXISTS (SELECT FROM chot.archived_jobs) THEN
                RAISE EXCEPTION 'chot.archived_jobs has jobs that are kept nowhere else'
                    USING HINT = 'Set CHOT_ARCHIVE_AFTER_DAYS=0, copy what is to be kept, empty it '
                                 'as its owner, then downgrade again.';
            END IF;
        END $$""")
    op.execute("DROP FUNCTION chot.remove_archived_jobs(interval, integer)")
    op.execute("DROP FUNCTION chot.archive_jobs(uuid, interval, integer)")
    op.execute("DROP TABLE chot.archived_jobs")
