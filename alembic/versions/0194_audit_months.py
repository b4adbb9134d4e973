"""The audit in parts, one for each month: a row for every submit is the largest thing that is kept.

As the archive (0193): names, columns, rights and rows stay, what was there becomes the first part.
Every part refuses changes as the whole does, also to who names the part. Numbers go on.

Nothing is dropped but by chot.drop_month('audit', …), which keeps a year whatever it is told.
"""

from alembic import op

revision = "0194_audit_months"
down_revision = "0193_archive_months"
branch_labels = None
depends_on = None

# Constraints by the names that they had: a part must have those of the whole.
COLUMNS = """
            id          bigint GENERATED ALWAYS AS IDENTITY,
            at          timestamptz NOT NULL DEFAULT clock_timestamp(),
            action      text NOT NULL CONSTRAINT audit_action_check CHECK (action ~ '^[a-z_]+[.][a-z_]+$'),
            principal   text NOT NULL,
            key_id      text,
            source      inet,
            request_id  uuid,
            job_id      uuid,
            target      text CONSTRAINT audit_target_check CHECK (octet_length(target) <= 400),
            company     text,
            brand       text,
            approver    text,
            approval_id uuid,
            facts       jsonb NOT NULL DEFAULT '{}'
                        CONSTRAINT audit_facts_check CHECK (octet_length(facts::text) <= 4096),
            CONSTRAINT audit_pkey PRIMARY KEY (at, id),
            CONSTRAINT audit_approver_check
                CHECK (approver IS NULL OR (approval_id IS NOT NULL AND approver <> principal))"""
INDEXES = (
    "CREATE INDEX audit_brand_idx ON chot.audit (company, brand, at, id)",
    "CREATE INDEX audit_principal_idx ON chot.audit (principal, at, id)",
    "CREATE INDEX audit_job_idx ON chot.audit (job_id) WHERE job_id IS NOT NULL",
    """CREATE INDEX audit_action_idx ON chot.audit (action, at, id)
         WHERE action <> 'job.submit'""",
)
NAMES = "ARRAY['audit_brand_idx', 'audit_principal_idx', 'audit_job_idx', 'audit_action_idx']"
RIGHTS = (
    "GRANT SELECT, INSERT ON chot.audit TO chot_app",
    "GRANT SELECT ON chot.audit TO chot_read",
    "SELECT chot.guard_audit('audit')",
    # As 0185 has it; each part has it from the whole.
    """CREATE TRIGGER audit_note_duplicate AFTER INSERT ON chot.audit FOR EACH ROW
        WHEN (NEW.action = 'job.submit' AND NEW.facts ->> 'duplicate' IS NOT NULL
              AND NEW.facts ->> 'kind' IS NOT NULL)
        EXECUTE FUNCTION chot.note_duplicate()""",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Also where session_replication_role says that triggers do not fire.
    op.execute("""
        CREATE FUNCTION chot.guard_audit(part text) RETURNS void
        LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            EXECUTE format('CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
                            ON chot.%I FOR EACH STATEMENT
                            EXECUTE FUNCTION chot.refuse_audit_change()', part);
            EXECUTE format('ALTER TABLE chot.%I ENABLE ALWAYS TRIGGER audit_append_only', part);
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.guard_audit(text) FROM PUBLIC")
    op.execute("LOCK TABLE chot.audit IN ACCESS EXCLUSIVE MODE")
    op.execute(f"""
        DO $do$
        DECLARE
            part text := (
                SELECT conname FROM pg_constraint
                 WHERE conrelid = 'chot.audit'::regclass
                   AND conname ~ '^audit_before_[0-9]{{4}}_[0-9]{{2}}$');
            old text;
        BEGIN
            EXECUTE format('ALTER TABLE chot.audit RENAME TO %I', part);
            EXECUTE format('ALTER TABLE chot.%I RENAME CONSTRAINT audit_pkey TO %I',
                           part, part || '_pkey');
            FOREACH old IN ARRAY {NAMES} LOOP
                EXECUTE format('ALTER INDEX chot.%I RENAME TO %I', old,
                               replace(old, 'audit', part));
            END LOOP;
            -- The numbers are the whole's from now on.
            EXECUTE format('ALTER TABLE chot.%I ALTER COLUMN id DROP IDENTITY', part);
            EXECUTE format('DROP TRIGGER audit_note_duplicate ON chot.%I', part);
        END $do$""")
    op.execute(f"CREATE TABLE chot.audit ({COLUMNS}) PARTITION BY RANGE (at)")
    for statement in (*INDEXES, *RIGHTS):
        op.execute(statement)
    op.execute("""
        DO $do$
        DECLARE
            part text := (SELECT relname FROM pg_class
                           WHERE relnamespace = 'chot'::regnamespace AND relkind = 'r'
                             AND relname ~ '^audit_before_[0-9]{4}_[0-9]{2}$');
            last bigint;
        BEGIN
            EXECUTE format('SELECT max(id) FROM chot.%I', part) INTO last;
            IF last IS NULL THEN
                EXECUTE format('DROP TABLE chot.%I', part);
                RETURN;
            END IF;
            PERFORM setval(pg_get_serial_sequence('chot.audit', 'id'), last);
            EXECUTE format('ALTER TABLE chot.audit ATTACH PARTITION chot.%I '
                           'FOR VALUES FROM (MINVALUE) TO (%L)', part,
                           to_timestamp(right(part, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC');
        END $do$""")
    op.execute("CREATE TABLE chot.audit_default PARTITION OF chot.audit DEFAULT")
    op.execute("SELECT chot.guard_audit('audit_default')")
    op.execute("SELECT chot.open_months('audit', NULL)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("LOCK TABLE chot.audit IN ACCESS EXCLUSIVE MODE")
    op.execute("ALTER TABLE chot.audit RENAME TO audit_parts")
    op.execute("ALTER TABLE chot.audit_parts RENAME CONSTRAINT audit_pkey TO audit_parts_pkey")
    op.execute(f"""
        DO $do$
        DECLARE old text;
        BEGIN
            FOREACH old IN ARRAY {NAMES} LOOP
                EXECUTE format('DROP INDEX chot.%I', old);
            END LOOP;
        END $do$""")
    op.execute("ALTER TABLE chot.audit_parts ALTER COLUMN id DROP IDENTITY")
    op.execute(f"CREATE TABLE chot.audit ({COLUMNS})")
    op.execute("""
        INSERT INTO chot.audit OVERRIDING SYSTEM VALUE
        SELECT * FROM chot.audit_parts ORDER BY at, id""")
    op.execute("""
        SELECT setval(pg_get_serial_sequence('chot.audit', 'id'), max(id))
          FROM chot.audit HAVING max(id) IS NOT NULL""")
    op.execute("DROP TABLE chot.audit_parts")
    for statement in (*INDEXES, *RIGHTS):
        op.execute(statement)
    # What 0192 leaves, so that one may go up again from there.
    op.execute("""
        DO $do$
        DECLARE
            edge timestamp := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
                              + interval '3 months';
        BEGIN
            EXECUTE format('ALTER TABLE chot.audit ADD CONSTRAINT %I CHECK (at < %L) NOT VALID',
                           'audit_before_' || to_char(edge, 'YYYY_MM'),
                           edge AT TIME ZONE 'UTC');
        END $do$""")
    op.execute("DROP FUNCTION chot.guard_audit(text)")
