"""Accounts for tests: keys as `chot keys create` stores them, and the header that shows one."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING, Role, Scope
from shared.api_keys import KeyGrant, new_key, store_key

RED = Scope(company="ACME", brands=("RED",))
BLUE = Scope(company="ACME", brands=("BLUE",))
ACME = Scope(company="ACME")
OTHER = Scope(company="OTHER")
SEED_OTHER = """
    WITH company AS (INSERT INTO books.companies (code, name) VALUES ('OTHER', 'Other')),
         red AS (INSERT INTO books.brands (company, code, name) VALUES ('OTHER', 'RED', 'Red'))
    SELECT 1"""


async def make_key(
    owner_engine: AsyncEngine,
    *roles: Role,
    scope: Scope = EVERYTHING,
    principal: str = "tester",
    days: int | None = None,
) -> str:
    """A key with these roles, stored as the owner stores it."""
    key = new_key()
    grant = KeyGrant(principal=principal, roles=roles, scope=scope, days=days)
    async with owner_engine.begin() as conn:
        assert await store_key(conn, key, grant) is not None
    return key


def bearer(key: str) -> dict[str, str]:
    """The header of whoever holds the key."""
    return {"Authorization": f"Bearer {key}"}


def all_roles() -> Sequence[Role]:
    """Every role there is."""
    return tuple(Role)
