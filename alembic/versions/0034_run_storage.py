"""Partitions of a cost run: made and dropped by the owner's functions, since app runs no DDL.

A partition is made beside its parent (LIKE), proves its own rows by a CHECK and is attached, which
locks out no reader and no writer. Dropping one needs the parent for a moment: it gives up after a
second instead of queueing everybody behind it, and is tried again at the next run.
"""

from alembic import op

revision = "0034_run_storage"
down_revision = "0033_active_results"
branch_labels = None
depends_on = None

PARENTS = "ARRAY['movement_costs', 'store_balances']"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"""
        CREATE FUNCTION books.open_run_storage(run bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
        DECLARE
            parent text;
            part text;
        BEGIN
            IF NOT EXISTS (SELECT FROM books.cost_runs WHERE id = run AND status = 'building') THEN
                RAISE EXCEPTION 'RUN_NOT_BUILDING: cost run % is not being built', run
                    USING ERRCODE = 'CH105';
            END IF;
            FOREACH parent IN ARRAY {PARENTS} LOOP
                part := parent || '_r' || run;
                EXECUTE format('CREATE TABLE books.%I (LIKE books.%I INCLUDING ALL)', part, parent);
                EXECUTE format('ALTER TABLE books.%I ADD CONSTRAINT %I CHECK (run_id = %s)',
                               part, part || '_run_check', run);
                EXECUTE format('ALTER TABLE books.%I ATTACH PARTITION books.%I FOR VALUES IN (%s)',
                               parent, part, run);
            END LOOP;
        END $$""")
    op.execute(f"""
        CREATE FUNCTION books.drop_run_storage(run bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
        DECLARE parent text;
        BEGIN
            -- The row lock keeps the run from becoming active between the look and the drop.
            PERFORM 1 FROM books.cost_runs
              WHERE id = run AND status IN ('superseded', 'failed') FOR NO KEY UPDATE;
            IF NOT FOUND OR EXISTS (SELECT FROM books.active_results WHERE run_id = run) THEN
                RAISE EXCEPTION 'RUN_IN_USE: cost run % is being built or still speaks for items',
                    run USING ERRCODE = 'CH105';
            END IF;
            DELETE FROM books.cost_run_items WHERE run_id = run;
            DELETE FROM books.pool_results WHERE run_id = run;
            DELETE FROM books.item_errors WHERE run_id = run;
            FOREACH parent IN ARRAY {PARENTS} LOOP
                EXECUTE format('DROP TABLE IF EXISTS books.%I', parent || '_r' || run);
            END LOOP;
        END $$""")
    for name in ("open_run_storage", "drop_run_storage"):
        op.execute(f"REVOKE ALL ON FUNCTION books.{name}(bigint) FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION books.{name}(bigint) TO chot_app")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION books.drop_run_storage(bigint)")
    op.execute("DROP FUNCTION books.open_run_storage(bigint)")
