"""What keeps a period from being closed: earlier periods, jobs, and items without sound results.

Everything is looked at in the tables themselves, not in what was noted about them: under the gate
that is a proof that each movement of the period is in the results that readers see.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.exact_json import dump_exact
from worker.records.cost_runs import POOLS
from worker.records.ledger_checks import find_unposted
from worker.records.periods import Close

# Of each kind of finding so many are named; the counts are whole.
MOST_NAMED = 5
# What an error's details hold is bounded (worker.outcome); those of all findings fit together.
MOST_DETAIL_BYTES = 3_200

EARLIER_OPEN = text("""
    SELECT p.period AS what FROM books.periods p
     WHERE p.company = :company AND p.period < :period AND p.status <> 'closed'
     ORDER BY p.period""")
# By the locks that jobs declare: whoever writes books of the company in the period, now or later.
ACTIVE_JOBS = text("""
    SELECT j.kind || ' ' || j.id || ' (' || j.state || ')' AS what
      FROM chot.jobs j
     WHERE j.state IN ('pending', 'running') AND j.id <> CAST(:job_id AS uuid)
       AND j.lock_roots && ARRAY['books/' || CAST(:company AS text)]
       AND EXISTS (SELECT FROM chot.job_locks l
                    WHERE l.job_id = j.id AND l.root = 'books/' || CAST(:company AS text)
                      AND l.mode = 'exclusive' AND l.period_from <= CAST(:period AS text) || '~'
                      AND CAST(:period AS text) <= l.period_to || '~')
     ORDER BY j.id""")
# Each movement by itself, as the run of its item has read it or not. What was left to this period
# is an item of it, too: an opening that nobody carries on would be lost to the next one; and one
# that was carried on is what was left, whatever its result says of itself.
UNSOUND_ITEMS = text("""
    WITH before AS MATERIALIZED (
        SELECT max(p.period) AS period FROM books.periods p
         WHERE p.company = :company AND p.period < :period),
    moved AS MATERIALIZED (
        SELECT s.brand, s.item, bool_or(a.run_id IS NULL) AS uncosted,
               coalesce(bool_or(NOT pg_visible_in_snapshot(s.xid, r.snapshot)), false) AS late
          FROM (SELECT m.brand, m.item, m.xid FROM books.stock_movements m
                 WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                UNION ALL
                SELECT m.to_brand, m.item, m.xid FROM books.stock_movements m
                 WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
                   AND m.to_brand <> m.brand) AS s
          LEFT JOIN books.active_results a
            ON a.company = :company AND a.period = :period AND a.brand = s.brand
           AND a.item = s.item
          LEFT JOIN books.cost_runs r ON r.id = a.run_id
         GROUP BY s.brand, s.item),
    found AS (
        SELECT 'NOT_COSTED' AS code, m.brand, m.item FROM moved m WHERE m.uncosted
        UNION
        SELECT 'NOT_COSTED', b.brand, b.item FROM books.active_results b
         WHERE b.company = :company
           AND b.period = (SELECT p.period FROM before p)
           AND NOT EXISTS (SELECT FROM books.active_results a
                            WHERE a.company = b.company AND a.brand = b.brand
                              AND a.period = :period AND a.item = b.item)
        UNION ALL
        SELECT 'LATE_MOVEMENTS', m.brand, m.item FROM moved m WHERE m.late
        UNION ALL
        SELECT v.code, a.brand, a.item
          FROM books.active_results a
          LEFT JOIN books.active_results b
            ON b.company = a.company AND b.brand = a.brand AND b.item = a.item
           AND b.period = (SELECT p.period FROM before p)
         CROSS JOIN LATERAL (VALUES
               ('FAILED', a.failed),
               ('STALE', a.stale OR b.closing_digest <> a.opening_digest),
               ('METHOD_CHANGED',
                a.method <> books.costing_method_on(a.company, a.item, :starts_on))
               ) AS v (code, holds)
         WHERE a.company = :company AND a.period = :period AND v.holds)
    SELECT f.code, count(*) AS n,
           (array_agg(f.brand || '/' || f.item ORDER BY f.brand, f.item))
               [1 : CAST(:most AS integer)] AS named
      FROM found f GROUP BY f.code ORDER BY f.code""")
# Runs that speak for the period and whose stores lie in other pools by the map, as it is today:
# because the map has changed, or because a run was told to take no notice of it.
POOLS_CHANGED = text(f"""
    SELECT DISTINCT s.key AS what
      FROM (SELECT DISTINCT a.run_id FROM books.active_results a
             WHERE a.company = :company AND a.period = :period) AS spoken
      JOIN books.cost_runs r ON r.id = spoken.run_id
      JOIN books.periods p ON p.company = r.company AND p.period = r.period
     CROSS JOIN LATERAL {POOLS.format(policy="'map'")} AS now (pools)
      JOIN LATERAL jsonb_each(r.pools) AS s ON true
     WHERE now.pools -> s.key IS DISTINCT FROM s.value
     ORDER BY s.key""")
SAYS = {
    "EARLIER_PERIOD_OPEN": "earlier periods are not closed; close those first",
    "ACTIVE_JOBS": "jobs that write these books in the period have not ended; wait or cancel them",
    "NOT_COSTED": "items have movements or an opening and no results; cost the period",
    "LATE_MOVEMENTS": "items have movements that their results have not read; cost them again",
    "FAILED": "items could not be costed; the errors of their run say why",
    "STALE": "items were costed on openings that have changed; cost them again",
    "METHOD_CHANGED": "items were costed by another method than is decided for them; cost again",
    "POOLS_CHANGED": "stores lie in other pools than their results were costed by; cost again, or "
    "decide those pools in books.cost_pool_map",
    "UNPOSTED_DOCUMENTS": "documents of the period are drafts; post or void them",
    "LEDGER_DIFFERS": "the ledger has another value of goods; post the costs (posting.costs), then "
    "GET /v1/ledger/control names the documents",
}


async def find_unready(conn: AsyncConnection, close: Close) -> list[dict[str, Any]]:
    """What keeps the period from being closed, each with a count and the first ones by name."""
    found = [
        await _listed(conn, close, "EARLIER_PERIOD_OPEN", EARLIER_OPEN),
        await _listed(conn, close, "ACTIVE_JOBS", ACTIVE_JOBS),
    ]
    days = {"starts_on": close.starts_on, "ends_on": close.ends_on, "most": MOST_NAMED}
    found += [
        finding(row.code, row.n, row.named)
        for row in (await conn.execute(UNSOUND_ITEMS, close.binds() | days)).all()
    ]
    found.append(await _listed(conn, close, "POOLS_CHANGED", POOLS_CHANGED))
    found += [
        finding(code, count, first)
        for code, (count, first) in await find_unposted(conn, close, MOST_NAMED)
    ]
    return [each for each in found if each["count"]]


async def _listed(
    conn: AsyncConnection, close: Close, code: str, statement: TextClause
) -> dict[str, Any]:
    listed = (await conn.execute(statement, close.binds())).scalars().all()
    return finding(code, len(listed), listed[:MOST_NAMED])


def finding(code: str, count: int, first: Sequence[str]) -> dict[str, Any]:
    """One finding, as results, errors and events keep it."""
    return {"code": code, "count": count, "says": SAYS[code], "first": list(first)}


def fitted(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings as an error's details hold them: where names are long, with fewer of them."""
    named = MOST_NAMED
    while True:
        cut = [each | {"first": each["first"][:named]} for each in findings]
        if named == 0 or len(dump_exact(cut).encode()) <= MOST_DETAIL_BYTES:
            return cut
        named -= 1
