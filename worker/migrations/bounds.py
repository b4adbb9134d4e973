"""What a run goes over: a key proven to be a total order, its upper bound, how many rows."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.errors import PermanentError
from worker.migrations.failures import CANCELLED_BY_TIMEOUT
from worker.migrations.statements import READ_KEY, Column, Rows, key_binds
from worker.migrations.task import Key, Source

# Counting is for progress and for the share of rejects; a large table is estimated.
COUNT_MS = 5_000
SET_TIMEOUT = text("SELECT set_config('statement_timeout', CAST(:ms AS text), true)")


async def checked_rows(conn: AsyncConnection, task: str, source: Source) -> Rows:
    """The source with its key's types; PermanentError KEY_UNKNOWN, KEY_NULLABLE, KEY_NOT_UNIQUE.

    Of rows that share a key a cursor would either leave some out or never get past them.
    """
    row = (await conn.execute(READ_KEY, key_binds(source))).one()
    key = f"({', '.join(source.key)}) of {source.table}"
    if not row.known or not source.key or "" in row.types:
        raise _refused(task, "KEY_UNKNOWN", f"{key} are no columns of a table that is there")
    if row.nullable:
        raise _refused(
            task,
            "KEY_NULLABLE",
            f"{key}: {', '.join(row.nullable)} may be NULL, which has no order",
        )
    if not row.is_unique:
        raise _refused(
            task,
            "KEY_NOT_UNIQUE",
            f"{key} is not unique: name columns that a unique index covers (add the primary key's)",
        )
    columns = [Column(name=n, type=t) for n, t in zip(source.key, row.types, strict=True)]
    return Rows(source=source, columns=columns)


def _refused(task: str, code: str, rule: str) -> PermanentError:
    return PermanentError(f"{code}: task {task}: key {rule}", code=code)


async def find_upper(conn: AsyncConnection, rows: Rows) -> Key | None:
    """The largest key there is now; None of an empty table."""
    found = await conn.scalar(rows.last(), _bound(rows, rows.binds(None, None)))
    return None if found is None else tuple(found)


def _bound(rows: Rows, binds: Mapping[str, Any]) -> dict[str, Any]:
    """Without the values of the condition, which last() has not."""
    return {name: value for name, value in binds.items() if name not in rows.source.binds}


async def count_rows(conn: AsyncConnection, rows: Rows) -> int:
    """How many rows there are up to the upper bound: counted, or estimated where that takes long.

    In the caller's transaction, whose statement_timeout it leaves as it was.
    """
    if rows.upper is None:
        return 0
    binds = rows.binds(None, rows.upper)
    before = await conn.scalar(text("SELECT current_setting('statement_timeout')"))
    savepoint = await conn.begin_nested()
    try:
        await conn.execute(SET_TIMEOUT, {"ms": f"{COUNT_MS}ms"})
        counted = int(await conn.scalar(rows.count(), binds) or 0)
    except DBAPIError as error:
        await savepoint.rollback()
        if sqlstate_of(error) != CANCELLED_BY_TIMEOUT:
            raise
        return await _estimated(conn, rows.explained(), binds)
    await savepoint.commit()
    await conn.execute(SET_TIMEOUT, {"ms": before})
    return counted


async def _estimated(conn: AsyncConnection, statement: TextClause, binds: Mapping[str, Any]) -> int:
    plan = await conn.scalar(statement, dict(binds))
    return max(0, int(plan[0]["Plan"]["Plan Rows"]))
