"""A file on the disk becomes one of the job's: chunk by chunk, and told in its result.

An attempt begins a file of its own; what an earlier one has stored is never shown. The file is
there with the transaction that completes the job.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.files import CHUNK_BYTES
from shared.kinds.exporting import KEEP_FILES
from worker.context import JobContext
from worker.records.files import FileBeingWritten, add_chunks, begin_file, finish_file

CHUNKS_PER_TRANSACTION = 16
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
KEEP = KEEP_FILES.total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file whose chunks are all committed; nobody sees it before tell()."""

    file: FileBeingWritten
    name: str
    media_type: str

    async def tell(self, conn: AsyncConnection) -> dict[str, Any]:
        """Make it visible with the caller's transaction; what a job's result says of it."""
        expires_at = await finish_file(conn, self.file, keep=KEEP)
        return {
            "id": str(self.file.id),
            "url": f"/v1/files/{self.file.id}",
            "name": self.name,
            "media_type": self.media_type,
            "size": self.file.size,
            "sha256": self.file.hash.hexdigest(),
            "expires_at": expires_at,
        }


async def store_file(context: JobContext, path: Path, *, name: str) -> Stored:
    """The file from the disk into its chunks, some in each fenced transaction.

    `name` ends as the format is called.
    """
    media_type = MEDIA_TYPES[path.suffix.removeprefix(".")]
    with path.open("rb") as source:
        async with context.transaction() as tx:
            file = await begin_file(
                tx.connection, context.job, name=name, media_type=media_type, keep=KEEP
            )
            tx.checkpoint = {"file_id": str(file.id)}
        while parts := await asyncio.to_thread(_read_parts, source):
            async with context.transaction() as tx:
                await add_chunks(tx.connection, file, parts)
            context.yield_if_asked()
    return Stored(file=file, name=name, media_type=media_type)


def _read_parts(source: Any) -> list[bytes]:
    parts = (source.read(CHUNK_BYTES) for _ in range(CHUNKS_PER_TRANSACTION))
    return [part for part in parts if part]
