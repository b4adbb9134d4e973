"""Idempotency-Key: the same principal and key get the same stored answer and one job.

All in the submit's own transaction: look up → try the key's advisory lock → look up again as a
new statement → … → store the answer. No committed "in progress" exists, so a crash leaves nothing.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.json_text import to_json
from shared.types import JobId

REAP_BATCH = 1000
# What is written. An api that meets a version it does not know calls the key reused, so a new
# version is deployed twice: first among DIGESTS, and once every api knows it, here.
DIGEST_VERSION = 1


def _digest_1(method: str, route: str, body: Any) -> bytes:
    """SHA-256 of the canonical form, version 1: never to be changed, rows of it are out there.

    Members are sorted, numbers keep the form they were sent in (1.0 is not 1), strings are not
    normalised, and an absent member is not null: whoever repeats a request repeats it unchanged.
    """
    canonical = f"chot request 1\n{method}\n{route}\n{to_json(body, sort_keys=True)}"
    return hashlib.sha256(canonical.encode()).digest()


DIGESTS: Mapping[int, Callable[[str, str, Any], bytes]] = {1: _digest_1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request under a key. `digests` has what was asked in every version that a row may have."""

    principal: str
    key: str
    digests: Mapping[int, bytes]

    @property
    def lock(self) -> int:
        """The advisory lock of principal and key: 64 bits, signed."""
        named = f"idempotency key\0{self.principal}\0{self.key}"
        return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], signed=True)


def ask(principal: str, key: str, *, method: str, route: str, body: Any) -> Asked:
    """The request under its key. `body` is the parsed JSON as it was sent, before any model.

    CPU work in proportion to the body; it may run in a thread.
    """
    digests = {version: digest(method, route, body) for version, digest in DIGESTS.items()}
    return Asked(principal=principal, key=key, digests=digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response as it is stored and sent: status, headers and body bytes.

    `job_id` is for the log and for whoever reads the table; None where it is not one job's.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    job_id: JobId | None
    replayed: bool = False


class InProgress:
    """Another request holds the key at this moment."""


class KeyReused:
    """The key belongs to another request; its answer stays as it is."""


class Fresh:
    """The key is ours until the transaction ends."""


FIND_ANSWER = text("""
    SELECT request_digest, digest_version, status, headers, body, job_id
      FROM chot.idempotency_keys
     WHERE principal = :principal AND key = :key AND expires_at > clock_timestamp()""")
TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:lock)")


async def replay_or_begin(
    conn: AsyncConnection, asked: Asked
) -> Answer | InProgress | KeyReused | Fresh:
    """Find the stored answer, or make the key ours until the end of the transaction.

    The second look must be a statement of its own: it sees what was committed before the lock
    was ours, which the lock's own statement does not.
    """
    found = await _find(conn, asked)
    if found is not None:
        return found
    if not await conn.scalar(TRY_LOCK, {"lock": asked.lock}):
        return InProgress()
    return await _find(conn, asked) or Fresh()


async def _find(conn: AsyncConnection, asked: Asked) -> Answer | KeyReused | None:
    binds = {"principal": asked.principal, "key": asked.key}
    row = (await conn.execute(FIND_ANSWER, binds)).one_or_none()
    if row is None:
        return None
    stored = Answer(
        status=row.status,
        headers=row.headers,
        body=row.body,
        job_id=None if row.job_id is None else JobId(row.job_id),
        replayed=True,
    )
    return answered(asked, row.digest_version, row.request_digest, stored)


def answered(asked: Asked, version: int, digest: bytes, stored: Answer) -> Answer | KeyReused:
    """What a row under the key says to this request.

    By the version of the row: a deploy that changes the form turns no honest retry away.
    """
    return stored if asked.digests.get(version) == digest else KeyReused()


# An expired key that no reaper has met is taken over in the same statement.
STORE_ANSWER = text("""
    INSERT INTO chot.idempotency_keys AS k (principal, key, request_digest, digest_version, status,
                                            headers, body, job_id, expires_at)
    VALUES (:principal, :key, :digest, :version, :status, CAST(:headers AS jsonb), :body, :job_id,
            clock_timestamp() + make_interval(hours => :hours))
    ON CONFLICT (principal, key) DO UPDATE
       SET request_digest = excluded.request_digest, digest_version = excluded.digest_version,
           status = excluded.status, headers = excluded.headers, body = excluded.body,
           job_id = excluded.job_id, created_at = clock_timestamp(),
           expires_at = excluded.expires_at
     WHERE k.expires_at <= clock_timestamp()
    RETURNING 1""")


async def store_answer(conn: AsyncConnection, asked: Asked, answer: Answer, *, hours: int) -> None:
    """Keep the answer for `hours`; call it under the key's lock, last before COMMIT."""
    binds = {
        "principal": asked.principal,
        "key": asked.key,
        "digest": asked.digests[DIGEST_VERSION],
        "version": DIGEST_VERSION,
        "status": answer.status,
        "headers": to_json(dict(answer.headers)),
        "body": answer.body,
        "job_id": answer.job_id,
        "hours": hours,
    }
    stored = (await conn.execute(STORE_ANSWER, binds)).one_or_none()
    assert stored is not None, "a live key appeared under its own lock"


DELETE_EXPIRED = text("""
    WITH expired AS (
        SELECT principal, key FROM chot.idempotency_keys
         WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT :most
           FOR UPDATE SKIP LOCKED)
    DELETE FROM chot.idempotency_keys k USING expired e
     WHERE k.principal = e.principal AND k.key = e.key""")


async def delete_expired_keys(conn: AsyncConnection, stop: asyncio.Event) -> int:
    """Delete expired keys, a thousand a statement; `conn` is in autocommit."""
    gone = 0
    while not stop.is_set():
        batch = (await conn.execute(DELETE_EXPIRED, {"most": REAP_BATCH})).rowcount
        gone += batch
        if batch < REAP_BATCH:
            break
    return gone
