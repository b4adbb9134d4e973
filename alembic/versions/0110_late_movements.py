"""Late movements: which items got movements after their period was costed.

A row says that the active results of an item of a brand no longer hold all that is posted. Who
activates a run holds the period's gate alone and has just found nothing that it has not read, so
it deletes every row of its items; a row that is there means dirty, and no snapshot is compared.
An item that no run has costed yet is late too as soon as its brand has results of the period.

The trigger passes after the gate (triggers fire in the order of their names), looks once a
statement, and writes a row for an item that has none: a stream of sales adds one row an item.
Two writers at once may add one each; neither waits for the other.
"""

from alembic import op

revision = "0110_late_movements"
down_revision = "0105_archived_members"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE TABLE books.late_movements (
            company  text COLLATE "C" NOT NULL,
            period   text COLLATE "C" NOT NULL,
            brand    text COLLATE "C" NOT NULL,
            item     text COLLATE "C" NOT NULL,
            xid      xid8 NOT NULL,
            PRIMARY KEY (company, period, brand, item, xid)
        )""")
    op.execute("GRANT SELECT, DELETE ON books.late_movements TO chot_app")
    op.execute("GRANT SELECT ON books.late_movements TO chot_read")
    op.execute("""
        CREATE FUNCTION books.note_late_movements() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        -- Whatever statistics say while a first load is under way: look things up by their keys,
        -- and hash a statement's rows instead of sorting them.
        SET enable_seqscan = off SET enable_sort = off AS $$
        BEGIN
            -- Days and brands are few and tell almost always that nothing is costed yet.
            WITH spoken AS MATERIALIZED (
                SELECT p.company, p.period, p.starts_on, p.ends_on, b.code AS brand
                  FROM (SELECT company, min(posting_date) AS first, max(posting_date) AS last
                          FROM fresh GROUP BY company) f
                  JOIN books.periods p ON p.company = f.company
                   AND p.starts_on <= f.last AND p.ends_on >= f.first
                  JOIN books.brands b ON b.company = p.company
                 WHERE (SELECT true FROM books.active_results a
                         WHERE a.company = p.company AND a.brand = b.code
                           AND a.period = p.period LIMIT 1))
            INSERT INTO books.late_movements (company, period, brand, item, xid)
            SELECT n.company, n.period, n.brand, n.item, pg_current_xact_id()
              FROM (SELECT DISTINCT s.company, s.period, s.brand, f.item
                      FROM spoken s
                      JOIN (SELECT company, brand, item, posting_date FROM fresh
                            UNION ALL
                            SELECT company, to_brand, item, posting_date FROM fresh
                             WHERE to_brand <> brand) f
                        ON f.company = s.company AND f.brand = s.brand
                       AND f.posting_date BETWEEN s.starts_on AND s.ends_on) n
             WHERE (SELECT true FROM books.late_movements l
                     WHERE l.company = n.company AND l.period = n.period
                       AND l.brand = n.brand AND l.item = n.item LIMIT 1) IS NULL
            ON CONFLICT DO NOTHING;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.note_late_movements() FROM PUBLIC")
    op.execute("""
        CREATE TRIGGER stock_movements_late AFTER INSERT ON books.stock_movements
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.note_late_movements()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER stock_movements_late ON books.stock_movements")
    op.execute("DROP FUNCTION books.note_late_movements()")
    op.execute("DROP TABLE books.late_movements")
