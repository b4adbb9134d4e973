"""Which cost documents a period needs, and which of those that stand are out of date.

The whole period is looked at in one statement, and only what differs is staged: the documents of a
run that came to the same costs stay, and posting again what is posted stages nothing.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.costs.legs import BY_HASH, LEGS, REST

# A key is what a document is about, and says its layout by its first letter. A slip is of a type,
# as its number is (0178_slip_costs looks it up so): a sale and a transfer may share a number. The
# rest of a period
# is by the hash of its items, so that no document has all of them. Debits and credits of one
# account stay apart: what came back is not taken off what was sold. `taken_back`: what a period has
# of cost documents that stand no longer, or are another period's, because an unposting dated the
# reversal into another period than the entry: here an entry, there a reversal is left alone.
SLIP_TYPE = """CASE l.kind WHEN 'issue' THEN 'sale' WHEN 'sales_return' THEN 'sale_return'
                        WHEN 'receipt' THEN 'purchase' WHEN 'landed_cost' THEN 'purchase'
                        WHEN 'purchase_return' THEN l.kind WHEN 'transfer' THEN l.kind
                        ELSE 'stock' END"""
WANTED = f"""
    WITH {LEGS},
    sums AS MATERIALIZED (
        SELECT l.run_id, CASE CAST(:by AS text)
                   WHEN 'item_group' THEN 'N-' || coalesce(i.item_group, '')
                   WHEN 'slip' THEN 'S-' || to_char(l.day, 'DD-') || {SLIP_TYPE} || '-' || l.doc_id
                   ELSE 'D-' || to_char(l.day, 'DD-') || l.at END AS key,
               CASE CAST(:by AS text) WHEN 'item_group' THEN CAST(:ends_on AS date)
                    ELSE l.day END AS day,
               l.role, l.store, l.item, sum(l.amount) AS amount, sum(l.effect) AS effect,
               sum(l.opened) AS opened
          FROM legs l JOIN books.items i ON i.company = :company AND i.code = l.item
         GROUP BY 1, 2, 3, 4, 5, 6, l.amount > 0),
    {REST},
    accounts AS MATERIALIZED (
        SELECT r.role, books.role_account(:company, r.role) AS account, r.role = 'stock' OR EXISTS (
                   SELECT FROM books.gl_accounts g
                    WHERE g.company = :company AND g.needs_item
                      AND g.code = books.role_account(:company, r.role)) AS by_item
          FROM books.role_defaults r),
    taken_back AS (
        SELECT max(d.cost_run_id) AS run_id, s.role, l.store, l.item,
               sum(l.debit - l.credit) AS amount
          FROM books.gl_entries e
          JOIN books.documents d ON d.id = e.document_id AND d.type = 'cost'
          JOIN books.cost_documents c ON c.document_id = d.id
           AND NOT (c.period = :period AND c.standing)
          JOIN books.gl_lines l ON l.entry_id = e.id
          JOIN books.document_lines s ON s.document_id = d.id AND s.line_no = l.line_no
         WHERE e.company = :company AND e.posting_date BETWEEN :starts_on AND :ends_on
         GROUP BY s.role, l.store, l.item HAVING sum(l.debit - l.credit) <> 0),
    legs_of_keys AS (
        SELECT s.key, s.day, s.run_id, s.role, s.store, s.item, s.amount FROM sums s
         WHERE s.amount <> 0
        UNION ALL
        SELECT CASE CAST(:by AS text) WHEN 'item_group' THEN 'N-' || coalesce(i.item_group, '')
                    ELSE 'R-' || r.alone || '-' || substr(md5(r.item), 1, 1) END,
               CAST(:ends_on AS date), r.run_id, r.role, r.store, r.item, r.amount
          FROM rest r JOIN books.items i ON i.company = :company AND i.code = r.item
        UNION ALL
        SELECT 'R-back', CAST(:ends_on AS date), t.run_id, t.role, t.store, t.item, -t.amount
          FROM taken_back t),
    lines AS MATERIALIZED (
        SELECT k.key, k.day, max(k.run_id) AS run_id, k.role, a.account, k.store, s.brand,
               CASE WHEN a.by_item THEN k.item END AS item, sum(k.amount) AS amount
          FROM legs_of_keys k
          JOIN accounts a ON a.role = k.role
          JOIN books.stores s ON s.company = :company AND s.code = k.store
         GROUP BY k.key, k.day, k.role, a.account, k.store, s.brand,
                  CASE WHEN a.by_item THEN k.item END, k.amount > 0
        HAVING sum(k.amount) <> 0),
    wanted AS MATERIALIZED (
        SELECT l.key, l.day, max(l.run_id) AS run_id, count(*) AS lines, sum(l.amount) AS off,
               CASE WHEN min(l.brand) = max(l.brand) THEN min(l.brand) END AS brand,
               sha256(convert_to(l.day || E'\\n' || string_agg(
                   l.role || E'\\t' || l.account || E'\\t' || l.store || E'\\t'
                   || coalesce(l.item, '') || E'\\t' || l.amount, E'\\n'
                   ORDER BY l.role, l.account, l.store, l.item, l.amount), 'UTF8')) AS digest
          FROM lines l GROUP BY l.key, l.day)"""
# A word for the results that speak for the period: another one after any activation.
STATE = """
    SELECT CAST(count(*) AS text) || '/' || coalesce(sum(a.run_id), 0) || '/'
           || coalesce(max(CAST(CAST(a.xid AS text) AS numeric)), 0) || '/'
           || count(*) FILTER (WHERE a.failed)
      FROM books.active_results a WHERE a.company = :company AND a.period = :period"""
# The numbers of two keys that look alike once they are cut to their place are told apart later.
STAGE = text(f"""
    {WANTED},
    standing AS MATERIALIZED (
        SELECT c.document_id, c.key, d.status, d.content_hash
          FROM books.cost_documents c JOIN books.documents d ON d.id = c.document_id
         WHERE c.company = :company AND c.period = :period AND c.standing),
    differing AS (
        SELECT row_number() OVER (ORDER BY coalesce(w.day, CAST(:ends_on AS date)),
                                           coalesce(w.key, s.key)) AS seq,
               coalesce(w.key, s.key) AS key, w.day, w.brand, w.run_id, w.digest, w.off,
               coalesce(w.lines, 0) AS lines, s.document_id
          FROM wanted w FULL JOIN standing s ON s.key = w.key
         WHERE s.status IS DISTINCT FROM 'posted' OR w.digest IS DISTINCT FROM s.content_hash),
    work AS (
        INSERT INTO books.cost_work (job_id, seq, key, base, day, brand, run_id, digest, off, lines,
                                     old_document_id)
        SELECT :job_id, d.seq, d.key,
               left('GV-' || CAST(:period AS text) || '-' || coalesce(d.run_id, 0) || '-', 40)
               || CASE WHEN length(d.key) <= 24 THEN translate(d.key, '~', '_')
                       ELSE left(translate(d.key, '~', '_'), 15) || '~' || left(md5(d.key), 8) END,
               d.day, d.brand, d.run_id, d.digest, coalesce(d.off, 0), d.lines, d.document_id
          FROM differing d
        RETURNING key, seq, digest),
    staged AS (
        INSERT INTO books.cost_work_lines (job_id, seq, line_no, role, account, store, brand, item,
                                           amount)
        SELECT :job_id, w.seq, row_number() OVER (PARTITION BY w.seq
                                                  ORDER BY l.role, l.account, l.store, l.item,
                                                           l.amount),
               l.role, l.account, l.store, l.brand, l.item, l.amount
          FROM lines l JOIN work w ON w.key = l.key WHERE w.digest IS NOT NULL)
    SELECT (SELECT count(*) FROM wanted) AS wanted, (SELECT count(*) FROM work) AS work,
           (SELECT count(*) FROM work w WHERE w.digest IS NOT NULL) AS new,
           (SELECT coalesce(jsonb_object_agg(l.role, CAST(l.amount AS text)), '{{}}')
              FROM (SELECT role, sum(amount) AS amount FROM lines GROUP BY role) AS l) AS amounts,
           ({STATE}) AS state""")
LOOPS = text(BY_HASH)
FORGET_LINES = text("DELETE FROM books.cost_work_lines WHERE job_id = :job_id")
FORGET_WORK = text("DELETE FROM books.cost_work WHERE job_id = :job_id")
READ_STATE = text(STATE)
UNBALANCED = text("""
    SELECT key, off FROM books.cost_work
     WHERE job_id = :job_id AND off <> 0 ORDER BY key LIMIT 5""")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPeriod:
    """The period whose costs are posted, by which layout and by which job."""

    company: str
    period: str
    starts_on: date
    ends_on: date
    by: str
    job_id: UUID
    fence: int

    def binds(self) -> dict[str, Any]:
        """What the statements here are bound to."""
        return {
            "company": self.company,
            "period": self.period,
            "starts_on": self.starts_on,
            "ends_on": self.ends_on,
            "by": self.by,
            "job_id": self.job_id,
            "items": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was found: documents wanted, new ones among them, and all that there is to do.

    `state` names the results that it is made from, `amounts` are all wanted legs by role, in minor
    units as text.
    """

    state: str
    wanted: int
    new: int
    work: int
    amounts: dict[str, str]


async def read_state(conn: AsyncConnection, costs: CostPeriod) -> str:
    """A word for the results that speak for the period; another one after any activation."""
    scope = {"company": costs.company, "period": costs.period}
    return str((await conn.execute(READ_STATE, scope)).scalar_one())


async def make_plan(conn: AsyncConnection, costs: CostPeriod) -> Plan:
    """Stage what differs from what is posted, in the caller's transaction, instead of any before.

    Results and ledger are those of one moment; whether they still are is for the caller to see.
    """
    await forget_plan(conn, costs.job_id)
    await conn.execute(LOOPS, {"setting": "off"})
    found = (await conn.execute(STAGE, costs.binds())).one()
    await conn.execute(LOOPS, {"setting": "on"})
    off = (await conn.execute(UNBALANCED, {"job_id": costs.job_id})).all()
    assert not off, f"the legs of a cost document add up to nothing: {off}"
    return Plan(**found._mapping)  # noqa: SLF001 - a row's columns by name


async def forget_plan(conn: AsyncConnection, job_id: UUID) -> None:
    """Remove what a job has staged; nobody else reads it."""
    for statement in (FORGET_LINES, FORGET_WORK):
        await conn.execute(statement, {"job_id": job_id})
