"""The work list of a run: which items it costs, in which families, and what is left to do."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItem:
    """An item of a brand that the run has not costed yet; a family is costed together.

    `tied`: other brands have been costed with it before, which a run of one brand cannot do.
    """

    brand: str
    item: str
    family: str
    movements: int
    opening_run_id: int | None
    opening_failed: bool
    method: str
    tied: bool


# Scope and days are binds, not columns of the run: only so does the planner know how much of the
# table they are, and it reads a whole period in one pass instead of a row at a time. What arrives
# from another brand is listed with no movement of its own: it is counted where it leaves.
LIST_ITEMS = text("""
    INSERT INTO books.cost_run_items
           (run_id, brand, item, family, movements, opening_run_id, opening_failed, method, tied)
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = :run_id)
    SELECT :run_id, w.brand, w.item, w.item, w.movements, w.opening_run_id,
           w.opening_failed OR (w.opening_run_id IS NULL AND EXISTS (
               SELECT FROM books.stock_movements e
                WHERE e.company = :company AND e.brand = w.brand AND e.item = w.item
                  AND e.posting_date < :starts_on
                  AND pg_visible_in_snapshot(e.xid, (SELECT snapshot FROM run))
               UNION ALL
               SELECT FROM books.stock_movements e
                WHERE e.company = :company AND e.to_brand = w.brand AND e.to_brand <> e.brand
                  AND e.item = w.item AND e.posting_date < :starts_on
                  AND pg_visible_in_snapshot(e.xid, (SELECT snapshot FROM run)))),
           coalesce((SELECT m.method FROM books.costing_methods m
                      WHERE m.company = :company AND m.item = w.item AND m.valid_from <= :starts_on
                      ORDER BY m.valid_from DESC, m.id DESC LIMIT 1), i.costing_method),
           CAST(:brand AS text) IS NOT NULL AND EXISTS (
               SELECT FROM books.active_results a
                WHERE a.company = :company AND a.brand = w.brand AND a.period = :period
                  AND a.item = w.item AND a.tied)
      FROM (SELECT brand, item, CAST(sum(movements) AS bigint) AS movements,
                   max(opening_run_id) AS opening_run_id, bool_or(opening_failed) AS opening_failed
              FROM (SELECT m.brand, m.item, count(*) AS movements,
                           CAST(NULL AS bigint) AS opening_run_id, false AS opening_failed
                      FROM books.stock_movements m
                     WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                       AND (CAST(:brand AS text) IS NULL OR m.brand = :brand)
                       AND (CAST(:items AS text[]) IS NULL
                            OR m.item = ANY (CAST(:items AS text[])))
                       AND pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))
                     GROUP BY m.brand, m.item
                    UNION ALL
                    SELECT m.to_brand, m.item, 0, NULL, false
                      FROM books.stock_movements m
                     WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                       AND m.to_brand <> m.brand
                       AND (CAST(:brand AS text) IS NULL OR m.to_brand = :brand)
                       AND (CAST(:items AS text[]) IS NULL
                            OR m.item = ANY (CAST(:items AS text[])))
                       AND pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))
                     GROUP BY m.to_brand, m.item
                    UNION ALL
                    SELECT a.brand, a.item, 0, a.run_id, a.failed FROM books.active_results a
                     WHERE a.company = :company AND a.period = :previous_period
                       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)
                       AND (CAST(:items AS text[]) IS NULL
                            OR a.item = ANY (CAST(:items AS text[])))) AS sources
             GROUP BY brand, item) w
      JOIN books.items i ON i.company = :company AND i.code = w.item""")
JOIN_FAMILIES = text("""
    UPDATE books.cost_run_items w SET family = f.family
      FROM unnest(CAST(:items AS text[]), CAST(:families AS text[])) AS f (item, family)
     WHERE w.run_id = :run_id AND w.item = f.item AND w.family <> f.family""")


async def list_items(
    conn: AsyncConnection,
    run: CostRun,
    items: frozenset[str] | None,
    families_of: Mapping[str, str],
) -> int:
    """Write the run's work list as its snapshot sees it, of all items or of some; how many rows."""
    binds = {**run.binds, "items": None if items is None else sorted(items)}
    listed = (await conn.execute(LIST_ITEMS, binds)).rowcount
    if families_of:
        await conn.execute(
            JOIN_FAMILIES,
            {
                "run_id": run.id,
                "items": list(families_of),
                "families": list(families_of.values()),
            },
        )
    return listed


NEXT_ITEMS = text("""
    SELECT brand, item, family, movements, opening_run_id, opening_failed, method, tied
      FROM books.cost_run_items
     WHERE run_id = :run_id AND NOT done AND family > :after
       AND (CAST(:part AS integer) IS NULL OR part = :part)
     ORDER BY family, item, brand LIMIT :most""")
FAMILY_ITEMS = text("""
    SELECT brand, item, family, movements, opening_run_id, opening_failed, method, tied
      FROM books.cost_run_items
     WHERE run_id = :run_id AND NOT done AND family = :family ORDER BY item, brand""")

# More items than this in one transaction are no gain, however few movements they have.
MOST_ITEMS = 500


async def next_items(
    conn: AsyncConnection, run: CostRun, after: str, movements: int, part: int | None = None
) -> list[PendingItem]:
    """The next whole families that are not costed yet, together about so many movements; [] at end.

    At least one, whatever it has, so that the run always moves.
    """
    binds = {"run_id": run.id, "after": after, "part": part, "most": MOST_ITEMS}
    rows = [PendingItem(**row) for row in (await conn.execute(NEXT_ITEMS, binds)).mappings()]
    if not rows:
        return []
    first = rows[0].family
    if len(rows) == MOST_ITEMS:  # the last family may go on beyond the limit
        rows = [row for row in rows if row.family != rows[-1].family]
    if not rows:
        whole = {"run_id": run.id, "family": first}
        return [PendingItem(**r) for r in (await conn.execute(FAMILY_ITEMS, whole)).mappings()]
    return _within(rows, movements)


def _within(rows: list[PendingItem], movements: int) -> list[PendingItem]:
    weights: dict[str, int] = {}
    for row in rows:
        weights[row.family] = weights.get(row.family, 0) + row.movements
    taken: set[str] = set()
    room = movements
    for family, weight in weights.items():
        if taken and weight > room:
            break
        taken.add(family)
        room -= weight
    return [row for row in rows if row.family in taken]


COUNT_DONE = text("""
    SELECT coalesce(sum(movements) FILTER (WHERE done), 0) AS done,
           coalesce(sum(movements), 0) AS total,
           count(*) FILTER (WHERE done) AS items_done, count(*) AS items
      FROM books.cost_run_items
     WHERE run_id = :run_id AND (CAST(:part AS integer) IS NULL OR part = :part)""")


@dataclass(slots=True, kw_only=True)
class Tally:
    """How far a run is, in movements and in items."""

    done: int
    total: int
    items_done: int
    items: int


async def count_done(conn: AsyncConnection, run: CostRun, part: int | None = None) -> Tally:
    """How far the run is, or a part of it, counted."""
    row = (await conn.execute(COUNT_DONE, {"run_id": run.id, "part": part})).one()
    return Tally(
        done=int(row.done), total=int(row.total), items_done=row.items_done, items=row.items
    )
