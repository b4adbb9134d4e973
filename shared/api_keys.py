"""API keys: how one looks, what is stored of it, and the statements of `chot keys`.

A key is `chot_`, a public id of 12 characters by which lists and logs name it, `_`, and 256
random bits. Stored is the SHA-256 of the whole. A slow password hash would add nothing: it makes
guessing expensive where a person chose the secret, and nobody guesses 256 bits at any price.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Role, Scope
from shared.audit import Action, noted

KEY = re.compile(r"chot_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
PRINCIPAL = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}", re.ASCII)
ID_BYTES = 6
SECRET_BYTES = 32


def new_key() -> str:
    """A fresh key: the only time that its text exists on our side."""
    return f"chot_{secrets.token_hex(ID_BYTES)}_{secrets.token_urlsafe(SECRET_BYTES)}"


def key_id_of(text_of_key: str) -> str | None:
    """The public id of a key; None for text that is no key at all."""
    found = KEY.fullmatch(text_of_key)
    return None if found is None else found[1]


def key_hash_of(text_of_key: str) -> bytes:
    """What is stored of a key, and compared."""
    return hashlib.sha256(text_of_key.encode("utf-8", "surrogateescape")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGrant:
    """What a key is made for. `days` until it expires; None: until it is revoked."""

    principal: str
    roles: Sequence[Role]
    scope: Scope
    days: int | None


# What an audit row says of a key, over an alias `made` or `ended`; never its hash.
ABOUT = """jsonb_build_object('account', {0}.principal, 'roles', {0}.roles,
                                     'brands', {0}.brands, 'expires_at', {0}.expires_at)"""


def _noted(action: Action, rows: str) -> str:
    """The audit's row of an act on a key: seen by admins of its company, and of its only brand."""
    return noted(
        action,
        rows,
        target=f"{rows}.key_id",
        company=f"{rows}.company",
        brand=f"CASE WHEN cardinality({rows}.brands) = 1 THEN {rows}.brands[1] END",
        facts=ABOUT.format(rows),
    )


INSERT_KEY = text(f"""
    WITH made AS (
        INSERT INTO chot.api_keys (key_id, key_hash, principal, roles, company, brands, expires_at)
        VALUES (:key_id, :key_hash, :principal, CAST(:roles AS text[]), CAST(:company AS text),
                CAST(:brands AS text[]),
                clock_timestamp() + make_interval(days => CAST(:days AS integer)))
        ON CONFLICT (key_id) DO NOTHING
        RETURNING *),
    {_noted(Action.KEY_CREATE, "made")}
    SELECT key_id, principal, roles, company, brands, created_at, expires_at FROM made""")


async def store_key(conn: AsyncConnection, text_of_key: str, grant: KeyGrant) -> RowMapping | None:
    """Store what the key may do and its hash; None when its id is taken. Needs the owner."""
    key_id = key_id_of(text_of_key)
    assert key_id is not None, "new_key() makes keys"
    binds = {
        "key_id": key_id,
        "key_hash": key_hash_of(text_of_key),
        "principal": grant.principal,
        "roles": [role.value for role in grant.roles],
        "company": grant.scope.company,
        "brands": grant.scope.binds()["scope_brands"],
        "days": grant.days,
    }
    return (await conn.execute(INSERT_KEY, binds)).mappings().one_or_none()


# Codes nobody has would make a key that sees nothing, and look like a fault of the api.
FIND_STRANGE = text("""
    SELECT 'company ' || CAST(:company AS text) AS what
     WHERE NOT EXISTS (SELECT FROM books.companies c WHERE c.code = CAST(:company AS text))
    UNION ALL
    SELECT 'brand ' || given.brand FROM unnest(CAST(:brands AS text[])) AS given (brand)
     WHERE NOT EXISTS (SELECT FROM books.brands b
                        WHERE b.company = CAST(:company AS text) AND b.code = given.brand)""")


async def strange_codes(conn: AsyncConnection, scope: Scope) -> list[str]:
    """The company and brands of a scope that do not exist, in words."""
    if scope.company is None:
        return []
    binds = {"company": scope.company, "brands": list(scope.brands or ())}
    return [row.what for row in (await conn.execute(FIND_STRANGE, binds)).all()]


LIST_KEYS = text("""
    SELECT key_id, principal, roles, company, brands, created_at, expires_at, revoked_at,
           last_used_at,
           CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                WHEN expires_at <= clock_timestamp() THEN 'expired'
                ELSE 'active' END AS state
      FROM chot.api_keys ORDER BY created_at, key_id""")


async def list_keys(conn: AsyncConnection) -> list[RowMapping]:
    """Every key there ever was, the oldest first, without its hash."""
    return list((await conn.execute(LIST_KEYS)).mappings().all())


# A key that is revoked already is left as it is: that is no act. Whoever lost a race to revoke it
# does not see the other's instant yet.
REVOKE_KEY = text(f"""
    WITH ended AS (
        UPDATE chot.api_keys SET revoked_at = clock_timestamp()
         WHERE key_id = :key_id AND revoked_at IS NULL RETURNING *),
    {_noted(Action.KEY_REVOKE, "ended")}
    SELECT k.key_id, k.principal, coalesce(e.revoked_at, k.revoked_at, clock_timestamp())
               AS revoked_at
      FROM chot.api_keys k LEFT JOIN ended e ON e.key_id = k.key_id
     WHERE k.key_id = :key_id""")


async def revoke_key(conn: AsyncConnection, key_id: str) -> RowMapping | None:
    """End a key for good; repeating it changes nothing. None: there is no such key."""
    return (await conn.execute(REVOKE_KEY, {"key_id": key_id})).mappings().one_or_none()


# The role app may call these two and read no row of the table: it learns the hash of a key whose
# id it was shown, and can neither list keys nor make one.
FIND_KEY = text("""
    SELECT key_hash, principal, roles, company, brands, seconds_left, used_lately
      FROM chot.find_api_key(:key_id)""")
FIND_KEYS = text("""
    SELECT asked.key_id, found.key_hash, found.principal, found.roles, found.company, found.brands
      FROM unnest(CAST(:key_ids AS text[])) AS asked (key_id)
     CROSS JOIN LATERAL chot.find_api_key(asked.key_id) AS found""")
TOUCH_KEY = text("SELECT chot.touch_api_key(:key_id)")


async def find_key(conn: AsyncConnection, key_id: str) -> Any:
    """The row of a key that is neither revoked nor expired, or None.

    `seconds_left` is None for a key that does not expire.
    """
    return (await conn.execute(FIND_KEY, {"key_id": key_id})).one_or_none()


async def find_keys(conn: AsyncConnection, key_ids: Sequence[str]) -> dict[str, Any]:
    """As find_key() of each, in one query: by id, those that are neither revoked nor expired."""
    rows = (await conn.execute(FIND_KEYS, {"key_ids": list(key_ids)})).all()
    return {row.key_id: row for row in rows}


async def touch_key(conn: AsyncConnection, key_id: str) -> None:
    """Write that the key is in use: once a minute at most, and waiting for nobody."""
    await conn.execute(TOUCH_KEY, {"key_id": key_id})
