"""What the server is busy with, as one row: a migration waits while it is too much.

A view, so that an operator may replace it where the server tells it otherwise (a hosted replica
whose lag stands in a function of the provider's). What a role may not see is NULL, and keeps
nobody waiting.
"""

from alembic import op

revision = "0166_server_load"
down_revision = "0165_paused_jobs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE VIEW chot.server_load AS
        SELECT (SELECT extract(epoch FROM max(r.replay_lag))::double precision
                  FROM pg_stat_replication r) AS replica_lag_seconds,
               (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn))::bigint
                  FROM pg_replication_slots s WHERE NOT pg_is_in_recovery()) AS wal_kept_bytes,
               (SELECT CASE WHEN a.last_failed_time > coalesce(a.last_archived_time, '-infinity')
                            THEN a.last_failed_time END
                  FROM pg_stat_archiver a) AS wal_archive_failed_at,
               (SELECT sum(d.numbackends)::integer FROM pg_stat_database d) AS connections,
               current_setting('max_connections')::integer AS max_connections""")
    op.execute("GRANT SELECT ON chot.server_load TO chot_app, chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP VIEW chot.server_load")
