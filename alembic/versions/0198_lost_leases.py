"""An attempt that lost its lease says what is known of it: when its worker was heard of last, and
when the lease ran out.

By a trigger, so that it holds whoever finds the lease expired: a reaper, a claim that takes the job
over, a worker of the version before. The function is STABLE on purpose: it sees the job as it was
before this very statement, with the lease that has run out. A claim still says nothing by itself;
the count of takeovers goes by the code that is written for it here.
"""

from alembic import op

revision = "0198_lost_leases"
down_revision = "0197_sessions_since"
branch_labels = None
depends_on = None

NOTE_END = """
        CREATE OR REPLACE FUNCTION chot.note_attempt_end() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            INSERT INTO chot.attempt_ends (kind, outcome, taken_over, queue_seconds, run_seconds)
            SELECT j.kind, NEW.outcome, NEW.outcome = 'lost_lease' AND {taken_over},
                   NEW.queue_seconds,
                   greatest(0, extract(epoch FROM NEW.ended_at - NEW.started_at))
              FROM chot.jobs j WHERE j.id = NEW.job_id;
            RETURN NULL;
        END $$"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION chot.note_lost_lease() RETURNS trigger
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            NEW.error := coalesce(NEW.error, jsonb_build_object(
                             'type', 'LeaseLost', 'code', 'LEASE_LOST',
                             'message', 'the lease ran out, and another worker took the job over'))
                || jsonb_build_object('details', (
                       SELECT jsonb_build_object('seen_at', w.seen_at,
                                                 'lease_until', j.lease_expires_at)
                         FROM chot.jobs j
                         LEFT JOIN chot.workers w ON w.worker_id = NEW.worker_id
                        WHERE j.id = NEW.job_id));
            RETURN NEW;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.note_lost_lease() FROM PUBLIC")
    op.execute(
        NOTE_END.format(
            taken_over="coalesce(NEW.error ->> 'code', 'LEASE_LOST') = 'LEASE_LOST'",
        )
    )
    op.execute("""
        CREATE TRIGGER attempts_note_lost_lease BEFORE UPDATE OF outcome ON chot.attempts
        FOR EACH ROW
        WHEN (NEW.outcome = 'lost_lease' AND OLD.outcome IS DISTINCT FROM NEW.outcome)
        EXECUTE FUNCTION chot.note_lost_lease()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER attempts_note_lost_lease ON chot.attempts")
    op.execute("DROP FUNCTION chot.note_lost_lease()")
    op.execute(NOTE_END.format(taken_over="NEW.error IS NULL"))
