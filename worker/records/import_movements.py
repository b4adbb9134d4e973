"""Merge staged lines of movements into the books: judged set-based, then written in one statement.

A line is known by document, line and kind, an opening also by day, store, item and lot. One that is
in the books already is left as it is, and refused where it says something else: movements are
facts, what is wrong with one is taken back by another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.migrations.task import Applied, Batch, Reject
from worker.records.bringing import begin_bringing, end_bringing
from worker.records.staged_words import said_in_file

BY_NUMBER = """
            SELECT m.id FROM books.stock_movements m
             WHERE m.doc_id = r.doc_id AND m.doc_line = r.doc_line AND m.kind = r.kind
               AND (m.reverses_movement_id IS NULL) = (r.reverses_doc IS NULL)
               AND m.company || '' = :company ORDER BY m.id LIMIT 1"""
# What lies at a place on a day, in one line or in several: what was taken back is not there.
BY_PLACE = """
            SELECT min(m.id) AS id, sum(m.qty_base) AS qty_base, sum(m.value) AS value
              FROM books.stock_movements m
             WHERE m.kind = 'opening' AND m.item = r.item AND m.store = r.store
               AND m.posting_date = r.posting_date AND m.lot_id IS NOT DISTINCT FROM r.lot
               AND m.company || '' = :company AND m.reverses_movement_id IS NULL
               AND (SELECT true FROM books.stock_movements b
                     WHERE b.reverses_movement_id = m.id) IS NULL"""
# An opening that a file numbers is known by its place too, but for what the same file's other lines
# have written there: several of them may open one place, as layers at prices of their own.
NOBODY = "SELECT CAST(NULL AS bigint) AS id"
OF_OTHERS = """
               AND r.kind = 'opening' AND r.reverses_doc IS NULL AND n.id IS NULL
               AND (SELECT true FROM books.import_movements f
                     WHERE f.job_id = r.job_id AND f.doc_id = m.doc_id AND f.doc_line = m.doc_line
                       AND f.kind = 'opening' LIMIT 1) IS NULL"""
SEVERAL = """(
            SELECT true FROM books.import_movements f
             WHERE r.kind = 'opening' AND f.kind = 'opening' AND f.job_id = r.job_id
               AND f.item = r.item AND f.store = r.store AND f.posting_date = r.posting_date
               AND f.lot IS NOT DISTINCT FROM r.lot AND f.line <> r.line LIMIT 1)"""
# An opening that was taken back stays taken back; what is right comes in a line of another number.
TAKEN_BACK = """
            SELECT m.id FROM books.stock_movements m
             WHERE e.id IS NULL AND m.doc_id = r.doc_id AND m.doc_line = r.doc_line
               AND m.kind = 'opening' AND m.item = r.item AND m.store = r.store
               AND m.posting_date = r.posting_date AND m.lot_id IS NOT DISTINCT FROM r.lot
               AND m.company || '' = :company AND m.reverses_movement_id IS NULL
             ORDER BY m.id LIMIT 1"""
FIRST_BY_NUMBER = """
            SELECT f.line FROM books.import_movements f
             WHERE f.job_id = r.job_id AND f.doc_id = r.doc_id AND f.doc_line = r.doc_line
               AND f.kind = r.kind AND (f.reverses_doc IS NULL) = (r.reverses_doc IS NULL)
               AND f.line < r.line ORDER BY f.line LIMIT 1"""
# Within the batch: before it, it is in the books.
FIRST_BY_PLACE = "SELECT r.first_here AS line WHERE r.first_here < r.line"
HERE_BY_PLACE = "min(r.line) OVER (PARTITION BY r.item, r.store, r.posting_date, r.lot)"
COMPARED = (
    "posting_date",
    "posting_seq",
    "store",
    "to_store",
    "item",
    "qty_base",
    "value",
    "lot_id",
    "uom",
    "qty_doc",
    "currency",
    "fc_amount",
    "fc_rate",
    "cost_basis",
)
# What a line refers to is said by document and line: ids are the database's.
REFERENCES = [
    (
        name,
        f"""NOT j.by_place AND CASE
            WHEN m.{name}_movement_id IS NULL THEN num_nonnulls(j.{name}_doc, j.{name}_line) > 0
            ELSE (SELECT (o.doc_id, o.doc_line) IS DISTINCT FROM (j.{name}_doc, j.{name}_line)
                    FROM books.stock_movements o WHERE o.id = m.{name}_movement_id) END""",
    )
    for name in ("ref", "reverses")
]
FACTS = """
    WITH lines AS MATERIALIZED (
        SELECT r.*, {here} AS first_here FROM {source} WHERE {where}),
    books AS MATERIALIZED (
        SELECT c.currency AS own, CAST(10 AS numeric) ^ c.minor_digits AS minor
          FROM books.companies c WHERE c.code = :company),
    facts AS MATERIALIZED (
        SELECT r.line, r.doc_id, r.doc_line, r.kind, r.posting_date,
               coalesce(r.posting_seq, 0) AS posting_seq, r.item, r.store, r.to_store,
               r.lot AS lot_id, r.uom, CASE WHEN r.uom IS NOT NULL THEN r.quantity END AS qty_doc,
               r.quantity, r.currency, r.fc_amount, r.fc_rate, r.cost_basis, r.brand AS said_brand,
               r.ref_doc, r.ref_line, r.reverses_doc, r.reverses_line, r.value AS said_value,
               r.said, s.brand, t.brand AS to_brand, i.code IS NOT NULL AS item_known, i.base_uom,
               CASE WHEN r.uom IS NULL OR r.uom = i.base_uom THEN 1 ELSE u.num END AS num,
               CASE WHEN r.uom IS NULL OR r.uom = i.base_uom THEN 1 ELSE u.den END AS den,
               CAST(10 AS numeric) ^ i.qty_scale AS one, b.minor, b.own, p.status AS period,
               CASE WHEN r.currency IS NULL THEN r.value * b.minor
                    ELSE floor(r.fc_amount * CASE WHEN r.fc_rate IS NULL AND r.currency = b.own
                                                  THEN 1 ELSE r.fc_rate END * b.minor + 0.5)
                    END AS value,
               coalesce(n.id, e.id, k.id) AS found, n.id IS NULL AND e.id IS NOT NULL AS by_place,
               e.qty_base AS lies, e.value AS worth, {several} AS several,
               first.line AS first_line, q.id AS ref_id, v.id AS reversed_id
          FROM lines r CROSS JOIN books b
          LEFT JOIN books.stores s ON s.company = :company AND s.code = r.store
          LEFT JOIN books.stores t ON t.company = :company AND t.code = r.to_store
          LEFT JOIN books.items i ON i.company = :company AND i.code = r.item
          LEFT JOIN books.item_units u
                 ON u.company = :company AND u.item = r.item AND u.unit = r.uom
          LEFT JOIN books.periods p
                 ON p.company = :company AND r.posting_date BETWEEN p.starts_on AND p.ends_on
          LEFT JOIN LATERAL ({number}) n ON true
          LEFT JOIN LATERAL ({place}) e ON true
          LEFT JOIN LATERAL ({taken_back}) k ON true
          LEFT JOIN LATERAL ({first}) first ON true
          LEFT JOIN LATERAL (
            SELECT m.id FROM books.stock_movements m
             WHERE m.doc_id = r.ref_doc AND m.doc_line = r.ref_line AND m.item = r.item
               AND m.company || '' = :company AND m.reverses_movement_id IS NULL
             ORDER BY m.kind = {referred} DESC, m.id LIMIT 1) q ON r.ref_doc IS NOT NULL
          LEFT JOIN LATERAL (
            SELECT m.id FROM books.stock_movements m
             WHERE m.doc_id = r.reverses_doc AND m.doc_line = r.reverses_line AND m.kind = r.kind
               AND m.company || '' = :company AND m.reverses_movement_id IS NULL
             ORDER BY m.id LIMIT 1) v ON r.reverses_doc IS NOT NULL),
    -- Ids in the order of the file: within a day costing goes by them.
    numbered AS MATERIALIZED (
        SELECT f.*, f.quantity * f.num * f.one AS parts,
               nextval('books.stock_movements_id_seq') AS id
          FROM (SELECT * FROM facts ORDER BY line) f),
    exact AS MATERIALIZED (
        SELECT n.*, CASE WHEN mod(n.parts, n.den) = 0 THEN div(n.parts, n.den) END AS qty_base
          FROM numbered n),
    alone AS MATERIALIZED (
        SELECT x.*, CASE
            WHEN x.brand IS NULL THEN 'STORE_UNKNOWN:store'
            WHEN x.said_brand <> x.brand THEN 'BRAND_MISMATCH:brand'
            WHEN x.brand <> CAST(:brand AS text) THEN 'NOT_YOURS:store'
            WHEN x.to_store IS NOT NULL AND x.to_brand IS NULL THEN 'STORE_UNKNOWN:to_store'
            WHEN x.to_brand <> CAST(:brand AS text) THEN 'NOT_YOURS:to_store'
            WHEN NOT x.item_known THEN 'ITEM_UNKNOWN:item'
            WHEN x.num IS NULL THEN 'UOM_UNKNOWN:uom'
            WHEN x.qty_base IS NULL THEN 'UOM_NOT_EXACT:quantity'
            WHEN x.currency IS NOT NULL AND x.value IS NULL THEN 'RATE_MISSING:fc_rate'
            WHEN x.value <> trunc(x.value) THEN 'VALUE_NOT_EXACT:value'
            WHEN x.currency IS NOT NULL AND x.said_value * x.minor <> x.value
                THEN 'RATE_MISMATCH:value'
            WHEN x.qty_base > 9223372036854775807 THEN 'OVERFLOW:quantity'
            WHEN abs(x.value) > 9223372036854775807 THEN 'OVERFLOW:value'
            WHEN x.first_line IS NOT NULL THEN 'DUPLICATE_IN_FILE:doc_line'
            WHEN x.found IS NOT NULL THEN 'FOUND:doc_line'
            WHEN x.period IS NULL THEN 'PERIOD_UNKNOWN:posting_date'
            WHEN x.period <> 'open' THEN 'PERIOD_CLOSED:posting_date'
            END AS verdict
          FROM exact x),
    -- A line may refer to one of its own batch. By windows: the lines of a batch that nobody has
    -- analyzed would be joined with each other by one loop in another.
    near AS MATERIALIZED (
        SELECT a.*,
               min(a.id) FILTER (WHERE {plain})
                   OVER (PARTITION BY coalesce(a.ref_doc, a.doc_id),
                                      coalesce(a.ref_line, a.doc_line), a.item) AS ref_here,
               min(a.id) FILTER (WHERE {plain})
                   OVER (PARTITION BY coalesce(a.reverses_doc, a.doc_id),
                                      coalesce(a.reverses_line, a.doc_line), a.kind)
                   AS reversed_here
          FROM alone a),
    judged AS MATERIALIZED (
        SELECT n.*,
               CASE WHEN n.ref_doc IS NOT NULL THEN coalesce(n.ref_id, n.ref_here) END
                   AS ref_movement_id,
               CASE WHEN n.reverses_doc IS NOT NULL THEN coalesce(n.reversed_id, n.reversed_here)
                   END AS reverses_movement_id, CASE
            WHEN n.verdict IS NOT NULL THEN n.verdict
            WHEN n.ref_doc IS NOT NULL AND n.ref_id IS NULL AND n.ref_here IS NULL
                THEN 'REF_UNKNOWN:ref_doc'
            WHEN n.reverses_doc IS NOT NULL AND n.reversed_id IS NULL AND n.reversed_here IS NULL
                THEN 'REF_UNKNOWN:reverses_doc'
            END AS judgement
          FROM near n),
    written AS (
        INSERT INTO books.stock_movements
               (id, company, brand, item, store, to_brand, to_store, kind, doc_id, doc_line,
                posting_date, posting_seq, qty_base, value, lot_id, ref_movement_id, cost_basis,
                reverses_movement_id, uom, qty_doc, currency, fc_amount, fc_rate, job_id)
        SELECT id, :company, brand, item, store, to_brand, to_store, kind, doc_id, doc_line,
               posting_date, posting_seq, qty_base, value, lot_id, ref_movement_id, cost_basis,
               reverses_movement_id, uom, qty_doc, currency, fc_amount, fc_rate,
               CAST(:job_id AS uuid)
          FROM judged WHERE judgement IS NULL ORDER BY line
        RETURNING 1),
    -- What differs is named only where anything does: most of a file that comes again is the same.
    told AS MATERIALIZED (
        SELECT j.*, d.there, d.differing
          FROM judged j
          LEFT JOIN LATERAL (
            SELECT CASE WHEN j.by_place THEN m.doc_id || ', line ' || m.doc_line END AS there,
                   CASE WHEN {differs} THEN ARRAY(
                        SELECT n.name FROM (VALUES {pairs}) AS n (name, differs) WHERE n.differs)
                   ELSE '{}' END AS differing
              FROM books.stock_movements m WHERE m.id = j.found) d ON true
         WHERE j.judgement IS NOT NULL)
    SELECT t.line, t.judgement, t.first_line, t.item, t.store, t.to_store, t.uom, t.quantity,
           t.said_value, t.value, t.posting_date, t.doc_id, t.doc_line, t.ref_doc, t.ref_line,
           t.reverses_doc, t.reverses_line, t.said_brand, t.brand, t.base_uom, t.period, t.fc_rate,
           t.fc_amount, t.currency, t.kind, t.by_place, t.there, t.differing, t.said,
           (SELECT count(*) FROM written) AS written,
           (SELECT count(*) FROM told u
             WHERE u.judgement = 'FOUND:doc_line' AND u.differing = '{}') AS unchanged
      FROM (SELECT 1) AS always
      LEFT JOIN told t ON t.judgement <> 'FOUND:doc_line' OR t.differing <> '{}'
     ORDER BY t.line"""
PLAIN = "a.verdict IS NULL AND a.ref_doc IS NULL AND a.reverses_doc IS NULL"
REFERRED = "CASE r.kind WHEN 'sales_return' THEN 'issue' ELSE 'receipt' END"
NAMES = {"qty_base": "quantity", "lot_id": "lot"}
RULES: Mapping[str, str] = {
    "STORE_UNKNOWN": "is no store of company {company}",
    "BRAND_MISMATCH": "is not the brand of store {store}, which is {brand}",
    "NOT_YOURS": "is a store of another brand than the import's",
    "ITEM_UNKNOWN": "is no item of company {company}: import the items first",
    "UOM_UNKNOWN": "is no unit of item {item}, whose base unit is {base_uom}",
    "UOM_NOT_EXACT": "is not a whole number of the smallest parts that item {item} is counted in",
    "RATE_MISSING": "is empty, and {currency} is not the company's currency",
    "VALUE_NOT_EXACT": "has more decimals than the company's currency, and is never rounded: write "
    "what the document says",
    "RATE_MISMATCH": "is not {fc_amount} {currency} at the rate, which is {value} of the smallest "
    "unit of the company's currency",
    "OVERFLOW": "is too large",
    "DUPLICATE_IN_FILE": "of document {doc_id} is in line {first_line} of the file already",
    "PERIOD_UNKNOWN": "lies in no period of company {company}",
    "PERIOD_CLOSED": "lies in a period that is {period}",
    "REF_UNKNOWN": "and its line name no movement of this item that is in the books, or before "
    "this line",
    "DIFFERS": "of document {doc_id} is in the books with another {differing}: a movement is never "
    "changed; take it back (reverses_doc, reverses_line) and give the new one another line",
    "PLACE_DIFFERS": "opens what document {there}, has opened in the books, with another "
    "{differing}: take that back (reverses_doc, reverses_line), or leave this line out",
}
# The lines of a batch, which are sorted three times: some MiB.
SORTED_IN_MEMORY = text("SET LOCAL work_mem = '32MB'")
COUNTED = (("created", "written"), ("unchanged", "unchanged"))
VALUES = {"quantity": "quantity", "value": "said_value"}


# Of an opening that is known by its place: what lies there altogether, in however many lines.
LYING = (
    ("quantity", "j.by_place AND j.lies IS DISTINCT FROM j.qty_base"),
    ("value", "j.by_place AND j.worth IS DISTINCT FROM j.value"),
    ("number of lines", "j.by_place AND j.several"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How a line is found again: SQL of the same row in the books, and of an earlier line.

    `number` finds it by its document, `place` an opening by what lies there, `taken_back` one that
    was there; `several`: whether the file has more lines for its place.
    """

    number: str
    place: str
    taken_back: str
    several: str
    first: str
    here: str
    compared: Sequence[str]
    references: Sequence[tuple[str, str]] = ()

    @property
    def statement(self) -> str:
        """The merge of a batch."""
        pairs = [
            (NAMES.get(name, name), f"NOT j.by_place AND m.{name} IS DISTINCT FROM j.{name}")
            for name in self.compared
        ]
        pairs += [*self.references, *LYING]
        return (
            FACTS.replace("{number}", self.number)
            .replace("{place}", self.place)
            .replace("{taken_back}", self.taken_back)
            .replace("{several}", self.several)
            .replace("{first}", self.first)
            .replace("{here}", self.here)
            .replace("{plain}", PLAIN)
            .replace("{referred}", REFERRED)
            .replace("{differs}", " OR ".join(said for _, said in pairs))
            .replace("{pairs}", ", ".join(f"('{name}', {said})" for name, said in pairs))
        )


NUMBERED = Identity(
    number=BY_NUMBER,
    place=BY_PLACE + OF_OTHERS,
    taken_back=NOBODY,
    several=SEVERAL,
    first=FIRST_BY_NUMBER,
    here="CAST(NULL AS bigint)",
    compared=COMPARED,
    references=REFERENCES,
)
PLACED = Identity(
    number=NOBODY,
    place=BY_PLACE,
    taken_back=TAKEN_BACK,
    several="false",
    first=FIRST_BY_PLACE,
    here=HERE_BY_PLACE,
    compared=[name for name in COMPARED if name not in {"posting_date", "posting_seq"}],
)


async def merge_movements(conn: AsyncConnection, batch: Batch, identity: Identity) -> Applied:
    """Write the batch's lines that are right and new; the others are counted, or refused.

    Conflict where somebody else has written one of them at this very moment: to be repeated.
    """
    company = batch.run.company
    since = await begin_bringing(conn, company)
    await conn.execute(SORTED_IN_MEMORY)
    binds = {"company": company, "brand": batch.run.brand, "job_id": batch.run.job_id}
    rows = (await batch.execute(conn, identity.statement, **binds)).mappings().all()
    counts = {name: int(rows[0][of]) for name, of in COUNTED if rows[0][of]}
    if counts.get("created") and not batch.run.dry_run:
        await end_bringing(conn, company, since)
    return Applied(
        counts=counts,
        rejects=[_reject(row, company) for row in rows if row["judgement"] is not None],
    )


def _reject(row: RowMapping, company: str) -> Reject:
    code, _, field = row["judgement"].partition(":")
    code = "DIFFERS" if code == "FOUND" else code
    said: dict[str, Any] = {
        **row,
        "company": company,
        "differing": " and ".join(row["differing"] or ()),
    }
    value = said_in_file(row["said"], field) or row.get(VALUES.get(field, field))
    return Reject(
        code=code,
        rule=RULES["PLACE_DIFFERS" if code == "DIFFERS" and row["by_place"] else code].format_map(
            said
        ),
        line=row["line"],
        field=field,
        value=None if value is None else str(value),
    )
