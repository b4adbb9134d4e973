"""Control (đối chiếu): what the ledger says of goods against what costing says of them.

Store by store, put together by pool. Where they differ, what each document has booked is held
against what it should have, the cost documents against what costs must book, and the time before
against the opening: the differences of the three are the difference, whole.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.costs.legs import BY_HASH, LEGS, REST

# Goods of items that could not be costed have no value to be held against; the ledger's still is.
_BOTH = """
    places AS MATERIALIZED (
        SELECT b.store, b.item, b.pool, b.v_opening, b.v_closing
          FROM books.active_results a
          JOIN books.store_balances b
            ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
         WHERE a.company = :company AND a.period = :period AND NOT a.failed
           AND (CAST(:items AS text[]) IS NULL OR a.item = ANY (CAST(:items AS text[])))),
    goods AS MATERIALIZED (
        SELECT l.store, l.item, sum(l.debit - l.credit) AS balance
          FROM books.gl_accounts g
          JOIN books.gl_lines l
            ON l.company = g.company AND l.account = g.code AND l.posting_date <= :ends_on
         WHERE g.company = :company AND g.is_stock
           AND (CAST(:items AS text[]) IS NULL OR l.item = ANY (CAST(:items AS text[])))
         GROUP BY l.store, l.item),
    stores AS MATERIALIZED (
        SELECT s.code, s.brand FROM books.stores s WHERE s.company = :company),
    pooled AS MATERIALIZED (
        SELECT coalesce(p.item, g.item) AS item, coalesce(p.store, g.store) AS store, p.pool,
               CASE WHEN p.pool LIKE '/%' THEN '' ELSE s.brand END AS brand,
               coalesce(p.v_closing, 0) AS value, coalesce(g.balance, 0) AS balance
          FROM places p
          FULL JOIN goods g ON g.store = p.store AND g.item = p.item
          LEFT JOIN stores s ON s.code = coalesce(p.store, g.store))"""
_SEEN = "(CAST(:brands AS text[]) IS NULL OR p.brand = ANY (CAST(:brands AS text[])))"
_DIFFERING = f"""
    SELECT p.item, p.brand, p.pool, sum(p.value) AS value, sum(p.balance) AS balance,
           array_agg(p.store ORDER BY p.store) FILTER (WHERE p.value <> p.balance) AS stores
      FROM pooled p WHERE {_SEEN} GROUP BY p.item, p.brand, p.pool
    HAVING bool_or(p.value <> p.balance)"""
COMPARE = text(f"""
    WITH {_BOTH},
    differing AS MATERIALIZED ({_DIFFERING})
    SELECT coalesce(sum(value), 0) AS value, coalesce(sum(balance), 0) AS balance,
           count(DISTINCT (item, brand, pool)) AS pools,
           (SELECT count(*) FROM differing) AS differing,
           (SELECT array_agg(concat_ws('/', d.brand, trim(LEADING '/' FROM d.pool), d.item)
                             ORDER BY d.item, d.brand, d.pool)
              FROM (SELECT * FROM differing ORDER BY item, brand, pool LIMIT :most) d) AS first
      FROM pooled p WHERE {_SEEN}""")
LIST_DIFFERING = text(f"""
    WITH {_BOTH}
    {_DIFFERING}
     ORDER BY p.item, p.brand, p.pool LIMIT :most""")
# `what`: a document's own booking (its number), the cost documents, or the time before.
EXPLAIN = text(f"""
    WITH {_BOTH},
    {LEGS},
    sums AS MATERIALIZED (
        SELECT l.run_id, l.role, l.store, l.item, l.document, sum(l.amount) AS amount,
               sum(l.effect) AS effect, sum(l.stated) AS stated, sum(l.opened) AS opened
          FROM legs l GROUP BY l.run_id, l.role, l.store, l.item, l.document),
    {REST},
    posted AS MATERIALIZED (
        SELECT d.type, d.doc_no, l.store, l.item, sum(l.debit - l.credit) AS amount
          FROM books.gl_accounts g
          JOIN books.gl_lines l ON l.company = g.company AND l.account = g.code
           AND l.posting_date BETWEEN :starts_on AND :ends_on
          JOIN books.gl_entries e ON e.id = l.entry_id
          JOIN books.documents d ON d.id = e.document_id
         WHERE g.company = :company AND g.is_stock AND l.item = ANY (CAST(:items AS text[]))
         GROUP BY d.type, d.doc_no, l.store, l.item),
    sides AS (
        SELECT 'document' AS what, s.document, s.store, s.item, s.stated AS expected, 0 AS booked,
               NULL AS type
          FROM sums s WHERE s.role = 'stock' AND s.stated <> 0
        UNION ALL
        SELECT 'document', b.doc_no, b.store, b.item, 0, b.amount, b.type FROM posted b
         WHERE b.type <> 'cost'
        UNION ALL
        SELECT 'costs', NULL, s.store, s.item, s.amount, 0, NULL FROM sums s
         WHERE s.role = 'stock'
        UNION ALL
        SELECT 'costs', NULL, r.store, r.item, r.amount, 0, NULL FROM rest r
         WHERE r.role = 'stock'
        UNION ALL
        SELECT 'costs', NULL, b.store, b.item, 0, b.amount, NULL FROM posted b
         WHERE b.type = 'cost'
        UNION ALL
        SELECT 'before', NULL, p.store, p.item, p.v_opening, 0, NULL FROM places p
        UNION ALL
        SELECT 'before', NULL, s.store, s.item, -s.opened, 0, NULL FROM sums s
        UNION ALL
        SELECT 'before', NULL, g.store, g.item, 0, g.balance - coalesce(
               (SELECT sum(b.amount) FROM posted b WHERE b.store = g.store AND b.item = g.item), 0),
               NULL
          FROM goods g),
    told AS (
        SELECT p.item, p.brand, p.pool, s.what, s.document, max(s.type) AS type,
               sum(s.expected) AS expected, sum(s.booked) AS booked,
               row_number() OVER (PARTITION BY p.item, p.brand, p.pool ORDER BY s.what, s.document)
                   AS n
          FROM sides s
          JOIN pooled p ON p.item = s.item AND p.store = s.store
         GROUP BY p.item, p.brand, p.pool, s.what, s.document
        HAVING sum(s.expected) <> sum(s.booked))
    SELECT t.item, t.brand, t.pool, t.what, t.document AS doc_no, t.type, t.expected, t.booked
      FROM told t WHERE t.n <= :most ORDER BY t.item, t.brand, t.pool, t.n""")
UNPOSTED = text("""
    SELECT count(*) AS n, (array_agg(d.type || ' ' || d.doc_no ORDER BY d.posting_date, d.id))
               [1 : CAST(:most AS integer)] AS first
      FROM books.documents d
     WHERE d.company = :company AND d.status = 'draft'
       AND (CAST(:brands AS text[]) IS NULL OR d.brand = ANY (CAST(:brands AS text[])))
       AND d.posting_date BETWEEN :starts_on AND :ends_on""")
HAS_CHART = text("""
    SELECT EXISTS (SELECT FROM books.gl_accounts g WHERE g.company = :company AND g.is_stock)""")

LOOPS = text(BY_HASH)

# Of one pool so many documents are named.
MOST_DOCUMENTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """Whose period is compared, and of which brands only (None: all, and what they share)."""

    company: str
    period: str
    starts_on: date
    ends_on: date
    brands: tuple[str, ...] | None = None

    def binds(self, most: int, items: list[str] | None = None) -> dict[str, Any]:
        """What the statements here are bound to."""
        return {
            "company": self.company,
            "period": self.period,
            "starts_on": self.starts_on,
            "ends_on": self.ends_on,
            "items": items,
            "brands": None if self.brands is None else list(self.brands),
            "most": most,
        }


async def has_chart(conn: AsyncConnection, company: str) -> bool:
    """Whether the company has accounts that are stock: else there is nothing to compare."""
    return bool(await conn.scalar(HAS_CHART, {"company": company}))


async def compare(conn: AsyncConnection, controlled: Controlled, most: int) -> Any:
    """The totals: value, balance, pools, how many differ, and the first of these by name."""
    await conn.execute(LOOPS, {"setting": "off"})
    found = (await conn.execute(COMPARE, controlled.binds(most))).one()
    await conn.execute(LOOPS, {"setting": "on"})
    return found


async def list_differing(
    conn: AsyncConnection, controlled: Controlled, most: int
) -> list[tuple[RowMapping, list[RowMapping]]]:
    """The first pools and items that differ, each with what explains it, at most so many."""
    await conn.execute(LOOPS, {"setting": "off"})
    found = (await conn.execute(LIST_DIFFERING, controlled.binds(most))).mappings().all()
    items = sorted({row["item"] for row in found if row["item"] is not None})
    binds = controlled.binds(MOST_DOCUMENTS, items)
    explained = (await conn.execute(EXPLAIN, binds)).mappings().all() if items else []
    await conn.execute(LOOPS, {"setting": "on"})
    reasons: dict[tuple[Any, ...], list[RowMapping]] = {}
    for row in explained:
        reasons.setdefault((row["item"], row["brand"], row["pool"]), []).append(row)
    return [(row, reasons.get((row["item"], row["brand"], row["pool"]), [])) for row in found]


async def unposted(conn: AsyncConnection, controlled: Controlled, most: int) -> Any:
    """How many documents of the period are drafts, and the first of them."""
    return (await conn.execute(UNPOSTED, controlled.binds(most))).one()
