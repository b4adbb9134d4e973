"""Task `pools.assign`: which pool of cost each store lies in, from a day on."""

from datetime import date
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.json_text import to_json
from shared.migrations.books import ASSIGN_POOLS, AssignPoolsParams
from worker.migrations.task import Applied, Batch, Check, Reject, Run, Source, Task

# A store without a row lies in the pool of its brand; the row that counts is the newest before.
_WANTED = """
    SELECT r.code AS store, w.pool, w.shared,
           (SELECT to_jsonb(m) FROM books.cost_pool_map m
             WHERE m.company = r.company AND m.store = r.code AND m.valid_from <= :day
             ORDER BY m.valid_from DESC LIMIT 1) AS now
      FROM {source}
     CROSS JOIN LATERAL (
         SELECT CASE CAST(:by AS text) WHEN 'store' THEN r.code WHEN 'brand' THEN r.brand
                     WHEN 'company' THEN '*' ELSE CAST(:pools AS jsonb) ->> r.code END AS pool,
                CAST(:shared AS boolean) AS shared) AS w
     WHERE {where}"""
ASSIGN = f"""
    WITH wanted AS MATERIALIZED ({_WANTED}),
    judged AS (
        SELECT w.*, (w.now ->> 'valid_from')::date = :day AS is_said,
               (coalesce(w.now ->> 'pool', s.brand) = w.pool
                AND coalesce((w.now ->> 'shared')::boolean, false) = w.shared) AS is_so
          FROM wanted w
          JOIN books.stores s ON s.company = :company AND s.code = w.store),
    written AS (
        INSERT INTO books.cost_pool_map (company, store, valid_from, pool, shared)
        SELECT :company, j.store, :day, j.pool, j.shared FROM judged j
         WHERE NOT j.is_so AND j.is_said IS NOT TRUE)
    SELECT store, pool, now ->> 'pool' AS other,
           CASE WHEN is_so THEN 'unchanged' WHEN is_said THEN 'said' ELSE 'assigned' END AS outcome
      FROM judged"""
STORES = text("""
    SELECT count(*) AS stores,
           count(DISTINCT coalesce(m.pool, s.brand)) AS pools,
           count(m.pool) AS with_a_pool_of_their_own
      FROM books.stores s
      LEFT JOIN LATERAL (
          SELECT p.pool FROM books.cost_pool_map p
           WHERE p.company = s.company AND p.store = s.code
             AND p.valid_from <= CAST(CAST(:day AS text) AS date)
           ORDER BY p.valid_from DESC LIMIT 1) AS m ON true
     WHERE s.company = :company""")


class AssignPools(Task):
    """A store is a row; where it lies already it is left alone."""

    spec = ASSIGN_POOLS
    writes = ("books.cost_pool_map",)

    def source(self, run: Run) -> Source:
        """The company's stores, or those that are named."""
        params = _params(run)
        return Source(
            table="books.stores",
            key=("code",),
            fixed={"company": run.company},
            where="CAST(:only AS text[]) IS NULL OR r.code = ANY(CAST(:only AS text[]))",
            binds={"only": None if params.pools is None else sorted(params.pools)},
        )

    async def apply(self, conn: AsyncConnection, batch: Batch) -> Applied:
        """Write a row for each store that lies elsewhere; one that was said otherwise is told."""
        params = _params(batch.run)
        rows = (await batch.execute(conn, ASSIGN, **_binds(batch.run, params))).mappings().all()
        counts = {"assigned": 0, "unchanged": 0}
        for row in rows:
            if row["outcome"] in counts:
                counts[row["outcome"]] += 1
        rejects = [
            Reject(
                code="ALREADY_ASSIGNED",
                rule=f"from {params.valid_from} on the store lies in pool {row['other']}, and what "
                "was said of a day is not changed; choose another valid_from",
                key=(row["store"],),
                field="pool",
                value=row["pool"],
            )
            for row in rows
            if row["outcome"] == "said"
        ]
        return Applied(counts=counts, rejects=rejects)

    async def check(self, conn: AsyncConnection, run: Run) -> Check:
        """How many pools the stores lie in on that day, and names that are no stores."""
        params = _params(run)
        binds = {"company": run.company, "day": params.valid_from}
        facts = dict((await conn.execute(STORES, binds)).mappings().one())
        return Check(facts=facts, problems=await self._strangers(conn, run, params))

    async def _strangers(
        self, conn: AsyncConnection, run: Run, params: AssignPoolsParams
    ) -> list[str]:
        if params.pools is None:
            return []
        known = await conn.execute(KNOWN_STORES, {"company": run.company})
        strange = sorted(set(params.pools) - set(known.scalars()))
        return [f"{name!r} is no store of company {run.company}" for name in strange[:20]]


KNOWN_STORES = text("SELECT code FROM books.stores WHERE company = :company")


def _params(run: Run) -> AssignPoolsParams:
    assert isinstance(run.params, AssignPoolsParams), "the spec says so"
    return run.params


def _binds(run: Run, params: AssignPoolsParams) -> dict[str, Any]:
    return {
        "company": run.company,
        "day": date.fromisoformat(params.valid_from),
        "by": params.by,
        "pools": None if params.pools is None else to_json(params.pools),
        "shared": params.shared or params.by == "company",
    }


MIGRATIONS = (AssignPools(),)
