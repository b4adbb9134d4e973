"""Groups go when neither table nor archive knows a job of theirs; tables that lose as many rows as
they get are vacuumed by their rows, not by a fifth of what they hold.
"""

from alembic import op

revision = "0195_group_retention"
down_revision = "0194_audit_months"
branch_labels = None
depends_on = None

VACUUM = {
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_cost_delay": "0",
}
# As 0003 has them for chot.jobs: what comes and goes with every job.
TURNED_OVER = (
    "chot.job_payloads",
    "chot.job_outputs",
    "chot.attempts",
    "chot.job_locks",
    "chot.lock_roots",
    "chot.idempotency_keys",
    "chot.lease_losses",
    "chot.job_minutes",
    "books.posting_items",
    "books.posting_lines",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for table in TURNED_OVER:
        parameters = ", ".join(f"{name} = {value}" for name, value in VACUUM.items())
        op.execute(f"ALTER TABLE {table} SET ({parameters})")
    op.execute("""
        CREATE FUNCTION chot.remove_groups(after uuid, age interval, most integer)
        RETURNS TABLE (removed integer, last uuid)
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_column
        DECLARE
            ids uuid[];
            gone integer;
            before timestamptz := clock_timestamp() - remove_groups.age;
        BEGIN
            SELECT array_agg(id) INTO ids
              FROM (SELECT id FROM chot.groups WHERE id > remove_groups.after
                     ORDER BY id LIMIT remove_groups.most) AS w;
            DELETE FROM chot.groups WHERE id IN (
                SELECT g.id FROM chot.groups g
                 WHERE g.id = ANY(ids) AND g.state = 'ended' AND g.ended_at < before
                   AND NOT g.join_due
                   AND NOT EXISTS (SELECT FROM chot.jobs j WHERE j.group_id = g.id)
                   AND NOT EXISTS (SELECT FROM chot.jobs j WHERE j.id = g.join_job_id)
                   AND NOT EXISTS (SELECT FROM chot.archived_jobs a WHERE a.id = g.join_job_id)
                   AND NOT EXISTS (SELECT FROM chot.archived_jobs a
                                    WHERE (a.job ->> 'group_id') = g.id::text)
                 FOR UPDATE SKIP LOCKED);
            GET DIAGNOSTICS gone = ROW_COUNT;
            RETURN QUERY SELECT gone, ids[cardinality(ids)]
                          WHERE cardinality(ids) = remove_groups.most
                          UNION ALL
                         SELECT gone, NULL
                          WHERE coalesce(cardinality(ids), 0) < remove_groups.most;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION chot.remove_groups(uuid, interval, integer) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION chot.remove_groups(uuid, interval, integer) TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION chot.remove_groups(uuid, interval, integer)")
    for table in TURNED_OVER:
        op.execute(f"ALTER TABLE {table} RESET ({', '.join(VACUUM)})")
