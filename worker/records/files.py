"""Write a file: begun, filled chunk by chunk, ready in the transaction that completes its job."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from shared.files import GRACE_SECONDS
from shared.types import ClaimedJob

# Old ones are left to the retention, which removes them in batches: a large file that is removed
# in one transaction holds up whatever that transaction is for.
DISCARD = text("""
    UPDATE chot.files
       SET expires_at = clock_timestamp() - make_interval(secs => CAST(:grace AS double precision))
     WHERE job_id = CAST(:job_id AS uuid) AND state = 'building'
       AND expires_at > clock_timestamp()""")
BEGIN = text("""
    INSERT INTO chot.files (job_id, company, brand, principal, name, media_type, expires_at)
    VALUES (CAST(:job_id AS uuid), :company, CAST(:brand AS text), CAST(:principal AS text), :name,
            :media_type,
            clock_timestamp() + make_interval(secs => CAST(:keep AS double precision)))
    RETURNING id""")
COUNT_CHUNKS = text("""
    SELECT count(*) AS chunks, coalesce(sum(octet_length(content)), 0) AS size
      FROM chot.file_chunks WHERE file_id = CAST(:file_id AS uuid)""")
FINISH = text("""
    UPDATE chot.files
       SET state = 'ready', ready_at = clock_timestamp(), size = :size, chunks = :chunks,
           sha256 = CAST(:sha256 AS bytea),
           expires_at = clock_timestamp() + make_interval(secs => CAST(:keep AS double precision))
     WHERE id = CAST(:file_id AS uuid) AND state = 'building'
    RETURNING expires_at""")


@dataclass(slots=True)
class FileBeingWritten:
    """A file that nobody sees yet; what it counts and hashes is what was given to add_chunks()."""

    id: UUID
    chunks: int = 0
    size: int = 0
    hash: Any = field(default_factory=hashlib.sha256)


async def discard_files(conn: AsyncConnection, job_id: UUID) -> None:
    """Give up what earlier attempts of the job have begun; nobody has ever seen it. Idempotent."""
    await conn.execute(DISCARD, {"job_id": job_id, "grace": 2 * GRACE_SECONDS})


async def begin_file(
    conn: AsyncConnection, job: ClaimedJob, *, name: str, media_type: str, keep: float
) -> FileBeingWritten:
    """Begin the job's file anew, in the caller's transaction; `keep` in seconds."""
    await discard_files(conn, job.id)
    binds = {
        "job_id": job.id,
        "company": job.company,
        "brand": job.brand,
        "principal": job.principal,
        "name": name,
        "media_type": media_type,
        "keep": keep,
    }
    return FileBeingWritten((await conn.execute(BEGIN, binds)).scalar_one())


async def add_chunks(conn: AsyncConnection, file: FileBeingWritten, parts: Sequence[bytes]) -> None:
    """Append these chunks; each has at most CHUNK_BYTES."""
    driver = await driver_connection(conn)
    await driver.copy_records_to_table(
        "file_chunks",
        schema_name="chot",
        columns=("file_id", "number", "content"),
        records=[(file.id, file.chunks + n, part) for n, part in enumerate(parts)],
    )
    for part in parts:
        file.hash.update(part)
        file.size += len(part)
    file.chunks += len(parts)


async def finish_file(conn: AsyncConnection, file: FileBeingWritten, *, keep: float) -> str:
    """Make it visible with this transaction; answers when it expires (RFC 3339)."""
    found = (await conn.execute(COUNT_CHUNKS, {"file_id": file.id})).one()
    assert (found.chunks, found.size) == (file.chunks, file.size), "every chunk was committed once"
    binds = {
        "file_id": file.id,
        "size": file.size,
        "chunks": file.chunks,
        "sha256": file.hash.digest(),
        "keep": keep,
    }
    expires_at = (await conn.execute(FINISH, binds)).scalar_one()
    return str(expires_at.astimezone(UTC).isoformat()).replace("+00:00", "Z")
