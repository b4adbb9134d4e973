"""Duplicates: submits that met the job that was active already, by how they were joined with it.

The row of the audit that each of them writes anyway fires a trigger; that of a new job fires none.
So callers of every language are counted, and a submit of new work costs nothing more.
"""

from alembic import op

revision = "0185_duplicates"
down_revision = "0184_attempt_ends"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.duplicates (
            id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            kind text NOT NULL,
            how  text NOT NULL
        ) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)""")
    op.execute("""
        CREATE TABLE chot.duplicate_totals (
            kind    text NOT NULL,
            how     text NOT NULL,
            submits bigint NOT NULL CHECK (submits >= 0),
            PRIMARY KEY (kind, how)
        )""")
    op.execute("""
        CREATE FUNCTION chot.note_duplicate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            INSERT INTO chot.duplicates (kind, how)
            VALUES (NEW.facts ->> 'kind', NEW.facts ->> 'duplicate');
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.note_duplicate() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER audit_note_duplicate AFTER INSERT ON chot.audit FOR EACH ROW
        WHEN (NEW.action = 'job.submit' AND NEW.facts ->> 'duplicate' IS NOT NULL
              AND NEW.facts ->> 'kind' IS NOT NULL)
        EXECUTE FUNCTION chot.note_duplicate()""")
    op.execute("GRANT SELECT, DELETE ON chot.duplicates TO chot_app")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.duplicate_totals TO chot_app")
    op.execute("GRANT SELECT ON chot.duplicates, chot.duplicate_totals TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER audit_note_duplicate ON chot.audit")
    op.execute("DROP FUNCTION chot.note_duplicate()")
    op.execute("DROP TABLE chot.duplicate_totals")
    op.execute("DROP TABLE chot.duplicates")
