"""Alerts: which rules are broken and since when, who is still to be told, what is silenced.

An evaluator writes them, in one process at a time: whoever gets the row of its turn. A notice is
the latest news of one alert for one channel, and stands here until the channel has taken it.
"""

from alembic import op

revision = "0186_alerts"
down_revision = "0185_duplicates"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE chot.turns (
            name text PRIMARY KEY,
            at   timestamptz NOT NULL DEFAULT '-infinity'
        )""")
    op.execute("INSERT INTO chot.turns (name) VALUES ('alerts'), ('cloudwatch')")
    # `fired_at` is empty while a rule has not been broken for long enough; `clear_since` is when it
    # was last found to be kept again.
    op.execute("""
        CREATE TABLE chot.alerts (
            rule        text NOT NULL CHECK (length(rule) <= 40),
            subject     text NOT NULL CHECK (length(subject) <= 300),
            severity    text NOT NULL CHECK (length(severity) <= 20),
            incident    uuid NOT NULL,
            value       double precision NOT NULL,
            since       timestamptz NOT NULL,
            fired_at    timestamptz,
            clear_since timestamptz,
            resolved_at timestamptz,
            told_at     timestamptz,
            PRIMARY KEY (rule, subject),
            CONSTRAINT alerts_resolved_check CHECK (resolved_at IS NULL OR fired_at IS NOT NULL)
        )""")
    op.execute("""
        CREATE TABLE chot.alert_silences (
            rule      text PRIMARY KEY CHECK (length(rule) <= 40),
            until     timestamptz NOT NULL,
            principal text NOT NULL,
            reason    text CHECK (length(reason) <= 500),
            made_at   timestamptz NOT NULL DEFAULT clock_timestamp()
        )""")
    # Written by the processes that have a channel, so that any of them may find what to tell.
    op.execute("""
        CREATE TABLE chot.alert_channels (
            channel      text PRIMARY KEY CHECK (channel IN ('webhook', 'sns')),
            seen_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            delivered_at timestamptz,
            failed_at    timestamptz,
            last_error   text CHECK (length(last_error) <= 500)
        )""")
    op.execute("""
        CREATE TABLE chot.alert_notices (
            channel     text NOT NULL REFERENCES chot.alert_channels ON DELETE CASCADE,
            rule        text NOT NULL,
            subject     text NOT NULL,
            version     bigint NOT NULL DEFAULT 1,
            body        jsonb NOT NULL,
            made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            next_try_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            tries       integer NOT NULL DEFAULT 0,
            PRIMARY KEY (channel, rule, subject)
        )""")
    op.execute("GRANT SELECT, UPDATE ON chot.turns TO chot_app")
    op.execute("""
        GRANT SELECT, INSERT, UPDATE, DELETE
            ON chot.alerts, chot.alert_silences, chot.alert_channels, chot.alert_notices
            TO chot_app""")
    op.execute("""
        GRANT SELECT ON chot.turns, chot.alerts, chot.alert_silences, chot.alert_channels,
                        chot.alert_notices TO chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE chot.alert_notices, chot.alert_channels, chot.alert_silences")
    op.execute("DROP TABLE chot.alerts, chot.turns")
