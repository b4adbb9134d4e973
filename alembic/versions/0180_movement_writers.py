"""Who wrote a movement: a job that brought it (an import, a backfill), or whoever keeps the books.

Nobody writes a line again that a job has brought: the statement is refused. It looks behind the gate
of the period, as a new statement; who brings lines holds the gate alone while it looks whether anybody
has written them meanwhile, and commits: of the two one always sees the other. The same line: document,
line, kind, item and store; an opening also by its day and place and what lies there. What was
taken back is not there any more.

No unique key says so: an ERP may number as it likes, and a line that was taken back may be written
anew. Rows of before have no job: nothing is asked of them.
"""

from alembic import op

revision = "0180_movement_writers"
down_revision = "0179_contributed_capital"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.stock_movements ADD COLUMN IF NOT EXISTS job_id uuid")
    op.execute("GRANT INSERT (job_id) ON books.stock_movements TO chot_app")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_brought_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY stock_movements_brought_idx
                ON books.stock_movements (doc_id, doc_line, kind, company)
             WHERE job_id IS NOT NULL""")
    op.execute("SET LOCAL lock_timeout = '800ms'")
    # Scalar subqueries, and no column of another index as it is: no statistics can prefer one that
    # reads all of a company for each row.
    op.execute("""
        CREATE OR REPLACE FUNCTION books.refuse_brought_movements() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off AS $$
        DECLARE stray record;
        BEGIN
            SELECT f.doc_id, f.doc_line, f.kind, f.item, f.there INTO stray
              FROM (SELECT n.id, n.doc_id, n.doc_line, n.kind, n.item, coalesce(
                           (SELECT m.id FROM books.stock_movements m
                             WHERE m.doc_id = n.doc_id AND m.doc_line = n.doc_line
                               AND m.kind = n.kind AND m.job_id IS NOT NULL
                               AND m.company || '' = n.company AND m.item || '' = n.item
                               AND m.store || '' = n.store AND m.reverses_movement_id IS NULL
                               AND (SELECT true FROM books.stock_movements b
                                     WHERE b.reverses_movement_id = m.id) IS NULL
                             LIMIT 1),
                           CASE WHEN n.kind = 'opening' THEN (
                            SELECT m.id FROM books.stock_movements m
                             WHERE m.kind = 'opening' AND m.item = n.item AND m.store = n.store
                               AND m.posting_date = n.posting_date AND m.job_id IS NOT NULL
                               AND m.company || '' = n.company
                               AND m.lot_id IS NOT DISTINCT FROM n.lot_id
                               AND (m.qty_base, m.value) = (n.qty_base, n.value)
                               AND m.reverses_movement_id IS NULL
                               AND (SELECT true FROM books.stock_movements b
                                     WHERE b.reverses_movement_id = m.id) IS NULL
                             LIMIT 1) END) AS there
                      FROM fresh n
                     WHERE n.job_id IS NULL AND n.reverses_movement_id IS NULL) f
             WHERE f.there IS NOT NULL ORDER BY f.id LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'MOVEMENT_THERE: the % of item % of document %, line %, is in the '
                    'books already: a job has brought it, as movement %', stray.kind,
                    quote_literal(stray.item), quote_literal(stray.doc_id), stray.doc_line,
                    stray.there USING ERRCODE = 'CH108', DETAIL = 'doc_id';
            END IF;
            RETURN NULL;
        END $$""")
    op.execute("REVOKE ALL ON FUNCTION books.refuse_brought_movements() FROM PUBLIC")
    # By their names triggers fire: behind that of the gate, which has locked the periods.
    op.execute("""
        CREATE TRIGGER stock_movements_repeated AFTER INSERT ON books.stock_movements
        REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION books.refuse_brought_movements()""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP TRIGGER IF EXISTS stock_movements_repeated ON books.stock_movements")
    op.execute("DROP FUNCTION IF EXISTS books.refuse_brought_movements()")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS books.stock_movements_brought_idx")
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("ALTER TABLE books.stock_movements DROP COLUMN IF EXISTS job_id")
