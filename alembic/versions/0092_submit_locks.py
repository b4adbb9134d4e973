"""Every way to submit resolves the locks that the kind declares; a merge resolves them anew.

A value that names no lock is refused as a fingerprint field is (CH002). The archive takes a job's
locks with it, and roots that nobody names any more.
"""

from alembic import op

revision = "0092_submit_locks"
down_revision = "0091_job_locks"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
INSERT_RUN = "chot.insert_run(chot.asked_job[], integer, integer)"
JUDGE = "chot.judge(jsonb)"
ARCHIVE = "chot.archive_jobs(uuid, interval, integer)"
REFUSAL = """chot.refusal(k, p.kind, p.company, c.code IS NOT NULL, p.brand,
                           b.code IS NOT NULL, p.payload, p.due, p.priority, p.max_attempts,
                           coalesce(p.payload_version, k.payload_version))"""
# (function, what it said, what it says)
PARTS = (
    (
        ENQUEUE,
        "who text := 'sql:' || session_user;",
        "who text := 'sql:' || session_user;\n            held chot.resolved_locks;",
    ),
    (
        ENQUEUE,
        "            FOR race IN 1..20 LOOP",
        """            IF k.locks IS NOT NULL THEN
                held := chot.require_locks(enqueue.company, enqueue.brand, enqueue.payload, k.locks);
            END IF;
            FOR race IN 1..20 LOOP""",
    ),
    (
        ENQUEUE,
        "deployment_id)\n                SELECT chot.uuid7()",
        "deployment_id, lock_roots)\n                SELECT chot.uuid7()",
    ),
    (
        ENQUEUE,
        "d.deployment_id\n                  FROM chot.deployment d",
        "d.deployment_id, held.roots\n                  FROM chot.deployment d",
    ),
    (
        ENQUEUE,
        "VALUES (fresh, enqueue.payload);",
        """VALUES (fresh, enqueue.payload);
                    IF held.roots IS NOT NULL THEN
                        INSERT INTO chot.job_locks
                        SELECT * FROM chot.lock_rows(fresh, coalesce(enqueue.priority, 5), held);
                    END IF;""",
    ),
    (
        ENQUEUE,
        "FROM merged WHERE p.job_id = merged.id;\n                    IF FOUND THEN",
        """FROM merged WHERE p.job_id = merged.id;
                    IF FOUND THEN
                        IF k.locks IS NOT NULL OR twin.lock_roots IS NOT NULL THEN
                            PERFORM chot.relock(twin.id);
                        END IF;""",
    ),
    (
        INSERT_RUN,
        "chot.principal_of(a.principal) AS who FROM unnest(asked) AS a",
        """chot.principal_of(a.principal) AS who,
                       CASE WHEN lk.locks IS NOT NULL
                            THEN chot.locks_of(a.company, a.brand, a.payload, lk.locks) END AS held
                  FROM unnest(asked) AS a LEFT JOIN chot.kinds AS lk ON lk.name = a.kind""",
    ),
    (
        INSERT_RUN,
        "deployment_id)\n                SELECT r.",
        "deployment_id, lock_roots)\n                SELECT r.",
    ),
    (
        INSERT_RUN,
        "d.deployment_id\n                  FROM run AS r",
        "d.deployment_id, (r.held).roots\n                  FROM run AS r",
    ),
    (
        INSERT_RUN,
        "            paid AS (",
        """            locked AS (
                INSERT INTO chot.job_locks
                SELECT l.* FROM run AS r
                 CROSS JOIN LATERAL chot.lock_rows(r.id, coalesce(r.priority, 5), r.held) AS l
                 WHERE (r.held).roots IS NOT NULL),
            paid AS (""",
    ),
    # Before its fingerprint: a job without one is nobody's work, and is not inserted.
    (
        JUDGE,
        f"{REFUSAL} AS refused",
        f"""coalesce({REFUSAL},
                           CASE WHEN k.locks IS NOT NULL THEN
                               chot.locks_refusal(p.company, p.brand, p.payload, k.locks)
                           END) AS refused""",
    ),
    (
        ARCHIVE,
        "to_jsonb(j), p.payload,",
        """to_jsonb(j) || CASE WHEN j.lock_roots IS NULL THEN '{}' ELSE
                       jsonb_build_object('locks', (
                           SELECT jsonb_agg(jsonb_build_object('root', l.root, 'part', l.part,
                                      'mode', l.mode, 'period_from', l.period_from,
                                      'period_to', l.period_to) ORDER BY l.n)
                             FROM chot.job_locks l WHERE l.job_id = j.id)) END, p.payload,""",
    ),
    (
        ARCHIVE,
        "            DELETE FROM chot.attempts",
        """            WITH gone AS (
                DELETE FROM chot.job_locks WHERE job_id = ANY(ids) RETURNING root)
            DELETE FROM chot.lock_roots r
             WHERE r.root IN (
                    SELECT t.root FROM chot.lock_roots t
                     WHERE t.root IN (SELECT g.root FROM gone AS g)
                       AND NOT EXISTS (SELECT FROM chot.job_locks l
                                        WHERE l.root = t.root AND NOT l.waiting
                                          AND l.job_id <> ALL(ids))
                       AND NOT EXISTS (SELECT FROM chot.job_locks l
                                        WHERE l.root = t.root AND l.waiting)
                     ORDER BY t.root FOR UPDATE SKIP LOCKED);
            DELETE FROM chot.attempts""",
    ),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION chot.locks_refusal(
            company text, brand text, payload jsonb, declared jsonb)
        RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            found chot.resolved_locks := chot.locks_of(company, brand, payload, declared);
        BEGIN
            RETURN CASE WHEN found.fault IS NOT NULL THEN
                       ARRAY['CH002', coalesce(found.field, 'payload'), found.fault] END;
        END $$""")
    op.execute("""
        CREATE FUNCTION chot.require_locks(
            company text, brand text, payload jsonb, declared jsonb)
        RETURNS chot.resolved_locks LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            found chot.resolved_locks := chot.locks_of(company, brand, payload, declared);
        BEGIN
            IF found.fault IS NOT NULL THEN
                RAISE EXCEPTION '%', found.fault
                    USING ERRCODE = 'CH002', DETAIL = coalesce(found.field, 'payload');
            END IF;
            RETURN found;
        END $$""")
    _relock()
    for function, old, new in PARTS:
        _replace(function, old, new)
    op.execute("""REVOKE ALL ON FUNCTION chot.relock(uuid),
        chot.locks_refusal(text, text, jsonb, jsonb),
        chot.require_locks(text, text, jsonb, jsonb) FROM PUBLIC""")


def _relock() -> None:
    # What waits for other locks than before asks anew; of the same ones, in its new turn. The
    # first row of a job stands for all of them: who changes any has locked it.
    op.execute("""
        CREATE FUNCTION chot.relock(merged uuid) RETURNS void LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            j chot.jobs;
            was chot.job_locks;
            declared jsonb;
            held chot.resolved_locks;
        BEGIN
            SELECT * INTO j FROM chot.jobs WHERE id = merged;
            SELECT k.locks INTO declared FROM chot.kinds k WHERE k.name = j.kind;
            IF declared IS NOT NULL THEN
                held := chot.require_locks(j.company, j.brand,
                    (SELECT p.payload FROM chot.job_payloads p WHERE p.job_id = merged), declared);
            END IF;
            SELECT * INTO was FROM chot.job_locks l WHERE l.job_id = merged AND l.n = 1 FOR UPDATE;
            IF was.lane IS NOT DISTINCT FROM held.lane THEN
                UPDATE chot.job_locks l
                   SET turn = 9 - j.priority,
                       woken_at = CASE WHEN l.waiting THEN clock_timestamp() END
                 WHERE l.job_id = merged AND l.turn <> 9 - j.priority;
                RETURN;
            END IF;
            DELETE FROM chot.job_locks l WHERE l.job_id = merged;
            IF held.roots IS NOT NULL THEN
                INSERT INTO chot.job_locks
                SELECT * FROM chot.lock_rows(merged, j.priority, held);
            END IF;
            UPDATE chot.jobs SET lock_roots = held.roots, blocked_by = NULL
             WHERE id = merged AND state = 'pending';
            IF was.waiting THEN
                INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority,
                                         next_send_at)
                VALUES (j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority,
                        j.available_at);
            END IF;
        END $$""")


def _replace(function: str, old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{function}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION '{function.partition("(")[0]} is not the one that is known here: %',
                    $part${old}$part$;
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for function, old, new in reversed(PARTS):
        _replace(function, new, old)
    op.execute("DROP FUNCTION chot.relock(uuid)")
    op.execute("DROP FUNCTION chot.require_locks(text, text, jsonb, jsonb)")
    op.execute("DROP FUNCTION chot.locks_refusal(text, text, jsonb, jsonb)")
