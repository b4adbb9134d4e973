"""The order of periods: none is closed before an earlier one, however its status is written.

The latest closed one is reopened first, and no earlier period is made behind closed ones. Two
statements that would each be right alone (closing February, reopening January) take turns, and the
second one sees what the first has done.
"""

from alembic import op

revision = "0129_period_order"
down_revision = "0128_period_events"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.refuse_disordered_periods() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE stray record;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'ISOLATION_REFUSED: books are written at READ COMMITTED only'
                    USING ERRCODE = 'CH104';
            END IF;
            PERFORM pg_advisory_xact_lock(hashtextextended('books.periods', 0));
            SELECT p.company, min(p.period) FILTER (WHERE p.status <> 'closed') AS not_closed,
                   max(p.period) FILTER (WHERE p.status = 'closed') AS closed INTO stray
              FROM books.periods p
             WHERE p.company IN (SELECT m.company FROM made m)
             GROUP BY p.company
            HAVING min(p.period) FILTER (WHERE p.status <> 'closed')
                 < max(p.period) FILTER (WHERE p.status = 'closed')
             ORDER BY p.company LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'PERIOD_ORDER: period % of company % is closed and period % is not',
                    stray.closed, quote_literal(stray.company), stray.not_closed
                    USING ERRCODE = 'CH107';
            END IF;
            RETURN NULL;
        END $$""")
    for what in ("INSERT", "UPDATE"):
        op.execute(f"""
            CREATE TRIGGER periods_order_{what.lower()} AFTER {what} ON books.periods
            REFERENCING NEW TABLE AS made
            FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_disordered_periods()""")
    op.execute("REVOKE ALL ON FUNCTION books.refuse_disordered_periods() FROM PUBLIC")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    for what in ("insert", "update"):
        op.execute(f"DROP TRIGGER periods_order_{what} ON books.periods")
    op.execute("DROP FUNCTION books.refuse_disordered_periods()")
