"""Files that jobs have written: who may have one, its content chunk by chunk, and its end.

A file that is being built, or has expired, is none for whoever asks.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.access import IN_SCOPE, Scope

CHUNK_BYTES = 262_144
# From the last moment at which a file is handed out to its removal: a download takes a while.
GRACE_SECONDS = 3600.0
# 64 MiB in a transaction at most.
REMOVED_CHUNKS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A whole file; `sha256` and `size` (bytes) are of its content as it is stored."""

    id: UUID
    job_id: UUID
    company: str
    brand: str | None
    name: str
    media_type: str
    size: int
    chunks: int
    sha256: bytes
    ready_at: datetime
    expires_at: datetime


FIND_FILE = text(f"""
    SELECT j.id, j.job_id, j.company, j.brand, j.name, j.media_type, j.size, j.chunks, j.sha256,
           j.ready_at, j.expires_at
      FROM chot.files AS j
     WHERE j.id = CAST(:file_id AS uuid) AND j.state = 'ready'
       AND j.expires_at > clock_timestamp() AND {IN_SCOPE}""")
READ_CHUNK = text("""
    SELECT content FROM chot.file_chunks
     WHERE file_id = CAST(:file_id AS uuid) AND number = CAST(:number AS integer)""")


async def find_file(conn: AsyncConnection, file_id: UUID, scope: Scope) -> StoredFile | None:
    """The file, if it is whole, has not expired and lies in the scope; None else."""
    row = (await conn.execute(FIND_FILE, {"file_id": file_id, **scope.binds()})).one_or_none()
    return None if row is None else StoredFile(**row._mapping)  # noqa: SLF001 - SQLAlchemy's name


async def read_chunk(conn: AsyncConnection, file_id: UUID, number: int) -> bytes | None:
    """One chunk, the first is number 0; None when it is not there (any more)."""
    found = await conn.scalar(READ_CHUNK, {"file_id": file_id, "number": number})
    return None if found is None else bytes(found)


# The oldest first, one after the other: what two workers meet at, one of them does.
REMOVE_CHUNKS = text("""
    WITH old AS MATERIALIZED (
        SELECT id FROM chot.files
         WHERE expires_at < clock_timestamp()
                          - make_interval(secs => CAST(:grace AS double precision))
         ORDER BY expires_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM chot.file_chunks c USING old
         WHERE c.file_id = old.id
           AND c.number IN (SELECT d.number FROM chot.file_chunks d
                             WHERE d.file_id = old.id ORDER BY d.number LIMIT :most)
        RETURNING 1)
    SELECT (SELECT id FROM old) AS file_id, (SELECT count(*) FROM gone) AS chunks""")
REMOVE_FILE = text("""
    DELETE FROM chot.files f
     WHERE f.id = CAST(:file_id AS uuid)
       AND NOT EXISTS (SELECT FROM chot.file_chunks c WHERE c.file_id = f.id)""")


async def remove_expired(
    engine: AsyncEngine, *, grace: float = GRACE_SECONDS, most: int = REMOVED_CHUNKS
) -> int | None:
    """Some chunks of one file that expired so many seconds ago, or the rest of it.

    Answers how many chunks went, None when no such file is there. `engine` is in autocommit.
    """
    async with engine.connect() as conn:
        row = (await conn.execute(REMOVE_CHUNKS, {"grace": grace, "most": most})).one()
        if row.file_id is None:
            return None
        if row.chunks < most:
            await conn.execute(REMOVE_FILE, {"file_id": row.file_id})
    return int(row.chunks)
