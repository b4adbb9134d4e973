"""Merge staged lines of items into the catalogue: new ones are added, names and groups follow.

What an item's movements are counted and costed by (base unit, decimals, method, lots, what a unit
holds) stays as it was written: a line that says otherwise is refused.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.migrations.task import Applied, Batch, Reject
from worker.records.staged_words import said_in_file

ONE_AT_A_TIME = text("""
    SELECT pg_advisory_xact_lock(hashtextextended(
        'books.import_items/' || CAST(:company AS text), 0))""")
MERGE = """
    WITH lines AS MATERIALIZED (
        SELECT r.* FROM {source} WHERE {where}),
    judged AS MATERIALIZED (
        SELECT r.*, e.code IS NOT NULL AS found, e.base_uom AS old_base_uom,
               e.qty_scale AS old_qty_scale, e.costing_method AS old_costing_method,
               e.lot_tracked AS old_lot_tracked, u.num AS old_num, u.den AS old_den,
               first.line AS first_line,
               e.name IS DISTINCT FROM r.name OR e.active <> r.active
                   OR e.item_group IS DISTINCT FROM coalesce(r.item_group, e.item_group)
                   AS changes,
               r.unit IS NOT NULL AND u.num IS NULL AS adds_unit,
               CASE
            WHEN first.line IS NOT NULL THEN 'DUPLICATE_IN_FILE:code'
            WHEN r.base_uom <> e.base_uom THEN 'ITEM_FIXED:base_uom'
            WHEN r.qty_scale <> e.qty_scale THEN 'ITEM_FIXED:qty_scale'
            WHEN r.costing_method <> e.costing_method THEN 'ITEM_FIXED:costing_method'
            WHEN r.lot_tracked <> e.lot_tracked THEN 'ITEM_FIXED:lot_tracked'
            WHEN u.num * coalesce(r.unit_den, 1) <> r.unit_num * u.den THEN 'UNIT_FIXED:unit_num'
            END AS judgement
          FROM lines r
          LEFT JOIN books.items e ON e.company = :company AND e.code = r.code
          LEFT JOIN books.item_units u
                 ON u.company = :company AND u.item = r.code AND u.unit = r.unit
          LEFT JOIN LATERAL (
            SELECT f.line FROM books.import_items f
             WHERE f.job_id = r.job_id AND f.code = r.code AND f.line < r.line
               AND (f.unit IS NOT DISTINCT FROM r.unit
                    OR (f.name, f.base_uom, f.qty_scale, f.costing_method, f.lot_tracked, f.active,
                        f.item_group)
                       IS DISTINCT FROM
                       (r.name, r.base_uom, r.qty_scale, r.costing_method, r.lot_tracked, r.active,
                        r.item_group))
             ORDER BY f.line LIMIT 1) first ON true),
    added AS (
        INSERT INTO books.items (company, code, name, base_uom, qty_scale, costing_method,
                                 lot_tracked, active, item_group)
        SELECT DISTINCT ON (code) :company, code, name, base_uom, coalesce(qty_scale, 0),
               coalesce(costing_method, 'periodic_avg'), coalesce(lot_tracked, false),
               coalesce(active, true), item_group
          FROM judged WHERE judgement IS NULL AND NOT found ORDER BY code, line
        RETURNING code),
    changed AS (
        UPDATE books.items i
           SET name = j.name, active = coalesce(j.active, i.active),
               item_group = coalesce(j.item_group, i.item_group)
          FROM judged j
         WHERE i.company = :company AND i.code = j.code AND j.judgement IS NULL AND j.found
           AND j.changes
        RETURNING i.code),
    units AS (
        INSERT INTO books.item_units (company, item, unit, num, den)
        SELECT :company, code, unit, unit_num, coalesce(unit_den, 1)
          FROM judged WHERE judgement IS NULL AND adds_unit
        RETURNING item)
    SELECT j.line, j.judgement, j.found, j.changes IS TRUE AS changes, j.adds_unit, j.code, j.unit,
           j.first_line, j.base_uom, j.qty_scale, j.costing_method, j.lot_tracked, j.unit_num,
           j.old_base_uom, j.old_qty_scale, j.old_costing_method, j.old_lot_tracked, j.old_num,
           j.old_den, j.said,
           (SELECT count(*) FROM added) + (SELECT count(*) FROM changed)
               + (SELECT count(*) FROM units) AS written
      FROM judged j ORDER BY j.line"""
RULES: Mapping[str, str] = {
    "DUPLICATE_IN_FILE": "is in line {first_line} of the file already",
    "ITEM_FIXED": "of item {code} is {old}: what movements are counted and costed by stays",
    "UNIT_FIXED": "of unit {unit} of item {code} is {old_num}/{old_den}: what a unit holds stays, "
    "give another size another name",
}


async def merge_items(conn: AsyncConnection, batch: Batch) -> Applied:
    """Write the batch's lines that are right; they are counted by what became of each."""
    company = batch.run.company
    await conn.execute(ONE_AT_A_TIME, {"company": company})
    rows = (await batch.execute(conn, MERGE, company=company)).mappings().all()
    counts: dict[str, int] = {}
    rejects = []
    for row in rows:
        if row["judgement"] is not None:
            rejects.append(_reject(row))
            continue
        outcome = _outcome(row)
        counts[outcome] = counts.get(outcome, 0) + 1
    return Applied(counts=counts, rejects=rejects)


def _outcome(row: RowMapping) -> str:
    if not row["found"]:
        return "created"
    return "updated" if row["changes"] or row["adds_unit"] else "unchanged"


def _reject(row: RowMapping) -> Reject:
    code, _, field = row["judgement"].partition(":")
    said: dict[str, Any] = {**row, "old": row.get(f"old_{field}")}
    value = said_in_file(row["said"], field) or row[field]
    return Reject(
        code=code,
        rule=RULES[code].format_map(said),
        line=row["line"],
        field=field,
        value=None if value is None else str(value),
    )
