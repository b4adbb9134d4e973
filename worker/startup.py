"""Start-up: wait for what is not there yet, refuse what can never work."""

import asyncio
import random
import subprocess
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import CONFLICTS, is_unreachable, sqlstate_of, transaction
from shared.errors import ConfigRefused
from shared.kinds import Kind
from shared.kinds.registry import mirror_kinds
from shared.logs import log
from shared.restored import refuse_restored
from shared.sqs import TRANSPORT_ERRORS, UNUSABLE, SqsClient, open_sqs, sqs_refused
from worker.settings import WorkerSettings, refuse_queue

LONGEST_WAIT_SECONDS = 10.0
NOT_MIGRATED = {"3F000", "42P01", "42883", "42703"}

READ_IN_FORCE = text("""
    SELECT current_setting('transaction_isolation') AS isolation,
           (SELECT setting::float / 1000 FROM pg_settings WHERE name = 'lock_timeout') AS lock,
           (SELECT setting::float / 1000 FROM pg_settings
             WHERE name = 'idle_in_transaction_session_timeout') AS idle,
           (SELECT deployment_id FROM chot.deployment) AS deployment_id""")


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What the database says is in force inside our transactions."""

    deployment_id: UUID


async def open_clients(
    stack: AsyncExitStack, prefix: str, *, receivers: int, poll: float
) -> tuple[SqsClient, SqsClient]:
    """The clients that receive (a poll takes so many seconds) and that send, open with the stack.

    ConfigRefused where AWS's own settings make none; nothing is asked of the network for it.
    """
    try:
        # Several tries where nobody waits, few where a lease does.
        polling = await stack.enter_async_context(
            open_sqs(prefix, pool=receivers + 2, read_timeout=poll + 10, attempts=1)
        )
        return polling, await stack.enter_async_context(open_sqs(prefix, pool=10))
    except UNUSABLE as error:
        raise sqs_refused(error) from error


async def wait_for_database(
    engine: AsyncEngine, settings: WorkerSettings, kinds: Mapping[str, Kind]
) -> InForce:
    """Mirror the kinds and read back the limits; waits while the database is away or old."""
    timing, tries = settings.timing, 0
    while True:
        try:
            async with transaction(
                engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
            ) as conn:
                row = (await conn.execute(READ_IN_FORCE)).one()
                await refuse_restored(conn)
                await mirror_kinds(conn, kinds, default_max_attempts=settings.max_attempts)
        except (DBAPIError, OSError) as error:
            tries += 1
            await _wait(tries, "database", _why_not(error))
            continue
        _refuse_other(row.isolation, row.lock, row.idle, settings)
        return InForce(deployment_id=row.deployment_id)


def _why_not(error: Exception) -> str:
    state = sqlstate_of(error)
    if state in NOT_MIGRATED:
        return "is not migrated; run `chot migrate`"
    if state in {"28P01", "28000", "3D000"}:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise ConfigRefused(f"CHOT_DATABASE_URL: the database refuses us: {cause}") from error
    if state == "42501":
        # A migration that is under way grants a little later than it creates.
        return (
            "refuses this role a right that a worker needs: is it migrated to the end, and is "
            f"CHOT_DATABASE_URL role chot_app? ({error})"
        )
    if state == "25006":
        return "is read-only: a failover, or role read where CHOT_DATABASE_URL wants chot_app"
    if state in CONFLICTS:
        return f"is busy with a neighbour that starts, too: {error}"
    if isinstance(error, DBAPIError) and not is_unreachable(error):
        raise error
    return f"cannot be reached: {error}"


def _refuse_other(isolation: str, lock: float, idle: float, settings: WorkerSettings) -> None:
    timing = settings.timing
    if isolation != "read committed":
        raise ConfigRefused(
            f"transactions run at {isolation.upper()}; Chốt needs READ COMMITTED, since at any "
            "other level the fence fails for ever once a heartbeat has renewed the lease"
        )
    for name, found, wanted in (
        ("lock_timeout", lock, timing.lock_timeout),
        ("idle_in_transaction_session_timeout", idle, timing.idle_in_transaction),
    ):
        if abs(found - wanted) > 0.01:
            raise ConfigRefused(
                f"SET LOCAL {name} = {wanted:g}s has no effect (in force: {found:g}s): "
                "does a pooler split transactions over connections?"
            )


async def wait_for_queues(
    sqs: SqsClient, settings: WorkerSettings, kinds: Mapping[str, Kind], queues: list[str]
) -> None:
    """Read the real attributes of each queue; waits while SQS is away or a queue is not made."""
    await together(*(_wait_for_queue(sqs, settings, kinds, queue) for queue in queues))


async def _wait_for_queue(
    sqs: SqsClient, settings: WorkerSettings, kinds: Mapping[str, Kind], queue: str
) -> None:
    tries = 0
    while True:
        try:
            facts = await sqs.facts(queue)
        except TRANSPORT_ERRORS as error:
            tries += 1
            name = f"{settings.queue_prefix}-{queue}"
            await _wait(tries, f"queue {name}", f"cannot be had: {error}")
            continue
        most = max(
            (
                kind.retry.max_attempts or settings.max_attempts
                for kind in kinds.values()
                if kind.queue == queue
            ),
            default=settings.max_attempts,
        )
        refuse_queue(settings, queue, facts, most)
        return


async def _wait(tries: int, what: str, why: str) -> None:
    seconds = random.uniform(0.5, 1.0) * min(LONGEST_WAIT_SECONDS, 0.25 * 2.0 ** min(tries, 8))
    log.warning("startup.waits", what=what, why=why, again_in_seconds=round(seconds, 2))
    await asyncio.sleep(seconds)


async def together(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """What all of them return; the first error ends the others, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


@cache
def code_version() -> str:
    """The installed version, with the commit where a work tree tells it."""
    try:
        released = version("chot")
    except PackageNotFoundError:
        released = "0"
    try:
        commit = subprocess.run(  # noqa: S603 - git, with words of ours only
            # Of the tree this file stands in, not of whatever directory we were started in.
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return released
    return f"{released}+{commit}"
