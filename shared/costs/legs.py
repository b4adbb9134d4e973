"""What each costed movement must do to the ledger, so that stock there is what costing says.

A movement changes the value of a store's goods by its `effect`; of that its own document books
`stated` (a purchase puts its amount on stock by itself), and cost documents book the rest: legs
that add up to nothing, a debit above 0, a credit below. What prices moved between the stores of a
pool, and what rounding left, follows once a period from the closing balances (`rest`): so a
store's ledger is its closing value, in whatever pool it lies next.
"""

# Binds: company, period, starts_on, ends_on, items (None: all). Nothing is known of the sizes of
# what is put together here, so whoever runs it turns nested loops off (`BY_HASH`); what is few
# is looked up by its key all the same.
#
# Both rows of what was taken back within the period are as if they had never been. What a return
# to a supplier or a transfer has booked on stock is read from its document: a supplier credits
# what he wants. A draft counts as it will be posted, so that the order of postings matters little.
BY_HASH = "SELECT set_config('enable_nestloop', :setting, true)"
MOVED = """
    active AS MATERIALIZED (
        SELECT a.run_id, a.brand, a.item FROM books.active_results a
         WHERE a.company = :company AND a.period = :period AND NOT a.failed
           AND (CAST(:items AS text[]) IS NULL OR a.item = ANY (CAST(:items AS text[])))),
    moved AS MATERIALIZED (
        SELECT m.id, a.run_id, m.item, m.kind, m.posting_date AS day, m.doc_id, m.store, m.to_store,
               m.value AS own, c.value, c.variance, c.qty_diff, c.true_up,
               m.reverses_movement_id AS taken_back
          FROM active a
          JOIN books.movement_costs c
            ON c.run_id = a.run_id AND c.brand = a.brand AND c.item = a.item
          JOIN books.stock_movements m
            ON m.id = c.movement_id AND m.company = :company
           AND m.posting_date BETWEEN :starts_on AND :ends_on),
    firsts AS MATERIALIZED (
        SELECT m.taken_back AS id, o.posting_date AS day, o.value AS own, o.doc_id, o.brand, o.item
          FROM (SELECT taken_back FROM moved WHERE taken_back IS NOT NULL) AS m
         CROSS JOIN LATERAL (SELECT * FROM books.stock_movements o
                              WHERE o.id = m.taken_back OFFSET 0) AS o),
    costed AS MATERIALIZED (
        SELECT m.*, f.own AS first_own, coalesce(f.doc_id, m.doc_id) AS document,
               CASE WHEN m.taken_back IS NULL THEN 1 ELSE -1 END AS sign
          FROM moved m
          LEFT JOIN firsts f ON f.id = m.taken_back
          LEFT JOIN firsts t ON t.id = m.id
         WHERE (f.id IS NULL OR f.day NOT BETWEEN :starts_on AND :ends_on) AND t.id IS NULL),
    known AS MATERIALIZED (
        SELECT k.type, k.doc_no, k.item, k.store, sum(k.amount) AS amount
          FROM (SELECT d.type, d.doc_no, l.item, l.store, l.debit - l.credit AS amount
                  FROM books.gl_entries e
                  JOIN books.documents d
                    ON d.id = e.document_id AND d.type IN ('purchase_return', 'transfer')
                  JOIN books.gl_lines l ON l.entry_id = e.id
                  JOIN books.gl_accounts g
                    ON g.company = l.company AND g.code = l.account AND g.is_stock
                 WHERE e.company = :company AND e.posting_date BETWEEN :starts_on AND :ends_on
                UNION ALL
                SELECT d.type, d.doc_no, l.item, s.store, s.sign * CAST(coalesce(
                       l.net, floor(l.fc_net * d.fc_rate * 10 ^ c.minor_digits + 0.5), 0) AS bigint)
                  FROM books.documents d
                  JOIN books.companies c ON c.code = d.company
                  JOIN books.document_lines l ON l.document_id = d.id AND l.item IS NOT NULL
                 CROSS JOIN LATERAL (VALUES (coalesce(l.store, d.store), -1), (d.to_store, 1))
                       AS s (store, sign)
                 WHERE d.company = :company AND d.type IN ('purchase_return', 'transfer')
                   AND d.posting_date BETWEEN :starts_on AND :ends_on AND d.status = 'draft'
                   AND s.store IS NOT NULL) AS k
         GROUP BY k.type, k.doc_no, k.item, k.store),
    booked AS MATERIALIZED (
        SELECT c.id, CASE WHEN c.n = 1 THEN k.amount ELSE 0 * k.amount END AS here,
               CASE WHEN c.n = 1 THEN coalesce(t.amount, 0) ELSE 0 END AS there
          FROM (SELECT c.id, c.kind, c.document, c.item, c.store, c.to_store,
                       row_number() OVER (PARTITION BY c.kind, c.document, c.item, c.store,
                                                       c.to_store ORDER BY c.id) AS n
                  FROM costed c WHERE c.kind IN ('purchase_return', 'transfer')) AS c
          JOIN known k ON k.type = c.kind AND k.doc_no = c.document AND k.item = c.item
           AND k.store = c.store
          LEFT JOIN known t ON t.type = c.kind AND t.doc_no = c.document AND t.item = c.item
           AND t.store = c.to_store)"""

# What a return to a supplier left in variance when it was costed, for the row that takes it back.
_FIRST_VARIANCE = """
    first_variances AS MATERIALIZED (
        SELECT f.id, v.variance
          FROM (SELECT f.* FROM firsts f JOIN costed c ON c.taken_back = f.id
                 WHERE c.kind = 'purchase_return') AS f
         CROSS JOIN LATERAL (SELECT p.period FROM books.periods p
                              WHERE p.company = :company
                                AND f.day BETWEEN p.starts_on AND p.ends_on LIMIT 1) AS p
         CROSS JOIN LATERAL (SELECT a.run_id FROM books.active_results a
                              WHERE a.company = :company AND a.brand = f.brand
                                AND a.period = p.period AND a.item = f.item AND NOT a.failed
                             OFFSET 0) AS a
         CROSS JOIN LATERAL (SELECT v.variance FROM books.movement_costs v
                              WHERE v.run_id = a.run_id AND v.brand = f.brand AND v.item = f.item
                                AND v.movement_id = f.id OFFSET 0) AS v)"""
LEGS = f"""{MOVED},
    {_FIRST_VARIANCE},
    worth AS (
        SELECT c.*, coalesce(b.here, 0) AS here, coalesce(b.there, 0) AS there,
               CASE WHEN c.kind IN ('issue', 'consume', 'adjust_out', 'purchase_return')
                    THEN -c.sign * c.value
                    WHEN c.kind = 'landed_cost' THEN c.value
                    WHEN c.kind = 'count' THEN CASE WHEN c.qty_diff < 0 THEN -1 ELSE 1 END * c.value
                    ELSE c.sign * c.value END AS effect,
               CASE WHEN c.kind IN ('opening', 'receipt', 'landed_cost')
                    THEN c.sign * coalesce(c.first_own, c.own, c.value)
                    WHEN c.kind <> 'purchase_return' THEN 0
                    WHEN b.here IS NOT NULL THEN b.here
                    WHEN c.taken_back IS NULL THEN c.variance - c.value
                    ELSE c.value - coalesce(v.variance, 0) END AS stated,
               CASE WHEN c.kind IN ('adjust_in', 'sales_return', 'produce')
                    THEN -c.variance ELSE 0 END AS beyond
          FROM costed c
          LEFT JOIN booked b ON b.id = c.id
          LEFT JOIN first_variances v ON v.id = c.taken_back),
    legs AS (
        SELECT w.run_id, w.day, w.kind, w.doc_id, w.document, w.store AS at, w.item, x.role,
               x.store, x.amount, x.effect, x.stated,
               CASE WHEN w.kind = 'opening' AND w.sign > 0 AND x.role = 'stock' THEN w.value
                    ELSE 0 END AS opened
          FROM worth w
         CROSS JOIN LATERAL (
               SELECT 'stock' AS role, w.store, w.effect - w.stated - w.true_up AS amount,
                      w.effect - w.true_up AS effect, w.stated WHERE w.kind <> 'transfer'
               UNION ALL
               SELECT CASE w.kind WHEN 'issue' THEN 'cost_of_sales'
                                  WHEN 'sales_return' THEN 'cost_of_sales'
                                  WHEN 'consume' THEN 'production'
                                  WHEN 'produce' THEN 'production'
                                  WHEN 'adjust_in' THEN 'gain'
                                  WHEN 'adjust_out' THEN 'usage'
                                  WHEN 'count' THEN CASE WHEN w.effect < 0 THEN 'usage'
                                                         ELSE 'gain' END
                                  ELSE 'variance' END,
                      w.store, w.stated - w.effect + w.beyond, 0, 0 WHERE w.kind <> 'transfer'
               UNION ALL
               SELECT 'variance', w.store, -w.beyond, 0, 0 WHERE w.beyond <> 0
               UNION ALL
               SELECT 'true_up', CASE WHEN w.sign > 0 THEN coalesce(w.to_store, w.store)
                                      ELSE w.store END, w.true_up, 0, 0 WHERE w.true_up <> 0
               UNION ALL
               SELECT 'stock', t.store, t.effect - t.stated, t.effect, t.stated
                 FROM (VALUES (w.store, -w.effect - CASE WHEN w.sign < 0 THEN w.true_up ELSE 0 END,
                               w.here),
                              (w.to_store, w.effect - CASE WHEN w.sign > 0 THEN w.true_up ELSE 0
                                                      END, w.there)) AS t (store, effect, stated)
                WHERE w.kind = 'transfer'
               UNION ALL
               SELECT 'variance', w.store, w.here + w.there, 0, 0
                WHERE w.kind = 'transfer' AND w.here + w.there <> 0) AS x)"""

# The rest of every store: what is neither a movement's effect nor its opening (in which a result
# counts the opening movements of its own period, `opened`, which are effects here). Rounding that a
# policy keeps beside the movements stands at the last store of its pool. `alone`: of one brand.
REST = """
    effects AS MATERIALIZED (
        SELECT s.run_id, s.item, s.store, sum(s.effect) - sum(s.opened) AS effect FROM sums s
         WHERE s.role = 'stock' GROUP BY s.run_id, s.item, s.store),
    balances AS MATERIALIZED (
        SELECT b.run_id, b.item, b.store, b.pool, b.brand, b.v_opening, b.v_closing
          FROM active a
          JOIN books.store_balances b
            ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item),
    left_over AS (
        SELECT run_id, item, store, 'stock' AS role,
               coalesce(b.v_closing, 0) - coalesce(b.v_opening, 0) - coalesce(e.effect, 0) AS amount
          FROM balances b FULL JOIN effects e USING (run_id, item, store)
        UNION ALL
        SELECT p.run_id, p.item, l.store, 'rounding', p.v_rounding
          FROM (SELECT DISTINCT p.run_id, p.item, p.pool, p.brand, p.v_rounding,
                       CASE WHEN p.pool LIKE '/%' THEN '' ELSE p.brand END AS home
                  FROM active a
                  JOIN books.pool_results p
                    ON p.run_id = a.run_id AND p.brand IN (a.brand, '') AND p.item = a.item
                 WHERE p.v_rounding <> 0) AS p
          JOIN (SELECT b.run_id, b.item, b.pool, max(b.store) AS store,
                       CASE WHEN b.pool LIKE '/%' THEN '' ELSE b.brand END AS home
                  FROM balances b GROUP BY b.run_id, b.item, b.pool, 5) AS l
            ON l.run_id = p.run_id AND l.item = p.item AND l.pool = p.pool AND l.home = p.home),
    by_brand AS (
        SELECT l.*, s.brand, sum(l.amount) OVER (PARTITION BY l.run_id, l.item, s.brand) AS off
          FROM left_over l
          JOIN books.stores s ON s.company = :company AND s.code = l.store
         WHERE l.amount <> 0),
    rest AS (
        SELECT b.*, CASE WHEN bool_and(b.off = 0) OVER (PARTITION BY b.run_id, b.item)
                         THEN b.brand ELSE '' END AS alone
          FROM by_brand b)"""
