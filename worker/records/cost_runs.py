"""Cost runs: begin one, list its work, find what changed under it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError

METHOD = "periodic_avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRun:
    """A run that is being built: its scope, and which store lies in which pool."""

    id: int
    company: str
    brand: str | None
    period: str
    starts_on: date
    ends_on: date
    previous_period: str | None
    residue_policy: str
    pool_of: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItem:
    """An item of a brand that the run has not costed yet."""

    brand: str
    item: str
    movements: int
    opening_run_id: int | None
    opening_failed: bool
    costing_method: str


# The pools in force on the first day; a store without a row lies in the pool of its brand.
POOLS = """
    (SELECT coalesce(jsonb_object_agg(s.code, jsonb_build_array(s.brand,
                CASE {policy} WHEN 'brand' THEN s.brand WHEN 'store' THEN s.code
                     ELSE coalesce(m.pool, s.brand) END)), '{{}}')
       FROM books.stores s
       LEFT JOIN LATERAL (SELECT pool FROM books.cost_pool_map m
                           WHERE m.company = s.company AND m.store = s.code
                             AND m.valid_from <= p.starts_on
                           ORDER BY m.valid_from DESC LIMIT 1) m ON true
      WHERE s.company = p.company)"""

BEGIN_RUN = text(f"""
    INSERT INTO books.cost_runs
           (job_id, fence, company, brand, period, starts_on, ends_on, previous_period, method,
            pool_policy, residue_policy, pools, snapshot)
    SELECT :job_id, :fence, p.company, :brand, p.period, p.starts_on, p.ends_on,
           (SELECT q.period FROM books.periods q
             WHERE q.company = p.company AND q.ends_on < p.starts_on
             ORDER BY q.ends_on DESC LIMIT 1),
           :method, :pool_policy, :residue_policy,
           {POOLS.format(policy="CAST(:pool_policy AS text)")},
           pg_current_snapshot()
      FROM books.periods p
     WHERE p.company = :company AND p.period = :period AND p.status = 'open'
    RETURNING id""")

READ_PERIOD = text("""
    SELECT status FROM books.periods WHERE company = :company AND period = :period""")


async def begin_run(
    conn: AsyncConnection,
    *,
    job_id: UUID,
    fence: int,
    company: str,
    brand: str | None,
    period: str,
    pool_policy: str,
    residue_policy: str,
) -> CostRun:
    """Begin a run over what is committed now; its snapshot, pools and work list are fixed here.

    Raises PermanentError PERIOD_UNKNOWN, PERIOD_CLOSED or PREVIOUS_PERIOD_NOT_COSTED.
    """
    binds = {
        "job_id": job_id,
        "fence": fence,
        "company": company,
        "brand": brand,
        "period": period,
        "method": METHOD,
        "pool_policy": pool_policy,
        "residue_policy": residue_policy,
    }
    run_id = (await conn.execute(BEGIN_RUN, binds)).scalar_one_or_none()
    if run_id is None:
        scope = {"company": company, "period": period}
        status = (await conn.execute(READ_PERIOD, scope)).scalar_one_or_none()
        raise closed_period(company, period, status)
    run = await read_run(conn, run_id)
    assert run is not None, "the run was inserted by this transaction"
    await _require_costed_past(conn, run)
    await list_items(conn, run, None)
    await conn.execute(text("SELECT books.open_run_storage(:run_id)"), {"run_id": run_id})
    return run


def closed_period(company: str, period: str, status: str | None) -> PermanentError:
    """The error of a period that is unknown (None), closing or closed."""
    if status is None:
        words, code = f"company {company} has no period {period}", "PERIOD_UNKNOWN"
    else:
        words, code = f"period {period} of company {company} is {status}", "PERIOD_CLOSED"
    return PermanentError(
        f"{code}: {words}; nothing was changed",
        code=code,
        details={"company": company, "period": period, "status": status},
    )


UNCOSTED_BRANDS = text("""
    SELECT b.code FROM books.brands b
     WHERE b.company = :company AND (CAST(:brand AS text) IS NULL OR b.code = :brand)
       AND EXISTS (SELECT FROM books.stock_movements m
                    WHERE m.company = b.company AND m.brand = b.code
                      AND m.posting_date < :starts_on)
       AND NOT EXISTS (SELECT FROM books.active_results a
                        WHERE a.company = b.company AND a.brand = b.code
                          AND a.period = :previous_period)
     ORDER BY b.code""")


async def _require_costed_past(conn: AsyncConnection, run: CostRun) -> None:
    """An opening that nobody has costed would silently be worth nothing."""
    if run.previous_period is None:
        return  # the gate lets no movement in before the first period
    found = (await conn.execute(UNCOSTED_BRANDS, _scope(run))).scalars().all()
    if found:
        raise PermanentError(
            f"PREVIOUS_PERIOD_NOT_COSTED: brands {', '.join(found)} have movements before "
            f"{run.starts_on} and no costs of period {run.previous_period}; cost that one first",
            code="PREVIOUS_PERIOD_NOT_COSTED",
            details={"brands": list(found), "period": run.previous_period},
        )


READ_RUN = text("""
    SELECT id, company, brand, period, starts_on, ends_on, previous_period, residue_policy, pools
      FROM books.cost_runs WHERE id = :run_id AND status = 'building'""")


async def read_run(conn: AsyncConnection, run_id: int) -> CostRun | None:
    """The run while it is being built; None once it is anything else."""
    row = (await conn.execute(READ_RUN, {"run_id": run_id})).one_or_none()
    if row is None:
        return None
    # A pool is named inside its brand; two brands may use one name for two pools.
    pool_of = {store: f"{brand}/{pool}" for store, (brand, pool) in row.pools.items()}
    fields: dict[str, Any] = {k: v for k, v in row._mapping.items() if k != "pools"}  # noqa: SLF001
    return CostRun(pool_of=pool_of, **fields)


# Scope and days are binds, not columns of the run: only so does the planner know how much of the
# table they are, and it reads a whole period in one pass instead of a row at a time.
LIST_ITEMS = text("""
    INSERT INTO books.cost_run_items
           (run_id, brand, item, family, movements, opening_run_id, opening_failed)
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = :run_id)
    SELECT :run_id, w.brand, w.item, w.item, w.movements, w.opening_run_id,
           w.opening_failed OR (w.opening_run_id IS NULL AND EXISTS (
               SELECT FROM books.stock_movements e
                WHERE e.company = :company AND e.brand = w.brand AND e.item = w.item
                  AND e.posting_date < :starts_on
                  AND pg_visible_in_snapshot(e.xid, (SELECT snapshot FROM run))))
      FROM (SELECT brand, item, CAST(sum(movements) AS bigint) AS movements,
                   max(opening_run_id) AS opening_run_id, bool_or(opening_failed) AS opening_failed
              FROM (SELECT m.brand, m.item, count(*) AS movements,
                           CAST(NULL AS bigint) AS opening_run_id, false AS opening_failed
                      FROM books.stock_movements m
                     WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                       AND (CAST(:brand AS text) IS NULL OR m.brand = :brand)
                       AND (CAST(:brands AS text[]) IS NULL
                            OR (m.brand = ANY (CAST(:brands AS text[]))
                                AND m.item = ANY (CAST(:items AS text[]))))
                       AND pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))
                     GROUP BY m.brand, m.item
                    UNION ALL
                    SELECT m.to_brand, m.item, count(*), NULL, false
                      FROM books.stock_movements m
                     WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                       AND m.to_brand <> m.brand
                       AND (CAST(:brand AS text) IS NULL OR m.to_brand = :brand)
                       AND (CAST(:brands AS text[]) IS NULL
                            OR (m.to_brand = ANY (CAST(:brands AS text[]))
                                AND m.item = ANY (CAST(:items AS text[]))))
                       AND pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))
                     GROUP BY m.to_brand, m.item
                    UNION ALL
                    SELECT a.brand, a.item, 0, a.run_id, a.failed FROM books.active_results a
                     WHERE a.company = :company AND a.period = :previous_period
                       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)) AS sources
             GROUP BY brand, item) w
     WHERE CAST(:brands AS text[]) IS NULL OR EXISTS (
           SELECT FROM unnest(CAST(:brands AS text[]), CAST(:items AS text[])) AS c (brand, item)
            WHERE c.brand = w.brand AND c.item = w.item)""")


async def list_items(
    conn: AsyncConnection, run: CostRun, only: list[tuple[str, str]] | None
) -> None:
    """Write the run's work list as its snapshot sees it: all of it, or some (brand, item)."""
    brands = None if only is None else [brand for brand, _ in only]
    items = None if only is None else [item for _, item in only]
    await conn.execute(LIST_ITEMS, {**_scope(run), "brands": brands, "items": items})


NEXT_ITEMS = text("""
    SELECT w.brand, w.item, w.movements, w.opening_run_id, w.opening_failed, i.costing_method
      FROM books.cost_run_items w
      JOIN books.items i ON i.company = :company AND i.code = w.item
     WHERE w.run_id = :run_id AND NOT w.done AND (w.brand, w.item) > (:brand, :item)
     ORDER BY w.brand, w.item LIMIT :most""")

# More items than this in one transaction are no gain, however few movements they have.
MOST_ITEMS = 500


async def next_items(
    conn: AsyncConnection, run: CostRun, after: tuple[str, str], movements: int
) -> list[PendingItem]:
    """The next whole items that are not costed yet, together about so many movements; [] at end.

    At least one, whatever it has, so that the run always moves.
    """
    brand, item = after
    binds = {
        "run_id": run.id,
        "company": run.company,
        "brand": brand,
        "item": item,
        "most": MOST_ITEMS,
    }
    chunk: list[PendingItem] = []
    room = movements
    for row in (await conn.execute(NEXT_ITEMS, binds)).all():
        if chunk and row.movements > room:
            break
        chunk.append(PendingItem(**row._mapping))  # noqa: SLF001 - SQLAlchemy's name for it
        room -= row.movements
    return chunk


COUNT_DONE = text("""
    SELECT coalesce(sum(movements) FILTER (WHERE done), 0) AS done,
           coalesce(sum(movements), 0) AS total,
           count(*) FILTER (WHERE done) AS items_done, count(*) AS items
      FROM books.cost_run_items WHERE run_id = :run_id""")


@dataclass(slots=True, kw_only=True)
class Tally:
    """How far a run is, in movements and in items."""

    done: int
    total: int
    items_done: int
    items: int


async def count_done(conn: AsyncConnection, run: CostRun) -> Tally:
    """How far the run is, counted."""
    row = (await conn.execute(COUNT_DONE, {"run_id": run.id})).one()
    return Tally(
        done=int(row.done), total=int(row.total), items_done=row.items_done, items=row.items
    )


# By the snapshot, never by the largest id: a smaller id may commit later. An xid below the
# snapshot's xmin was visible to it, so the index leaves only the newest rows to look at.
FIND_CHANGED = text("""
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = :run_id),
    fresh AS MATERIALIZED (
        SELECT m.brand, m.to_brand, m.item FROM books.stock_movements m
         WHERE m.company = :company
           AND m.xid >= (SELECT pg_snapshot_xmin(snapshot) FROM run)
           AND m.posting_date BETWEEN :starts_on AND :ends_on
           AND NOT pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run)))
    SELECT brand, item FROM (
        SELECT brand, item FROM fresh
        UNION
        SELECT to_brand, item FROM fresh WHERE to_brand <> brand
        UNION
        SELECT brand, item
          FROM (SELECT w.brand, w.item, w.opening_run_id FROM books.cost_run_items w
                 WHERE w.run_id = :run_id) w
          FULL JOIN (SELECT a.brand, a.item, a.run_id FROM books.active_results a
                      WHERE a.company = :company AND a.period = :previous_period
                        AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)) a
                 USING (brand, item)
         WHERE w.opening_run_id IS DISTINCT FROM a.run_id) AS changed
     WHERE CAST(:brand AS text) IS NULL OR brand = :brand
     ORDER BY brand, item""")
# Without statistics on xid the planner takes a third of the table for new and reads all of it,
# behind a closed gate.
BY_INDEX = text("SELECT set_config('enable_seqscan', :setting, true)")


async def find_changed(conn: AsyncConnection, run: CostRun) -> list[tuple[str, str]]:
    """Items (brand, code) whose movements or openings are no longer what the run has read."""
    await conn.execute(BY_INDEX, {"setting": "off"})
    rows = (await conn.execute(FIND_CHANGED, _scope(run))).all()
    await conn.execute(BY_INDEX, {"setting": "on"})
    return [(row.brand, row.item) for row in rows]


# A shop that opened since the run began has a pool too; no other shop changes its pool.
MOVE_SNAPSHOT = text(f"""
    UPDATE books.cost_runs p
       SET snapshot = CAST(CAST(:snapshot AS text) AS pg_snapshot), rounds = rounds + 1,
           pools = {POOLS.format(policy="p.pool_policy")} || p.pools
     WHERE p.id = :run_id AND p.status = 'building'""")


async def take_snapshot(conn: AsyncConnection) -> str:
    """What is committed now, to be given to `move_snapshot` once changes are found under it."""
    return str(
        (await conn.execute(text("SELECT CAST(pg_current_snapshot() AS text)"))).scalar_one()
    )


async def move_snapshot(conn: AsyncConnection, run: CostRun, snapshot: str) -> None:
    """Let the run read under a newer snapshot; the caller redoes every item that changed."""
    await conn.execute(MOVE_SNAPSHOT, {"run_id": run.id, "snapshot": snapshot})


def _scope(run: CostRun) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "company": run.company,
        "brand": run.brand,
        "period": run.period,
        "starts_on": run.starts_on,
        "ends_on": run.ends_on,
        "previous_period": run.previous_period,
    }
