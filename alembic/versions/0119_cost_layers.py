"""Layers: what is left of each receipt at a period's end, for first in first out and for lots.

They come and go with the rows of their run. A preview's rows go when it ends, but for what it found.
"""

from alembic import op

revision = "0119_cost_layers"
down_revision = "0118_run_scope"
branch_labels = None
depends_on = None

PARENTS = "ARRAY['movement_costs', 'store_balances'{more}]"
OPEN = """
    CREATE OR REPLACE FUNCTION books.open_run_storage(run bigint) RETURNS void
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
            FOREACH parent IN ARRAY {parents} LOOP
                part := parent || '_r' || run;
                EXECUTE format('CREATE TABLE books.%I (LIKE books.%I INCLUDING ALL)', part, parent);
                EXECUTE format('ALTER TABLE books.%I ADD CONSTRAINT %I CHECK (run_id = %s)',
                               part, part || '_run_check', run);
                EXECUTE format('ALTER TABLE books.%I ATTACH PARTITION books.%I FOR VALUES IN (%s)',
                               parent, part, run);
            END LOOP;
        END $$"""
DROP = """
    CREATE OR REPLACE FUNCTION books.drop_run_storage(run bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
        DECLARE {declare}
        BEGIN
            -- The row lock keeps the run from becoming active between the look and the drop.
            {look} FROM books.cost_runs
              WHERE id = run AND status IN ({ended}) FOR NO KEY UPDATE;
            IF NOT FOUND OR EXISTS (SELECT FROM books.active_results WHERE run_id = run) THEN
                RAISE EXCEPTION 'RUN_IN_USE: cost run % is being built or still speaks for items',
                    run USING ERRCODE = 'CH105';
            END IF;
            DELETE FROM books.cost_run_items WHERE run_id = run;
            DELETE FROM books.pool_results WHERE run_id = run;
            {errors}
            FOREACH parent IN ARRAY {parents} LOOP
                EXECUTE format('DROP TABLE IF EXISTS books.%I', parent || '_r' || run);
            END LOOP;
        END $$"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # `number`: the order in which the layers of a pool leave it.
    op.execute("""
        CREATE TABLE books.cost_layers (
            run_id              bigint NOT NULL,
            qty                 bigint NOT NULL,
            value               bigint NOT NULL,
            origin_movement_id  bigint,
            number              integer NOT NULL,
            received_on         date,
            brand               text COLLATE "C" NOT NULL,
            item                text COLLATE "C" NOT NULL,
            pool                text COLLATE "C" NOT NULL,
            lot                 text COLLATE "C",
            PRIMARY KEY (run_id, brand, item, pool, number),
            CONSTRAINT cost_layers_left_check CHECK (qty > 0 AND value >= 0)
        ) PARTITION BY LIST (run_id)""")
    op.execute("GRANT SELECT, INSERT, DELETE ON books.cost_layers TO chot_app")
    op.execute("GRANT SELECT ON books.cost_layers TO chot_read")
    parents = PARENTS.format(more=", 'cost_layers'")
    op.execute(OPEN.format(parents=parents))
    op.execute(
        DROP.format(
            parents=parents,
            declare="parent text; ended text;",
            look="SELECT status INTO ended",
            ended="'superseded', 'failed', 'previewed'",
            errors="""IF ended <> 'previewed' THEN
                DELETE FROM books.item_errors WHERE run_id = run;
            END IF;""",
        )
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    parents = PARENTS.format(more="")
    op.execute(OPEN.format(parents=parents))
    op.execute(
        DROP.format(
            parents=parents,
            declare="parent text;",
            look="PERFORM 1",
            ended="'superseded', 'failed'",
            errors="DELETE FROM books.item_errors WHERE run_id = run;",
        )
    )
    op.execute("DROP TABLE books.cost_layers")
