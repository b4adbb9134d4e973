"""Cost runs as a worker leaves them, written by hand: readers are tested without an engine."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.costs.flows import BESIDE, FLOWS
from shared.files import CHUNK_BYTES

PERIODS = """
    INSERT INTO books.periods (company, period, starts_on, ends_on)
    SELECT c.code, '2026-0' || m, make_date(2026, m, 1),
           (make_date(2026, m, 1) + interval '1 month' - interval '1 day')::date
      FROM books.companies c, generate_series(1, 2) AS m"""
ITEMS = """
    INSERT INTO books.items (company, code, name, base_uom, qty_scale)
    SELECT c.code, i.code, i.name, i.unit, i.scale
      FROM books.companies c,
           (VALUES ('A', 'Áo sơ mi', 'cái', 0), ('=B', '+Bánh', 'kg', 3)) AS i (code, name, unit, scale)"""
CENTS = "UPDATE books.companies SET minor_digits = 2, currency = 'USD' WHERE code = 'ACME'"
BEGIN = text("""
    INSERT INTO books.cost_runs (job_id, fence, company, brand, period, starts_on, ends_on, method,
           pool_policy, residue_policy, pools, snapshot, dry_run)
    SELECT gen_random_uuid(), 1, company, CAST(:brand AS text), period, starts_on, ends_on,
           'periodic_avg', 'store', 'cumulative', '{}', pg_current_snapshot(), :dry_run
      FROM books.periods WHERE company = :company AND period = :period
    RETURNING id""")
OPEN = text("SELECT books.open_run_storage(:run_id)")
SEAL = text(f"""
    UPDATE books.cost_runs r SET checksum = CAST(:checksum AS bytea), movements_total = :movements,
           items_total = w.total, items_failed = w.failed,
           {", ".join(f"v_{n} = p.v_{n}" for n in FLOWS if "transfer" not in n)},
           v_rounding = p.v_rounding, v_true_up = p.v_true_up, v_variance = p.v_variance
      FROM (SELECT count(*) AS total, count(*) FILTER (WHERE failed) AS failed
              FROM books.cost_run_items WHERE run_id = :run_id) AS w,
           (SELECT {", ".join(f"coalesce(sum(v_{n}), 0) AS v_{n}" for n in (*FLOWS, *BESIDE, "variance"))}
              FROM books.pool_results WHERE run_id = :run_id) AS p
     WHERE r.id = :run_id""")
ACTIVATE = text("""
    UPDATE books.cost_runs SET status = :status,
           activated_at = CASE WHEN :status = 'active' THEN clock_timestamp() END
     WHERE id = :run_id""")
SPEAK = text("""
    INSERT INTO books.active_results (company, brand, period, item, run_id, failed, stale)
    SELECT r.company, w.brand, r.period, w.item, r.id, w.failed, false
      FROM books.cost_runs r JOIN books.cost_run_items w ON w.run_id = r.id WHERE r.id = :run_id
    ON CONFLICT (company, brand, period, item)
    DO UPDATE SET run_id = excluded.run_id, failed = excluded.failed, stale = false""")
SUPERSEDE = text("""
    UPDATE books.cost_runs r SET status = 'superseded'
     WHERE r.status = 'active' AND NOT EXISTS (
           SELECT FROM books.active_results a WHERE a.run_id = r.id)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool's result; flows that are not named are nothing. Balanced, or the CHECKs refuse it."""

    brand: str
    pool: str
    item: str = "A"
    flows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    price: tuple[int, int] = (0, 0)
    more: Mapping[str, Any] = field(default_factory=dict)

    def row(self, run_id: int) -> dict[str, Any]:
        """As pool_results has it."""
        numbers = {f"q_{name}": 0 for name in FLOWS} | {f"v_{name}": 0 for name in FLOWS}
        for name, (qty, value) in self.flows.items():
            numbers |= {f"q_{name}": qty, f"v_{name}": value}
        beside = {f"v_{name}": 0 for name in (*BESIDE, "variance")}
        own = {"run_id": run_id, "brand": self.brand, "pool": self.pool, "item": self.item}
        price = {"price_num": self.price[0], "price_den": self.price[1]}
        rest = {"pushes": 0, "scc_size": 1, "dipped": False}
        return own | numbers | beside | price | rest | dict(self.more)


def sold(brand: str, pool: str, item: str = "A", *, qty: int = 3, cost: int = 10_000) -> Pool:
    """Opening 1 and receipt of `qty`, of which one is sold; at `cost` each."""
    flows = {
        "opening": (1, cost),
        "receipt": (qty, qty * cost),
        "issue": (1, cost),
        "closing": (qty, qty * cost),
    }
    return Pool(brand=brand, pool=pool, item=item, flows=flows, price=((1 + qty) * cost, 1 + qty))


async def seed_places(engine: AsyncEngine, *, cents: bool = True) -> None:
    """Items A and =B (by the gram) and two periods, for every company there is."""
    async with engine.begin() as conn:
        for statement in (PERIODS, ITEMS, *((CENTS,) if cents else ())):
            await conn.execute(text(statement))


async def write_run(
    engine: AsyncEngine,
    pools: Sequence[Pool] = (),
    *,
    company: str = "ACME",
    brand: str | None = None,
    period: str = "2026-01",
    status: str = "active",
    errors: Sequence[Mapping[str, Any]] = (),
    costs: Sequence[Mapping[str, Any]] = (),
    differences: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Write a run with these rows, in that state, as role owner; answers its number.

    An active one speaks for all of its items, and supersedes runs that are left with none.
    """
    async with engine.begin() as conn:
        binds = {
            "company": company,
            "brand": brand,
            "period": period,
            "dry_run": status == "previewed",
        }
        run_id = int((await conn.execute(BEGIN, binds)).scalar_one())
        await conn.execute(OPEN, {"run_id": run_id})
        await _write_items(conn, run_id, pools, errors)
        await _insert(conn, "pool_results", [pool.row(run_id) for pool in pools])
        await _insert(
            conn, "store_balances", [_store(run_id, pool) for pool in pools if pool.brand]
        )
        await _insert(conn, "item_errors", [{"run_id": run_id, **each} for each in errors])
        await _insert(conn, "movement_costs", [{"run_id": run_id, **each} for each in costs])
        await _insert(
            conn, "cost_differences", [{"run_id": run_id, **each} for each in differences]
        )
        if status == "building":
            return run_id
        checksum = hashlib.sha256(str(run_id).encode()).digest()
        sealed = {"run_id": run_id, "checksum": checksum, "movements": len(costs)}
        await conn.execute(SEAL, sealed)
        if status == "active":
            await conn.execute(SPEAK, {"run_id": run_id})
        await conn.execute(ACTIVATE, {"run_id": run_id, "status": status})
        await conn.execute(SUPERSEDE)
    return run_id


async def _write_items(
    conn: AsyncConnection,
    run_id: int,
    pools: Sequence[Pool],
    errors: Sequence[Mapping[str, Any]],
) -> None:
    failed = {(each["brand"], each["item"]) for each in errors}
    brands = {pool.brand for pool in pools if pool.brand} or {"RED"}
    costed = {
        (brand, pool.item) for pool in pools for brand in ({pool.brand} if pool.brand else brands)
    }
    rows = [
        {
            "run_id": run_id,
            "brand": brand,
            "item": item,
            "family": item,
            "movements": 2,
            "done": True,
            "failed": (brand, item) in failed,
            "digest": bytes(32),
        }
        for brand, item in sorted(failed | costed)
    ]
    await _insert(conn, "cost_run_items", rows)


def _store(run_id: int, pool: Pool) -> dict[str, Any]:
    """A store that is called as its pool has all of it."""
    flows = {"opening": pool.flows["opening"], "closing": pool.flows["closing"]}
    into, (qty, value) = pool.flows.get("receipt", (0, 0)), pool.flows.get("issue", (0, 0))
    out = (qty, value + sum(pool.more.get(f"v_{name}", 0) for name in BESIDE))
    arrived = pool.flows.get("transfer_in", (0, 0))
    left = pool.flows.get("transfer_out", (0, 0))
    flows |= {"in": into, "out": out, "transfer_in": arrived, "transfer_out": left}
    numbers = {f"q_{name}": qty for name, (qty, _) in flows.items()}
    numbers |= {f"v_{name}": value for name, (_, value) in flows.items()}
    own = {"run_id": run_id, "brand": pool.brand, "item": pool.item, "store": pool.pool}
    return own | numbers | {"pool": pool.pool, "v_averaging": 0}


async def _insert(conn: AsyncConnection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        statement = f"INSERT INTO books.{table} ({', '.join(names)}) VALUES ({values})"
        await conn.execute(text(statement), [dict(row) for row in rows])


async def supersede(engine: AsyncEngine, run_id: int, *, drop: bool = True) -> None:
    """What a later run does to it: it speaks for nothing, and its rows go."""
    async with engine.begin() as conn:
        await conn.execute(
            text("DELETE FROM books.active_results WHERE run_id = :r"), {"r": run_id}
        )
        await conn.execute(SUPERSEDE)
        if drop:
            await conn.execute(text("SELECT books.drop_run_storage(:r)"), {"r": run_id})


FILE = text("""
    INSERT INTO chot.files (job_id, company, brand, principal, name, media_type, expires_at, state,
           ready_at, size, chunks, sha256)
    VALUES (gen_random_uuid(), :company, CAST(:brand AS text), 'tester', 'costs.csv',
            'text/csv; charset=utf-8', clock_timestamp() + make_interval(secs => :seconds),
            :state, CASE WHEN :state = 'ready' THEN clock_timestamp() END, CAST(:size AS bigint),
            CAST(:chunks AS integer), CAST(:sha256 AS bytea))
    RETURNING id""")


async def write_file(
    engine: AsyncEngine,
    content: bytes,
    *,
    company: str = "ACME",
    brand: str | None = None,
    state: str = "ready",
    seconds: float = 3600,
    chunk: int = CHUNK_BYTES,
) -> UUID:
    """Store a file of chunks of that size, that expires so many seconds from now."""
    parts = [content[at : at + chunk] for at in range(0, len(content), chunk)]
    ready = state == "ready"
    binds = {
        "company": company,
        "brand": brand,
        "state": state,
        "seconds": seconds,
        "size": len(content) if ready else None,
        "chunks": len(parts) if ready else None,
        "sha256": hashlib.sha256(content).digest() if ready else None,
    }
    async with engine.begin() as conn:
        file_id = UUID(str((await conn.execute(FILE, binds)).scalar_one()))
        statement = text("INSERT INTO chot.file_chunks VALUES (:file_id, :number, :content)")
        for number, part in enumerate(parts):
            named = {"file_id": file_id, "number": number, "content": part}
            await conn.execute(statement, named)
    return file_id
