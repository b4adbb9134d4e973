"""How an item is costed, and from which day on: decisions that are kept and never changed.

A change within a fiscal year breaks consistency: it is refused, or is taken with its reason.
"""

from alembic import op

revision = "0116_costing_methods"
down_revision = "0115_shared_pools"
branch_labels = None
depends_on = None

METHOD_ON = "books.costing_method_on(text, text, date)"
DECIDE = "books.decide_costing_method(text, text, date, text, boolean, text, text)"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        ALTER TABLE books.companies ADD COLUMN fiscal_year_start_month smallint NOT NULL DEFAULT 1
            CONSTRAINT companies_fiscal_year_check CHECK (fiscal_year_start_month BETWEEN 1 AND 12)
        """)
    op.execute("""
        CREATE TABLE books.costing_methods (
            id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            company     text COLLATE "C" NOT NULL,
            item        text COLLATE "C" NOT NULL,
            valid_from  date NOT NULL,
            method      text NOT NULL CONSTRAINT costing_methods_method_check
                CHECK (method IN ('periodic_avg', 'moving_avg', 'fifo', 'specific')),
            mid_year    boolean NOT NULL,
            reason      text CHECK (octet_length(reason) <= 2000),
            decided_by  text NOT NULL CHECK (octet_length(decided_by) <= 200),
            decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            FOREIGN KEY (company, item) REFERENCES books.items,
            CONSTRAINT costing_methods_mid_year_check CHECK (NOT mid_year OR reason <> '')
        )""")
    op.execute("""
        CREATE INDEX costing_methods_item_idx
            ON books.costing_methods (company, item, valid_from, id)""")
    op.execute("GRANT SELECT ON books.costing_methods TO chot_app, chot_read")
    op.execute("""
        CREATE FUNCTION books.costing_method_on(company text, item text, day date) RETURNS text
        LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
            SELECT coalesce(
                (SELECT m.method FROM books.costing_methods m
                  WHERE m.company = $1 AND m.item = $2 AND m.valid_from <= $3
                  ORDER BY m.valid_from DESC, m.id DESC LIMIT 1),
                (SELECT i.costing_method FROM books.items i
                  WHERE i.company = $1 AND i.code = $2)) $$""")
    _decide()
    op.execute(f"REVOKE ALL ON FUNCTION {METHOD_ON}, {DECIDE} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {METHOD_ON} TO chot_app, chot_read")
    op.execute(f"GRANT EXECUTE ON FUNCTION {DECIDE} TO chot_app")


def _decide() -> None:
    # Periods are locked before they are judged: one that is being closed is waited for.
    op.execute("""
        CREATE FUNCTION books.decide_costing_method(
            company text, item text, valid_from date, method text, mid_year boolean, reason text,
            decided_by text) RETURNS text
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        DECLARE
            year_starts smallint;
            former text;
            spot record;
        BEGIN
            SELECT c.fiscal_year_start_month INTO year_starts
              FROM books.companies c WHERE c.code = company;
            PERFORM 1 FROM books.items i
              WHERE i.company = company AND i.code = item FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'ITEM_UNKNOWN: % is no item of company %',
                    coalesce(quote_literal(item), 'null'), coalesce(quote_literal(company), 'null')
                    USING ERRCODE = 'CH103', DETAIL = 'item';
            END IF;
            former := books.costing_method_on(company, item, valid_from);
            IF former = method THEN
                RETURN former;
            END IF;
            FOR spot IN
                SELECT p.period, p.status, p.starts_on FROM books.periods p
                 WHERE p.company = company AND p.ends_on >= valid_from
                 ORDER BY p.period FOR KEY SHARE
            LOOP
                IF spot.status <> 'open' THEN
                    RAISE EXCEPTION 'PERIOD_CLOSED: period % of company % is %', spot.period,
                        quote_literal(company), spot.status USING ERRCODE = 'CH101';
                END IF;
                IF spot.starts_on < valid_from AND valid_from <= (
                        SELECT p.ends_on FROM books.periods p
                         WHERE p.company = company AND p.period = spot.period) THEN
                    RAISE EXCEPTION 'METHOD_NOT_AT_PERIOD_START: % lies within period %, which '
                        'is costed by one method', valid_from, spot.period
                        USING ERRCODE = 'CH121', DETAIL = 'valid_from';
                END IF;
            END LOOP;
            IF NOT mid_year AND (extract(day FROM valid_from) <> 1
                                 OR extract(month FROM valid_from) <> year_starts) THEN
                RAISE EXCEPTION 'METHOD_CHANGE_MID_YEAR: % is costed by % and the fiscal year does '
                    'not start on %; say mid_year with a reason', quote_literal(item), former,
                    valid_from USING ERRCODE = 'CH120', DETAIL = 'valid_from';
            END IF;
            INSERT INTO books.costing_methods
                   (company, item, valid_from, method, mid_year, reason, decided_by)
            VALUES (company, item, valid_from, method, mid_year, reason, decided_by);
            RETURN former;
        END $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute(f"DROP FUNCTION {DECIDE}")
    op.execute(f"DROP FUNCTION {METHOD_ON}")
    op.execute("DROP TABLE books.costing_methods")
    op.execute("ALTER TABLE books.companies DROP COLUMN fiscal_year_start_month")
