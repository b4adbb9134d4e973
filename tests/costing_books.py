"""Books for costing tests: a company with two brands, movements, and attempts of costing jobs."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.costing import COSTING_PREVIEW, COSTING_RUN, CostingRunPayload
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.types import JobId, WorkerId
from tests.factories import TIMING, autocommit, execute, fetch, scalar
from worker.claim import Claimant, claim_jobs, read_input
from worker.context import Engines, JobContext
from worker.handlers.costing import run_costing

JANUARY, FEBRUARY = "2026-01", "2026-02"
STORE_BRANDS = {"R1": "RED", "R2": "RED", "B1": "BLUE"}

SEED = (
    """INSERT INTO books.items (company, code, name, base_uom)
       SELECT 'ACME', code, code, 'cái' FROM unnest(ARRAY['A', 'B', 'C', 'D']) AS code""",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ('ACME', '2026-01', '2026-01-01', '2026-01-31'),
              ('ACME', '2026-02', '2026-02-01', '2026-02-28')""",
)

INSERT_MOVEMENT = text("""
    INSERT INTO books.stock_movements
           (company, brand, item, store, to_brand, to_store, kind, doc_id, doc_line, posting_date,
            qty_base, value, ref_movement_id, cost_basis, reverses_movement_id, lot_id)
    VALUES ('ACME', :brand, :item, :store, :to_brand, :to_store, :kind, :doc, 1, :day,
            :qty, :value, :ref, :basis, :reverses, :lot) RETURNING id""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The engines of one test's database, in the roles a worker has."""

    engines: Engines

    @property
    def app(self) -> AsyncEngine:
        """Role app: what a worker writes with, and an ERP too."""
        return self.engines.app

    async def move(
        self,
        kind: str,
        qty: int,
        *,
        item: str = "A",
        store: str = "R1",
        to_store: str | None = None,
        day: date = date(2026, 1, 5),
        value: int | None = None,
        ref: int | None = None,
        basis: str | None = None,
        reverses: int | None = None,
        doc: str = "T",
        lot: str | None = None,
    ) -> int:
        """Post one movement in a transaction of its own; answers its id."""
        binds = {
            "brand": STORE_BRANDS[store],
            "item": item,
            "store": store,
            "to_brand": None if to_store is None else STORE_BRANDS[to_store],
            "to_store": to_store,
            "kind": kind,
            "day": day,
            "qty": qty,
            "value": value,
            "ref": ref,
            "basis": basis,
            "reverses": reverses,
            "doc": doc,
            "lot": lot,
        }
        async with self.app.begin() as conn:
            return int((await conn.execute(INSERT_MOVEMENT, binds)).scalar_one())

    async def costed_by(self, method: str, *, item: str = "A", since: str = "2026-01-01") -> None:
        """Cost the item by this method from that day on."""
        await execute(
            self.app,
            """SELECT books.decide_costing_method('ACME', :item, CAST(CAST(:since AS text) AS date),
                      :method, true, 'a test', 'tests')""",
            item=item,
            since=since,
            method=method,
        )

    async def pooled(
        self, store: str, pool: str, *, since: str = "2026-01-01", shared: bool = False
    ) -> None:
        """Put the store into a pool from that day on."""
        await execute(
            self.app,
            """INSERT INTO books.cost_pool_map (company, store, valid_from, pool, shared)
               VALUES ('ACME', :store, CAST(CAST(:since AS text) AS date), :pool, :shared)""",
            store=store,
            since=since,
            pool=pool,
            shared=shared,
        )

    async def submit(
        self,
        period: str = JANUARY,
        *,
        company: str = "ACME",
        brand: str | None = "RED",
        kind: str = COSTING_RUN.name,
        **payload: Any,
    ) -> JobId:
        """Submit a costing job."""
        body = {"period": period} | payload
        job = Submit(kind=kind, company=company, brand=brand, payload=body)
        async with self.app.begin() as conn:
            return (await enqueue(conn, job)).job_id

    async def attempt(self, job_id: JobId, *, draining: bool = False) -> None:
        """Claim the job and run its handler once; what the handler raises is raised."""
        context, payload = await self.claimed(job_id, draining=draining)
        try:
            await run_costing(context, payload)
        finally:
            await context.close()

    async def claimed(
        self, job_id: JobId, *, draining: bool = False
    ) -> tuple[JobContext, CostingRunPayload]:
        """The context and payload of a fresh claim, taking over an expired one."""
        auto = self.engines.auto
        who = Claimant(
            worker_id=WorkerId("t"),
            code_version="test",
            kinds={kind.name: kind for kind in (COSTING_RUN, COSTING_PREVIEW)},
            timing=TIMING,
        )
        (held,) = await claim_jobs(auto, who, [job_id], wait=True)
        raw, checkpoint = await read_input(auto, held)
        drain = asyncio.Event()
        if draining:
            drain.set()
        payload = CostingRunPayload.model_validate_json(raw)
        context = JobContext(
            job=replace(held.job, payload=payload.model_dump()),
            checkpoint=None if checkpoint is None else _json(checkpoint),
            _held=held,
            _engines=self.engines,
            _timing=TIMING,
            _draining=drain,
        )
        return context, payload

    async def cost(
        self,
        period: str = JANUARY,
        *,
        company: str = "ACME",
        brand: str | None = "RED",
        kind: str = COSTING_RUN.name,
        **payload: Any,
    ) -> dict[str, Any]:
        """Submit and run a costing to its end; answers the job's result."""
        job_id = await self.submit(period, company=company, brand=brand, kind=kind, **payload)
        await self.attempt(job_id)
        return await self.result(job_id)

    async def result(self, job_id: JobId) -> dict[str, Any]:
        """The stored result of a job that succeeded."""
        found = await scalar(
            self.app, "SELECT result FROM chot.job_outputs WHERE job_id = :job_id", job_id=job_id
        )
        assert isinstance(found, dict), "the job has a result"
        return found

    async def costs(self, period: str = JANUARY) -> dict[int, int]:
        """What each movement costs by the results that readers see."""
        query = "SELECT movement_id, value FROM books.active_movement_costs WHERE period = :period"
        return {row.movement_id: row.value for row in await fetch(self.app, query, period=period)}

    async def closing(self, period: str = JANUARY, item: str = "A") -> list[tuple[str, int, int]]:
        """Store, quantity and value at the end of the period by the active results."""
        query = """
            SELECT b.store, b.q_closing, b.v_closing FROM books.active_results a
              JOIN books.store_balances b
                ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
             WHERE a.company = 'ACME' AND a.period = :period AND a.item = :item AND NOT a.failed
             ORDER BY b.store"""
        rows: Sequence[Any] = await fetch(self.app, query, period=period, item=item)
        return [tuple(row) for row in rows]


async def open_books(app: AsyncEngine, read: AsyncEngine) -> Books:
    """Items A to D and two open periods for company ACME, and the kinds in their table."""
    async with app.begin() as conn:
        for statement in SEED:
            await conn.execute(text(statement))
        await mirror_kinds(conn, load_kinds(""), default_max_attempts=5)
    return Books(engines=Engines(app=app, auto=autocommit(app), read=read))


def _json(document: str) -> dict[str, Any]:
    loaded = json.loads(document)
    assert isinstance(loaded, dict), "a checkpoint is an object"
    return loaded
