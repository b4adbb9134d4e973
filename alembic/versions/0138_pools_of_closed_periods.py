"""No store is moved to another pool in a period that is closed on what it has cost.

As with methods: the results would stay, and nobody could say any more by which pools. Only where
the row decides, on the period's first day, and where there are results. The period's row is locked
before it is judged: one that is being closed is waited for, or waits and then finds the change.
"""

from alembic import op

revision = "0138_pools_of_closed_periods"
down_revision = "0137_widest_at_last"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.refuse_pools_of_closed_periods() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE spot record;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'ISOLATION_REFUSED: books are written at READ COMMITTED only'
                    USING ERRCODE = 'CH104';
            END IF;
            PERFORM 1 FROM books.periods p
              WHERE EXISTS (SELECT FROM fresh f
                             WHERE f.company = p.company AND f.valid_from <= p.starts_on)
              ORDER BY p.company, p.period FOR KEY SHARE;
            -- A new statement: a row that was waited for is read as it is now.
            SELECT p.period, p.status, f.company, f.store INTO spot
              FROM fresh f
              JOIN books.stores s ON s.company = f.company AND s.code = f.store
              JOIN books.periods p ON p.company = f.company AND p.starts_on >= f.valid_from
             WHERE p.status <> 'open'
               AND NOT EXISTS (SELECT FROM books.cost_pool_map m
                                WHERE m.company = f.company AND m.store = f.store
                                  AND m.valid_from > f.valid_from AND m.valid_from <= p.starts_on)
               AND (SELECT true FROM books.active_results a
                     WHERE a.company = f.company AND a.brand = s.brand AND a.period = p.period
                     LIMIT 1)
             ORDER BY p.period, f.store LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'PERIOD_CLOSED: period % of company % is %, and store % would lie '
                    'in another pool than it was costed by', spot.period,
                    quote_literal(spot.company), spot.status, quote_literal(spot.store)
                    USING ERRCODE = 'CH101';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.refuse_pools_of_closed_periods() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER cost_pool_map_closed AFTER INSERT ON books.cost_pool_map
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_pools_of_closed_periods()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER cost_pool_map_closed ON books.cost_pool_map")
    op.execute("DROP FUNCTION books.refuse_pools_of_closed_periods()")
