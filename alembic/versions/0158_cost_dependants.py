"""Which cost documents hold what the goods of a document have cost: what its unposting must know.

`alone`: the cost document is of that slip only, and may be reversed with it; one of a store's day
or of a group of items holds the costs of other documents, too.
"""

from alembic import op

revision = "0158_cost_dependants"
down_revision = "0157_cost_documents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""
        CREATE FUNCTION books.cost_dependants(company text, document_ids bigint[])
        RETURNS TABLE (document_id bigint, cost_document_id bigint, alone boolean)
        LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
            SELECT DISTINCT d.id, c.document_id, c.key LIKE 'S-%'
              FROM unnest($2) AS w (id)
             CROSS JOIN LATERAL (
                   SELECT d.id, d.doc_no, d.type FROM books.documents d
                    WHERE d.id = w.id AND d.company = $1 OFFSET 0) AS d
             CROSS JOIN LATERAL (
                   SELECT m.item, m.store, m.doc_id, m.posting_date FROM books.stock_movements m
                    WHERE m.company = $1 AND m.doc_id = d.doc_no
                      AND m.kind = CASE d.type WHEN 'sale' THEN 'issue'
                                               WHEN 'sale_return' THEN 'sales_return'
                                               ELSE d.type END OFFSET 0) AS m
              JOIN books.items i ON i.company = $1 AND i.code = m.item
              JOIN books.periods p ON p.company = $1
               AND m.posting_date BETWEEN p.starts_on AND p.ends_on
              JOIN books.cost_documents c ON c.company = $1 AND c.period = p.period AND c.standing
               AND c.key IN ('S-' || to_char(m.posting_date, 'DD-') || m.doc_id,
                             'D-' || to_char(m.posting_date, 'DD-') || m.store,
                             'N-' || coalesce(i.item_group, ''))
              JOIN books.documents cd ON cd.id = c.document_id AND cd.status = 'posted'
             WHERE EXISTS (SELECT FROM books.document_lines l
                            WHERE l.document_id = c.document_id AND l.item = m.item)
        $$""")
    op.execute("REVOKE ALL ON FUNCTION books.cost_dependants(text, bigint[]) FROM PUBLIC")
    op.execute("""
        GRANT EXECUTE ON FUNCTION books.cost_dependants(text, bigint[]) TO chot_app, chot_read""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("DROP FUNCTION books.cost_dependants(text, bigint[])")
