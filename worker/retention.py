"""Retention: jobs that ended long ago move into the archive, in small batches, for ever.

The owner's functions decide what may go (migration 0054): succeeded and cancelled jobs, never one
that is pending, running or dead. Expired idempotency keys are the api's to remove.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.files import remove_expired
from shared.jobs.counts import ENDINGS, add_up_endings
from shared.jobs.ends import add_up_duplicates, add_up_ends
from shared.logs import log
from shared.s3 import StorageUnavailable, open_s3
from shared.telling import told
from shared.uploads import remove_expired_upload
from worker.records.list_retention import MOST_ROWS, remove_list
from worker.records.migration_retention import remove_run

BATCH = 500
# A step ends after so many batches, so that a drain never waits for a long walk.
BATCHES = 20
DAY_SECONDS = 86_400
BEGINNING = UUID(int=0)

ARCHIVE_JOBS = text("""
    SELECT moved, last FROM chot.archive_jobs(
        CAST(:after AS uuid), make_interval(secs => :seconds), CAST(:most AS integer))""")
REMOVE_ARCHIVED = text("""
    SELECT chot.remove_archived_jobs(make_interval(secs => :seconds), CAST(:most AS integer))""")


@dataclass(slots=True, kw_only=True)
class Retention:
    """One walk after the other over the finished jobs. Days; 0 means never."""

    archive_after_days: float
    archive_keep_days: float
    files_bucket: str | None = None
    _after: UUID = BEGINNING
    _after_list: UUID = BEGINNING

    async def step(self, engine: AsyncEngine) -> None:
        """Some batches of each; `engine` is in autocommit, so that a batch is a transaction."""
        for add_up in (add_up_endings, add_up_ends, add_up_duplicates):
            while await self._add_up(engine, add_up) == ENDINGS:
                pass
        moved = await self._archive(engine) if self.archive_after_days else 0
        gone = await self._remove(engine) if self.archive_keep_days else 0
        if moved or gone:
            log.info("jobs.archived", jobs=moved, removed=gone)
        await self._remove_lists(engine)
        await self._remove_migrations(engine)
        await self._remove_files(engine)
        if self.files_bucket is not None:
            await self._remove_uploads(engine, self.files_bucket)

    async def _remove_files(self, engine: AsyncEngine) -> None:
        """Files that have expired, some chunks a transaction."""
        for _ in range(BATCHES):
            began = monotonic()
            if await remove_expired(engine) is None:
                return
            await asyncio.sleep(monotonic() - began)

    async def _remove_uploads(self, engine: AsyncEngine, bucket: str) -> None:
        """Files that were sent and have expired, one after the other; S3 may be away meanwhile."""
        try:
            async with open_s3(bucket) as s3:
                for _ in range(BATCHES):
                    if not await remove_expired_upload(engine, s3):
                        return
        except StorageUnavailable as error:
            log.warning("uploads.not_removed", error=told(error))

    async def _remove_lists(self, engine: AsyncEngine) -> None:
        """Lists of postings whose jobs are in no archive any more, some rows a transaction."""
        for _ in range(BATCHES):
            began = monotonic()
            found = await remove_list(engine, self._after_list)
            if found is None:
                self._after_list = BEGINNING
                return
            job_id, gone = found
            if gone < MOST_ROWS:
                self._after_list = job_id
            await asyncio.sleep(monotonic() - began)

    async def _remove_migrations(self, engine: AsyncEngine) -> None:
        """What migrations have kept whose jobs are archived, one after the other."""
        for _ in range(BATCHES):
            began = monotonic()
            if not await remove_run(engine):
                return
            await asyncio.sleep(monotonic() - began)

    async def _add_up(
        self, engine: AsyncEngine, add_up: Callable[[AsyncConnection], Awaitable[int]]
    ) -> int:
        async with engine.connect() as conn:
            return await add_up(conn)

    async def _archive(self, engine: AsyncEngine) -> int:
        moved = 0
        for _ in range(BATCHES):
            began = monotonic()
            binds = {"after": self._after, "seconds": self.archive_after_days * DAY_SECONDS}
            async with engine.connect() as conn:
                row = (await conn.execute(ARCHIVE_JOBS, binds | {"most": BATCH})).one()
            moved += row.moved
            self._after = row.last or BEGINNING
            if row.last is None:
                break
            await asyncio.sleep(monotonic() - began)  # half of the time is everybody else's
        return moved

    async def _remove(self, engine: AsyncEngine) -> int:
        gone, removed = 0, BATCH
        while removed == BATCH and gone < BATCH * BATCHES:
            binds = {"seconds": self.archive_keep_days * DAY_SECONDS, "most": BATCH}
            async with engine.connect() as conn:
                removed = int(await conn.scalar(REMOVE_ARCHIVED, binds) or 0)
            gone += removed
        return gone
