"""Movements of goods that posted documents stand for: each line of theirs once.

A sale takes goods out, its return brings back what that line took. A purchase brings them in; its
line without a quantity is freight on the line it refers to, and that of a purchase return a
reduction. A transfer moves, an opening opens. A line of a purchase, transfer or opening that names
an account which is no stock moves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.bringing import begin_bringing, end_bringing

_MOVED = """
    WITH moved AS MATERIALIZED (
        SELECT d.id AS document_id, d.version, d.company, d.type, d.doc_no, d.posting_date,
               d.to_store, d.currency, d.fc_rate, l.line_no, l.item, l.qty_base, l.qty_doc, l.uom,
               l.lot_id, l.ref_line, l.fc_net, coalesce(l.store, d.store) AS store,
               coalesce(round(l.fc_net * d.fc_rate
                              * power(CAST(10 AS numeric), c.minor_digits)), l.net) AS worth,
               CASE WHEN l.ref_line IS NOT NULL THEN coalesce(r.doc_no, d.doc_no) END AS ref_doc,
               CASE WHEN d.type = 'purchase_return' THEN -1 ELSE 1 END AS sign,
               CASE WHEN l.qty_base IS NULL THEN 'landed_cost' WHEN d.type = 'sale' THEN 'issue'
                    WHEN d.type = 'sale_return' THEN 'sales_return'
                    WHEN d.type = 'purchase' THEN 'receipt' ELSE d.type END AS kind
          FROM books.documents d
          JOIN books.companies c ON c.code = d.company
          JOIN books.document_lines l ON l.document_id = d.id
          LEFT JOIN books.documents r ON r.id = d.ref_document_id
         WHERE d.id = ANY (CAST(:ids AS bigint[])) AND d.company = :company
           AND d.status = 'posted' AND l.item IS NOT NULL
           AND CASE WHEN d.type IN ('sale', 'sale_return') THEN l.qty_base IS NOT NULL
                    WHEN d.type = 'transfer' THEN true
                    WHEN d.type = 'opening' THEN l.qty_base IS NOT NULL AND l.side = 'debit'
                    ELSE d.type IN ('purchase', 'purchase_return') END
           AND (d.type IN ('sale', 'sale_return') OR l.account IS NULL
                OR (SELECT a.is_stock FROM books.gl_accounts a
                     WHERE a.company = d.company AND a.code = l.account))),"""
# What goods came in for is what the ledger has booked on stock for them: posting gives a rest of
# rounding to the largest line, and so does this. Where it has booked something else altogether, the
# line stands as it is, and the control of ledger and stock will show it.
_VALUED = """
    sized AS (
        SELECT m.*, count(*) OVER (PARTITION BY m.document_id) AS lines,
               sum(m.worth) OVER (PARTITION BY m.document_id, m.store, m.item) AS stated,
               row_number() OVER (PARTITION BY m.document_id, m.store, m.item
                                  ORDER BY abs(m.worth) DESC, m.line_no) AS size
          FROM moved m),
    apart AS (
        SELECT z.*, CASE WHEN z.size = 1 AND abs(b.booked - z.stated) <= z.lines
                         THEN b.booked - z.stated ELSE 0 END AS rest
          FROM sized z
          LEFT JOIN LATERAL (
               SELECT z.sign * sum(g.debit - g.credit) AS booked
                 FROM books.gl_entries e
                 JOIN books.gl_lines g ON g.entry_id = e.id
                 JOIN books.gl_accounts a ON a.company = g.company AND a.code = g.account
                WHERE e.document_id = z.document_id AND e.document_version = z.version
                  AND e.kind = 'normal' AND g.store = z.store AND g.item = z.item
                  AND a.is_stock) b ON z.type IN ('purchase', 'purchase_return', 'opening')),
    valued AS (
        SELECT a.*, s.brand, t.brand AS to_brand, p.status AS period_status,
               CASE WHEN a.kind IN ('receipt', 'opening') THEN a.worth + a.rest
                    WHEN a.kind = 'landed_cost' THEN a.sign * (a.worth + a.rest)
                    WHEN a.kind = 'purchase_return' AND a.ref_line IS NULL THEN a.worth + a.rest
                END AS value,
               a.kind = 'receipt' AND a.fc_net IS NOT NULL AND a.rest = 0 AS in_currency
          FROM apart a
          JOIN books.stores s ON s.company = a.company AND s.code = a.store
          LEFT JOIN books.stores t ON t.company = a.company AND t.code = a.to_store
          LEFT JOIN LATERAL (SELECT p.status FROM books.periods p
                              WHERE p.company = a.company
                                AND a.posting_date BETWEEN p.starts_on AND p.ends_on LIMIT 1) p
                 ON true),"""
# A movement that was taken back is not there. Each is looked up by its document and line alone. An
# opening is what lies at a place on a day, in one line or in several: what came by a file, which
# numbers its lines in its own way, is what the document says of that place, unless another line of
# a document is that already.
_STANDING = """
                 FROM books.stock_movements o
                WHERE o.doc_id = {doc} AND o.doc_line = {line} AND o.company = v.company
                  AND o.kind = {kind} AND o.reverses_movement_id IS NULL
                  AND NOT EXISTS (SELECT FROM books.stock_movements b
                                   WHERE b.reverses_movement_id = o.id)"""
_FOUND = f"""
    found AS MATERIALIZED (
        SELECT v.*, coalesce(p.id, n.id) AS there, coalesce(p.is_same, n.is_same) AS is_same,
               f.id AS ref_id
          FROM (SELECT w.*, sum(w.qty_base) OVER p AS lies, sum(w.value) OVER p AS worth_there
                  FROM valued w
                WINDOW p AS (PARTITION BY w.document_id, w.kind, w.item, w.store, w.lot_id)) v
          LEFT JOIN LATERAL (
               SELECT o.id, (o.item, o.store, o.qty_base, o.posting_date)
                            = (v.item, v.store, coalesce(v.qty_base, 0), v.posting_date)
                      AND o.to_store IS NOT DISTINCT FROM v.to_store
                      AND (o.value IS NOT DISTINCT FROM v.value
                           OR o.kind = 'purchase_return' AND o.value = v.worth + v.rest) AS is_same
               {_STANDING.format(doc="v.doc_no", line="v.line_no", kind="v.kind")}
                ORDER BY o.id LIMIT 1) n ON true
          LEFT JOIN LATERAL (
               SELECT min(o.id) AS id,
                      (sum(o.qty_base), sum(o.value)) = (v.lies, v.worth_there) AS is_same
                 FROM books.stock_movements o
                WHERE o.kind = 'opening' AND o.item = v.item AND o.store = v.store
                  AND o.posting_date = v.posting_date AND o.company = v.company
                  AND o.lot_id IS NOT DISTINCT FROM v.lot_id AND o.reverses_movement_id IS NULL
                  AND NOT EXISTS (SELECT FROM books.stock_movements b
                                   WHERE b.reverses_movement_id = o.id)
                  AND NOT EXISTS (SELECT FROM books.documents e
                                    JOIN books.document_lines l ON l.document_id = e.id
                                   WHERE e.company = o.company AND e.type = 'opening'
                                     AND e.doc_no = o.doc_id AND l.line_no = o.doc_line
                                     AND (l.item, coalesce(l.store, e.store)) = (o.item, o.store))
                      ) p ON v.kind = 'opening'
          LEFT JOIN LATERAL (
               SELECT o.id
               {
    _STANDING.format(
        doc="v.ref_doc",
        line="v.ref_line",
        kind="CASE v.kind WHEN 'sales_return' THEN 'issue' ELSE 'receipt' END",
    )
}
                  AND o.item = v.item ORDER BY o.id LIMIT 1) f ON v.ref_doc IS NOT NULL)"""
_ALL = _MOVED + _VALUED + _FOUND

REFERRED = text("""
    SELECT DISTINCT d.ref_document_id FROM books.documents d
     WHERE d.id = ANY (CAST(:ids AS bigint[])) AND d.ref_document_id IS NOT NULL
     ORDER BY d.ref_document_id""")
INSERT_MOVEMENTS = text(f"""{_ALL}
    INSERT INTO books.stock_movements (company, brand, store, to_brand, to_store, item, kind,
           doc_id, doc_line, posting_date, qty_base, value, lot_id, ref_movement_id, uom, qty_doc,
           currency, fc_amount, fc_rate, job_id)
    SELECT f.company, f.brand, f.store, f.to_brand, f.to_store, f.item, f.kind, f.doc_no,
           f.line_no, f.posting_date, coalesce(f.qty_base, 0), f.value, f.lot_id, f.ref_id, f.uom,
           f.qty_doc, CASE WHEN f.in_currency THEN f.currency END,
           CASE WHEN f.in_currency THEN f.fc_net END, CASE WHEN f.in_currency THEN f.fc_rate END,
           CAST(:job_id AS uuid)
      FROM found f
     WHERE f.there IS NULL AND f.period_status = 'open'
       AND (f.ref_doc IS NULL OR f.ref_id IS NOT NULL)
     ORDER BY f.posting_date, f.document_id, f.line_no""")
JUDGE_MOVEMENTS = text(f"""{_ALL}
    SELECT f.document_id, f.type, f.doc_no, f.line_no, f.kind, f.posting_date, f.ref_doc,
           f.ref_line, m.doc_id AS there_doc, m.doc_line AS there_line,
           CASE WHEN f.is_same THEN NULL WHEN f.there IS NOT NULL THEN 'MOVEMENT_DIFFERS'
                WHEN f.period_status IS NULL THEN 'PERIOD_UNKNOWN'
                WHEN f.period_status <> 'open' THEN 'PERIOD_CLOSED'
                ELSE 'REF_MISSING' END AS code
      FROM found f
      LEFT JOIN LATERAL (SELECT m.doc_id, m.doc_line FROM books.stock_movements m
                          WHERE m.id = f.there OFFSET 0) m ON true
     WHERE f.document_id = ANY (CAST(:asked AS bigint[]))
     ORDER BY f.document_id, f.line_no""")
SAYS = {
    "MOVEMENT_DIFFERS": "the movement {kind} of {there_doc}, line {there_line}, says something "
    "else; take it back by a reversal, then run this again",
    "PERIOD_UNKNOWN": "no period holds {posting_date}",
    "PERIOD_CLOSED": "the period of {posting_date} is not open",
    "REF_MISSING": "there is no movement of {ref_doc}, line {ref_line}; is that document posted?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmoved:
    """A line whose goods have not moved as it says, and why."""

    document_id: int
    type: str
    doc_no: str
    line_no: int
    code: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of the goods: movements written now, lines that have theirs, and the others."""

    written: int
    standing: int
    unmoved: Sequence[Unmoved]


async def move_goods(
    conn: AsyncConnection, company: str, ids: Sequence[int], *, job_id: UUID
) -> Moved:
    """Write the movements that posted documents lack, and of those that they refer to.

    Idempotent: a line that has its movement gets no other one. Others of `ids` are passed over.
    The period gate may refuse the statement (CH101) where a period closes at this moment. Imports
    of the company take turns with it until the transaction ends: their files may hold these lines.
    Conflict where an ERP has written one of them at this very moment: roll back and repeat.
    """
    since = await begin_bringing(conn, company)
    referred = (await conn.scalars(REFERRED, {"ids": [*ids]})).all()
    binds = {"company": company, "ids": sorted({*ids, *referred}), "job_id": job_id}
    written = 0
    # Twice: what refers to a movement can name it once it is there, in an earlier statement.
    for _ in range(2):
        written += (await conn.execute(INSERT_MOVEMENTS, binds)).rowcount
    rows = (await conn.execute(JUDGE_MOVEMENTS, binds | {"asked": [*ids]})).mappings().all()
    if written:
        await end_bringing(conn, company, since)
    unmoved = [
        Unmoved(
            document_id=row["document_id"],
            type=row["type"],
            doc_no=row["doc_no"],
            line_no=row["line_no"],
            code=row["code"],
            rule=SAYS[row["code"]].format_map(row),
        )
        for row in rows
        if row["code"] is not None
    ]
    return Moved(written=written, standing=len(rows) - len(unmoved), unmoved=unmoved)
