"""What the server does for every session of a role, whoever opens it."""

import pytest

from tests.protocol.sessions import driver_session
from tests.services import Database


@pytest.mark.parametrize("role", ["app_url", "read_url"])
async def test_no_statement_of_ours_is_compiled(database: Database, role: str) -> None:
    """Half a second of compiling for each exit under locks, where the server comes with it."""
    async with driver_session(getattr(database, role)) as session:
        assert await session.fetchval("SHOW jit") == "off"
