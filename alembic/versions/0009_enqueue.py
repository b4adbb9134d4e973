"""chot.enqueue(): the one way into the job table, in the caller's own transaction.

HTTP, Python and SQL callers all come through here. A rollback leaves neither job nor message.
Errors carry SQLSTATEs of class CH: CH001 unknown kind, CH002 fingerprint field, CH003 a value out
of its rule, CH004 isolation level, CH005 unknown company or brand, CH006 too many races lost;
DETAIL names the field.
"""

from alembic import op

revision = "0009_enqueue"
down_revision = "0008_identity"
branch_labels = None
depends_on = None

SIGNATURE = "text, text, text, jsonb, timestamptz, integer, integer, text, text, integer"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _merge_payload()
    _check()
    _bound_transaction()
    _enqueue()
    _enqueue_many()
    op.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA chot FROM PUBLIC")
    op.execute(f"""GRANT EXECUTE ON FUNCTION chot.enqueue({SIGNATURE}), chot.enqueue_many(jsonb)
        TO chot_app, chot_enqueue""")


def _merge_payload() -> None:
    op.execute("""
        CREATE FUNCTION chot.merge_payload(old jsonb, new jsonb) RETURNS jsonb
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT coalesce(jsonb_object_agg(name, CASE
                WHEN jsonb_typeof(old -> name) = 'array' AND jsonb_typeof(new -> name) = 'array'
                THEN (SELECT coalesce(jsonb_agg(DISTINCT e ORDER BY e), '[]')
                        FROM jsonb_array_elements((old -> name) || (new -> name)) AS e)
                ELSE coalesce(new -> name, old -> name) END), '{}')
              FROM (SELECT jsonb_object_keys(old || new) AS name) AS names
        $$""")


def _check() -> None:
    op.execute("""
        CREATE FUNCTION chot.check_enqueue(
            k chot.kinds, company text, brand text, payload jsonb, priority integer,
            max_attempts integer, payload_version integer)
        RETURNS void LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'enqueue runs at READ COMMITTED only, not at %',
                    upper(current_setting('transaction_isolation'))
                    USING ERRCODE = 'CH004', DETAIL = 'transaction_isolation';
            END IF;
            IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
                RAISE EXCEPTION 'payload must be a JSON object'
                    USING ERRCODE = 'CH003', DETAIL = 'payload';
            END IF;
            IF octet_length(payload::text) > 262144 THEN
                RAISE EXCEPTION 'payload has % bytes; at most 262144 are allowed',
                    octet_length(payload::text) USING ERRCODE = 'CH003', DETAIL = 'payload';
            END IF;
            IF priority NOT BETWEEN 0 AND 9 THEN
                RAISE EXCEPTION 'priority is %; it must be between 0 and 9', priority
                    USING ERRCODE = 'CH003', DETAIL = 'priority';
            END IF;
            IF max_attempts NOT BETWEEN 1 AND k.max_attempts_cap THEN
                RAISE EXCEPTION 'max_attempts is %; kind % allows 1 to %', max_attempts, k.name,
                    k.max_attempts_cap USING ERRCODE = 'CH003', DETAIL = 'max_attempts';
            END IF;
            IF payload_version NOT BETWEEN 1 AND k.payload_version THEN
                RAISE EXCEPTION 'payload_version is %; kind % knows 1 to %', payload_version,
                    k.name, k.payload_version
                    USING ERRCODE = 'CH003', DETAIL = 'payload_version';
            END IF;
            IF NOT EXISTS (SELECT FROM books.companies c WHERE c.code = company) THEN
                RAISE EXCEPTION 'company % is unknown', coalesce(quote_literal(company), 'null')
                    USING ERRCODE = 'CH005', DETAIL = 'company';
            END IF;
            IF brand IS NOT NULL AND NOT EXISTS (SELECT FROM books.brands b
                    WHERE b.company = company AND b.code = brand) THEN
                RAISE EXCEPTION 'brand % is no brand of company %', quote_literal(brand),
                    quote_literal(company) USING ERRCODE = 'CH005', DETAIL = 'brand';
            END IF;
        END $$""")


def _bound_transaction() -> None:
    # The owner's fence waits for whoever has written on the active row, so the caller's
    # transaction may not idle for long after that.
    op.execute("""
        CREATE FUNCTION chot.bound_transaction() RETURNS void LANGUAGE plpgsql VOLATILE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE idle integer;
        BEGIN
            SELECT setting INTO idle FROM pg_settings
             WHERE name = 'idle_in_transaction_session_timeout';
            IF idle = 0 OR idle > 5000 THEN
                PERFORM set_config('idle_in_transaction_session_timeout', '5000', true);
            END IF;
        END $$""")


def _enqueue() -> None:
    op.execute("""
        CREATE FUNCTION chot.enqueue(
            kind text, company text, brand text, payload jsonb,
            run_at timestamptz DEFAULT NULL, priority integer DEFAULT NULL,
            max_attempts integer DEFAULT NULL, principal text DEFAULT NULL,
            trace text DEFAULT NULL, payload_version integer DEFAULT NULL)
        RETURNS TABLE (job_id uuid, created boolean, duplicate text, state text,
                       input_as_of timestamptz)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            k chot.kinds;
            twin chot.jobs;
            print bytea;
            fresh uuid;
            version integer;
            due timestamptz := coalesce(enqueue.run_at, clock_timestamp());
            who text := 'sql:' || session_user;
        BEGIN
            SELECT * INTO k FROM chot.kinds WHERE name = enqueue.kind;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'kind % is unknown',
                    coalesce(quote_literal(left(enqueue.kind, 100)), 'null')
                    USING ERRCODE = 'CH001', DETAIL = 'kind';
            END IF;
            IF NOT isfinite(due) OR due NOT BETWEEN '1970-01-01Z' AND '9999-01-01Z' THEN
                RAISE EXCEPTION 'run_at is %; it must lie between 1970 and 9999', due
                    USING ERRCODE = 'CH003', DETAIL = 'run_at';
            END IF;
            version := coalesce(enqueue.payload_version, k.payload_version);
            PERFORM chot.check_enqueue(k, enqueue.company, enqueue.brand, enqueue.payload,
                                       enqueue.priority, enqueue.max_attempts, version);
            -- Only the platform itself may say on whose behalf it asks.
            IF enqueue.principal IS NOT NULL AND pg_has_role(session_user, 'chot_app', 'MEMBER') THEN
                who := enqueue.principal;
            END IF;
            print := chot.fingerprint(enqueue.kind, enqueue.company, enqueue.brand,
                                      enqueue.payload, k.fingerprint_fields);
            FOR race IN 1..20 LOOP
                INSERT INTO chot.jobs AS j (id, kind, company, brand, queue, priority, max_attempts,
                        available_at, fingerprint, on_duplicate, payload_version, principal, trace,
                        deployment_id)
                SELECT chot.uuid7(), enqueue.kind, enqueue.company, enqueue.brand, k.queue,
                       coalesce(enqueue.priority, 5), coalesce(enqueue.max_attempts, k.max_attempts),
                       due, print, k.on_duplicate, version, who, enqueue.trace, d.deployment_id
                  FROM chot.deployment d
                ON CONFLICT (fingerprint) WHERE state IN ('pending', 'running') DO NOTHING
                RETURNING j.id INTO fresh;
                IF FOUND THEN
                    INSERT INTO chot.job_payloads (job_id, payload) VALUES (fresh, enqueue.payload);
                    INSERT INTO chot.outbox (job_id, queue, kind, brand, trace, priority, next_send_at)
                    VALUES (fresh, k.queue, enqueue.kind, enqueue.brand, enqueue.trace,
                            coalesce(enqueue.priority, 5), due);
                    RETURN QUERY SELECT fresh, true, NULL::text, 'pending'::text, NULL::timestamptz;
                    RETURN;
                END IF;
                -- A new statement: it sees the twin that the INSERT waited for. The twin may
                -- have ended in between; then the loop inserts after all.
                SELECT * INTO twin FROM chot.jobs AS j
                 WHERE j.fingerprint = print AND j.state IN ('pending', 'running');
                CONTINUE WHEN NOT FOUND;
                IF k.on_duplicate = 'join' OR (k.on_duplicate = 'follow_up' AND twin.fence = 0) THEN
                    RETURN QUERY SELECT twin.id, false, 'joined'::text, twin.state,
                                        CASE WHEN twin.fence > 0 THEN twin.started_at END;
                    RETURN;
                END IF;
                PERFORM chot.bound_transaction();
                IF k.on_duplicate = 'merge' AND twin.fence = 0 THEN
                    -- One statement: conditional on the job not having read its input yet.
                    WITH merged AS (
                        UPDATE chot.jobs AS j
                           SET available_at = least(j.available_at, due),
                               priority = greatest(j.priority, enqueue.priority),
                               payload_version = greatest(j.payload_version, version)
                         WHERE j.id = twin.id AND j.state = 'pending' AND j.fence = 0
                        RETURNING j.id)
                    UPDATE chot.job_payloads AS p
                       SET payload = chot.merge_payload(p.payload, enqueue.payload)
                      FROM merged WHERE p.job_id = merged.id;
                    IF FOUND THEN
                        IF due < twin.available_at THEN
                            INSERT INTO chot.outbox (job_id, queue, kind, brand, trace, priority,
                                                     next_send_at)
                            VALUES (twin.id, twin.queue, twin.kind, twin.brand, twin.trace,
                                    twin.priority, due);
                        END IF;
                        RETURN QUERY SELECT twin.id, false, 'merged'::text, 'pending'::text,
                                            NULL::timestamptz;
                        RETURN;
                    END IF;
                    CONTINUE;
                END IF;
                UPDATE chot.jobs AS j
                   SET followup_payload = chot.merge_payload(
                           coalesce(j.followup_payload, '{}'), enqueue.payload),
                       followup_version = greatest(j.followup_version, version),
                       followup_principal = who
                 WHERE j.id = twin.id AND j.state IN ('pending', 'running') AND j.fence > 0;
                IF FOUND THEN
                    RETURN QUERY SELECT twin.id, false, 'follow_up'::text, twin.state,
                                        twin.started_at;
                    RETURN;
                END IF;
            END LOOP;
            RAISE EXCEPTION 'the active job of this work changed under every one of 20 looks'
                USING ERRCODE = 'CH006', DETAIL = 'fingerprint';
        END $$""")


def _enqueue_many() -> None:
    # One order for all callers, or two batches that share work deadlock.
    op.execute("""
        CREATE FUNCTION chot.enqueue_many(jobs jsonb)
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


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.enqueue_many(jsonb)")
    op.execute(f"DROP FUNCTION chot.enqueue({SIGNATURE})")
    op.execute("DROP FUNCTION chot.bound_transaction()")
    op.execute("""DROP FUNCTION chot.check_enqueue(
        chot.kinds, text, text, jsonb, integer, integer, integer)""")
    op.execute("DROP FUNCTION chot.merge_payload(jsonb, jsonb)")
