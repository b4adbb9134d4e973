"""Task `movements.backfill`: the stock movements that posted documents stand for, each once.

A movement has the document's number and line; where one is there already nothing is written.
"""

from datetime import date
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.migrations.books import BACKFILL_MOVEMENTS, BackfillMovementsParams
from worker.migrations.task import Applied, Batch, Check, Reject, Run, Source, Task
from worker.records.document_movements import Unmoved, move_goods

_OF_GOODS = """r.status = 'posted'
       AND r.type IN ('sale', 'sale_return', 'purchase', 'purchase_return', 'transfer', 'opening')
       AND r.posting_date BETWEEN CAST(:date_from AS date) AND CAST(:date_to AS date)"""
# By document and line, whatever its kind: a look-up of its index for each document.
LOOKED_AT = text(f"""
    SELECT count(*) AS documents,
           count(*) FILTER (WHERE EXISTS (
               SELECT FROM books.document_lines l
                WHERE l.document_id = r.id AND l.item IS NOT NULL AND EXISTS (
                      SELECT FROM books.stock_movements m
                       WHERE m.doc_id = r.doc_no AND m.doc_line = l.line_no
                         AND m.company = r.company))) AS with_movements
      FROM books.documents r WHERE r.company = :company AND {_OF_GOODS}""")


class BackfillMovements(Task):
    """A posted document is a row."""

    spec = BACKFILL_MOVEMENTS
    writes = ("books.stock_movements",)
    largest_batch = 10_000

    def source(self, run: Run) -> Source:
        """Documents of goods of these days, in the order they were put."""
        return Source(
            table="books.documents",
            key=("id",),
            fixed={"company": run.company},
            where=_OF_GOODS,
            binds=_days(run),
        )

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Write what is not there, and tell each line that cannot be."""
        ids = [row["id"] for row in await batch.fetch(conn, "r.id")]
        moved = await move_goods(conn, batch.run.company, ids, job_id=batch.run.job_id)
        return Applied(
            counts={"movements_written": moved.written, "lines_standing": moved.standing},
            rejects=[_reject(each) for each in moved.unmoved],
        )

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """How many documents of these days have movements."""
        binds = {"company": run.company, **_days(run)}
        return Check(facts=dict((await conn.execute(LOOKED_AT, binds)).mappings().one()))


def _reject(unmoved: Unmoved) -> Reject:
    return Reject(
        code=unmoved.code,
        rule=f"{unmoved.type} {unmoved.doc_no}, line {unmoved.line_no}: {unmoved.rule}",
        key=(str(unmoved.document_id),),
        line=unmoved.line_no,
        field="lines",
    )


def _days(run: Run) -> dict[str, Any]:
    params = run.params
    assert isinstance(params, BackfillMovementsParams), "the spec says so"
    return {
        "date_from": date.fromisoformat(params.date_from),
        "date_to": date.fromisoformat(params.date_to),
    }


MIGRATIONS = (BackfillMovements(),)
