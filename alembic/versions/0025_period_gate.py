"""The period gate: no movement enters a period that is not open, however it is written.

One trigger a statement with a transition table (a row trigger costs a COPY seven times as much).
For each period, in order: the advisory lock shared, then *as a new statement* the open row. Who
closes a period, or publishes a result over it, takes the same lock exclusively; it queues fairly,
where a row lock alone starves under a stream of writers. A transaction above READ COMMITTED would
look at the period as it was before the close, so it is refused.
"""

from alembic import op

revision = "0025_period_gate"
down_revision = "0024_stock_movements"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.period_gate_key(company text, period text) RETURNS bigint
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
        RETURN hashtextextended('books.period/' || company || '/' || period, 0)""")
    op.execute("""
        CREATE FUNCTION books.pass_period_gate() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE
            gate record;
            stray record;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'ISOLATION_REFUSED: books are written at READ COMMITTED only'
                    USING ERRCODE = 'CH104';
            END IF;
            SELECT f.company, f.posting_date INTO stray
              FROM (SELECT DISTINCT company, posting_date FROM fresh) f
             WHERE NOT EXISTS (SELECT FROM books.periods p WHERE p.company = f.company
                                  AND f.posting_date BETWEEN p.starts_on AND p.ends_on)
             ORDER BY f.company, f.posting_date LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'PERIOD_UNKNOWN: company % has no period that holds %',
                    quote_literal(stray.company), stray.posting_date USING ERRCODE = 'CH102';
            END IF;
            FOR gate IN
                SELECT DISTINCT p.company, p.period
                  FROM (SELECT DISTINCT company, posting_date FROM fresh) f
                  JOIN books.periods p ON p.company = f.company
                   AND f.posting_date BETWEEN p.starts_on AND p.ends_on
                 ORDER BY p.company, p.period
            LOOP
                PERFORM pg_advisory_xact_lock_shared(
                    books.period_gate_key(gate.company, gate.period));
                PERFORM 1 FROM books.periods p
                  WHERE p.company = gate.company AND p.period = gate.period AND p.status = 'open'
                    FOR KEY SHARE;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'PERIOD_CLOSED: period % of company % is not open',
                        gate.period, quote_literal(gate.company) USING ERRCODE = 'CH101';
                END IF;
            END LOOP;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.pass_period_gate() FROM PUBLIC")
    op.execute("REVOKE ALL ON FUNCTION books.period_gate_key(text, text) FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION books.period_gate_key(text, text) TO chot_app")
    op.execute("""
        CREATE TRIGGER stock_movements_gate AFTER INSERT ON books.stock_movements
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.pass_period_gate()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER stock_movements_gate ON books.stock_movements")
    op.execute("DROP FUNCTION books.pass_period_gate()")
    op.execute("DROP FUNCTION books.period_gate_key(text, text)")
