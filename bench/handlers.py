"""What the bench's jobs do: nothing, one effect row, hold a lease, tell that they have started."""

import asyncio
import socket
import struct
from time import monotonic_ns

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from bench.kinds import EFFECT, HOLD, NOOP, OPEN, STAMP, Held, Numbered, Stamped
from worker.context import JobContext
from worker.handlers import Handler

WRITE = text("INSERT INTO bench.effects (job_id, fence) VALUES (:job_id, :fence)")
STARTED = struct.Struct("!qq")  # the number, and the clock that all processes of a machine share


async def do_nothing(_context: JobContext, _payload: Numbered) -> None:
    """Succeed."""


async def write_one(context: JobContext, _payload: Numbered) -> None:
    """One effect row, committed together with the success."""
    async with context.completion() as tx:
        await _write(context, tx.connection)


async def hold(context: JobContext, payload: Held) -> None:
    """Keep the lease for a while; who takes over ends at once."""
    if context.job.attempt == 1:
        await asyncio.sleep(payload.seconds)


async def hold_open(context: JobContext, payload: Held) -> None:
    """As hold(), within a transaction that has written."""
    async with context.transaction() as tx:
        await _write(context, tx.connection)
        if context.job.attempt == 1:
            await asyncio.sleep(payload.seconds)


async def stamp(_context: JobContext, payload: Stamped) -> None:
    """Say when this line was reached."""
    told = STARTED.pack(payload.number, monotonic_ns())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(told, ("127.0.0.1", payload.port))


async def _write(context: JobContext, connection: AsyncConnection) -> None:
    binds = {"job_id": context.job.id, "fence": context.lease.fence}
    await connection.execute(WRITE, binds)


HANDLERS = (
    Handler(kind=NOOP, run=do_nothing),
    Handler(kind=EFFECT, run=write_one),
    Handler(kind=HOLD, run=hold),
    Handler(kind=OPEN, run=hold_open),
    Handler(kind=STAMP, run=stamp),
)
