"""One statement, one round trip: by the driver itself, on a connection of SQLAlchemy's pool.

For the few statements that are asked so often that what surrounds them counts: begin and commit
are the statement's own (it is a transaction of its own), and nothing is compiled or described.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import DATABASE_ERRORS, sqlstate_of
from shared.outages import SPOILT


async def fetch_at_once(engine: AsyncEngine, statement: str, *values: Any) -> Sequence[Any]:
    """All rows of one statement with $1-style parameters, which commits by itself.

    It runs at the isolation that the role or the database has as its default. Raises the driver's
    own errors; for `is_unreachable()` they are what SQLAlchemy's would be. A connection that is of
    no more use is cut, and the pool drops it together with its elders.
    """
    async with engine.connect() as conn:
        driver = _driver_of(conn)
        try:
            rows: Sequence[Any] = await driver.fetch(statement, *values)
        except BaseException as error:
            if _is_spoilt(driver, error):
                await _drop(conn, driver)
            raise
    return rows


def _driver_of(conn: AsyncConnection) -> Any:
    assert conn.sync_connection is not None, "it is open"
    return conn.sync_connection.connection.driver_connection


def _is_spoilt(driver: Any, error: BaseException) -> bool:
    """A statement that was given up may still be cancelled when the next one runs."""
    given_up = isinstance(error, OSError | asyncio.CancelledError)  # a TimeoutError is an OSError
    lost = given_up or isinstance(error.__cause__, OSError)
    return lost or driver.is_closed() or sqlstate_of(error) in SPOILT


async def _drop(conn: AsyncConnection, driver: Any) -> None:
    """Cut it without a farewell, and let SQLAlchemy find out as it always does."""
    driver.terminate()
    with suppress(*DATABASE_ERRORS):
        await conn.exec_driver_sql("SELECT 1")
