"""Business locks: what a job declares, resolved for it, and when two locks conflict.

A lock is of a root, of a part of it or of all ('' as a part), shared or exclusive, of a range of
periods; both ends belong to it, '' and '~' are its open ends. A month as an end means all its days.
`lane` is the same for all jobs with the same locks, 'x…' when any of these is exclusive; `turn` is
9 less the job's priority, so that (turn, job_id) is the order of who waits.
"""

from alembic import op

revision = "0091_job_locks"
down_revision = "0090_guards"
branch_labels = None
depends_on = None

CALLED_BY_APP = """chot.locks_conflict(chot.job_locks, chot.job_locks),
        chot.lock_rows(uuid, integer, chot.resolved_locks),
        chot.locks_of_followup(uuid, text, text, text, jsonb)"""
INNER = """chot.fill_lock(text, text, text, jsonb), chot.lock_parts(text, text, text, jsonb),
        chot.locks_of(text, text, jsonb, jsonb)"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _table()
    _conflict()
    _fill()
    _parts()
    _resolve()
    _rows()
    _of_followup()
    op.execute(f"REVOKE ALL ON FUNCTION {CALLED_BY_APP}, {INNER} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {CALLED_BY_APP}, {INNER} TO chot_app, chot_read")


def _table() -> None:
    op.execute("""
        CREATE TABLE chot.job_locks (
            job_id      uuid NOT NULL,
            n           smallint NOT NULL,
            root        text COLLATE "C" NOT NULL CHECK (root <> ''),
            part        text COLLATE "C" NOT NULL,
            mode        text NOT NULL CHECK (mode IN ('shared', 'exclusive')),
            period_from text COLLATE "C" NOT NULL,
            period_to   text COLLATE "C" NOT NULL,
            lane        text COLLATE "C" NOT NULL,
            turn        smallint NOT NULL,
            waiting     boolean NOT NULL DEFAULT false,
            woken_at    timestamptz,
            PRIMARY KEY (job_id, n)
        )""")
    op.execute("CREATE INDEX job_locks_root_idx ON chot.job_locks (root) WHERE NOT waiting")
    # Who waits for a part before somebody; for all of a root; and who is to be woken, by lanes. The
    # second says what is always true, so that it is taken by who says so, too, and by nobody else.
    op.execute("""
        CREATE INDEX job_locks_part_idx ON chot.job_locks (root, part, mode, turn, job_id)
         WHERE waiting""")
    op.execute("""
        CREATE INDEX job_locks_turn_idx ON chot.job_locks (root, mode, turn, job_id)
         WHERE waiting AND part >= ''""")
    op.execute("""
        CREATE INDEX job_locks_lane_idx ON chot.job_locks (root, part, lane, turn, job_id)
         WHERE waiting AND woken_at IS NULL""")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.job_locks TO chot_app")
    op.execute("GRANT SELECT ON chot.job_locks TO chot_read")


def _conflict() -> None:
    # Taken into the statement that asks: no SECURITY DEFINER, no SET.
    op.execute("""
        CREATE FUNCTION chot.locks_conflict(a chot.job_locks, b chot.job_locks)
        RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT a.root = b.root AND (a.part = b.part OR a.part = '' OR b.part = '')
               AND (a.mode = 'exclusive' OR b.mode = 'exclusive')
               AND a.period_from <= b.period_to || '~' AND b.period_from <= a.period_to || '~'
        $$""")


def _fill() -> None:
    # A null in any placeholder makes all of it null, and `field` says which one it was.
    op.execute("CREATE TYPE chot.filled_lock AS (value text, field text, fault text)")
    op.execute(r"""
        CREATE FUNCTION chot.fill_lock(template text, company text, brand text, payload jsonb)
        RETURNS chot.filled_lock LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            filled chot.filled_lock;
            piece text[];
            given jsonb;
            written text := '';
            rest text := template;
        BEGIN
            LOOP
                piece := regexp_match(rest, '^([^{]*)\{([^}]*)\}(.*)$');
                IF piece IS NULL THEN
                    filled.value := written || rest;
                    IF octet_length(filled.value) > 400 THEN
                        filled.fault := coalesce(filled.field, 'payload')
                            || ' makes the name of a lock longer than 400 bytes';
                    END IF;
                    RETURN filled;
                END IF;
                filled.field := piece[2];
                given := CASE piece[2] WHEN 'company' THEN to_jsonb(company)
                              WHEN 'brand' THEN to_jsonb(brand)
                              ELSE payload -> substr(piece[2], length('payload.') + 1) END;
                IF given IS NULL OR jsonb_typeof(given) = 'null' THEN
                    RETURN filled;
                ELSIF jsonb_typeof(given) = 'string' OR given::text ~ '^-?[0-9]+$' THEN
                    written := written || piece[1] || (given #>> '{}');
                    rest := piece[3];
                ELSE
                    filled.fault := piece[2] || ' is ' || left(given::text, 100)
                        || ': a lock is named by strings and whole numbers';
                    RETURN filled;
                END IF;
            END LOOP;
        END $$""")


def _parts() -> None:
    # A list makes a lock of each of its members; of more than a hundred, one of all parts.
    op.execute(r"""
        CREATE FUNCTION chot.lock_parts(template text, company text, brand text, payload jsonb)
        RETURNS SETOF chot.filled_lock LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            name text := substring(template from '^\{payload\.([^{}]+)\}$');
            listed jsonb := payload -> name;
            one chot.filled_lock;
        BEGIN
            IF jsonb_typeof(listed) IS DISTINCT FROM 'array' THEN
                one := CASE WHEN template IS NOT NULL
                            THEN chot.fill_lock(template, company, brand, payload) END;
                one.value := coalesce(one.value, '');
                RETURN NEXT one;
            ELSIF jsonb_array_length(listed) > 100 THEN
                one.value := '';
                RETURN NEXT one;
            ELSE
                RETURN QUERY
                SELECT (f).value, 'payload.' || name,
                       CASE WHEN (f).value IS NULL AND (f).fault IS NULL
                            THEN 'payload.' || name || ' holds a null: a lock needs its name'
                            ELSE (f).fault END
                  FROM jsonb_array_elements(listed) AS e,
                       LATERAL (SELECT chot.fill_lock('{payload.' || name || '}', NULL, NULL,
                                            jsonb_build_object(name, e)) AS f) AS each;
            END IF;
        END $$""")


def _resolve() -> None:
    op.execute("""
        CREATE TYPE chot.resolved_locks AS (
            locks jsonb, roots text[], lane text, field text, fault text)""")
    op.execute(r"""
        CREATE FUNCTION chot.locks_of(company text, brand text, payload jsonb, declared jsonb)
        RETURNS chot.resolved_locks LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            found chot.resolved_locks;
            lock jsonb;
            root chot.filled_lock;
            part chot.filled_lock;
            ends chot.filled_lock[];
            period chot.filled_lock;
            made jsonb := '[]';
        BEGIN
            FOR lock IN SELECT e FROM jsonb_array_elements(declared) AS e LOOP
                root := chot.fill_lock(lock ->> 'root', company, brand, payload);
                IF root.value IS NULL AND root.fault IS NULL THEN
                    root.fault := root.field || ' is null: it names what the job locks';
                END IF;
                found.field := root.field; found.fault := root.fault;
                IF found.fault IS NOT NULL THEN
                    RETURN found;
                END IF;
                ends := ARRAY[chot.fill_lock(lock ->> 'period_from', company, brand, payload),
                              chot.fill_lock(lock ->> 'period_to', company, brand, payload)];
                FOREACH period IN ARRAY ends LOOP
                    found.field := period.field;
                    found.fault := CASE WHEN period.fault IS NOT NULL THEN period.fault
                        WHEN period.value !~ '^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$'
                        THEN period.field || ' is ' || left(quote_literal(period.value), 100)
                             || ': a lock takes YYYY-MM or YYYY-MM-DD as a period' END;
                    IF found.fault IS NOT NULL THEN
                        RETURN found;
                    END IF;
                END LOOP;
                IF ends[1].value COLLATE "C" > ends[2].value || '~' THEN
                    found.field := coalesce(ends[1].field, ends[2].field);
                    found.fault := 'a lock from ' || ends[1].value || ' to ' || ends[2].value
                                   || ' would be of no period';
                    RETURN found;
                END IF;
                FOR part IN SELECT * FROM chot.lock_parts(lock ->> 'part', company, brand,
                                                          payload) LOOP
                    found.field := part.field; found.fault := part.fault;
                    IF found.fault IS NOT NULL THEN
                        RETURN found;
                    END IF;
                    made := made || jsonb_build_object(
                        'root', root.value, 'part', part.value, 'mode', lock ->> 'mode',
                        'period_from', coalesce(ends[1].value, ''),
                        'period_to', coalesce(ends[2].value, '~'));
                END LOOP;
            END LOOP;
            found.field := NULL;
            SELECT jsonb_agg(DISTINCT e ORDER BY e),
                   array_agg(DISTINCT e ->> 'root' ORDER BY e ->> 'root'),
                   CASE WHEN bool_or(e ->> 'mode' = 'exclusive') THEN 'x' ELSE 's' END
              INTO found.locks, found.roots, found.lane FROM jsonb_array_elements(made) AS e;
            found.lane := found.lane || md5(found.locks::text);
            RETURN found;
        END $$""")


def _rows() -> None:
    op.execute("""
        CREATE FUNCTION chot.lock_rows(
            job_id uuid, priority integer, resolved chot.resolved_locks)
        RETURNS SETOF chot.job_locks LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT lock_rows.job_id, e.n::smallint, e.root, e.part, e.mode, e.period_from,
                   e.period_to, resolved.lane, (9 - priority)::smallint, false, NULL::timestamptz
              FROM ROWS FROM (jsonb_to_recordset(resolved.locks) AS (
                        root text, part text, mode text, period_from text, period_to text))
                   WITH ORDINALITY AS e (root, part, mode, period_from, period_to, n)
        $$""")


def _of_followup() -> None:
    # An exit must not fail: what cannot be resolved (its kind has changed) is what was locked.
    op.execute("""
        CREATE FUNCTION chot.locks_of_followup(
            before uuid, kind text, company text, brand text, payload jsonb)
        RETURNS chot.resolved_locks LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        DECLARE
            declared jsonb := (SELECT k.locks FROM chot.kinds k WHERE k.name = kind);
            found chot.resolved_locks;
        BEGIN
            IF declared IS NULL THEN
                RETURN NULL;
            END IF;
            found := chot.locks_of(company, brand, payload, declared);
            IF found.fault IS NOT NULL THEN
                found := NULL;
                SELECT jsonb_agg(jsonb_build_object('root', l.root, 'part', l.part,
                                     'mode', l.mode, 'period_from', l.period_from,
                                     'period_to', l.period_to) ORDER BY l.n),
                       array_agg(DISTINCT l.root::text ORDER BY l.root::text), min(l.lane)
                  INTO found.locks, found.roots, found.lane
                  FROM chot.job_locks l WHERE l.job_id = before;
            END IF;
            RETURN found;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.locks_of_followup(uuid, text, text, text, jsonb)")
    op.execute("DROP FUNCTION chot.lock_rows(uuid, integer, chot.resolved_locks)")
    op.execute("DROP FUNCTION chot.locks_of(text, text, jsonb, jsonb)")
    op.execute("DROP TYPE chot.resolved_locks")
    op.execute("DROP FUNCTION chot.lock_parts(text, text, text, jsonb)")
    op.execute("DROP FUNCTION chot.fill_lock(text, text, text, jsonb)")
    op.execute("DROP TYPE chot.filled_lock")
    op.execute("DROP FUNCTION chot.locks_conflict(chot.job_locks, chot.job_locks)")
    op.execute("DROP TABLE chot.job_locks")
