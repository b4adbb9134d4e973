"""What becomes of staged lines of movements: judged set-based, and written by the same statement.

A line is known by document, line and kind, an opening also by day, store, item and lot. One that is
in the books already is left as it is, and refused where it says something else: movements are
facts, what is wrong with one is taken back by another.

What many lines of a batch name (stores, items, days, documents) is looked up once each, by its key,
and joined FULL: that is done by hashing or sorting only. By the statistics of a stage that nobody
has analyzed, any other join would be one loop in another. Where a side may have more than the lines
do, the filter behind it is one that no planner turns into a smaller join.
"""

from collections.abc import Sequence
from dataclasses import dataclass

BY_NUMBER = """
        SELECT m.doc_id, m.doc_line, m.kind, m.stands, min(m.id) AS id FROM spans d
         CROSS JOIN LATERAL (
               SELECT m.doc_id, m.doc_line, m.kind, m.reverses_movement_id IS NULL AS stands, m.id
                 FROM books.stock_movements m
                WHERE m.doc_id = d.doc_id AND m.doc_line BETWEEN d.low AND d.high
                  AND m.company || '' = :company OFFSET 0) m
         GROUP BY m.doc_id, m.doc_line, m.kind, m.stands"""
# Of lines that were taken before, the books tell; of those of the batch, that they have a number in
# common. What was refused before, or (in a dry run) taken back again, only the stage does.
FIRST_BY_NUMBER = """
        SELECT f.doc_id, f.doc_line, f.kind, f.stands, min(f.line) AS line
          FROM (SELECT u.doc_id, min(u.low) AS low, max(u.high) AS high
                  FROM (SELECT doc_id, doc_line AS low, doc_line AS high FROM numbers
                         UNION ALL
                        SELECT doc_id, low, high FROM spans
                         WHERE CAST(:thorough AS boolean)
                            OR many > bit_count(CAST(seen AS bit(16)))) u
                 GROUP BY u.doc_id, u.low / 16) d
         CROSS JOIN LATERAL (
               SELECT f.doc_id, f.doc_line, f.kind, f.reverses_doc IS NULL AS stands, f.line
                 FROM books.import_movements f
                WHERE f.doc_id = d.doc_id AND f.doc_line BETWEEN d.low AND d.high
                  AND f.job_id = CAST(:job_id AS uuid) OFFSET 0) f
         GROUP BY f.doc_id, f.doc_line, f.kind, f.stands HAVING count(*) > 1"""
NOTHING = """
        SELECT CAST(NULL AS text) AS doc_id, 0 AS doc_line, CAST(NULL AS text) AS kind,
               false AS stands, CAST(NULL AS bigint) AS id, CAST(NULL AS bigint) AS line
         WHERE false"""
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
OF_OTHERS = """
               AND r.kind = 'opening' AND r.reverses_doc IS NULL AND n.id IS NULL
               AND (SELECT true FROM books.import_movements f
                     WHERE f.job_id = r.job_id AND f.doc_id = m.doc_id AND f.doc_line = m.doc_line
                       AND f.kind = 'opening' LIMIT 1) IS NULL"""
NOBODY = "SELECT CAST(NULL AS bigint) AS id"
SEVERAL = """CASE WHEN r.kind = 'opening' THEN (
            SELECT true FROM books.import_movements f
             WHERE f.kind = 'opening' AND f.job_id = r.job_id
               AND f.item = r.item AND f.store = r.store AND f.posting_date = r.posting_date
               AND f.lot IS NOT DISTINCT FROM r.lot AND f.line <> r.line LIMIT 1) END"""
# An opening that was taken back stays taken back; what is right comes in a line of another number.
TAKEN_BACK = """
            SELECT m.id FROM books.stock_movements m
             WHERE e.id IS NULL AND m.doc_id = r.doc_id AND m.doc_line = r.doc_line
               AND m.kind = 'opening' AND m.item = r.item AND m.store = r.store
               AND m.posting_date = r.posting_date AND m.lot_id IS NOT DISTINCT FROM r.lot
               AND m.company || '' = :company AND m.reverses_movement_id IS NULL
             ORDER BY m.id LIMIT 1"""
# Within the batch: before it, it is in the books.
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
# Of an opening that is known by its place: what lies there altogether, in however many lines.
LYING = (
    ("quantity", "j.by_place AND j.lies IS DISTINCT FROM j.qty_base"),
    ("value", "j.by_place AND j.worth IS DISTINCT FROM j.value"),
    ("number of lines", "j.by_place AND j.several"),
)
NAMES = {"qty_base": "quantity", "lot_id": "lot"}

_NAMED = """
    -- Ids in the order of the file: within a day costing goes by them.
    WITH lines AS MATERIALIZED (
        SELECT l.*, nextval('books.stock_movements_id_seq') AS id
          FROM (SELECT r.*, {here} AS first_here FROM {source} WHERE {where} ORDER BY r.line) l),
    books AS MATERIALIZED (
        SELECT c.currency AS own, CAST(10 AS numeric) ^ c.minor_digits AS minor
          FROM books.companies c WHERE c.code = :company),
    stores AS MATERIALIZED (
        SELECT d.store, s.brand FROM (SELECT DISTINCT store FROM lines) d
         CROSS JOIN LATERAL (SELECT s.brand FROM books.stores s
                              WHERE s.company = :company AND s.code = d.store OFFSET 0) s),
    targets AS MATERIALIZED (
        SELECT d.to_store, s.brand
          FROM (SELECT DISTINCT to_store FROM lines WHERE to_store IS NOT NULL) d
         CROSS JOIN LATERAL (SELECT s.brand FROM books.stores s
                              WHERE s.company = :company AND s.code = d.to_store OFFSET 0) s),
    items AS MATERIALIZED (
        SELECT d.item, i.base_uom, CAST(10 AS numeric) ^ i.qty_scale AS one
          FROM (SELECT DISTINCT item FROM lines) d
         CROSS JOIN LATERAL (SELECT i.base_uom, i.qty_scale FROM books.items i
                              WHERE i.company = :company AND i.code = d.item OFFSET 0) i),
    units AS MATERIALIZED (
        SELECT d.item, d.uom, u.num, u.den
          FROM (SELECT DISTINCT item, uom FROM lines WHERE uom IS NOT NULL) d
         CROSS JOIN LATERAL (SELECT u.num, u.den FROM books.item_units u
                              WHERE u.company = :company AND u.item = d.item AND u.unit = d.uom
                             OFFSET 0) u),
    days AS MATERIALIZED (
        SELECT d.posting_date, p.status FROM (SELECT DISTINCT posting_date FROM lines) d
         CROSS JOIN LATERAL (SELECT p.status FROM books.periods p
                              WHERE p.company = :company
                                AND d.posting_date BETWEEN p.starts_on AND p.ends_on
                              LIMIT 1) p),
    -- Documents, each by the blocks of line numbers that the batch has of it: what lies there is
    -- read together, and of a document of a million lines only what lies near.
    spans AS MATERIALIZED (
        SELECT doc_id, min(doc_line) AS low, max(doc_line) AS high, count(*) AS many,
               bit_or(1 << (doc_line % 16)) AS seen
          FROM lines GROUP BY doc_id, doc_line / 16),
    numbers AS MATERIALIZED ({number}),
    doubles AS MATERIALIZED ({first}),"""
_FACTS = """
    facts AS (
        SELECT r.id, r.line, r.doc_id, r.doc_line, r.kind, r.posting_date,
               coalesce(r.posting_seq, 0) AS posting_seq, r.item, r.store, r.to_store,
               r.lot AS lot_id, r.uom, CASE WHEN r.uom IS NOT NULL THEN r.quantity END AS qty_doc,
               r.quantity, r.currency, r.fc_amount, r.fc_rate, r.cost_basis, r.brand AS said_brand,
               r.ref_doc, r.ref_line, r.reverses_doc, r.reverses_line, r.value AS said_value,
               r.said, s.brand, t.brand AS to_brand, i.item IS NOT NULL AS item_known, i.base_uom,
               CASE WHEN r.uom IS NULL OR r.uom = i.base_uom THEN 1 ELSE u.num END AS num,
               CASE WHEN r.uom IS NULL OR r.uom = i.base_uom THEN 1 ELSE u.den END AS den,
               i.one, b.minor, b.own, p.status AS period,
               CASE WHEN r.currency IS NULL THEN r.value * b.minor
                    ELSE floor(r.fc_amount * CASE WHEN r.fc_rate IS NULL AND r.currency = b.own
                                                  THEN 1 ELSE r.fc_rate END * b.minor + 0.5)
                    END AS value,
               coalesce(n.id, e.id, k.id) AS found, n.id IS NULL AND e.id IS NOT NULL AS by_place,
               e.qty_base AS lies, e.value AS worth, {several} AS several,
               CASE WHEN coalesce(f.line, r.first_here) < r.line
                    THEN coalesce(f.line, r.first_here) END AS first_line,
               CASE WHEN r.ref_doc IS NOT NULL THEN (
                SELECT m.id FROM books.stock_movements m
                 WHERE m.doc_id = r.ref_doc AND m.doc_line = r.ref_line AND m.item = r.item
                   AND m.company || '' = :company AND m.reverses_movement_id IS NULL
                 ORDER BY m.kind = {referred} DESC, m.id LIMIT 1) END AS ref_id,
               CASE WHEN r.reverses_doc IS NOT NULL THEN (
                SELECT m.id FROM books.stock_movements m
                 WHERE m.doc_id = r.reverses_doc AND m.doc_line = r.reverses_line
                   AND m.kind = r.kind
                   AND m.company || '' = :company AND m.reverses_movement_id IS NULL
                 ORDER BY m.id LIMIT 1) END AS reversed_id
          FROM lines r
          FULL JOIN stores s ON s.store = r.store
          FULL JOIN targets t ON t.to_store = r.to_store
          FULL JOIN items i ON i.item = r.item
          FULL JOIN units u ON u.item = r.item AND u.uom = r.uom
          FULL JOIN days p ON p.posting_date = r.posting_date
          FULL JOIN numbers n ON n.doc_id = r.doc_id AND n.doc_line = r.doc_line
                AND n.kind = r.kind AND n.stands = (r.reverses_doc IS NULL)
          FULL JOIN doubles f ON f.doc_id = r.doc_id AND f.doc_line = r.doc_line
                AND f.kind = r.kind AND f.stands = (r.reverses_doc IS NULL)
         CROSS JOIN books b
          LEFT JOIN LATERAL ({place}) e ON true
          LEFT JOIN LATERAL ({taken_back}) k ON true
         WHERE coalesce(r.line, 0) > 0),
    parts AS (
        SELECT f.*, f.quantity * f.num * f.one AS parts FROM facts f OFFSET 0),
    exact AS (
        SELECT n.*, CASE WHEN mod(n.parts, n.den) = 0 THEN div(n.parts, n.den) END AS qty_base
          FROM parts n OFFSET 0),"""
_ALONE = """
    alone AS {materialized} (
        SELECT CASE
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
            END AS verdict, x.*
          FROM exact x OFFSET 0),"""
# Where no line of the batch refers to another.
_BY_ITSELF = """
    judged AS MATERIALIZED (
        SELECT a.verdict AS judgement, a.*, CAST(NULL AS bigint) AS ref_movement_id,
               CAST(NULL AS bigint) AS reverses_movement_id
          FROM alone a),"""
# A line may refer to one of its own batch. By windows: the lines of a batch that nobody has
# analyzed would be joined with each other by one loop in another.
_REFERRING = """
    near AS (
        SELECT a.*,
               min(a.id) FILTER (WHERE {plain})
                   OVER (PARTITION BY coalesce(a.ref_doc, a.doc_id),
                                      coalesce(a.ref_line, a.doc_line), a.item) AS ref_here,
               min(a.id) FILTER (WHERE {plain})
                   OVER (PARTITION BY coalesce(a.reverses_doc, a.doc_id),
                                      coalesce(a.reverses_line, a.doc_line), a.kind)
                   AS reversed_here
          FROM alone a ORDER BY a.line),
    judged AS MATERIALIZED (
        SELECT CASE
            WHEN n.verdict IS NOT NULL THEN n.verdict
            WHEN n.ref_doc IS NOT NULL AND n.ref_id IS NULL AND n.ref_here IS NULL
                THEN 'REF_UNKNOWN:ref_doc'
            WHEN n.reverses_doc IS NOT NULL AND n.reversed_id IS NULL AND n.reversed_here IS NULL
                THEN 'REF_UNKNOWN:reverses_doc'
            END AS judgement, n.*,
               CASE WHEN n.ref_doc IS NOT NULL THEN coalesce(n.ref_id, n.ref_here) END
                   AS ref_movement_id,
               CASE WHEN n.reverses_doc IS NOT NULL THEN coalesce(n.reversed_id, n.reversed_here)
                   END AS reverses_movement_id
          FROM near n),"""
_WRITTEN = """
    written AS (
        INSERT INTO books.stock_movements
               (id, company, brand, item, store, to_brand, to_store, kind, doc_id, doc_line,
                posting_date, posting_seq, qty_base, value, lot_id, ref_movement_id, cost_basis,
                reverses_movement_id, uom, qty_doc, currency, fc_amount, fc_rate, job_id)
        SELECT id, :company, brand, item, store, to_brand, to_store, kind, doc_id, doc_line,
               posting_date, posting_seq, qty_base, value, lot_id, ref_movement_id, cost_basis,
               reverses_movement_id, uom, qty_doc, currency, fc_amount, fc_rate,
               CAST(:job_id AS uuid)
          FROM judged WHERE judgement IS NULL),
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
           (SELECT count(*) FROM judged w WHERE w.judgement IS NULL) AS written,
           ARRAY(SELECT DISTINCT w.posting_date FROM judged w WHERE w.judgement IS NULL) AS days,
           (SELECT count(*) FROM told u
             WHERE u.judgement = 'FOUND:doc_line' AND u.differing = '{}') AS unchanged
      FROM (SELECT 1) AS always
      LEFT JOIN told t ON t.judgement <> 'FOUND:doc_line' OR t.differing <> '{}'
     ORDER BY t.line"""
PLAIN = "a.verdict IS NULL AND a.ref_doc IS NULL AND a.reverses_doc IS NULL"
REFERRED = "CASE r.kind WHEN 'sales_return' THEN 'issue' ELSE 'receipt' END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How a line is found again: SQL of the same rows in the books, and of the first of doubles.

    `number` finds them by their documents, `place` an opening by what lies there, `taken_back` one
    that was there; `several`: whether the file has more lines for its place.
    """

    number: str
    place: str
    taken_back: str
    several: str
    first: str
    here: str
    compared: Sequence[str]
    references: Sequence[tuple[str, str]] = ()

    def statement(self, *, referring: bool) -> str:
        """The merge of a batch; `referring`: of one in which a line refers to another."""
        pairs = [
            (NAMES.get(name, name), f"NOT j.by_place AND m.{name} IS DISTINCT FROM j.{name}")
            for name in self.compared
        ]
        pairs += [*self.references, *LYING]
        judged = _REFERRING if referring else _BY_ITSELF
        return (
            (_NAMED + _FACTS + _ALONE + judged + _WRITTEN)
            .replace("{number}", self.number)
            .replace("{place}", self.place)
            .replace("{taken_back}", self.taken_back)
            .replace("{several}", self.several)
            .replace("{first}", self.first)
            .replace("{here}", self.here)
            .replace("{plain}", PLAIN)
            .replace("{referred}", REFERRED)
            .replace("{materialized}", "MATERIALIZED" if referring else "")
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
    number=NOTHING,
    place=BY_PLACE,
    taken_back=TAKEN_BACK,
    several="false",
    first=NOTHING,
    here=HERE_BY_PLACE,
    compared=[name for name in COMPARED if name not in {"posting_date", "posting_seq"}],
)
