"""Handlers of the fault suite's kinds. What they write has no unique key: a repeat must show."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, suppress
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError, RetryableError
from tests.faults.kinds import Chunked, Gather, Harm, Member, Parent, child_number
from tests.faults.schema import ACCOUNTS
from tests.probes.handlers import exit_now
from worker.context import CleanupContext, JobContext
from worker.fence import FencedTransaction
from worker.handlers import Handler
from worker.spawn import Child

EFFECT = text("""
    INSERT INTO faults.effects (job_id, chunk, item, fence, attempt, pid)
    VALUES (:job_id, :chunk, :item, :fence, :attempt, :pid)""")
ENTRY = text("""
    INSERT INTO faults.entries (job_id, chunk, account, amount)
    VALUES (:job_id, :chunk, :account, :amount)""")
SLEEP = text("SELECT pg_sleep(CAST(:seconds AS double precision))")
# Longer than a busy machine takes to open a connection.
POOL_IS_EMPTY_SECONDS = 1.0
BOOK = text("UPDATE faults.accounts SET balance = balance + :amount WHERE code = :account")


async def write(context: JobContext, payload: Chunked) -> dict[str, Any] | None:
    """One effect a chunk, from where the last attempt stopped."""
    return await _chunks(context, payload, moves=False)


async def move(context: JobContext, payload: Chunked) -> dict[str, Any] | None:
    """As write(), and each chunk moves money between two accounts, debit and credit."""
    return await _chunks(context, payload, moves=True)


async def member(context: JobContext, payload: Member) -> dict[str, Any] | None:
    """As write(), or its end when it is poison."""
    if payload.poison:
        raise PermanentError("told to be wrong", code="TOLD")
    return await _chunks(context, payload, moves=False)


async def parent(context: JobContext, payload: Parent) -> None:
    """As write(); the last commit spawns a group, with the numbers that the checks expect."""
    done = (context.checkpoint or {}).get("chunks", 0)
    for chunk in range(done, payload.chunks):
        completes = chunk == payload.chunks - 1
        async with context.completion() if completes else context.transaction() as tx:
            await _write_effect(context, tx, chunk)
            if completes:
                children, join = _family(payload)
                await context.spawn(tx, children, join=join)
                tx.result = {"spawned": len(children)}
            else:
                tx.checkpoint = {"chunks": chunk + 1}


def _family(payload: Parent) -> tuple[list[Child], Child | None]:
    """The children, and their join."""
    numbers = [child_number(payload.number, place) for place in range(payload.spawns)]
    children = [
        Child(kind="fault.member", payload={"number": number, "complete": True})
        for number in numbers
    ]
    join = Child(kind="fault.join", payload={"number": payload.number, "complete": True})
    return children, join if payload.joined else None


async def _chunks(context: JobContext, payload: Chunked, *, moves: bool) -> dict[str, Any] | None:
    done = (context.checkpoint or {}).get("chunks", 0)
    if context.job.attempt <= payload.fail_first:
        raise RetryableError("told to fail")
    for chunk in range(done, payload.chunks):
        context.yield_if_asked()
        await asyncio.sleep(payload.seconds)
        completes = payload.complete and chunk == payload.chunks - 1
        async with context.completion() if completes else context.transaction() as tx:
            await _write_effect(context, tx, chunk)
            if moves:
                await _move_money(context, tx, payload.number, chunk)
            await asyncio.sleep(payload.hold)
            if completes:
                tx.result = {"completed": True}
            else:
                tx.checkpoint = {"chunks": chunk + 1}
            tx.progress(chunk + 1, payload.chunks, unit="chunks")
    return None if payload.complete else {"chunks": payload.chunks, "resumed_at": done}


async def _write_effect(
    context: JobContext, tx: FencedTransaction, chunk: int, item: str | None = None
) -> None:
    binds = {
        "job_id": context.job.id,
        "chunk": chunk,
        "item": item,
        "fence": context.lease.fence,
        "attempt": context.job.attempt,
        "pid": os.getpid(),
    }
    await tx.connection.execute(EFFECT, binds)


async def _move_money(context: JobContext, tx: FencedTransaction, number: int, chunk: int) -> None:
    """Debit one account and credit another; accounts are locked in the order of their codes."""
    debit = (number + chunk) % ACCOUNTS
    credit = (debit + 1 + (number * 7 + chunk) % (ACCOUNTS - 1)) % ACCOUNTS
    amount = 1 + (number * 13 + chunk) % 97
    for account, signed in sorted(((debit, amount), (credit, -amount))):
        await tx.connection.execute(BOOK, {"account": account, "amount": signed})
        binds = {"job_id": context.job.id, "chunk": chunk, "account": account, "amount": signed}
        await tx.connection.execute(ENTRY, binds)


async def harm(context: JobContext, payload: Harm) -> None:
    """Do the harm, or write the effect that shows that the job got over it.

    Effect and end are one commit: a worker that dies between the two would leave a job that
    knows nothing of what it has done, for it has no checkpoint.
    """
    match payload.how:
        case "permanent":
            raise PermanentError("told to be wrong", code="TOLD")
        case "exit":
            os._exit(137)
    taken = None
    if payload.how == "hog_pool" and context.job.attempt == 1:
        taken = await _take_all_reads(context, payload.seconds)
    async with context.completion() as tx:
        await _write_effect(context, tx, 0)
        tx.result = {"how": payload.how, "taken": taken}
        if context.job.attempt == 1:
            if payload.how == "stop_in_transaction":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif payload.how == "block_loop":
                time.sleep(payload.seconds)  # noqa: ASYNC251 - this is the harm
            elif payload.how == "kill_child":
                await context.offload(exit_now)


async def _take_all_reads(context: JobContext, seconds: float) -> int:
    """Hold every connection a handler can get at until the pool gives no more; how many.

    Those it reads with: of those it writes with a lease has one at a time.
    """
    async with AsyncExitStack() as stack:
        taken: list[AsyncConnection] = []
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(POOL_IS_EMPTY_SECONDS):
                    taken.append(await stack.enter_async_context(context.read()))
        # At work, not idle: the server ends nobody's idle transaction here.
        await asyncio.gather(*(each.execute(SLEEP, {"seconds": seconds}) for each in taken))
    return len(taken)


async def gather(context: JobContext, payload: Gather) -> None:
    """One effect an item, all of them committed with the completion."""
    async with context.completion() as tx:
        for place, item in enumerate(payload.items):
            await _write_effect(context, tx, place, item)
        tx.result = {"items": payload.items}


async def clean_up(context: CleanupContext) -> None:
    """Committed chunks of a cancelled job stay: they were right when they were committed."""
    assert context.job.kind.startswith("fault."), "only our own kinds come here"


HANDLERS = (
    Handler(kind="fault.write", run=write, cleanup=clean_up),
    Handler(kind="fault.move", run=move, cleanup=clean_up),
    *(
        Handler(kind=kind, run=write, cleanup=clean_up)
        for kind in ("fault.lock_write", "fault.lock_read", "fault.lock_two", "fault.limited")
    ),
    Handler(kind="fault.member", run=member, cleanup=clean_up),
    Handler(kind="fault.join", run=member, cleanup=clean_up),
    Handler(kind="fault.parent", run=parent, cleanup=clean_up),
    Handler(kind="fault.harm", run=harm),
    Handler(kind="fault.merge", run=gather),
    Handler(kind="fault.follow", run=gather),
)
