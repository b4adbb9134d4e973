"""When a member counts as up: an api answers /readyz, a worker has reported itself."""

import asyncio
from collections.abc import Sequence
from time import monotonic

import asyncpg

from dev.processes import StartFailed, answers, wait_until
from dev.stack_members import Member

READY_SECONDS = 60.0
POLL_SECONDS = 0.05
LIVE_PIDS = "SELECT pid FROM chot.workers WHERE live_until > clock_timestamp()"


async def wait_for_api(api: Member) -> None:
    """Return once /readyz is answered; StartFailed if the process ends or takes too long."""
    port = api.port
    assert port is not None, "an api has a port"
    # In a thread, so that others go on; nothing is started there (children belong to a thread).
    await asyncio.to_thread(
        wait_until,
        lambda: answers(port, "/readyz"),
        api.child,
        deadline_seconds=READY_SECONDS,
        what="ready",
    )


async def wait_for_workers(database_url: str, workers: Sequence[Member]) -> None:
    """Return once each has written its presence; StartFailed if one ends or takes too long."""
    deadline = monotonic() + READY_SECONDS
    connection = await asyncpg.connect(database_url)
    try:
        while missing := await _missing(connection, workers):
            for worker in missing:
                _refuse_dead(worker, late=monotonic() > deadline)
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await connection.close()


async def _missing(connection: asyncpg.Connection, workers: Sequence[Member]) -> list[Member]:
    live = {row["pid"] for row in await connection.fetch(LIVE_PIDS)}
    return [worker for worker in workers if worker.pid not in live]


def _refuse_dead(worker: Member, *, late: bool) -> None:
    if not worker.alive:
        code = worker.child.exit_code
        raise StartFailed(f"{worker.name} ended with {code}:\n{worker.child.last_words()}")
    if late:
        raise StartFailed(
            f"{worker.name}: not up after {READY_SECONDS:g} s:\n{worker.child.last_words()}"
        )
