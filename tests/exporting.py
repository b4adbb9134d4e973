"""Attempts of export jobs on a test's own database, and the files that they leave."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import transaction
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.exporting import COSTING_EXPORT, CostingExportPayload
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.types import JobId, WorkerId
from tests.factories import TIMING, autocommit, fetch, scalar
from worker.claim import Claimant, claim_jobs, read_input
from worker.context import Engines, JobContext
from worker.handlers.exporting import run_export

CONTENT = "SELECT content FROM chot.file_chunks WHERE file_id = :id ORDER BY number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """A worker's engines on a database with books."""

    engines: Engines

    @property
    def app(self) -> AsyncEngine:
        """Role app."""
        return self.engines.app

    async def submit(self, run_id: int, *, brand: str | None = None, **payload: Any) -> JobId:
        """Ask for an export of ACME's run as the api does."""
        asked = {"table": "results", "format": "csv", "digits": 2, "bom": False} | payload
        job = Submit(
            kind=COSTING_EXPORT.name,
            company="ACME",
            brand=brand,
            payload={"run_id": run_id} | asked,
            principal="tester",
        )
        async with transaction(self.app) as conn:
            return (await enqueue(conn, job)).job_id

    async def claimed(
        self, job_id: JobId, *, draining: bool = False
    ) -> tuple[JobContext, CostingExportPayload]:
        """The context and payload of a fresh claim, taking over an expired one."""
        auto = self.engines.auto
        who = Claimant(
            worker_id=WorkerId("t"),
            code_version="test",
            kinds={COSTING_EXPORT.name: COSTING_EXPORT},
            timing=TIMING,
        )
        (held,) = await claim_jobs(auto, who, [job_id])
        raw, checkpoint = await read_input(auto, held)
        drain = asyncio.Event()
        if draining:
            drain.set()
        payload = CostingExportPayload.model_validate_json(raw)
        context = JobContext(
            job=replace(held.job, payload=payload.model_dump()),
            checkpoint=None if checkpoint is None else json.loads(checkpoint),
            _held=held,
            _engines=self.engines,
            _timing=TIMING,
            _draining=drain,
        )
        return context, payload

    async def attempt(self, job_id: JobId, *, draining: bool = False) -> None:
        """Claim the job and run its handler once; what the handler raises is raised."""
        context, payload = await self.claimed(job_id, draining=draining)
        try:
            await run_export(context, payload)
        finally:
            await context.close()

    async def result(self, job_id: JobId) -> dict[str, Any]:
        """The stored result of a job that succeeded."""
        query = "SELECT result FROM chot.job_outputs WHERE job_id = :job_id"
        found = await scalar(self.app, query, job_id=job_id)
        assert isinstance(found, dict), "the job has a result"
        return found

    async def export(self, run_id: int, **asked: Any) -> tuple[dict[str, Any], bytes]:
        """An export from its submit to its end: the job's result, and the file's content."""
        job_id = await self.submit(run_id, **asked)
        await self.attempt(job_id)
        result = await self.result(job_id)
        rows = await fetch(self.app, CONTENT, id=result["file"]["id"])
        return result, b"".join(row.content for row in rows)

    async def visible(self) -> int:
        """How many files anybody can have."""
        return int(await scalar(self.app, "SELECT count(*) FROM chot.files WHERE state = 'ready'"))


async def open_exports(app: AsyncEngine, read: AsyncEngine) -> Exports:
    """Tell the database the kinds."""
    async with app.begin() as conn:
        await conn.execute(text("SELECT 1"))
        await mirror_kinds(conn, load_kinds(""), default_max_attempts=5)
    return Exports(engines=Engines(app=app, auto=autocommit(app), read=read))


def saved(path: Path, content: bytes) -> Path:
    """The content as a file on the disk."""
    path.write_bytes(content)
    return path
