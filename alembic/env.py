"""Runs migrations as role chot_owner over asyncpg, one upgrade at a time."""

import asyncio
import re
from time import monotonic

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from alembic import context
from shared.database import open_engine
from shared.schema import metadata
from shared.settings import load_migrate_url

# Two deployments that start an upgrade together take turns on this advisory lock.
UPGRADE_LOCK = 0x63686F74  # "chot"
TURN_POLL_SECONDS = 0.25
LONGEST_TURN_SECONDS = 1800
# A step that runs outside a transaction (an index built beside the work) waits for older
# transactions. That lock stands in nobody's way, so it may take its time.
LONGEST_WAIT = "10min"
TRY_TURN = text("SELECT pg_try_advisory_lock(:key)")


async def _take_turn(connection: AsyncConnection) -> None:
    """Ask again and again: who waited inside a statement would hold a snapshot, for whose end an
    index that is built beside the work waits, and the two would deadlock.
    """
    began = monotonic()
    while not await connection.scalar(TRY_TURN, {"key": UPGRADE_LOCK}):
        await connection.rollback()
        if monotonic() - began > LONGEST_TURN_SECONDS:
            raise TimeoutError("another upgrade has held its turn for half an hour")
        await asyncio.sleep(TURN_POLL_SECONDS)
    await connection.commit()


def _prepare(connection: Connection) -> None:
    connection.execute(text(f"SET lock_timeout = '{LONGEST_WAIT}'"))
    has_owner = connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = 'chot_owner'"))
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS chot"))
    owned = connection.scalar(
        text("""SELECT 1 FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
                 WHERE n.nspname = 'chot' AND r.rolname = 'chot_owner'""")
    )
    if has_owner and owned:
        connection.execute(text("SET ROLE chot_owner"))
    connection.commit()


def _run(connection: Connection) -> None:
    _prepare(connection)
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema="chot",
        include_schemas=True,
        include_name=_ours,
        transaction_per_migration=True,
        compare_server_default=False,
    )
    with context.begin_transaction():
        context.run_migrations()


# Each cost run has partitions of its own, the archive and the audit one for each month: they are
# made and dropped by functions of the owner.
PARTITION = re.compile(
    r"(movement_costs|store_balances|cost_layers)_r[0-9]+"
    r"|(archived_jobs|audit)_(default|(before_)?[0-9]{4}_[0-9]{2})"
)


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    if kind == "schema":
        return name in {"chot", "books"}
    return not (kind == "table" and name is not None and PARTITION.fullmatch(name))


async def _online() -> None:
    engine = open_engine(load_migrate_url(), pool_size=1, application_name="chot migrate")
    try:
        async with engine.connect() as connection:
            await _take_turn(connection)
            await connection.run_sync(_run)
    finally:
        await engine.dispose()  # the turn is the session's: another try must not wait for this one


asyncio.run(_online())
