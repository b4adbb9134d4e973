"""The key that `chot dev` makes for whoever sits in front of it, and prints."""

import asyncpg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from dev.processes import StartFailed
from shared.access import EVERYTHING, Role
from shared.api_keys import KeyGrant, find_key, key_hash_of, key_id_of, store_key
from shared.database import open_engine

OWNER_OF_THE_MACHINE = KeyGrant(principal="dev", roles=[Role.ADMIN], scope=EVERYTHING, days=None)


async def make_key(superuser_url: str, key: str) -> None:
    """Store the key with every right; one that is there stays. StartFailed where it is revoked."""
    key_id = key_id_of(key)
    assert key_id is not None, "a token that is no key is the apis' own setting"
    engine = open_engine(superuser_url, pool_size=0, application_name="chot dev")
    try:
        async with engine.begin() as conn:
            await conn.execute(text("SET LOCAL ROLE chot_owner"))
            await store_key(conn, key, OWNER_OF_THE_MACHINE)
            found = await find_key(conn, key_id)
    except (DBAPIError, asyncpg.PostgresError, OSError) as error:
        raise StartFailed(f"the key could not be stored: {error}") from error
    if found is None or found.key_hash != key_hash_of(key):
        raise StartFailed(
            f"key {key_id} is revoked, expired or another's; delete the file `token` of --home, "
            "or unset CHOT_TOKEN, and a new one is made"
        )
