"""Retention: jobs that ended long ago move into the archive, in small batches, for ever.

The owner's functions decide what may go (migration 0054): succeeded and cancelled jobs, never one
that is pending, running or dead. What the archive and the audit keep lies in parts by the month,
made ahead and dropped as a whole by months.py. Expired idempotency keys are the api's to remove.
Which table is bounded by what: docs/retention.md.
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
from shared.sessions import remove_expired_sessions
from shared.telling import told
from shared.uploads import remove_expired_upload
from worker.months import Parent, drop_month, open_months
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
REMOVE_GROUPS = text("""
    SELECT removed, last FROM chot.remove_groups(
        CAST(:after AS uuid), make_interval(secs => :seconds), CAST(:most AS integer))""")


@dataclass(slots=True, kw_only=True)
class Retention:
    """One walk after the other over the finished jobs. Days; 0 means never."""

    archive_after_days: float
    archive_keep_days: float
    audit_keep_days: float = 0
    files_bucket: str | None = None
    _after: UUID = BEGINNING
    _after_list: UUID = BEGINNING
    _after_group: UUID = BEGINNING
    _did: bool = False

    async def step(self, engine: AsyncEngine) -> bool:
        """Some batches of each; `engine` is in autocommit, so that a batch is a transaction.

        False when there was nothing to do.
        """
        self._did = False
        for add_up in (add_up_endings, add_up_ends, add_up_duplicates):
            while await self._add_up(engine, add_up) == ENDINGS:
                pass
        await self._turn_months(engine)
        moved = await self._archive(engine) if self.archive_after_days else 0
        gone = await self._remove(engine) if self.archive_keep_days else 0
        if moved or gone:
            log.info("jobs.archived", jobs=moved, removed=gone)
        if self.archive_keep_days:
            await self._remove_groups(engine)
        await self._remove_lists(engine)
        await self._remove_migrations(engine)
        await self._remove_files(engine)
        await self._remove_sessions(engine)
        if self.files_bucket is not None:
            await self._remove_uploads(engine, self.files_bucket)
        return self._did or moved + gone > 0

    async def rest(self, began: float) -> None:
        """Half of the time is everybody else's: a pause as long as what began then has taken."""
        await asyncio.sleep(monotonic() - began)

    async def _turn_months(self, engine: AsyncEngine) -> None:
        """Months that come are made, months whose time is over dropped; one that is read waits."""
        keeps: dict[Parent, float] = {
            "archived_jobs": self.archive_keep_days,
            "audit": self.audit_keep_days,
        }
        for parent, keep in keeps.items():
            await open_months(engine, parent, keep_days=keep)
            for _ in range(BATCHES if keep else 0):
                if await drop_month(engine, parent, keep_days=keep) is None:
                    break
                self._did = True

    async def _remove_groups(self, engine: AsyncEngine) -> None:
        """Groups none of whose jobs is known any more, some a transaction."""
        for _ in range(BATCHES):
            began = monotonic()
            seconds = self.archive_keep_days * DAY_SECONDS
            binds = {"after": self._after_group, "seconds": seconds, "most": BATCH}
            async with engine.connect() as conn:
                row = (await conn.execute(REMOVE_GROUPS, binds)).one()
            self._after_group = row.last or BEGINNING
            self._did = self._did or row.removed > 0
            if row.last is None:
                return
            await self.rest(began)

    async def _remove_files(self, engine: AsyncEngine) -> None:
        """Files that have expired, some chunks a transaction."""
        for _ in range(BATCHES):
            began = monotonic()
            if await remove_expired(engine) is None:
                return
            self._did = True
            await self.rest(began)

    async def _remove_sessions(self, engine: AsyncEngine) -> None:
        """Sessions of the pages that are over, some a transaction."""
        for _ in range(BATCHES):
            began = monotonic()
            async with engine.connect() as conn:
                gone = await remove_expired_sessions(conn, BATCH)
            self._did = self._did or gone > 0
            if gone < BATCH:
                return
            await self.rest(began)

    async def _remove_uploads(self, engine: AsyncEngine, bucket: str) -> None:
        """Files that were sent and have expired, one after the other; S3 may be away meanwhile."""
        try:
            async with open_s3(bucket) as s3:
                for _ in range(BATCHES):
                    if not await remove_expired_upload(engine, s3):
                        return
                    self._did = True
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
            self._did = True
            if gone < MOST_ROWS:
                self._after_list = job_id
            await self.rest(began)

    async def _remove_migrations(self, engine: AsyncEngine) -> None:
        """What migrations have kept whose jobs are archived, one after the other."""
        for _ in range(BATCHES):
            began = monotonic()
            if not await remove_run(engine):
                return
            self._did = True
            await self.rest(began)

    async def _add_up(
        self, engine: AsyncEngine, add_up: Callable[[AsyncConnection], Awaitable[int]]
    ) -> int:
        async with engine.connect() as conn:
            added = await add_up(conn)
        self._did = self._did or added > 0
        return added

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
            await self.rest(began)
        return moved

    async def _remove(self, engine: AsyncEngine) -> int:
        gone, removed = 0, BATCH
        while removed == BATCH and gone < BATCH * BATCHES:
            binds = {"seconds": self.archive_keep_days * DAY_SECONDS, "most": BATCH}
            async with engine.connect() as conn:
                removed = int(await conn.scalar(REMOVE_ARCHIVED, binds) or 0)
            gone += removed
        return gone
