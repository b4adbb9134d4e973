"""Bulk submit, set-based: chot.enqueue_each() judges and inserts many jobs by single statements.

Works are taken in fingerprint order, whatever order the caller gave: all new ones between two that
are active already are one INSERT; those that are active go through chot.enqueue(). An INSERT that
meets a job it did not know of is undone to its savepoint and begun again, so that nobody goes back
to a work below one that he holds. chot.enqueue_many() is the same with one refusal for all.
"""

from alembic import op

revision = "0086_enqueue_each"
down_revision = "0085_submit_rules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # `work` numbers the fingerprints of a call in their order; the first item of each is inserted.
    op.execute("""
        CREATE TYPE chot.asked_job AS (
            n integer, work integer, is_first boolean, id uuid, kind text, company text,
            brand text, payload jsonb, queue text, on_duplicate text, due timestamptz,
            priority integer, max_attempts integer, most_attempts integer, version integer,
            principal text, trace text, print bytea, refused text[])""")
    _judge()
    _insert_run()
    _enqueue_met()
    _enqueue_each()
    _enqueue_many()
    op.execute("""REVOKE ALL ON FUNCTION chot.enqueue_each(jsonb), chot.judge(jsonb),
        chot.enqueue_met(chot.asked_job), chot.insert_run(chot.asked_job[], integer, integer)
        FROM PUBLIC""")
    op.execute("GRANT EXECUTE ON FUNCTION chot.enqueue_each(jsonb) TO chot_app")


def _judge() -> None:
    # Due a microsecond after one another: their messages leave in the order that they were sent
    # in, and one that SQS loses goes where it stood, not behind all others of its batch. None is
    # due later than now.
    op.execute("""
        CREATE FUNCTION chot.judge(jobs jsonb) RETURNS SETOF chot.asked_job
        LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE moment timestamptz := clock_timestamp()
            - jsonb_array_length(judge.jobs) * interval '1 microsecond';
        BEGIN
            RETURN QUERY
            WITH parsed AS MATERIALIZED (
                SELECT e.*, coalesce(e.run_at, moment + e.n * interval '1 microsecond') AS due
                  FROM ROWS FROM (jsonb_to_recordset(judge.jobs) AS (
                    kind text, company text, brand text, payload jsonb, run_at timestamptz,
                    priority integer, max_attempts integer, principal text, trace text,
                    payload_version integer)) WITH ORDINALITY AS e (
                    kind, company, brand, payload, run_at, priority, max_attempts, principal,
                    trace, payload_version, n)),
            judged AS MATERIALIZED (
                SELECT p.*, k.queue, k.on_duplicate, k.fingerprint_fields AS fields,
                       k.max_attempts AS usual_attempts,
                       coalesce(p.payload_version, k.payload_version) AS version,
                       chot.refusal(k, p.kind, p.company, c.code IS NOT NULL, p.brand,
                           b.code IS NOT NULL, p.payload, p.due, p.priority, p.max_attempts,
                           coalesce(p.payload_version, k.payload_version)) AS refused
                  FROM parsed AS p
                  LEFT JOIN chot.kinds AS k ON k.name = p.kind
                  LEFT JOIN books.companies AS c ON c.code = p.company
                  LEFT JOIN books.brands AS b ON b.company = p.company AND b.code = p.brand),
            printed AS MATERIALIZED (
                SELECT j.*, CASE WHEN j.refused IS NULL THEN
                           chot.work_of(j.kind, j.company, j.brand, j.payload, j.fields) END AS w
                  FROM judged AS j)
            SELECT p.n::integer,
                   (dense_rank() OVER (ORDER BY (p.w).print))::integer,
                   row_number() OVER (PARTITION BY (p.w).print ORDER BY p.n) = 1,
                   chot.uuid7(), p.kind, p.company, p.brand, p.payload, p.queue, p.on_duplicate,
                   p.due, p.priority, p.max_attempts,
                   coalesce(p.max_attempts, p.usual_attempts), p.version, p.principal, p.trace,
                   (p.w).print,
                   CASE WHEN (p.w).fault IS NOT NULL
                        THEN ARRAY['CH002', (p.w).field, (p.w).fault] ELSE p.refused END
              FROM printed AS p;
        END $$""")


def _insert_run() -> None:
    op.execute("""
        CREATE FUNCTION chot.insert_run(asked chot.asked_job[], after integer, before integer)
        RETURNS void LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE made integer;
        BEGIN
            -- One statement: the run is unpacked once, and what it does not insert whole is undone.
            WITH run AS MATERIALIZED (
                SELECT a.*, chot.principal_of(a.principal) AS who FROM unnest(asked) AS a
                 WHERE a.is_first AND a.work > insert_run.after AND a.work < insert_run.before),
            made AS (
                INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
                       available_at, fingerprint, on_duplicate, payload_version, principal, trace,
                       deployment_id)
                SELECT r.id, r.kind, r.company, r.brand, r.queue, coalesce(r.priority, 5),
                       r.most_attempts, r.due, r.print, r.on_duplicate, r.version, r.who, r.trace,
                       d.deployment_id
                  FROM run AS r, chot.deployment AS d
                 ORDER BY r.work
                ON CONFLICT (fingerprint) WHERE state IN ('pending', 'running') DO NOTHING
                RETURNING 1),
            paid AS (
                INSERT INTO chot.job_payloads (job_id, payload) SELECT r.id, r.payload FROM run AS r),
            staged AS (
                INSERT INTO chot.outbox (job_id, queue, kind, brand, trace, priority, next_send_at)
                SELECT r.id, r.queue, r.kind, r.brand, r.trace, coalesce(r.priority, 5), r.due
                  FROM run AS r ORDER BY r.n),
            noted AS (
                INSERT INTO chot.audit (action, principal, key_id, source, request_id, job_id,
                                        company, brand, facts)
                SELECT 'job.submit', r.who, x.key_id, x.source, x.request_id, r.id, r.company,
                       r.brand,
                       jsonb_build_object('kind', r.kind, 'created', true, 'duplicate', NULL::text)
                  FROM run AS r CROSS JOIN chot.actor() AS x ORDER BY r.n)
            SELECT count(*) INTO made FROM made;
            IF made < insert_run.before - insert_run.after - 1 THEN
                RAISE EXCEPTION 'some of these works are active' USING ERRCODE = 'CH009';
            END IF;
        END $$""")


def _enqueue_met() -> None:
    # What one job is refused for (a merge that grows too large, say) spoils no other one.
    op.execute("""
        CREATE FUNCTION chot.enqueue_met(item chot.asked_job)
        RETURNS TABLE (ordinal integer, job_id uuid, created boolean, duplicate text, state text,
                       input_as_of timestamptz, code text, field text, message text)
        LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE named text;
        BEGIN
            RETURN QUERY
            SELECT item.n, q.job_id, q.created, q.duplicate, q.state, q.input_as_of, NULL::text,
                   NULL::text, NULL::text
              FROM chot.enqueue(item.kind, item.company, item.brand, item.payload, item.due,
                    item.priority, item.max_attempts, item.principal, item.trace, item.version)
                   AS q;
        EXCEPTION WHEN check_violation OR SQLSTATE 'CH001' OR SQLSTATE 'CH002'
                    OR SQLSTATE 'CH003' OR SQLSTATE 'CH005' THEN
            GET STACKED DIAGNOSTICS named = PG_EXCEPTION_DETAIL;
            RETURN QUERY
            SELECT item.n, NULL::uuid, NULL::boolean, NULL::text, NULL::text, NULL::timestamptz,
                   SQLSTATE, CASE WHEN SQLSTATE = '23514' THEN 'payload' ELSE named END, SQLERRM;
        END $$""")


def _enqueue_each() -> None:
    op.execute("""
        CREATE FUNCTION chot.enqueue_each(jobs jsonb)
        RETURNS TABLE (ordinal integer, job_id uuid, created boolean, duplicate text, state text,
                       input_as_of timestamptz, code text, field text, message text)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            asked chot.asked_job[];
            item chot.asked_job;
            stops integer[];
            stop integer;
            works integer;
            done integer := 0;
            place integer := 1;
            looks integer := 0;
            met boolean := true;
        BEGIN
            PERFORM chot.refuse_isolation();
            -- Refused ones are together one more work, the last: nobody inserts it.
            SELECT array_agg(a ORDER BY a.work, a.n),
                   coalesce(max(a.work) FILTER (WHERE a.refused IS NULL), 0) INTO asked, works
              FROM chot.judge(enqueue_each.jobs) AS a;
            WHILE met LOOP
                looks := looks + 1;
                IF looks > 200 THEN
                    RAISE EXCEPTION 'jobs of this batch changed under every one of 200 looks'
                        USING ERRCODE = 'CH006', DETAIL = 'fingerprint';
                END IF;
                met := false;
                -- A new statement: it sees the jobs that an INSERT has waited for.
                SELECT array_agg(a.work ORDER BY a.work) INTO stops
                  FROM unnest(asked) AS a
                  JOIN chot.jobs AS j ON j.fingerprint = a.print
                                     AND j.state IN ('pending', 'running')
                 WHERE a.is_first AND a.work > done;
                FOREACH stop IN ARRAY coalesce(stops, '{}') || (works + 1) LOOP
                    IF stop > done + 1 THEN
                        BEGIN
                            PERFORM chot.insert_run(asked, done, stop);
                        EXCEPTION WHEN SQLSTATE 'CH009' THEN
                            met := true;
                            EXIT;
                        END;
                    END IF;
                    WHILE place <= cardinality(asked) LOOP
                        EXIT WHEN asked[place].work > stop;
                        ordinal := asked[place].n;
                        IF asked[place].is_first AND asked[place].work < stop THEN
                            job_id := asked[place].id; created := true; duplicate := NULL;
                            state := 'pending'; input_as_of := NULL; code := NULL; field := NULL;
                            message := NULL;
                            RETURN NEXT;
                        ELSIF asked[place].refused IS NULL THEN
                            RETURN QUERY SELECT * FROM chot.enqueue_met(asked[place]);
                        ELSE
                            item := asked[place];
                            job_id := NULL; created := NULL; duplicate := NULL; state := NULL;
                            input_as_of := NULL; code := item.refused[1];
                            field := item.refused[2]; message := item.refused[3];
                            RETURN NEXT;
                        END IF;
                        place := place + 1;
                    END LOOP;
                    done := stop;
                END LOOP;
            END LOOP;
        END $$""")


def _enqueue_many() -> None:
    op.execute("""
        CREATE OR REPLACE FUNCTION chot.enqueue_many(jobs jsonb)
        RETURNS TABLE (ordinal integer, job_id uuid, created boolean, duplicate text, state text,
                       input_as_of timestamptz)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE item record;
        BEGIN
            FOR item IN SELECT * FROM chot.enqueue_each(enqueue_many.jobs) LOOP
                IF item.code IS NOT NULL THEN
                    RAISE EXCEPTION '%', item.message
                        USING ERRCODE = item.code, DETAIL = item.field;
                END IF;
                ordinal := item.ordinal; job_id := item.job_id; created := item.created;
                duplicate := item.duplicate; state := item.state;
                input_as_of := item.input_as_of;
                RETURN NEXT;
            END LOOP;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _enqueue_many_before()
    op.execute("DROP FUNCTION chot.enqueue_each(jsonb)")
    op.execute("DROP FUNCTION chot.enqueue_met(chot.asked_job)")
    op.execute("DROP FUNCTION chot.insert_run(chot.asked_job[], integer, integer)")
    op.execute("DROP FUNCTION chot.judge(jsonb)")
    op.execute("DROP TYPE chot.asked_job")


def _enqueue_many_before() -> None:
    op.execute("""
        CREATE OR REPLACE FUNCTION chot.enqueue_many(jobs jsonb)
        RETURNS TABLE (ordinal integer, job_id uuid, created boolean, duplicate text, state text,
                       input_as_of timestamptz)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE item record;
        BEGIN
            FOR item IN
                SELECT e.n::integer AS n, e.job,
                       chot.fingerprint(e.job ->> 'kind', e.job ->> 'company', e.job ->> 'brand',
                           coalesce(e.job -> 'payload', '{}'),
                           coalesce(k.fingerprint_fields, '{}')) AS print
                  FROM jsonb_array_elements(enqueue_many.jobs) WITH ORDINALITY AS e (job, n)
                  LEFT JOIN chot.kinds k ON k.name = e.job ->> 'kind'
                 ORDER BY print, n
            LOOP
                RETURN QUERY
                SELECT item.n, q.job_id, q.created, q.duplicate, q.state, q.input_as_of
                  FROM chot.enqueue(item.job ->> 'kind', item.job ->> 'company',
                        item.job ->> 'brand', item.job -> 'payload',
                        (item.job ->> 'run_at')::timestamptz, (item.job ->> 'priority')::integer,
                        (item.job ->> 'max_attempts')::integer, item.job ->> 'principal',
                        item.job ->> 'trace', (item.job ->> 'payload_version')::integer) AS q;
            END LOOP;
        END $$""")
