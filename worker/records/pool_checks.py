"""Pools that are not those of the rest: the map's, or those of other results of the period."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import POOLS, CostRun

OFF_MAP = text(f"""
    SELECT count(*) FROM books.cost_runs r
      JOIN books.periods p ON p.company = r.company AND p.period = r.period
     CROSS JOIN LATERAL {POOLS.format(policy="'map'")} AS by_map (pools)
     CROSS JOIN LATERAL jsonb_each(r.pools) AS s
     WHERE r.id = :run_id AND by_map.pools -> s.key IS DISTINCT FROM s.value""")
# A store that has come since is in the pools of one of them only.
OTHERWISE = text("""
    SELECT o.id FROM books.cost_runs r
      JOIN books.cost_runs o
        ON o.company = r.company AND o.period = r.period AND o.id <> r.id AND o.status = 'active'
     WHERE r.id = :run_id AND EXISTS (
           SELECT FROM jsonb_each(r.pools) AS s
            WHERE o.pools ? s.key AND o.pools -> s.key <> s.value)
     ORDER BY o.id""")


async def pool_warnings(conn: AsyncConnection, run: CostRun) -> list[dict[str, Any]]:
    """What a run that has just been activated must say of its pools; [] where all agree."""
    stores = (await conn.execute(OFF_MAP, {"run_id": run.id})).scalar_one()
    runs = (await conn.execute(OTHERWISE, {"run_id": run.id})).scalars().all()
    found: list[dict[str, Any]] = []
    if stores:
        found.append({"code": "POOLS_NOT_OF_MAP", "stores": stores})
    if runs:
        found.append({"code": "POOLS_DIFFER", "runs": list(runs)})
    return found
