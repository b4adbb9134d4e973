"""What became of each period: who asked to close or reopen it, who approved, which job did it.

Append-only, as the audit is. The newest row of a period says whose `closing` it is: a job that is
cleaned up opens no period again that another job has taken over.
"""

from alembic import op

revision = "0128_period_events"
down_revision = "0127_cost_run_parts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.period_events (
            id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            at          timestamptz NOT NULL DEFAULT clock_timestamp(),
            company     text COLLATE "C" NOT NULL,
            period      text COLLATE "C" NOT NULL,
            event       text NOT NULL CONSTRAINT period_events_event_check CHECK (event IN (
                            'close_asked', 'closing', 'closed', 'refused', 'interrupted',
                            'reopened')),
            requester   text NOT NULL,
            approver    text,
            approval_id uuid,
            job_id      uuid,
            reason      text CHECK (octet_length(reason) <= 2000),
            facts       jsonb NOT NULL DEFAULT '{}' CHECK (octet_length(facts::text) <= 32768),
            FOREIGN KEY (company, period) REFERENCES books.periods,
            CONSTRAINT period_events_job_check CHECK ((event = 'reopened') = (job_id IS NULL)),
            CONSTRAINT period_events_approver_check
                CHECK ((approver IS NULL) = (approval_id IS NULL) AND approver <> requester)
        )""")
    op.execute("CREATE INDEX period_events_period_idx ON books.period_events (company, period, id)")
    op.execute("""
        CREATE FUNCTION books.refuse_event_change() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            RAISE EXCEPTION 'books.period_events is append-only: % is refused to everybody', TG_OP
                USING ERRCODE = 'CH007', DETAIL = 'period_events';
        END $$""")
    op.execute("""
        CREATE TRIGGER period_events_append_only
        BEFORE UPDATE OR DELETE OR TRUNCATE ON books.period_events
        FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_event_change()""")
    op.execute("ALTER TABLE books.period_events ENABLE ALWAYS TRIGGER period_events_append_only")
    op.execute("REVOKE ALL ON FUNCTION books.refuse_event_change() FROM PUBLIC")
    op.execute("GRANT SELECT, INSERT ON books.period_events TO chot_app")
    op.execute("GRANT SELECT ON books.period_events TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.period_events")
    op.execute("DROP FUNCTION books.refuse_event_change()")
