"""Runs migrations as role chot_owner over asyncpg, one upgrade at a time."""

import asyncio
import re

from sqlalchemy import text
from sqlalchemy.engine import Connection

from alembic import context
from shared.database import open_engine
from shared.schema import metadata
from shared.settings import load_migrate_url

# Two deployments that start an upgrade together take turns on this advisory lock.
UPGRADE_LOCK = 0x63686F74  # "chot"


def _prepare(connection: Connection) -> None:
    connection.execute(text("SET lock_timeout = '60s'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": UPGRADE_LOCK})
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


# Each cost run has partitions of its own, made and dropped by functions of the owner.
RUN_PARTITION = re.compile(r"(movement_costs|store_balances)_r[0-9]+")


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    if kind == "schema":
        return name in {"chot", "books"}
    return not (kind == "table" and name is not None and RUN_PARTITION.fullmatch(name))


async def _online() -> None:
    engine = open_engine(load_migrate_url(), pool_size=1, application_name="chot migrate")
    async with engine.connect() as connection:
        await connection.run_sync(_run)
    await engine.dispose()


asyncio.run(_online())
