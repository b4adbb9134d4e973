"""Files and their chunks as Core sees them; CHECKs and grants stand in the migration."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import BIGINT, TIMESTAMP, UUID

from shared.schema.metadata import metadata

INSTANT = TIMESTAMP(timezone=True)

files = Table(
    "files",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("job_id", UUID, nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("ready_at", INSTANT),
    Column("expires_at", INSTANT, nullable=False),
    Column("size", BIGINT),
    Column("chunks", Integer),
    Column("company", Text, nullable=False),
    Column("brand", Text),
    Column("principal", Text),
    Column("name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("sha256", LargeBinary),
    Index("files_expiry_idx", "expires_at"),
    Index("files_job_idx", "job_id"),
    schema="chot",
)

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("file_id", UUID, ForeignKey("chot.files.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
    schema="chot",
)
