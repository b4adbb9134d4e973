"""The archive in parts, one for each month in which jobs were made: a month is dropped, not deleted.

Ids are in the order of time, so a range of ids is a time, the key stays (id), and who looks for an
id reads one part. Names, columns and rights stay; the rows of before stay where they are and become
the first part, which the constraint of 0192 lets in without being read. An empty one goes.

Parts are made and dropped by the owner's functions, since app runs no DDL. Making one waits for
nobody who works. Dropping one needs the table for a moment: it gives up after 0.2 s, so that nobody
waits behind it for longer, and is tried again.
"""

from alembic import op

revision = "0193_archive_months"
down_revision = "0192_month_edge"
branch_labels = None
depends_on = None

INDEXES = (
    """
        CREATE INDEX archived_jobs_finished_idx ON chot.archived_jobs (finished_at)""",
    """
        CREATE INDEX archived_jobs_group_idx ON chot.archived_jobs ((job ->> 'group_id'), id)
         WHERE (job ->> 'group_id') IS NOT NULL""",
)
COLUMNS = """
            id          uuid CONSTRAINT archived_jobs_pkey PRIMARY KEY,
            finished_at timestamptz NOT NULL,
            job         jsonb NOT NULL,
            payload     jsonb,
            result      jsonb,
            error       jsonb,
            attempts    jsonb NOT NULL"""
REMOVE_ARCHIVED = """
        CREATE OR REPLACE FUNCTION chot.remove_archived_jobs(age interval, most integer)
        RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            removed integer := 0;
            gone integer;
            part text;
            before timestamptz := clock_timestamp() - remove_archived_jobs.age;
        BEGIN
            -- Months are dropped as a whole; row by row goes what lies in none.
            FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                         WHERE i.inhparent = 'chot.archived_jobs'::regclass
                           AND c.relname !~ '^archived_jobs_[0-9]{4}_[0-9]{2}$' ORDER BY 1 LOOP
                EXECUTE format('
                    WITH old AS (
                        SELECT id FROM chot.%1$I WHERE finished_at < $1
                         ORDER BY finished_at LIMIT $2)
                    DELETE FROM chot.%1$I a USING old WHERE a.id = old.id', part)
                  USING before, remove_archived_jobs.most - removed;
                GET DIAGNOSTICS gone = ROW_COUNT;
                removed := removed + gone;
            END LOOP;
            RETURN removed;
        END $$"""
# What 0192 leaves, so that one may go up again from there; not proven, as one goes down.
EDGE_AGAIN = """
        DO $do$
        DECLARE
            edge timestamp := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
                              + interval '3 months';
        BEGIN
            EXECUTE format('ALTER TABLE chot.archived_jobs ADD CONSTRAINT %I CHECK (id < %L) '
                           'NOT VALID', 'archived_jobs_before_' || to_char(edge, 'YYYY_MM'),
                           chot.id_at(edge AT TIME ZONE 'UTC'));
        END $do$"""
REMOVE_BEFORE = """
        CREATE OR REPLACE FUNCTION chot.remove_archived_jobs(age interval, most integer)
        RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            removed integer;
            before timestamptz := clock_timestamp() - remove_archived_jobs.age;
        BEGIN
            WITH old AS (
                SELECT id FROM chot.archived_jobs WHERE finished_at < before
                 ORDER BY finished_at LIMIT remove_archived_jobs.most)
            DELETE FROM chot.archived_jobs a USING old WHERE a.id = old.id;
            GET DIAGNOSTICS removed = ROW_COUNT;
            RETURN removed;
        END $$"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _open_months()
    _drop_month()
    op.execute("LOCK TABLE chot.archived_jobs IN ACCESS EXCLUSIVE MODE")
    op.execute("""
        DO $do$
        DECLARE part text := (
            SELECT conname FROM pg_constraint
             WHERE conrelid = 'chot.archived_jobs'::regclass
               AND conname ~ '^archived_jobs_before_[0-9]{4}_[0-9]{2}$');
        BEGIN
            EXECUTE format('ALTER TABLE chot.archived_jobs RENAME TO %I', part);
            EXECUTE format('ALTER TABLE chot.%I RENAME CONSTRAINT archived_jobs_pkey TO %I',
                           part, part || '_pkey');
            EXECUTE format('ALTER INDEX chot.archived_jobs_finished_idx RENAME TO %I',
                           part || '_finished_at_idx');
            EXECUTE format('ALTER INDEX chot.archived_jobs_group_idx RENAME TO %I',
                           part || '_expr_id_idx');
        END $do$""")
    op.execute(f"CREATE TABLE chot.archived_jobs ({COLUMNS}) PARTITION BY RANGE (id)")
    for statement in INDEXES:
        op.execute(statement)
    op.execute("GRANT SELECT ON chot.archived_jobs TO chot_app, chot_read")
    op.execute("""
        DO $do$
        DECLARE
            part text := (SELECT relname FROM pg_class
                           WHERE relnamespace = 'chot'::regnamespace AND relkind = 'r'
                             AND relname ~ '^archived_jobs_before_[0-9]{4}_[0-9]{2}$');
            found boolean;
        BEGIN
            EXECUTE format('SELECT EXISTS (SELECT FROM chot.%I)', part) INTO found;
            IF found THEN
                EXECUTE format('ALTER TABLE chot.archived_jobs ATTACH PARTITION chot.%I '
                               'FOR VALUES FROM (MINVALUE) TO (%L)', part, chot.id_at(
                               to_timestamp(right(part, 7), 'YYYY_MM')::timestamp
                               AT TIME ZONE 'UTC'));
            ELSE
                EXECUTE format('DROP TABLE chot.%I', part);
            END IF;
        END $do$""")
    op.execute("CREATE TABLE chot.archived_jobs_default PARTITION OF chot.archived_jobs DEFAULT")
    op.execute("SELECT chot.open_months('archived_jobs', NULL)")
    op.execute(REMOVE_ARCHIVED)


def _open_months() -> None:
    # What the default part holds of the month goes with it, where it is little; where it is much,
    # that month stays there, and is removed row by row. From the audit no row is ever taken.
    op.execute("""
        CREATE FUNCTION chot.open_months(
            parent text, age interval, at timestamptz DEFAULT clock_timestamp())
        RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
        DECLARE
            made integer := 0;
            key text := CASE parent WHEN 'archived_jobs' THEN 'id' WHEN 'audit' THEN 'at' END;
            month timestamp := date_trunc('month', open_months.at AT TIME ZONE 'UTC');
            until timestamp := month + interval '2 months';
            part text;
            bounds text[];
            strayed bigint;
        BEGIN
            IF key IS NULL THEN
                RAISE EXCEPTION 'chot.% is not kept by the month', open_months.parent;
            END IF;
            IF NOT pg_try_advisory_xact_lock(hashtextextended('chot archive', 0)) THEN
                RETURN 0;
            END IF;
            IF parent = 'archived_jobs' THEN
                -- From the oldest job on that may still come, but none that would be dropped.
                month := least(month, date_trunc('month', greatest(
                    coalesce((SELECT to_timestamp(('x' || left(replace(j.id::text, '-', ''), 12))
                                                  ::bit(48)::bigint / 1000.0)
                                FROM chot.jobs j ORDER BY j.id LIMIT 1), open_months.at),
                    open_months.at - coalesce(open_months.age, '10 years')) AT TIME ZONE 'UTC'));
            END IF;
            -- The part of what was there before there were months reaches so far.
            month := greatest(month, (
                SELECT to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp
                  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = format('chot.%I', parent)::regclass
                   AND c.relname ~ '_before_[0-9]{4}_[0-9]{2}$'));
            WHILE month <= until LOOP
                part := parent || '_' || to_char(month, 'YYYY_MM');
                IF to_regclass(format('chot.%I', part)) IS NULL THEN
                    bounds := CASE key WHEN 'id' THEN ARRAY[
                        chot.id_at(month AT TIME ZONE 'UTC')::text,
                        chot.id_at((month + interval '1 month') AT TIME ZONE 'UTC')::text]
                        ELSE ARRAY[(month AT TIME ZONE 'UTC')::text,
                                   ((month + interval '1 month') AT TIME ZONE 'UTC')::text] END;
                    EXECUTE format('SELECT count(*) FROM (SELECT FROM chot.%I WHERE %I >= %L
                                    AND %I < %L LIMIT 10001) AS s', parent || '_default',
                                   key, bounds[1], key, bounds[2]) INTO strayed;
                    IF strayed = 0 OR strayed <= 10000 AND parent <> 'audit' THEN
                        PERFORM chot.add_month(parent, part, key, bounds, strayed > 0);
                        made := made + 1;
                    END IF;
                END IF;
                month := month + interval '1 month';
            END LOOP;
            RETURN made;
        END $$""")
    op.execute("""
        CREATE FUNCTION chot.add_month(
            parent text, part text, key text, bounds text[], strayed boolean)
        RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            EXECUTE format('CREATE TABLE chot.%I (LIKE chot.%I INCLUDING ALL EXCLUDING IDENTITY)',
                           part, parent);
            IF strayed THEN
                EXECUTE format('WITH gone AS (DELETE FROM chot.%I WHERE %I >= %L AND %I < %L
                                              RETURNING *)
                                INSERT INTO chot.%I SELECT * FROM gone',
                               parent || '_default', key, bounds[1], key, bounds[2], part);
            END IF;
            IF parent = 'audit' THEN
                PERFORM chot.guard_audit(part);
            END IF;
            EXECUTE format('ALTER TABLE chot.%I ATTACH PARTITION chot.%I FOR VALUES FROM (%L)
                            TO (%L)', parent, part, bounds[1], bounds[2]);
        END $$""")
    op.execute("""REVOKE ALL ON FUNCTION chot.open_months(text, interval, timestamptz),
        chot.add_month(text, text, text, text[], boolean) FROM PUBLIC""")
    op.execute(
        "GRANT EXECUTE ON FUNCTION chot.open_months(text, interval, timestamptz) TO chot_app"
    )


def _drop_month() -> None:
    op.execute("""
        CREATE FUNCTION chot.drop_month(parent text, age interval) RETURNS text
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
        DECLARE
            before timestamptz := clock_timestamp() - drop_month.age;
            part text;
            ends timestamptz;
            young bigint := 0;
        BEGIN
            IF parent = 'audit' AND age < interval '365 days' THEN
                RAISE EXCEPTION 'the audit is kept for a year at least, not %', age;
            ELSIF parent IS NULL OR parent NOT IN ('archived_jobs', 'audit') THEN
                RAISE EXCEPTION 'chot.% is not kept by the month', parent;
            END IF;
            IF NOT pg_try_advisory_xact_lock(hashtextextended('chot archive', 0)) THEN
                RETURN NULL;
            END IF;
            FOR part, ends IN
                SELECT c.relname, (to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp
                                   + CASE WHEN c.relname ~ '_before_' THEN interval '0'
                                          ELSE interval '1 month' END) AT TIME ZONE 'UTC' AS ends
                  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = format('chot.%I', parent)::regclass
                   AND c.relname ~ '_[0-9]{4}_[0-9]{2}$'
                 ORDER BY 2 LOOP
                EXIT WHEN ends > before;
                -- Few of a month ended so late that they are kept on; where many did, it waits.
                IF parent = 'archived_jobs' THEN
                    EXECUTE format('SELECT count(*) FROM (SELECT FROM chot.%I
                                    WHERE finished_at >= $1 LIMIT 1001) AS y', part)
                       INTO young USING before;
                    CONTINUE WHEN young > 1000;
                END IF;
                EXECUTE format('ALTER TABLE chot.%I DETACH PARTITION chot.%I', parent, part);
                IF young > 0 THEN
                    EXECUTE format('INSERT INTO chot.archived_jobs
                                    SELECT * FROM chot.%I WHERE finished_at >= $1', part)
                      USING before;
                END IF;
                EXECUTE format('DROP TABLE chot.%I', part);
                RETURN part;
            END LOOP;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.drop_month(text, interval) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION chot.drop_month(text, interval) TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("LOCK TABLE chot.archived_jobs IN ACCESS EXCLUSIVE MODE")
    op.execute("ALTER TABLE chot.archived_jobs RENAME TO archived_jobs_parts")
    op.execute("ALTER TABLE chot.archived_jobs_parts RENAME CONSTRAINT archived_jobs_pkey TO parts")
    op.execute("DROP INDEX chot.archived_jobs_finished_idx")
    op.execute("DROP INDEX chot.archived_jobs_group_idx")
    op.execute(f"CREATE TABLE chot.archived_jobs ({COLUMNS})")
    op.execute("INSERT INTO chot.archived_jobs SELECT * FROM chot.archived_jobs_parts")
    op.execute("DROP TABLE chot.archived_jobs_parts")
    for statement in INDEXES:
        op.execute(statement)
    op.execute("GRANT SELECT ON chot.archived_jobs TO chot_app, chot_read")
    op.execute(EDGE_AGAIN)
    op.execute(REMOVE_BEFORE)
    op.execute("DROP FUNCTION chot.drop_month(text, interval)")
    op.execute("DROP FUNCTION chot.open_months(text, interval, timestamptz)")
    op.execute("DROP FUNCTION chot.add_month(text, text, text, text[], boolean)")
