"""A backup that is restored while everybody thinks the work is done: the worst day of a year.

What was acknowledged between backup and restore is unknown again, and that is all: what was
acknowledged before must be there, and the old deployment's messages must do no harm.
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from time import time

from dev.postgres_install import embedded_bin
from tests.faults.evidence import Call
from tests.faults.world import World
from tests.services import ROOT

BACKUP_TRIES = 20
READ_DEPLOYMENT = "SELECT deployment_id::text FROM chot.deployment"


class RestoreFailed(RuntimeError):
    """A program ended badly; the text has its last words."""


async def take_backup(world: World, file: Path) -> float:
    """Dump the database as it is, faults and all; answers when the dump was begun."""
    for _ in range(BACKUP_TRIES):
        began = time()
        try:
            await _run(_program(world, "pg_dump"), "-Fc", "-f", str(file), _url(world))
        except RestoreFailed as failed:  # a fault has hit it, too
            world.history.note("backup failed", why=str(failed))
            await asyncio.sleep(0.5)
        else:
            world.history.note("backup", began=began)
            return began
    raise RestoreFailed("no backup could be taken")


async def restore(world: World, file: Path, backup_began: float) -> None:
    """Kill everybody, put the backup in the place of the database, mark it, start everybody."""
    async with AsyncExitStack() as stack:
        for slot in world.slots.values():
            await stack.enter_async_context(slot.lock)
            assert slot.child is not None, "every place is taken"
            slot.child.kill()
        before = await _deployment(world)
        await _replace_database(world, file)
        env = {**os.environ, "CHOT_MIGRATE_DATABASE_URL": _url(world)}
        await _run(sys.executable, "-m", "shared.cli", "doctor", "--restored", env=env)
        after = await _deployment(world)
        if before == after:
            world.failures.append("the restored database has its old deployment_id")
        for slot in world.slots.values():
            world.start(slot)
        await asyncio.gather(*(world.until_ready(slot) for slot in world.slots.values()))
    detail = {"deployments": [before, after]}
    world.history.fault("restored", "database", backup_began, detail)


def forget_between(calls: list[Call], began: float, ended: float) -> list[Call]:
    """What was acknowledged after the backup and before the restore is unknown again."""

    def seen(call: Call) -> Call:
        hit = call.ended >= began and call.began <= ended and call.outcome == "ok"
        return replace(call, outcome="info") if hit and call.op != "read_balances" else call

    return [seen(call) for call in calls]


async def _replace_database(world: World, file: Path) -> None:
    databases, name = world.backing.databases, world.database.name
    empty = await world.backing.keep(databases.create_empty)
    url = empty.superuser_url
    await _run(_program(world, "pg_restore"), "--exit-on-error", "-d", url, str(file))
    renamed = f'ALTER DATABASE "{empty.name}" RENAME TO "{name}"'
    finish = [line.replace("%1$I", f'"{name}"') for line in databases._finish_clone]
    await world.backing.keep(lambda: databases.drop(world.database))
    await world.backing.keep(lambda: databases._admin.execute(renamed, *finish))


async def _deployment(world: World) -> str:
    admin = await world.admin()
    try:
        return str(await admin.fetchval(READ_DEPLOYMENT))
    finally:
        await admin.close()


def _url(world: World) -> str:
    return world.database.superuser_url


def _program(world: World, name: str) -> str:
    return str((world.backing.bin_dir or embedded_bin()) / name)


async def _run(*argv: str, env: dict[str, str] | None = None) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        words = said.decode(errors="replace").strip()[-500:]
        raise RestoreFailed(f"{Path(argv[0]).name} ended with {process.returncode}: {words}")
