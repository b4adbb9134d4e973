"""Ends of attempts: how many there have been, how long they waited and ran, without counting them.

As endings (0052): a trigger writes a row when an attempt is closed, in that transaction, whoever
closes it, a worker of the version before and the one that takes a dead worker's job over included.
Rows are only inserted; maintenance adds them up. What a process that died had counted in its memory
would be lost with it.

`run_means` forgets: the mean of a kind's last attempts, for the signal that workers are scaled by.
"""

from alembic import op

revision = "0184_attempt_ends"
down_revision = "0183_held_index"
branch_labels = None
depends_on = None

VACUUM = """autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # From due to claimed; NULL where nothing was due: a lease taken over, a job that joins others.
    op.execute("ALTER TABLE chot.attempts ADD COLUMN queue_seconds double precision")
    op.execute(f"""
        CREATE TABLE chot.attempt_ends (
            id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            kind          text NOT NULL,
            outcome       text NOT NULL,
            taken_over    boolean NOT NULL,
            queue_seconds double precision,
            run_seconds   double precision NOT NULL
        ) WITH ({VACUUM})""")
    # Buckets are cumulative, as Prometheus has them; their bounds are those of shared.jobs.ends.
    op.execute("""
        CREATE TABLE chot.attempt_totals (
            kind          text NOT NULL,
            outcome       text NOT NULL,
            attempts      bigint NOT NULL CHECK (attempts >= 0),
            taken_over    bigint NOT NULL,
            queue_seconds double precision NOT NULL,
            queue_buckets bigint[] NOT NULL,
            run_seconds   double precision NOT NULL,
            run_buckets   bigint[] NOT NULL,
            PRIMARY KEY (kind, outcome)
        )""")
    op.execute("""
        CREATE TABLE chot.run_means (
            kind    text PRIMARY KEY,
            seconds double precision NOT NULL,
            weight  double precision NOT NULL
        )""")
    op.execute("""
        CREATE FUNCTION chot.note_attempt_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            -- The reaper says what became of the lease; a claim that takes it over says nothing.
            INSERT INTO chot.attempt_ends (kind, outcome, taken_over, queue_seconds, run_seconds)
            SELECT j.kind, NEW.outcome, NEW.outcome = 'lost_lease' AND NEW.error IS NULL,
                   NEW.queue_seconds,
                   greatest(0, extract(epoch FROM NEW.ended_at - NEW.started_at))
              FROM chot.jobs j WHERE j.id = NEW.job_id;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.note_attempt_end() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER attempts_note_end AFTER UPDATE OF outcome ON chot.attempts FOR EACH ROW
        WHEN (OLD.outcome IS NULL AND NEW.outcome IS NOT NULL)
        EXECUTE FUNCTION chot.note_attempt_end()""")
    op.execute("GRANT SELECT, DELETE ON chot.attempt_ends TO chot_app")
    op.execute("GRANT SELECT, INSERT, UPDATE ON chot.attempt_totals, chot.run_means TO chot_app")
    op.execute(
        "GRANT SELECT ON chot.attempt_ends, chot.attempt_totals, chot.run_means TO chot_read"
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER attempts_note_end ON chot.attempts")
    op.execute("DROP FUNCTION chot.note_attempt_end()")
    op.execute("DROP TABLE chot.run_means")
    op.execute("DROP TABLE chot.attempt_totals")
    op.execute("DROP TABLE chot.attempt_ends")
    op.execute("ALTER TABLE chot.attempts DROP COLUMN queue_seconds")
