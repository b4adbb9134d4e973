"""Migrations for tests: a table of rows, runs of the probe tasks, and whatever becomes of them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.migration import MIGRATION_RUN, MigrationRunPayload
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.types import JobId, WorkerId
from tests.factories import TIMING, autocommit, execute, expire_lease, fetch, job_row, scalar
from tests.protocol.test_attempt import runner
from tests.services import Database
from worker.attempt import Runner, run_attempt
from worker.claim import Claimant, claim_jobs, read_input
from worker.cleanup import clean_up_one
from worker.context import Engines, JobContext
from worker.handlers.migrating import HANDLERS, run_migration
from worker.lease import HeldLease
from worker.outcome import Outcome

KINDS = {MIGRATION_RUN.name: MIGRATION_RUN}
BY_KIND = {each.kind: each for each in HANDLERS}
MODULES = {
    "CHOT_TASK_MODULES": "tests.probes.migration_tasks",
    "CHOT_MIGRATION_MODULES": "tests.probes.migration_code",
}
SCHEMA: Sequence[str] = (
    "CREATE SCHEMA IF NOT EXISTS probe AUTHORIZATION chot_owner",
    "GRANT USAGE ON SCHEMA probe TO chot_app, chot_read",
    """CREATE TABLE probe.rows (
        id bigint PRIMARY KEY, company text NOT NULL DEFAULT 'ACME',
        at timestamptz NOT NULL DEFAULT '2026-01-05', name text, count bigint NOT NULL DEFAULT 0)""",
    "CREATE INDEX rows_at_idx ON probe.rows (at, id)",
    """CREATE TABLE probe.staged (
        job_id uuid NOT NULL, line bigint NOT NULL, done integer NOT NULL DEFAULT 0,
        PRIMARY KEY (job_id, line))""",
    """CREATE FUNCTION probe.looked_at(id bigint, seconds double precision) RETURNS boolean
       LANGUAGE sql VOLATILE COST 100000 AS 'SELECT pg_sleep(seconds) IS NOT NULL'""",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON probe.rows, probe.staged TO chot_app",
    "GRANT SELECT ON probe.rows, probe.staged TO chot_read",
)


class Killed(BaseException):
    """The worker is gone, in the middle of it."""


@dataclass(slots=True, kw_only=True)
class Migrating:
    """One test's database with the probe tasks, and a worker that runs them."""

    app: AsyncEngine
    owner: AsyncEngine
    read: AsyncEngine
    runner: Runner

    async def rows(self, count: int, **bad: int) -> None:
        """So many rows, ids 1 to count; `bad=7` makes the seventh fail."""
        statement = """INSERT INTO probe.rows (id, name)
                       SELECT n, 'ok' FROM generate_series(1, CAST(:count AS bigint)) AS n"""
        await execute(self.owner, statement, count=count)
        for name, row in bad.items():
            await execute(
                self.owner, "UPDATE probe.rows SET name = :n WHERE id = :i", n=name, i=row
            )

    async def submit(self, task: str = "probe.raise", **payload: Any) -> JobId:
        """A pending run of company ACME."""
        job = Submit(kind=MIGRATION_RUN.name, company="ACME", payload={"task": task, **payload})
        async with self.app.begin() as conn:
            return (await enqueue(conn, job)).job_id

    async def claim(self, job_id: UUID, worker: str = "w") -> HeldLease | None:
        """Claim the job, if it may be."""
        who = Claimant(worker_id=WorkerId(worker), code_version="t", kinds=KINDS, timing=TIMING)
        held = await claim_jobs(autocommit(self.app), who, [JobId(job_id)], wait=True)
        return held[0] if held else None

    async def attempt(self, job_id: UUID) -> Outcome:
        """Make the job due, claim it and run one attempt of it, as a worker does."""
        await execute(
            self.owner,
            "UPDATE chot.jobs SET available_at = clock_timestamp() WHERE id = :i"
            " AND state = 'pending'",
            i=job_id,
        )
        held = await self.claim(job_id)
        assert held is not None, "the job could not be claimed"
        return await run_attempt(self.runner, held)

    async def killed_attempt(self, job_id: UUID, engines: Engines | None = None) -> None:
        """An attempt whose worker dies somewhere in it: nobody records it, its lease runs out."""
        auto = autocommit(self.app)
        held = await self.claim(job_id)
        assert held is not None, "the job could not be claimed"
        raw, checkpoint = await read_input(auto, held)
        context = JobContext(
            job=replace(held.job, payload=json.loads(raw)),
            checkpoint=None if checkpoint is None else json.loads(checkpoint),
            _held=held,
            _engines=engines or self.runner.engines,
            _timing=TIMING,
            _draining=asyncio.Event(),
        )
        with pytest.raises(Killed):
            await run_migration(context, MigrationRunPayload.model_validate_json(raw))
        await context.close()
        await expire_lease(self.owner, job_id)

    async def finish(self, job_id: UUID, *, attempts: int = 50) -> Any:
        """Attempt after attempt until the job has ended; its row."""
        for _ in range(attempts):
            await self.attempt(job_id)
            row = await job_row(self.app, job_id)
            if row.state != "pending":
                return row
        raise AssertionError(f"the job has not ended after {attempts} attempts")

    async def succeed(self, task: str = "probe.raise", **payload: Any) -> dict[str, Any]:
        """Run a task to its success; the job's result."""
        job_id = await self.submit(task, **payload)
        row = await self.finish(job_id)
        assert row.state == "succeeded", await self.error(job_id)
        return await self.result(job_id)

    async def result(self, job_id: UUID) -> dict[str, Any]:
        """What the job has told."""
        query = "SELECT result FROM chot.job_outputs WHERE job_id = :i"
        return dict(await scalar(self.app, query, i=job_id))

    async def error(self, job_id: UUID) -> dict[str, Any]:
        """The newest attempt's error."""
        query = """SELECT error FROM chot.attempts WHERE job_id = :i ORDER BY fence DESC LIMIT 1"""
        return dict(await scalar(self.app, query, i=job_id) or {})

    async def run_row(self, job_id: UUID) -> Any:
        """Where the run stands."""
        query = "SELECT * FROM chot.migration_runs WHERE job_id = :i"
        return (await fetch(self.app, query, i=job_id))[0]

    async def tries(self, job_id: UUID) -> list[tuple[int, str]]:
        """Each try of a batch: rows and outcome."""
        query = """SELECT rows, outcome FROM chot.migration_batches WHERE job_id = :i
                    ORDER BY number"""
        return [(row.rows, row.outcome) for row in await fetch(self.app, query, i=job_id)]

    async def rejects(self, job_id: UUID) -> list[Any]:
        """The rows that were set aside."""
        query = "SELECT * FROM chot.migration_rejects WHERE job_id = :i ORDER BY seq"
        return await fetch(self.app, query, i=job_id)

    async def counts(self) -> dict[int, int]:
        """How many rows have been raised so often."""
        query = "SELECT count, count(*) AS rows FROM probe.rows GROUP BY count"
        return {row.count: row.rows for row in await fetch(self.app, query)}

    async def clean_up(self) -> bool:
        """What maintenance does for one job that ended dead or cancelled."""
        return await clean_up_one(self.app, BY_KIND, TIMING)


async def open_migrating(
    database: Database,
    engines: tuple[AsyncEngine, AsyncEngine, AsyncEngine],
    patch: pytest.MonkeyPatch,
) -> Migrating:
    """The probe tasks' tables, kinds and modules on this test's database (app, owner, read)."""
    for name, value in MODULES.items():
        patch.setenv(name, value)
    app, owner, read = engines
    async with owner.begin() as conn:
        for statement in SCHEMA:
            await conn.execute(text(statement))
    async with app.begin() as conn:
        await mirror_kinds(conn, load_kinds(""), default_max_attempts=5)
    # A job that has lost two workers runs alone; here it always does.
    await execute(
        owner,
        """UPDATE chot.queues
              SET alone_worker = 'w', alone_until = clock_timestamp() + interval '1 hour'""",
    )
    made = replace(
        runner(app, database),
        engines=Engines(app=app, auto=autocommit(app), read=read),
        kinds=KINDS,
        handlers=BY_KIND,
        draining=asyncio.Event(),
    )
    return Migrating(app=app, owner=owner, read=read, runner=made)
