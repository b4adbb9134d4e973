"""What a submit may be is said once: chot.refusal() and chot.work_of(), for one job and for many.

chot.enqueue() keeps its rules and words; a statement over many rows can now ask for them, too.
"""

from alembic import op

revision = "0085_submit_rules"
down_revision = "0080_progress_pace"
branch_labels = None
depends_on = None

ENQUEUE = """chot.enqueue(text, text, text, jsonb, timestamptz, integer, integer, text, text,
                integer)"""
CHECK_BEFORE = "chot.check_enqueue(chot.kinds, text, text, jsonb, integer, integer, integer)"
CHECK_NOW = """chot.check_enqueue(chot.kinds, text, text, text, jsonb, timestamptz, integer, integer,
                                  integer)"""
WORK_OF = "chot.work_of(text, text, text, jsonb, text[])"
REFUSAL = """chot.refusal(chot.kinds, text, text, boolean, text, boolean, jsonb, timestamptz, integer,
                        integer, integer)"""
JUDGED_BEFORE = """IF NOT FOUND THEN
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
            END IF;"""
JUDGED_NOW = """version := coalesce(enqueue.payload_version, k.payload_version);
            PERFORM chot.check_enqueue(k, enqueue.kind, enqueue.company, enqueue.brand,
                        enqueue.payload, due, enqueue.priority, enqueue.max_attempts, version);
            who := chot.principal_of(enqueue.principal);"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _refusal()
    _fingerprint()
    _check()
    _replace_in_enqueue(JUDGED_BEFORE, JUDGED_NOW)
    op.execute(f"DROP FUNCTION {CHECK_BEFORE}")
    op.execute(f"""REVOKE ALL ON FUNCTION {CHECK_NOW}, chot.refuse_isolation(),
        chot.principal_of(text), {WORK_OF}, {REFUSAL} FROM PUBLIC""")
    op.execute(f"GRANT EXECUTE ON FUNCTION {WORK_OF} TO chot_app, chot_read")


def _refusal() -> None:
    # An expression, so that a statement over many rows may take it in; NULL means: in order.
    op.execute("""
        CREATE FUNCTION chot.refusal(
            k chot.kinds, kind text, company text, has_company boolean, brand text,
            has_brand boolean, payload jsonb, due timestamptz, priority integer,
            max_attempts integer, payload_version integer)
        RETURNS text[] LANGUAGE sql STABLE AS $$
            SELECT CASE
                WHEN k.name IS NULL THEN ARRAY['CH001', 'kind',
                    'kind ' || coalesce(quote_literal(left(kind, 100)), 'null') || ' is unknown']
                WHEN NOT isfinite(due) OR due NOT BETWEEN '1970-01-01Z' AND '9999-01-01Z' THEN
                    ARRAY['CH003', 'run_at',
                          'run_at is ' || due || '; it must lie between 1970 and 9999']
                WHEN payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
                    ARRAY['CH003', 'payload', 'payload must be a JSON object']
                WHEN octet_length(payload::text) > 262144 THEN
                    ARRAY['CH003', 'payload', 'payload has ' || octet_length(payload::text)
                          || ' bytes; at most 262144 are allowed']
                WHEN priority NOT BETWEEN 0 AND 9 THEN
                    ARRAY['CH003', 'priority',
                          'priority is ' || priority || '; it must be between 0 and 9']
                WHEN max_attempts NOT BETWEEN 1 AND k.max_attempts_cap THEN
                    ARRAY['CH003', 'max_attempts', 'max_attempts is ' || max_attempts || '; kind '
                          || k.name || ' allows 1 to ' || k.max_attempts_cap]
                WHEN payload_version NOT BETWEEN 1 AND k.payload_version THEN
                    ARRAY['CH003', 'payload_version', 'payload_version is ' || payload_version
                          || '; kind ' || k.name || ' knows 1 to ' || k.payload_version]
                WHEN NOT has_company THEN ARRAY['CH005', 'company',
                    'company ' || coalesce(quote_literal(company), 'null') || ' is unknown']
                WHEN brand IS NOT NULL AND NOT has_brand THEN ARRAY['CH005', 'brand',
                    'brand ' || quote_literal(brand) || ' is no brand of company '
                    || quote_literal(company)]
            END
        $$""")
    op.execute("""
        CREATE FUNCTION chot.refuse_isolation() RETURNS void LANGUAGE plpgsql STABLE AS $$
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'enqueue runs at READ COMMITTED only, not at %',
                    upper(current_setting('transaction_isolation'))
                    USING ERRCODE = 'CH004', DETAIL = 'transaction_isolation';
            END IF;
        END $$""")
    # Only the platform itself may say on whose behalf it asks.
    op.execute("""
        CREATE FUNCTION chot.principal_of(asked text) RETURNS text LANGUAGE sql STABLE AS $$
            SELECT CASE WHEN asked IS NOT NULL AND pg_has_role(session_user, 'chot_app', 'MEMBER')
                        THEN asked ELSE 'sql:' || session_user END
        $$""")


def _fingerprint() -> None:
    # The fingerprint, or what keeps a payload from having one: field and fault.
    op.execute("CREATE TYPE chot.work AS (print bytea, field text, fault text)")
    op.execute(r"""
        CREATE FUNCTION chot.work_of(
            kind text, company text, brand text, payload jsonb, fields text[])
        RETURNS chot.work LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            work chot.work;
            parts jsonb := jsonb_build_array(kind, company, brand);
            name text;
            value jsonb;
        BEGIN
            FOREACH name IN ARRAY fields LOOP
                value := payload -> name;
                work.field := 'payload.' || name;
                IF value IS NULL THEN
                    work.fault := work.field || ' is missing: ' || kind
                                  || ' needs it to tell one job from another';
                    RETURN work;
                END IF;
                IF jsonb_typeof(value) = 'array' THEN
                    IF EXISTS (SELECT FROM jsonb_array_elements(value) AS e
                                WHERE NOT chot.is_fingerprint_scalar(e)) THEN
                        work.fault := work.field
                                      || ' holds a member that is no string, integer or boolean';
                        RETURN work;
                    END IF;
                    SELECT coalesce(jsonb_agg(DISTINCT e ORDER BY e), '[]') INTO value
                      FROM jsonb_array_elements(value) AS e;
                ELSIF NOT chot.is_fingerprint_scalar(value) THEN
                    work.fault := work.field || ' is ' || left(value::text, 100)
                                  || ': a fingerprint field is a string, an integer, a boolean, '
                                     'or a list of them';
                    RETURN work;
                END IF;
                parts := parts || jsonb_build_array(value);
            END LOOP;
            work.print := sha256(convert_to(parts::text, 'UTF8'));
            RETURN work;
        END $$""")
    op.execute("""
        CREATE OR REPLACE FUNCTION chot.fingerprint(
            kind text, company text, brand text, payload jsonb, fields text[])
        RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE work chot.work := chot.work_of(kind, company, brand, payload, fields);
        BEGIN
            IF work.fault IS NOT NULL THEN
                RAISE EXCEPTION '%', work.fault USING ERRCODE = 'CH002', DETAIL = work.field;
            END IF;
            RETURN work.print;
        END $$""")


def _check() -> None:
    op.execute("""
        CREATE FUNCTION chot.check_enqueue(
            k chot.kinds, kind text, company text, brand text, payload jsonb, due timestamptz,
            priority integer, max_attempts integer, payload_version integer)
        RETURNS void LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        DECLARE refused text[];
        BEGIN
            PERFORM chot.refuse_isolation();
            refused := chot.refusal(
                k, kind, company, EXISTS (SELECT FROM books.companies c WHERE c.code = company),
                brand, EXISTS (SELECT FROM books.brands b
                                WHERE b.company = check_enqueue.company AND b.code = brand),
                payload, due, priority, max_attempts, payload_version);
            IF refused IS NOT NULL THEN
                RAISE EXCEPTION '%', refused[3] USING ERRCODE = refused[1], DETAIL = refused[2];
            END IF;
        END $$""")


def _replace_in_enqueue(old: str, new: str) -> None:
    op.execute(f"""
        DO $do$
        DECLARE was text := pg_get_functiondef('{ENQUEUE}'::regprocedure);
        BEGIN
            IF strpos(was, $part${old}$part$) = 0 THEN
                RAISE EXCEPTION 'chot.enqueue is not the one that this revision knows';
            END IF;
            EXECUTE replace(was, $part${old}$part$, $part${new}$part$);
        END $do$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _check_before()
    _replace_in_enqueue(JUDGED_NOW, JUDGED_BEFORE)
    op.execute(f"DROP FUNCTION {CHECK_NOW}")
    op.execute(f"DROP FUNCTION {REFUSAL}")
    op.execute("DROP FUNCTION chot.refuse_isolation()")
    op.execute("DROP FUNCTION chot.principal_of(text)")
    _fingerprint_before()
    op.execute(f"DROP FUNCTION {WORK_OF}")
    op.execute("DROP TYPE chot.work")


def _check_before() -> None:
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
    op.execute(f"REVOKE ALL ON FUNCTION {CHECK_BEFORE} FROM PUBLIC")


def _fingerprint_before() -> None:
    op.execute(r"""
        CREATE OR REPLACE FUNCTION chot.fingerprint(
            kind text, company text, brand text, payload jsonb, fields text[])
        RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            parts jsonb := jsonb_build_array(kind, company, brand);
            field text;
            value jsonb;
        BEGIN
            FOREACH field IN ARRAY fields LOOP
                value := payload -> field;
                IF value IS NULL THEN
                    RAISE EXCEPTION 'payload.% is missing: % needs it to tell one job from another',
                        field, kind USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                END IF;
                IF jsonb_typeof(value) = 'array' THEN
                    IF EXISTS (SELECT FROM jsonb_array_elements(value) AS e
                                WHERE NOT chot.is_fingerprint_scalar(e)) THEN
                        RAISE EXCEPTION 'payload.% holds a member that is no string, integer or '
                            'boolean', field USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                    END IF;
                    SELECT coalesce(jsonb_agg(DISTINCT e ORDER BY e), '[]') INTO value
                      FROM jsonb_array_elements(value) AS e;
                ELSIF NOT chot.is_fingerprint_scalar(value) THEN
                    RAISE EXCEPTION 'payload.% is %: a fingerprint field is a string, an integer, '
                        'a boolean, or a list of them', field, left(value::text, 100)
                        USING ERRCODE = 'CH002', DETAIL = 'payload.' || field;
                END IF;
                parts := parts || jsonb_build_array(value);
            END LOOP;
            RETURN sha256(convert_to(parts::text, 'UTF8'));
        END $$""")
