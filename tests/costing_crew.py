"""Workers for costing tests: they claim whatever costing job may be claimed, and run it whole."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn
from uuid import UUID

from shared.groups.stop import stop_groups
from shared.kinds.registry import load_kinds
from shared.types import JobId, WorkerId
from tests.costing_books import Books
from tests.factories import TIMING, execute, expire_lease, fetch, job_row
from tests.protocol.test_attempt import runner
from tests.services import Database
from worker.attempt import run_attempt
from worker.claim import Claimant, claim_jobs
from worker.cleanup import clean_up_one
from worker.handlers import load_handlers
from worker.lease import HeldLease
from worker.outcome import Outcome

KINDS = load_kinds("")
HANDLERS = load_handlers("", KINDS)
ACTIVE = "SELECT id FROM chot.jobs WHERE state IN ('pending', 'running') ORDER BY random()"
# Every row of a run, without the run's own number.
TABLES = {
    "movement_costs": "brand, item, movement_id",
    "store_balances": "brand, item, store",
    "pool_results": "brand, item, pool",
    "cost_layers": "brand, item, pool, number",
    "item_errors": "brand, item, number",
}


class KilledError(Exception):
    """A worker dies at this very place: nothing after it is done, and nobody records it."""


@dataclass(slots=True, kw_only=True)
class Crew:
    """So many workers on one database."""

    books: Books
    database: Database
    heirs: list[HeldLease] = field(default_factory=list)

    async def claim(self, job_id: UUID, worker: str = "w") -> HeldLease | None:
        """Claim one job, if it may be claimed."""
        who = Claimant(worker_id=WorkerId(worker), code_version="test", kinds=KINDS, timing=TIMING)
        held = await claim_jobs(self.books.engines.auto, who, [JobId(job_id)], wait=True)
        return held[0] if held else None

    async def run(self, held: HeldLease) -> Outcome:
        """One attempt."""
        run = runner(self.books.app, self.database)
        return await run_attempt(replace(run, kinds=KINDS, handlers=HANDLERS), held)

    async def die(self) -> NoReturn:
        """The worker of the job that runs here is killed: its lease runs out, and has an heir."""
        task = asyncio.current_task()
        assert task is not None
        job_id = UUID(task.get_name().removeprefix("job "))
        await expire_lease(self.books.app, job_id)
        heir = await self.claim(job_id, "heir")
        assert heir is not None, "its lease has run out"
        self.heirs.append(heir)
        raise KilledError

    async def step(self, worker: str = "w") -> bool:
        """Claim any job that may be claimed, and run it; False: there was none."""
        if self.heirs:
            await self.run(self.heirs.pop())
            return True
        for row in await fetch(self.books.app, ACTIVE):
            held = await self.claim(row.id, worker)
            if held is not None:
                await self.run(held)
                return True
        return False

    async def work(self, workers: int = 1) -> None:
        """Work until nothing may be claimed, so many at a time; maintenance goes on beside."""

        async def one(name: str) -> None:
            while await self._any_active():
                if not await self.step(name):
                    await stop_groups(self.books.app, TIMING)
                    await execute(
                        self.books.app,
                        "UPDATE chot.jobs SET available_at = clock_timestamp()"
                        " WHERE state = 'pending'",
                    )
                    await asyncio.sleep(0.02)

        async with asyncio.timeout(120):
            await asyncio.gather(*(one(f"w{n}") for n in range(workers)))
        while await clean_up_one(self.books.app, HANDLERS, TIMING):
            pass

    async def _any_active(self) -> bool:
        return bool(await fetch(self.books.app, ACTIVE))

    async def cost(self, *, workers: int = 1, **asked: Any) -> dict[str, Any]:
        """Submit a costing and work until it has ended."""
        job_id = await self.books.submit(**asked)
        await self.work(workers)
        assert (await job_row(self.books.app, job_id)).state == "succeeded"
        return await self.books.result(job_id)


async def rows_of(books: Books, run_id: int) -> dict[str, list[Any]]:
    """Everything that the run has written, table by table, as text."""
    return {
        table: [
            row.line
            for row in await fetch(
                books.app,
                f"""SELECT (to_jsonb(t) - 'run_id')::text AS line FROM books.{table} t
                     WHERE run_id = :r ORDER BY {key}""",
                r=run_id,
            )
        ]
        for table, key in TABLES.items()
    }
