"""Cost runs: begin one, read it, move it on to a newer snapshot."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError
from worker.costing.units import Layout

# What a run is said to be costed by where nobody asserts a method: each item by its own.
BY_POLICY = "policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRun:
    """A run that is being built: its scope, its rules, and where each store lies.

    `items` are those in scope, None for all.
    """

    id: int
    company: str
    brand: str | None
    period: str
    starts_on: date
    ends_on: date
    previous_period: str | None
    method: str
    residue_policy: str
    negative: str
    dry_run: bool
    items: frozenset[str] | None
    layout: Layout = field(repr=False)

    @property
    def binds(self) -> dict[str, Any]:
        """The scope as statements take it."""
        return {
            "run_id": self.id,
            "company": self.company,
            "brand": self.brand,
            "period": self.period,
            "starts_on": self.starts_on,
            "ends_on": self.ends_on,
            "previous_period": self.previous_period,
        }

    @property
    def scope_items(self) -> list[str] | None:
        """The items in scope as a bind, None for all."""
        return None if self.items is None else sorted(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a payload says about how to cost."""

    method: str | None
    pool_policy: str
    residue_policy: str
    negative: str
    dry_run: bool


# The pools in force on the first day; a store without a row lies in the pool of its brand. The
# third member says that brands share the pool.
POOLS = """
    (SELECT coalesce(jsonb_object_agg(s.code, CASE {policy}
                WHEN 'brand' THEN jsonb_build_array(s.brand, s.brand, false)
                WHEN 'store' THEN jsonb_build_array(s.brand, s.code, false)
                WHEN 'company' THEN jsonb_build_array(s.brand, '*', true)
                ELSE jsonb_build_array(s.brand, coalesce(m.pool, s.brand),
                                       coalesce(m.shared, false)) END), '{{}}')
       FROM books.stores s
       LEFT JOIN LATERAL (SELECT pool, shared FROM books.cost_pool_map m
                           WHERE m.company = s.company AND m.store = s.code
                             AND m.valid_from <= p.starts_on
                           ORDER BY m.valid_from DESC LIMIT 1) m ON true
      WHERE s.company = p.company)"""

BEGIN_RUN = text(f"""
    INSERT INTO books.cost_runs
           (job_id, fence, company, brand, period, starts_on, ends_on, previous_period, method,
            pool_policy, residue_policy, negative, dry_run, scope, pools, snapshot)
    SELECT :job_id, :fence, p.company, :brand, p.period, p.starts_on, p.ends_on,
           (SELECT q.period FROM books.periods q
             WHERE q.company = p.company AND q.ends_on < p.starts_on
             ORDER BY q.ends_on DESC LIMIT 1),
           :method, :pool_policy, :residue_policy, :negative, :dry_run, CAST(:scope AS jsonb),
           {POOLS.format(policy="CAST(:pool_policy AS text)")},
           pg_current_snapshot()
      FROM books.periods p
     WHERE p.company = :company AND p.period = :period
       AND (p.status = 'open' OR CAST(:dry_run AS boolean))
    RETURNING id""")

READ_PERIOD = text("""
    SELECT status FROM books.periods WHERE company = :company AND period = :period""")


async def insert_run(
    conn: AsyncConnection,
    *,
    job_id: UUID,
    fence: int,
    company: str,
    brand: str | None,
    period: str,
    rules: Rules,
    scope: Sequence[str] | None,
) -> CostRun:
    """The row of a run over what is committed now; its snapshot and pools are fixed here.

    Raises PermanentError PERIOD_UNKNOWN or PERIOD_CLOSED.
    """
    binds = {
        "job_id": job_id,
        "fence": fence,
        "company": company,
        "brand": brand,
        "period": period,
        "method": rules.method or BY_POLICY,
        "pool_policy": rules.pool_policy,
        "residue_policy": rules.residue_policy,
        "negative": rules.negative,
        "dry_run": rules.dry_run,
        "scope": None if scope is None else json.dumps(list(scope)),
    }
    run_id = (await conn.execute(BEGIN_RUN, binds)).scalar_one_or_none()
    if run_id is None:
        where = {"company": company, "period": period}
        status = (await conn.execute(READ_PERIOD, where)).scalar_one_or_none()
        raise closed_period(company, period, status)
    run = await read_run(conn, run_id)
    assert run is not None, "the run was inserted by this transaction"
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


READ_RUN = text("""
    SELECT id, company, brand, period, starts_on, ends_on, previous_period, method,
           residue_policy, negative, dry_run, scope_items, pools
      FROM books.cost_runs WHERE id = :run_id AND status = 'building'""")


async def read_run(conn: AsyncConnection, run_id: int) -> CostRun | None:
    """The run while it is being built; None once it is anything else."""
    row = (await conn.execute(READ_RUN, {"run_id": run_id})).mappings().one_or_none()
    if row is None:
        return None
    fields = dict(row)
    pools: dict[str, list[Any]] = fields.pop("pools")
    items = fields.pop("scope_items")
    return CostRun(
        layout=Layout(
            brand_of={store: entry[0] for store, entry in pools.items()},
            pool_of={store: _key(*entry) for store, entry in pools.items()},
        ),
        items=None if items is None else frozenset(items),
        **fields,
    )


def _key(brand: str, pool: str, shared: bool = False) -> str:  # noqa: FBT001, FBT002 - a row of JSON
    """A pool is named inside its brand, or in the company: two brands may use one name for two."""
    return f"/{pool}" if shared else f"{brand}/{pool}"


SET_SCOPE = text("""
    UPDATE books.cost_runs SET scope_items = CAST(:items AS text[]) WHERE id = :run_id""")


async def set_scope(conn: AsyncConnection, run: CostRun, items: frozenset[str]) -> None:
    """Say which items the run is about."""
    await conn.execute(SET_SCOPE, {"run_id": run.id, "items": sorted(items)})


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
