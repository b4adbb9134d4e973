"""Uploads: files that clients have sent, kept in S3 for some days for the jobs that read them.

The row is there before the first byte and is `ready` after the last one; S3 is never asked which
files there are. What has expired is removed by a worker's retention: the object, then the row.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.access import IN_SCOPE, Scope
from shared.files import GRACE_SECONDS
from shared.s3 import S3

# One that has not arrived by then never will: a body has far less time.
ARRIVING_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A whole file; `sha256` and `size` (bytes) are of its content."""

    id: UUID
    company: str
    brand: str | None
    principal: str
    name: str
    media_type: str
    object_key: str
    size: int
    sha256: bytes
    ready_at: datetime
    expires_at: datetime


COLUMNS = """j.id, j.company, j.brand, j.principal, j.name, j.media_type, j.object_key, j.size,
           j.sha256, j.ready_at, j.expires_at"""
BEGIN_UPLOAD = text("""
    INSERT INTO chot.uploads (company, brand, principal, name, media_type, object_key, expires_at)
    SELECT :company, CAST(:brand AS text), :principal, :name, :media_type,
           'uploads/' || chot.uuid7(),
           clock_timestamp() + make_interval(secs => CAST(:seconds AS double precision))
    RETURNING id, object_key""")


async def begin_upload(
    conn: AsyncConnection,
    *,
    company: str,
    brand: str | None,
    principal: str,
    name: str,
    media_type: str,
) -> tuple[UUID, str]:
    """Write down that a file is about to arrive; answers its id and the key of its object."""
    binds = {
        "company": company,
        "brand": brand,
        "principal": principal,
        "name": name,
        "media_type": media_type,
        "seconds": ARRIVING_SECONDS,
    }
    row = (await conn.execute(BEGIN_UPLOAD, binds)).one()
    return row.id, row.object_key


FINISH_UPLOAD = text(f"""
    UPDATE chot.uploads AS j
       SET state = 'ready', ready_at = clock_timestamp(), size = :size,
           sha256 = CAST(:sha256 AS bytea),
           expires_at = clock_timestamp() + make_interval(secs => CAST(:keep AS double precision))
     WHERE j.id = CAST(:id AS uuid) AND j.state = 'arriving'
    RETURNING {COLUMNS}""")


async def finish_upload(
    conn: AsyncConnection, upload_id: UUID, *, size: int, sha256: bytes, keep: float
) -> Upload:
    """Say that all of it is there; kept for `keep` seconds from now."""
    binds = {"id": upload_id, "size": size, "sha256": sha256, "keep": keep}
    row = (await conn.execute(FINISH_UPLOAD, binds)).one()
    return Upload(**row._mapping)  # noqa: SLF001 - SQLAlchemy's name


# The same bytes of the same account under the same name are the same file.
FIND_TWIN = text(f"""
    UPDATE chot.uploads AS j
       SET expires_at = greatest(j.expires_at, clock_timestamp()
                                 + make_interval(secs => CAST(:keep AS double precision)))
     WHERE j.id = (SELECT t.id FROM chot.uploads t
                    WHERE t.state = 'ready' AND t.company = :company
                      AND t.brand IS NOT DISTINCT FROM CAST(:brand AS text)
                      AND t.sha256 = CAST(:sha256 AS bytea) AND t.name = :name
                      AND t.principal = :principal AND t.expires_at > clock_timestamp()
                    ORDER BY t.id DESC LIMIT 1)
       AND j.state = 'ready' AND j.expires_at > clock_timestamp()
    RETURNING {COLUMNS}""")


async def find_twin(
    conn: AsyncConnection,
    *,
    company: str,
    brand: str | None,
    principal: str,
    name: str,
    sha256: bytes,
    keep: float,
) -> Upload | None:
    """The file that is there already, kept for as long as if it came now; None if there is none."""
    binds = {
        "company": company,
        "brand": brand,
        "principal": principal,
        "name": name,
        "sha256": sha256,
        "keep": keep,
    }
    row = (await conn.execute(FIND_TWIN, binds)).one_or_none()
    return None if row is None else Upload(**row._mapping)  # noqa: SLF001 - SQLAlchemy's name


FIND_UPLOAD = text(f"""
    SELECT {COLUMNS} FROM chot.uploads AS j
     WHERE j.id = CAST(:id AS uuid) AND j.state = 'ready'
       AND j.expires_at > clock_timestamp() AND {IN_SCOPE}""")


async def find_upload(conn: AsyncConnection, upload_id: UUID, scope: Scope) -> Upload | None:
    """The file, if it is whole, has not expired and lies in the scope; None else."""
    row = (await conn.execute(FIND_UPLOAD, {"id": upload_id, **scope.binds()})).one_or_none()
    return None if row is None else Upload(**row._mapping)  # noqa: SLF001 - SQLAlchemy's name


EXPIRE_UPLOAD = text("""
    UPDATE chot.uploads
       SET state = 'removed',
           expires_at = clock_timestamp() - make_interval(secs => CAST(:grace AS double precision))
     WHERE id = CAST(:id AS uuid) AND state <> 'removed'""")


async def expire_upload(
    conn: AsyncConnection, upload_id: UUID, *, grace: float = GRACE_SECONDS
) -> None:
    """Nobody finds it from now on; its bytes go with the next retention. Idempotent."""
    await conn.execute(EXPIRE_UPLOAD, {"id": upload_id, "grace": grace})


FIND_EXPIRED = text("""
    SELECT id, object_key FROM chot.uploads
     WHERE expires_at <= clock_timestamp()
                         - make_interval(secs => CAST(:grace AS double precision))
     ORDER BY expires_at LIMIT 1""")
REMOVE_UPLOAD = text("DELETE FROM chot.uploads WHERE id = CAST(:id AS uuid)")


async def remove_expired_upload(
    engine: AsyncEngine, s3: S3, *, grace: float = GRACE_SECONDS
) -> bool:
    """Remove one file that expired so long ago; False when there is none. StorageUnavailable.

    Two workers may meet at one: removing it is idempotent, and no lock is held meanwhile.
    """
    async with engine.connect() as conn:
        row = (await conn.execute(FIND_EXPIRED, {"grace": grace})).one_or_none()
    if row is None:
        return False
    client = await s3.connected()
    await client.delete(row.object_key)
    async with engine.connect() as conn:
        await conn.execute(REMOVE_UPLOAD, {"id": row.id})
        await conn.commit()
    return True
