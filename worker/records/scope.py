"""Which items a run is about: codes and selectors resolved, and closed under production."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError
from worker.records.cost_runs import BY_POLICY, CostRun

FAILED, DIRTY, ERRORS_OF = "@failed", "@dirty", "@errors:"

UNKNOWN_ITEMS = text("""
    SELECT c.item FROM unnest(CAST(:items AS text[])) AS c (item)
     WHERE NOT EXISTS (SELECT FROM books.items i WHERE i.company = :company AND i.code = c.item)
     ORDER BY c.item LIMIT 20""")
FAILED_ITEMS = text("""
    SELECT DISTINCT item FROM books.active_results
     WHERE company = :company AND period = :period AND failed
       AND (CAST(:brand AS text) IS NULL OR brand = :brand)""")
# Dirty: movements that came after the run, an opening that has changed, another method since, or
# goods carried over that a costed period has never heard of.
DIRTY_ITEMS = text("""
    SELECT item FROM books.late_movements
     WHERE company = :company AND period = :period
       AND (CAST(:brand AS text) IS NULL OR brand = :brand)
    UNION
    SELECT a.item FROM books.active_results a
      JOIN books.items i ON i.company = a.company AND i.code = a.item
     WHERE a.company = :company AND a.period = :period
       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)
       AND (a.stale OR a.method IS DISTINCT FROM coalesce(
               (SELECT m.method FROM books.costing_methods m
                 WHERE m.company = a.company AND m.item = a.item AND m.valid_from <= :starts_on
                 ORDER BY m.valid_from DESC, m.id DESC LIMIT 1), i.costing_method))
    UNION
    SELECT a.item FROM books.active_results a
     WHERE a.company = :company AND a.period = :previous_period
       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)
       AND NOT EXISTS (SELECT FROM books.active_results n
                        WHERE n.company = a.company AND n.brand = a.brand AND n.period = :period
                          AND n.item = a.item)""")
FIND_RUN = text("""
    SELECT EXISTS (SELECT FROM books.cost_run_items w WHERE w.run_id = r.id) AS kept
      FROM books.cost_runs r
     WHERE r.id = :errors_of AND r.company = :company AND r.period = :period""")
ITEMS_OF_ERRORS = text("""
    SELECT DISTINCT item FROM books.cost_run_items
     WHERE run_id = :errors_of AND failed AND (CAST(:brand AS text) IS NULL OR brand = :brand)""")


async def resolve_scope(conn: AsyncConnection, run: CostRun, asked: Sequence[str]) -> set[str]:
    """The items that codes and selectors mean now.

    Raises PermanentError ITEM_UNKNOWN, or RUN_UNKNOWN for the errors of a run that is not of this
    period or whose rows are gone.
    """
    selectors = [each for each in asked if each.startswith("@")]
    items = {each for each in asked if not each.startswith("@")}
    unknown = await _column(conn, UNKNOWN_ITEMS, run, items=sorted(items))
    if unknown:
        raise PermanentError(
            f"ITEM_UNKNOWN: company {run.company} has no items {', '.join(unknown)}",
            code="ITEM_UNKNOWN",
            details={"items": unknown},
        )
    for selector in selectors:
        if selector == FAILED:
            items.update(await _column(conn, FAILED_ITEMS, run))
        elif selector == DIRTY:
            items.update(await _column(conn, DIRTY_ITEMS, run))
        else:
            items.update(await _errors_of(conn, run, int(selector.removeprefix(ERRORS_OF))))
    return items


async def _errors_of(conn: AsyncConnection, run: CostRun, other: int) -> list[str]:
    kept = await _column(conn, FIND_RUN, run, errors_of=other)
    if not kept or not kept[0]:
        raise PermanentError(
            f"RUN_UNKNOWN: there are no results of a run {other} of period {run.period}",
            code="RUN_UNKNOWN",
            details={"run_id": other},
        )
    return await _column(conn, ITEMS_OF_ERRORS, run, errors_of=other)


async def _column(conn: AsyncConnection, query: object, run: CostRun, **more: object) -> list[str]:
    return list((await conn.execute(query, {**run.binds, **more})).scalars())  # type: ignore[call-overload]


# Which item is made of which, by the documents of the period that the run's snapshot sees.
MADE_OF = text("""
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = :run_id)
    SELECT DISTINCT p.item AS made, c.item AS used
      FROM books.stock_movements p
      JOIN books.stock_movements c
        ON c.company = p.company AND c.doc_id = p.doc_id AND c.kind = 'consume'
       AND c.posting_date BETWEEN :starts_on AND :ends_on
     WHERE p.company = :company AND p.kind = 'produce' AND p.value IS NULL
       AND p.posting_date BETWEEN :starts_on AND :ends_on AND p.item <> c.item
       AND pg_visible_in_snapshot(p.xid, (SELECT snapshot FROM run))
       AND pg_visible_in_snapshot(c.xid, (SELECT snapshot FROM run))""")


async def read_families(conn: AsyncConnection, run: CostRun) -> dict[str, str]:
    """Items that are costed together, by item: the name of its family, the first of its items.

    Only families of more than one item are listed.
    """
    rows = (await conn.execute(MADE_OF, run.binds)).all()
    return families((row.made, row.used) for row in rows)


def families(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first member of everything that pairs connect, by member."""
    parent: dict[str, str] = {}

    def find(item: str) -> str:
        parent.setdefault(item, item)
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for one, other in pairs:
        low, high = sorted((find(one), find(other)))
        parent[high] = low
    return {item: find(item) for item in sorted(parent)}


def closed_under(families_of: Mapping[str, str], items: Iterable[str]) -> frozenset[str]:
    """The items with everything that is made of them or that they are made of."""
    wanted = set(items)
    named = {families_of[item] for item in wanted if item in families_of}
    return frozenset(wanted | {item for item, family in families_of.items() if family in named})


UNCOSTED_BRANDS = text("""
    SELECT b.code FROM books.brands b
     WHERE b.company = :company AND (CAST(:brand AS text) IS NULL OR b.code = :brand)
       AND EXISTS (SELECT FROM books.stock_movements m
                    WHERE m.company = b.company AND m.brand = b.code
                      AND m.posting_date < :starts_on
                   UNION ALL
                   SELECT FROM books.stock_movements m
                    WHERE m.company = b.company AND m.to_brand = b.code AND m.to_brand <> m.brand
                      AND m.posting_date < :starts_on)
       AND NOT EXISTS (SELECT FROM books.active_results a
                        WHERE a.company = b.company AND a.brand = b.code
                          AND a.period = :previous_period)
     ORDER BY b.code""")


async def require_costed_past(conn: AsyncConnection, run: CostRun) -> None:
    """An opening that nobody has costed would silently be worth nothing.

    Raises PermanentError PREVIOUS_PERIOD_NOT_COSTED.
    """
    if run.previous_period is None:
        return  # the gate lets no movement in before the first period
    found = (await conn.execute(UNCOSTED_BRANDS, run.binds)).scalars().all()
    if found:
        raise PermanentError(
            f"PREVIOUS_PERIOD_NOT_COSTED: brands {', '.join(found)} have movements before "
            f"{run.starts_on} and no costs of period {run.previous_period}; cost that one first",
            code="PREVIOUS_PERIOD_NOT_COSTED",
            details={"brands": list(found), "period": run.previous_period},
        )


OTHER_METHODS = text("""
    SELECT DISTINCT item, method FROM books.cost_run_items
     WHERE run_id = :run_id AND method <> :method ORDER BY item LIMIT 20""")


async def require_method(conn: AsyncConnection, run: CostRun) -> None:
    """Hold the payload to its word. Raises PermanentError METHOD_MISMATCH, naming items."""
    if run.method == BY_POLICY:
        return
    rows = (await conn.execute(OTHER_METHODS, {"run_id": run.id, "method": run.method})).all()
    if rows:
        named = ", ".join(f"{row.item} ({row.method})" for row in rows)
        raise PermanentError(
            f"METHOD_MISMATCH: the job says {run.method}; by policy that is not so for {named}",
            code="METHOD_MISMATCH",
            details={"method": run.method, "items": {row.item: row.method for row in rows}},
        )
