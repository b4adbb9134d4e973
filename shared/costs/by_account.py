"""What a posting of costs has changed in the ledger, account by account."""

from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

# Of the period's cost documents alone, found by their own index, each entry by its document. What
# was there before are the entries with smaller ids: ids are given in the order of posting. A
# reversal's lines are mirrored already.
CHANGED = text("""
    WITH costs AS MATERIALIZED (
        SELECT e.id, e.job_id = CAST(:job_id AS uuid) AS ours
          FROM books.cost_documents c JOIN books.gl_entries e ON e.document_id = c.document_id
         WHERE c.company = :company AND c.period = :period),
    began AS (SELECT min(id) AS id FROM costs WHERE ours)
    SELECT l.account, a.name, a.name_vi,
           coalesce(sum(l.debit - l.credit) FILTER (WHERE NOT c.ours), 0) AS before,
           coalesce(sum(l.debit - l.credit), 0) AS after
      FROM began b JOIN costs c ON c.ours OR c.id < b.id
      JOIN books.gl_lines l ON l.entry_id = c.id
      LEFT JOIN books.gl_accounts a ON a.company = l.company AND a.code = l.account
     GROUP BY l.account, a.name, a.name_vi ORDER BY l.account""")
# The jobs that have posted documents of a run, newest first.
POSTED_BY = text("""
    SELECT e.job_id FROM books.documents d
      JOIN books.gl_entries e ON e.document_id = d.id
      JOIN books.cost_documents c ON c.document_id = d.id
     WHERE d.cost_run_id = :run_id AND e.reverses_entry_id IS NULL
     GROUP BY e.job_id ORDER BY max(e.id) DESC LIMIT :most""")


async def changed_accounts(
    conn: AsyncConnection, *, company: str, period: str, job_id: UUID
) -> list[RowMapping]:
    """Balances (debit less credit, minor units) of the period's costs before and after this job.

    Nothing where it has posted nothing.
    """
    binds = {"company": company, "period": period, "job_id": job_id}
    return list((await conn.execute(CHANGED, binds)).mappings().all())


async def posted_by(conn: AsyncConnection, run_id: int, *, most: int) -> list[UUID]:
    """The jobs that have posted what a cost run has found, the newest first."""
    return list((await conn.execute(POSTED_BY, {"run_id": run_id, "most": most})).scalars())
