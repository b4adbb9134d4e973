"""Guards: rows that are locked before a job's own row, by who claims it and by who ends it.

Locked by a statement before, so that the statement which decides sees whatever was decided under
them. One order for all: lock roots by key, then the group, then jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.groups.group import LOCK_GROUP


@dataclass(frozen=True, slots=True)
class Guards:
    """The lock roots that a job names, sorted; and its group. Empty for nearly every job."""

    roots: tuple[str, ...] = ()
    group: UUID | None = None

    def __bool__(self) -> bool:
        """True when there is anything to lock."""
        return bool(self.roots) or self.group is not None


def guards_of(row: Any) -> Guards:
    """The guards of a row of chot.jobs."""
    return Guards(roots=tuple(row.lock_roots or ()), group=row.group_id)


LOCK_ROOTS = text("""
    SELECT root FROM chot.lock_roots WHERE root = ANY(CAST(:roots AS text[]))
     ORDER BY root FOR UPDATE""")
READ_GUARDS = text("SELECT lock_roots, group_id FROM chot.jobs WHERE id = :job_id")


async def lock_guards(conn: AsyncConnection, guards: Guards) -> None:
    """Lock the guards until the transaction ends; call it before the statement that decides.

    Model: actions exit_root, group_row.
    """
    if guards.roots:
        await _lock_roots(conn, guards.roots)
    if guards.group is not None:
        # The statement that ends the job changes its counter, and must find the newest one.
        await conn.execute(LOCK_GROUP, {"group_id": guards.group})


async def _lock_roots(conn: AsyncConnection, roots: Sequence[str]) -> None:
    await conn.execute(LOCK_ROOTS, {"roots": list(roots)})


async def read_guards(conn: AsyncConnection, job_id: UUID) -> Guards:
    """The guards of a job, none for one that does not exist."""
    row = (await conn.execute(READ_GUARDS, {"job_id": job_id})).one_or_none()
    return Guards() if row is None else guards_of(row)
