"""Sessions of the pages as PostgreSQL keeps them: a hash of the token, whose it is, till when.

The token itself, 256 random bits, is in the browser's cookie and nowhere else: whoever reads the
database, or a copy of it, learns nothing that a cookie could be made of. A row that is gone ends
the session in every browser that has a copy.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted

TOKEN_BYTES = 32
SESSION_HOURS = 12
# In the place of a key's public id: sessions of the deployment's own CHOT_TOKEN.
OF_TOKEN = "token:"  # noqa: S105 - no secret, a word
# A script that logs in again and again ends its own oldest sessions, and fills no table.
MOST_OF_A_KEY = 100


def token_hash_of(token: str) -> bytes:
    """What is stored of a session's token. No slow hash: nobody guesses 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


BEGIN = text(f"""
    WITH oldest AS (
        DELETE FROM chot.sessions WHERE token_hash IN (
            SELECT token_hash FROM chot.sessions WHERE key_id = :key_id
             ORDER BY issued_at DESC, token_hash OFFSET {MOST_OF_A_KEY - 1}))
    INSERT INTO chot.sessions (token_hash, key_id, expires_at)
    VALUES (:token_hash, :key_id, clock_timestamp() + interval '{SESSION_HOURS} hours')""")


async def begin_session(conn: AsyncConnection, token: str, key_id: str) -> None:
    """Store that this token is a session of the key; its oldest beyond MOST_OF_A_KEY end."""
    await conn.execute(BEGIN, {"token_hash": token_hash_of(token), "key_id": key_id})


# In one query for all who ask at a moment. The key is looked up whether or not there is a row: a
# session of the version before has none (see `sessions_since`, migration 0197).
FIND = text("""
    SELECT asked.token_hash, asked.key_id, s.token_hash IS NOT NULL AS stands,
           extract(epoch FROM s.expires_at - clock_timestamp())::double precision AS session_left,
           k.principal, k.roles, k.company, k.brands, k.seconds_left,
           extract(epoch FROM d.sessions_since)::double precision AS since
      FROM unnest(CAST(:token_hashes AS bytea[]), CAST(:key_ids AS text[]))
               AS asked (token_hash, key_id)
     CROSS JOIN chot.deployment d
      LEFT JOIN chot.sessions s ON s.token_hash = asked.token_hash AND s.key_id = asked.key_id
                               AND s.expires_at > clock_timestamp()
      LEFT JOIN LATERAL chot.find_api_key(asked.key_id) AS k ON true""")


async def find_sessions(
    conn: AsyncConnection, asked: Sequence[tuple[bytes, str]]
) -> dict[tuple[bytes, str], Any]:
    """By (hash of the token, key): whether the session stands, and what its key may do now.

    `principal` is None where the key is revoked, expired or none.
    """
    binds = {"token_hashes": [each[0] for each in asked], "key_ids": [each[1] for each in asked]}
    rows = (await conn.execute(FIND, binds)).all()
    return {(bytes(row.token_hash), row.key_id): row for row in rows}


SINCE = text("""
    UPDATE chot.deployment SET sessions_since = clock_timestamp() WHERE sessions_since IS NULL""")


async def note_since(conn: AsyncConnection) -> None:
    """Write that sessions have rows from now on, unless another process has written it."""
    await conn.execute(SINCE)


END = text("DELETE FROM chot.sessions WHERE token_hash = :token_hash")


async def end_session(conn: AsyncConnection, token: str) -> None:
    """End it in every browser that has a copy of its cookie."""
    await conn.execute(END, {"token_hash": token_hash_of(token)})


END_ALL = text(f"""
    WITH gone AS (DELETE FROM chot.sessions WHERE key_id = :key_id RETURNING token_hash),
    ended AS (SELECT count(*) AS sessions FROM gone HAVING count(*) > 0),
    whose AS (
        SELECT e.sessions, k.principal, k.company, k.brands
          FROM ended e LEFT JOIN LATERAL chot.find_api_key(:key_id) AS k ON true),
    {
    noted(
        Action.KEY_LOGOUT,
        "whose",
        target="CAST(:key_id AS text)",
        company="whose.company",
        brand="CASE WHEN cardinality(whose.brands) = 1 THEN whose.brands[1] END",
        facts="jsonb_build_object('account', whose.principal, 'sessions', whose.sessions)",
    )
}
    SELECT coalesce((SELECT sessions FROM ended), 0)""")


async def end_sessions(conn: AsyncConnection, key_id: str) -> int:
    """End all sessions of a key (OF_TOKEN: of CHOT_TOKEN), in every browser; how many. Audited."""
    return int(await conn.scalar(END_ALL, {"key_id": key_id}) or 0)


REMOVE_EXPIRED = text("""
    DELETE FROM chot.sessions WHERE token_hash IN (
        SELECT token_hash FROM chot.sessions WHERE expires_at <= clock_timestamp()
         ORDER BY expires_at LIMIT :most FOR UPDATE SKIP LOCKED)""")


async def remove_expired_sessions(conn: AsyncConnection, most: int) -> int:
    """Remove rows of sessions that are over; how many. In autocommit, a batch a transaction."""
    return int((await conn.execute(REMOVE_EXPIRED, {"most": most})).rowcount)
