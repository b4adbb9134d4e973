"""Task `movements.backfill`: the stock movements that documents stand for, each once.

A movement has the document's number and line; where one is there already nothing is written.
"""

from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.migrations.books import BACKFILL_MOVEMENTS, BackfillMovementsParams
from worker.migrations.task import Applied, Batch, Check, Reject, Run, Source, Task

_JOINS = "JOIN books.documents d ON d.id = r.document_id"
# What the lines of a document are in stock. A line without an item, and one of a sale without a
# quantity, is no goods.
_KIND = """CASE d.type WHEN 'sale' THEN 'issue' WHEN 'sale_return' THEN 'sales_return'
                WHEN 'purchase_return' THEN 'purchase_return' WHEN 'transfer' THEN 'transfer'
                WHEN 'purchase' THEN CASE WHEN r.qty_base IS NULL THEN 'landed_cost'
                                          ELSE 'receipt' END END"""
_GOODS = """d.company = :company AND d.posting_date BETWEEN :date_from AND :date_to
       AND (d.status = 'posted' OR (d.status = 'draft' AND CAST(:drafts AS boolean)))
       AND r.item IS NOT NULL
       AND (d.type = 'purchase' OR (r.qty_base IS NOT NULL
            AND d.type IN ('sale', 'sale_return', 'purchase_return', 'transfer')))"""
# Goods that a line refers to: of the document that its own names, or of its own number.
_REFERRED = """
          LEFT JOIN LATERAL (
              SELECT (SELECT m.id FROM books.stock_movements m
                       WHERE m.doc_id = o.doc_no AND m.doc_line = l.ref_line
                         AND m.company = l.company AND m.item = l.item
                         AND m.kind = CASE l.kind WHEN 'sales_return' THEN 'issue'
                                                  ELSE 'receipt' END
                       ORDER BY m.id LIMIT 1) AS id
                FROM books.documents o WHERE o.id = l.ref_document_id) AS ref
            ON l.ref_line IS NOT NULL"""
BACKFILL = f"""
    WITH lines AS MATERIALIZED (
        SELECT r.document_id, r.line_no, r.item, r.uom, r.qty_doc, r.qty_base, r.lot_id, r.ref_line,
               d.company, d.doc_no, d.posting_date, d.ref_document_id, d.to_store, d.currency,
               {_KIND} AS kind, coalesce(r.store, d.store) AS store, r.fc_net,
               coalesce(r.net, floor(r.fc_net * d.fc_rate
                                     * power(10::numeric, c.minor_digits) + 0.5)) AS net,
               d.fc_rate
          FROM {{source}}
          JOIN books.companies c ON c.code = d.company
         WHERE {{where}}
           AND ({_KIND}) = ANY(CAST(:kinds AS text[]))),
    judged AS MATERIALIZED (
        SELECT l.*, ref.id AS ref_id, s.brand, t.brand AS to_brand,
               EXISTS (SELECT FROM books.stock_movements m
                        WHERE m.doc_id = l.doc_no AND m.doc_line = l.line_no
                          AND m.company = l.company AND m.kind = l.kind) AS is_there,
               CASE WHEN s.code IS NULL THEN 'STORE_MISSING'
                    WHEN p.status IS NULL THEN 'PERIOD_UNKNOWN'
                    WHEN p.status <> 'open' THEN 'PERIOD_CLOSED'
                    WHEN l.ref_line IS NOT NULL AND ref.id IS NULL
                         AND l.kind IN ('sales_return', 'purchase_return', 'landed_cost')
                    THEN 'REF_UNKNOWN' END AS code
          FROM lines l
          LEFT JOIN books.stores s ON s.company = l.company AND s.code = l.store
          LEFT JOIN books.stores t ON t.company = l.company AND t.code = l.to_store
          LEFT JOIN books.periods p ON p.company = l.company
               AND l.posting_date BETWEEN p.starts_on AND p.ends_on{_REFERRED}),
    written AS (
        INSERT INTO books.stock_movements (company, brand, store, item, to_brand, to_store, kind,
               doc_id, doc_line, posting_date, qty_base, value, uom, qty_doc, currency, fc_amount,
               fc_rate, lot_id, ref_movement_id)
        SELECT j.company, j.brand, j.store, j.item,
               CASE WHEN j.kind = 'transfer' THEN j.to_brand END,
               CASE WHEN j.kind = 'transfer' THEN j.to_store END, j.kind, j.doc_no, j.line_no,
               j.posting_date, coalesce(j.qty_base, 0),
               CASE WHEN j.kind IN ('receipt', 'landed_cost') THEN j.net END,
               j.uom, j.qty_doc,
               CASE WHEN j.kind IN ('receipt', 'landed_cost') AND j.fc_net IS NOT NULL
                    THEN j.currency END,
               CASE WHEN j.kind IN ('receipt', 'landed_cost') THEN j.fc_net END,
               CASE WHEN j.kind IN ('receipt', 'landed_cost') AND j.fc_net IS NOT NULL
                    THEN j.fc_rate END,
               j.lot_id,
               CASE WHEN j.kind IN ('sales_return', 'purchase_return', 'landed_cost')
                    THEN j.ref_id END
          FROM judged j
         WHERE j.code IS NULL AND NOT j.is_there
         ORDER BY j.document_id, j.line_no)
    SELECT document_id, line_no, doc_no, posting_date, ref_line, is_there, code FROM judged"""
# What refers to other goods comes second: those may be of the same batch.
PLAIN = ("issue", "receipt", "transfer")
REFERRING = ("sales_return", "purchase_return", "landed_cost")
SAYS = {
    "STORE_MISSING": "names no store, and neither does its document",
    "PERIOD_UNKNOWN": "lies in no accounting period of the company; open it first",
    "PERIOD_CLOSED": "lies in a period that is not open; reopen it, or leave its days out",
    "REF_UNKNOWN": "refers to goods that have no movement; backfill their document first",
}
LINES = text(f"""
    SELECT count(*) AS lines,
           count(*) FILTER (WHERE NOT EXISTS (
               SELECT FROM books.stock_movements m
                WHERE m.doc_id = d.doc_no AND m.doc_line = r.line_no AND m.company = d.company
                  AND m.kind = {_KIND})) AS without_movement
      FROM books.document_lines r {_JOINS} WHERE {_GOODS}""")


class BackfillMovements(Task):
    """A line of a document is a row."""

    spec = BACKFILL_MOVEMENTS
    writes = ("books.stock_movements",)
    largest_batch = 10_000

    def source(self, run: Run) -> Source:
        """Lines of goods, of documents of these days, in the order they were put."""
        return Source(
            table="books.document_lines",
            key=("document_id", "line_no"),
            joins=_JOINS,
            where=_GOODS,
            binds=_binds(run),
        )

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Write what is not there; what cannot be is told, whatever else is wrong is bisected."""
        rows: list[RowMapping] = []
        for kinds in (PLAIN, REFERRING):
            found = await batch.execute(conn, BACKFILL, kinds=list(kinds))
            rows += found.mappings().all()
        counts = {"created": 0, "there_already": 0}
        rejects = []
        for row in rows:
            if row["is_there"]:
                counts["there_already"] += 1
            elif row["code"] is None:
                counts["created"] += 1
            else:
                rejects.append(_reject(row))
        return Applied(counts=counts, rejects=rejects)

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """How many lines have no movement yet; after the run none should."""
        facts = dict((await conn.execute(LINES, _binds(run))).mappings().one())
        return Check(facts=facts)


def _reject(row: Any) -> Reject:
    what = f"line {row['line_no']} of document {row['doc_no']} ({row['posting_date']})"
    return Reject(
        code=row["code"],
        rule=f"{what} {SAYS[row['code']]}",
        key=(str(row["document_id"]), str(row["line_no"])),
        field="ref_line" if row["code"] == "REF_UNKNOWN" else None,
        value=str(row["ref_line"]) if row["code"] == "REF_UNKNOWN" else None,
    )


def _binds(run: Run) -> dict[str, Any]:
    params = run.params
    assert isinstance(params, BackfillMovementsParams), "the spec says so"
    return {
        "company": run.company,
        "date_from": date.fromisoformat(params.date_from),
        "date_to": date.fromisoformat(params.date_to),
        "drafts": params.drafts,
    }


MIGRATIONS = (BackfillMovements(),)
