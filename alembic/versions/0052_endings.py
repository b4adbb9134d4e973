"""Endings: how many jobs have succeeded or been cancelled, exactly and without counting them.

A trigger writes a row when a job comes to a final state, in that transaction, whoever moves it: a
worker of the version before included. Rows are only inserted, so that no transition waits for
another; maintenance adds them up. A counter that transitions update would be one row they all
queue for until COMMIT.
"""

from alembic import op

revision = "0052_endings"
down_revision = "0051_cancelled_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.endings (
            id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            kind  text NOT NULL,
            state text NOT NULL CHECK (state IN ('succeeded', 'cancelled'))
        ) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0)""")
    op.execute("""
        CREATE TABLE chot.ending_totals (
            kind  text NOT NULL,
            state text NOT NULL,
            jobs  bigint NOT NULL CHECK (jobs >= 0),
            PRIMARY KEY (kind, state)
        )""")
    op.execute("""
        CREATE FUNCTION chot.note_ending() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            INSERT INTO chot.endings (kind, state) VALUES (NEW.kind, NEW.state);
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.note_ending() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER jobs_note_ending AFTER UPDATE OF state ON chot.jobs FOR EACH ROW
        WHEN (NEW.state IN ('succeeded', 'cancelled') AND OLD.state IS DISTINCT FROM NEW.state)
        EXECUTE FUNCTION chot.note_ending()""")
    op.execute("GRANT SELECT, DELETE ON chot.endings TO chot_app")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.ending_totals TO chot_app")
    op.execute("GRANT SELECT ON chot.endings, chot.ending_totals TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER jobs_note_ending ON chot.jobs")
    op.execute("DROP FUNCTION chot.note_ending()")
    op.execute("DROP TABLE chot.ending_totals")
    op.execute("DROP TABLE chot.endings")
