"""Cost documents of a slip are of its type, too; a line of one says its role beside its words.

A sale and a transfer of one number and day had their costs in one document that was taken for the
sale's alone. And `memo` was the role's code, which no accountant reads: it has words now, and
`role` what the next posting of costs goes by.
"""

from alembic import op

revision = "0178_slip_costs"
down_revision = "0177_posted_versions"
branch_labels = None
depends_on = None

# What a document of a type has its slip's costs under: with or without the type.
KEYS = {"typed": "d.type || '-' || m.doc_id", "untyped": "m.doc_id"}
KEPT = ("insert", "update", "delete")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    op.execute("""ALTER TABLE books.document_lines ADD COLUMN role text COLLATE "C" """)
    for what in KEPT:
        op.execute(f"ALTER TABLE books.document_lines DISABLE TRIGGER document_lines_kept_{what}")
    op.execute("""
        UPDATE books.document_lines l SET role = l.memo
          FROM books.documents d WHERE d.id = l.document_id AND d.type = 'cost'""")
    for what in KEPT:
        op.execute(f"ALTER TABLE books.document_lines ENABLE TRIGGER document_lines_kept_{what}")
    _dependants("typed")


def _dependants(keys: str) -> None:
    op.execute(f"""
        CREATE OR REPLACE FUNCTION books.cost_dependants(company text, document_ids bigint[])
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
               AND c.key IN ('S-' || to_char(m.posting_date, 'DD-') || {KEYS[keys]},
                             'D-' || to_char(m.posting_date, 'DD-') || m.store,
                             'N-' || coalesce(i.item_group, ''))
              JOIN books.documents cd ON cd.id = c.document_id AND cd.status = 'posted'
             WHERE EXISTS (SELECT FROM books.document_lines l
                            WHERE l.document_id = c.document_id AND l.item = m.item)
        $$""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    _dependants("untyped")
    op.execute("ALTER TABLE books.document_lines DROP COLUMN role")
