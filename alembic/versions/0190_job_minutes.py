"""Jobs by state over the last day, a row a minute: for the charts of the overview.

What has ended is known to the endings (0052): they say when, of which queue and whose, too. What
waits, runs or is dead is counted once a minute. 25 hours are kept, so that the table is bounded.
"""

from alembic import op

revision = "0190_job_minutes"
down_revision = "0189_session_secrets"
branch_labels = None
depends_on = None

NOTE = """
        CREATE OR REPLACE FUNCTION chot.note_ending() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            {};
            RETURN NULL;
        END $$"""
WITH_MINUTE = """INSERT INTO chot.endings (kind, state, at, queue, company, brand)
            VALUES (NEW.kind, NEW.state, clock_timestamp(), NEW.queue, NEW.company, NEW.brand)"""
WITHOUT = "INSERT INTO chot.endings (kind, state) VALUES (NEW.kind, NEW.state)"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE chot.endings ADD COLUMN at timestamptz, ADD COLUMN queue text,
            ADD COLUMN company text, ADD COLUMN brand text""")
    op.execute(NOTE.format(WITH_MINUTE))
    # '' is no brand: a key must not be NULL. 'sampled' says that the minute was looked at.
    op.execute("""
        CREATE TABLE chot.job_minutes (
            minute  timestamptz NOT NULL,
            queue   text NOT NULL,
            company text NOT NULL,
            brand   text NOT NULL,
            state   text NOT NULL CHECK (state IN
                        ('sampled', 'pending', 'running', 'dead', 'succeeded', 'cancelled')),
            jobs    bigint NOT NULL CHECK (jobs >= 0),
            PRIMARY KEY (minute, queue, company, brand, state)
        )""")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON chot.job_minutes TO chot_app")
    op.execute("GRANT SELECT ON chot.job_minutes TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.job_minutes")
    op.execute(NOTE.format(WITHOUT))
    op.execute("""
        ALTER TABLE chot.endings DROP COLUMN at, DROP COLUMN queue, DROP COLUMN company,
            DROP COLUMN brand""")
