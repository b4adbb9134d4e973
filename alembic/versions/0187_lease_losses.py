"""Lease losses: a row for each lease that ran out, to be counted by time.

A trigger writes it with the attempt's end, whoever finds the lease expired: a reaper, a claim, a
worker of the version before. An index over the ends of attempts would cost every attempt's end
its place on the page.
"""

from alembic import op

revision = "0187_lease_losses"
down_revision = "0186_alerts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.lease_losses (
            id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            job_id uuid NOT NULL
        )""")
    op.execute("CREATE INDEX lease_losses_at_idx ON chot.lease_losses (at)")
    op.execute("""
        CREATE FUNCTION chot.note_lease_loss() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            INSERT INTO chot.lease_losses (job_id) VALUES (NEW.job_id);
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.note_lease_loss() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER attempts_note_lease_loss AFTER UPDATE OF outcome ON chot.attempts
        FOR EACH ROW
        WHEN (NEW.outcome = 'lost_lease' AND OLD.outcome IS DISTINCT FROM NEW.outcome)
        EXECUTE FUNCTION chot.note_lease_loss()""")
    op.execute("GRANT SELECT, DELETE ON chot.lease_losses TO chot_app")
    op.execute("GRANT SELECT ON chot.lease_losses TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER attempts_note_lease_loss ON chot.attempts")
    op.execute("DROP FUNCTION chot.note_lease_loss()")
    op.execute("DROP TABLE chot.lease_losses")
