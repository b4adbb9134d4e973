"""Accounting periods: days that never overlap, and the row every writer of books passes by."""

from alembic import op

revision = "0023_periods"
down_revision = "0022_cost_pool_map"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.periods (
            company    text COLLATE "C" NOT NULL REFERENCES books.companies,
            period     text COLLATE "C" NOT NULL
                CONSTRAINT periods_name_check CHECK (period ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),
            starts_on  date NOT NULL,
            ends_on    date NOT NULL,
            status     text NOT NULL DEFAULT 'open'
                CONSTRAINT periods_status_check CHECK (status IN ('open', 'closing', 'closed')),
            version    integer NOT NULL DEFAULT 1 CHECK (version > 0),
            PRIMARY KEY (company, period),
            CONSTRAINT periods_days_check CHECK (starts_on <= ends_on)
        )""")
    # A range exclusion would need the extension btree_gist; periods are few and made rarely.
    op.execute("""
        CREATE FUNCTION books.refuse_overlapping_periods() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE twin record;
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('books.periods', 0));
            SELECT a.company, a.period AS one, b.period AS other INTO twin
              FROM made m
              JOIN books.periods a ON a.company = m.company AND a.period = m.period
              JOIN books.periods b ON b.company = a.company AND b.period <> a.period
             WHERE (b.starts_on <= a.ends_on AND a.starts_on <= b.ends_on)
                OR (b.period < a.period) <> (b.starts_on < a.starts_on)
             LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'PERIOD_OVERLAP: periods % and % of company % overlap or are not '
                    'in the order of their names', twin.one, twin.other, quote_literal(twin.company)
                    USING ERRCODE = 'CH106';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("""
        CREATE TRIGGER periods_overlap AFTER INSERT ON books.periods
        REFERENCING NEW TABLE AS made
        FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_overlapping_periods()""")
    op.execute("REVOKE ALL ON FUNCTION books.refuse_overlapping_periods() FROM PUBLIC")
    op.execute("GRANT SELECT, INSERT, UPDATE (status, version) ON books.periods TO chot_app")
    op.execute("GRANT SELECT ON books.periods TO chot_read")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TABLE books.periods")
    op.execute("DROP FUNCTION books.refuse_overlapping_periods()")
