"""What the archive and the audit hold lies before an edge, said by a constraint and proven beside
the work: so that the next revisions may make each of them the first part of a table in parts
without reading it under a lock.

The edge is the first of a month, two to three months ahead. The next revision takes it from the
constraint's name.
"""

from alembic import op

revision = "0192_month_edge"
down_revision = "0190_job_minutes"
branch_labels = None
depends_on = None

# Names by which a part is known: archived_jobs_before_2027_03 has what is older than March 2027.
PREPARE = """
        DO $do$
        DECLARE
            edge timestamp := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
                              + interval '3 months';
            old text;
        BEGIN
            FOR old IN SELECT conname FROM pg_constraint
                        WHERE conrelid = 'chot.{table}'::regclass
                          AND conname ~ '^{table}_before_[0-9]{{4}}_[0-9]{{2}}$' LOOP
                EXECUTE format('ALTER TABLE chot.{table} DROP CONSTRAINT %I', old);
            END LOOP;
            EXECUTE format('ALTER TABLE chot.{table} ADD CONSTRAINT %I CHECK ({key} < %L) NOT VALID',
                           '{table}_before_' || to_char(edge, 'YYYY_MM'), {bound});
        END $do$"""
PROVE = """
        DO $do$
        BEGIN
            EXECUTE format('ALTER TABLE chot.{table} VALIDATE CONSTRAINT %I', (
                SELECT conname FROM pg_constraint
                 WHERE conrelid = 'chot.{table}'::regclass
                   AND conname ~ '^{table}_before_[0-9]{{4}}_[0-9]{{2}}$'));
        END $do$"""
FORGET = """
        DO $do$
        DECLARE old text;
        BEGIN
            FOR old IN SELECT conname FROM pg_constraint
                        WHERE conrelid = 'chot.{table}'::regclass
                          AND conname ~ '^{table}_before_[0-9]{{4}}_[0-9]{{2}}$' LOOP
                EXECUTE format('ALTER TABLE chot.{table} DROP CONSTRAINT %I', old);
            END LOOP;
        END $do$"""
ARCHIVE = {"table": "archived_jobs", "key": "id", "bound": "chot.id_at(edge AT TIME ZONE 'UTC')"}
AUDIT = {"table": "audit", "key": "at", "bound": "edge AT TIME ZONE 'UTC'"}


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # The least id that a job made at that moment may have: ids are in the order of time.
    op.execute("""
        CREATE OR REPLACE FUNCTION chot.id_at(moment timestamptz) RETURNS uuid
        LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0')
                    || repeat('0', 20))::uuid $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.id_at(timestamptz) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION chot.id_at(timestamptz) TO chot_app")
    op.execute(PREPARE.format(**ARCHIVE))
    op.execute(PREPARE.format(**AUDIT))
    # Reads the tables; everybody else goes on reading and writing them.
    with op.get_context().autocommit_block():
        op.execute(PROVE.format(**ARCHIVE))
        op.execute(PROVE.format(**AUDIT))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(FORGET.format(**AUDIT))
    op.execute(FORGET.format(**ARCHIVE))
    op.execute("DROP FUNCTION chot.id_at(timestamptz)")
