"""Handlers of the probe kinds. Effects go to table `probe.effects`, which the tests make."""

import asyncio
import ctypes
import os
import signal
import sys
import time
from datetime import date
from decimal import Decimal
from typing import Any, NoReturn

from sqlalchemy import text

from shared.errors import PermanentError, RetryableError
from tests.probes.kinds import Misbehave, Post, Scoped, Write
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler

EFFECT = text("""
    INSERT INTO probe.effects (job_id, number, chunk, fence, attempt, pid)
    VALUES (:job_id, :number, :chunk, :fence, :attempt, :pid)""")
# Stands for the ERP rows that a job changes: who does the same work next waits for them.
HOLD_ROWS = text("SELECT pg_advisory_xact_lock(:number)")
ENTRIES = text("""
    INSERT INTO probe.entries (job_id, fence, document, account, amount)
    SELECT :job_id, :fence, d, CASE WHEN side > 0 THEN d % 7 ELSE 7 + d % 5 END, side * (100 + d)
      FROM generate_series(CAST(:first AS integer), :last) d, unnest(ARRAY[1, -1]) side""")
STAMP = text("""
    INSERT INTO probe.stamps (job_id, attempt, what) VALUES (:job_id, :attempt, :what)""")


async def write(context: JobContext, payload: Write) -> dict[str, Any] | None:
    """Write one effect a chunk, each with its checkpoint, from where the last attempt stopped."""
    done = (context.checkpoint or {}).get("chunks", 0)
    if context.job.attempt <= payload.fail_first:
        raise RetryableError("told to fail")
    for chunk in range(done, payload.chunks):
        if not payload.unyielding:
            context.yield_if_asked()
        if payload.seconds:
            await asyncio.sleep(payload.seconds)
        completes = payload.complete and chunk == payload.chunks - 1
        async with context.completion() if completes else context.transaction() as tx:
            await tx.connection.execute(EFFECT, _effect(context, payload.number, chunk))
            if payload.hold_seconds:
                await tx.connection.execute(HOLD_ROWS, {"number": payload.number})
                await asyncio.sleep(payload.hold_seconds)
            if completes:
                tx.result = {"completed": True}
            else:
                tx.checkpoint = {"chunks": chunk + 1}
            tx.progress(chunk + 1, payload.chunks, unit="chunks")
    return None if payload.complete else {"chunks": payload.chunks, "resumed_at": done}


def _effect(context: JobContext, number: int, chunk: int) -> dict[str, Any]:
    return {
        "job_id": context.job.id,
        "number": number,
        "chunk": chunk,
        "fence": context.lease.fence,
        "attempt": context.job.attempt,
        "pid": os.getpid(),
    }


async def post(context: JobContext, payload: Post) -> dict[str, Any]:
    """Post the documents that the checkpoint does not yet count; each chunk is one commit."""
    posted = (context.checkpoint or {}).get("posted", 0)
    while posted < payload.documents:
        context.yield_if_asked()
        await asyncio.sleep(payload.seconds)
        last = min(posted + payload.chunk, payload.documents)
        async with context.transaction() as tx:
            binds = {"job_id": context.job.id, "fence": context.lease.fence}
            await tx.connection.execute(ENTRIES, binds | {"first": posted + 1, "last": last})
            tx.checkpoint = {"posted": last}
            tx.progress(last, payload.documents, unit="documents")
        posted = last
    return {"posted": posted, "by_fence": context.lease.fence}


async def write_at_the_end(context: JobContext, payload: Scoped) -> None:
    """One effect, committed together with the completion."""
    async with context.completion() as tx:
        await tx.connection.execute(EFFECT, _effect(context, payload.number, 0))
        tx.result = {"items": payload.items, "note": payload.note}


class OddError(Exception):
    """Cannot be unpickled, nor said."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__(one, two)

    def __str__(self) -> str:
        raise ValueError("no words")


async def misbehave(context: JobContext, payload: Misbehave) -> Any:
    """Do what the payload asks for; each branch is one way a handler goes wrong."""
    await _stamp(context, payload.how)
    if payload.only_first and context.job.attempt > 1:
        return await _write_one(context, payload)
    match payload.how:
        case "exit" | "segfault" | "block" | "hold_gil" | "cpu":
            _harm(payload.how, payload.seconds)
        case "eat_memory":
            await eat_memory()
        case "sleep":
            await asyncio.sleep(payload.seconds)
        case "swallow_cancel" | "catch_everything":
            return await _ignore_cancel(payload.seconds)
        case "swallow_and_return" | "catch_exception":
            return await _return_anyway(payload)
        case "child_cpu" | "child_exit" | "child_print" | "child_chunks":
            return await _offload(context, payload)
        case _:
            return _raise_or_return(payload.how)
    if payload.only_first:
        return await _write_one(context, payload)
    return {"how": payload.how}


def _harm(how: str, seconds: float) -> None:
    """Hurt the whole process, not only this job."""
    match how:
        case "exit":
            os._exit(137)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "block":
            time.sleep(seconds)
        case "hold_gil":
            hold_gil(seconds)
        case "cpu":
            count_for(seconds)


async def _offload(context: JobContext, payload: Misbehave) -> dict[str, Any]:
    match payload.how:
        case "child_cpu":
            return {"counted": await context.offload(count_for, payload.seconds) > 0}
        case "child_print":
            return {"said": await context.offload(print_and_answer)}
        case "child_chunks":
            return await _chunks_of_a_child(context, payload)
    return {"never": await context.offload(exit_now)}


async def _chunks_of_a_child(context: JobContext, payload: Misbehave) -> dict[str, Any]:
    """As a costing does: a child computes, the coroutine writes what it has found, and so on."""
    chunk, until = 0, time.monotonic() + payload.seconds
    while time.monotonic() < until:
        await context.offload(count_for, 0.02)
        async with context.transaction() as tx:
            await tx.connection.execute(EFFECT, _effect(context, payload.number, chunk))
        chunk += 1
    return {"chunks": chunk}


async def _write_one(context: JobContext, payload: Misbehave) -> dict[str, Any]:
    async with context.transaction() as tx:
        await tx.connection.execute(EFFECT, _effect(context, payload.number, 0))
    return {"how": payload.how, "attempt": context.job.attempt}


async def _ignore_cancel(seconds: float) -> dict[str, bool]:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return {"survived": True}


async def _return_anyway(payload: Misbehave) -> dict[str, bool]:
    """Take a cancellation for an error and return a result all the same, or try to."""
    caught = Exception if payload.how == "catch_exception" else BaseException
    try:
        await asyncio.sleep(payload.seconds)
    except caught:
        return {"survived": True}
    return {"slept": True}


def _raise_or_return(how: str) -> Any:
    match how:
        case "raise":
            raise RuntimeError("told to raise")
        case "raise_permanent":
            raise PermanentError("told to be wrong", code="TOLD", details={"why": "a test"})
        case "raise_exit":
            raise SystemExit(3)
        case "raise_odd":
            raise OddError(1, two=2)
        case "return_nan":
            return {"nan": float("nan")}
        case "return_large":
            return {"large": "x" * 1_100_000}
        case "return_bytes":
            return {"bytes": b"\x00\xff"}
        case "return_set":
            return {"set": {1, 2}}
        case "return_cycle":
            cycle: dict[str, Any] = {}
            cycle["self"] = cycle
            return cycle
    return {
        "amount": Decimal("12345678901234567.8901"),
        "day": date(2026, 1, 31),
        "id": 9007199254740993,
    }


async def _stamp(context: JobContext, what: str) -> None:
    async with context.transaction() as tx:
        binds = {"job_id": context.job.id, "attempt": context.job.attempt, "what": what}
        await tx.connection.execute(STAMP, binds)


def hold_gil(seconds: float) -> None:
    """One C call that keeps the GIL: no other thread of this process runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


async def eat_memory() -> None:
    """Take 8 MB every 20 ms, and let nothing go: until somebody puts an end to it."""
    eaten: list[bytearray] = []
    while len(eaten) < 200:
        eaten.append(bytearray(os.urandom(1 << 10) * (8 << 10)))
        await asyncio.sleep(0.02)


def count_for(seconds: float) -> int:
    """Keep a core busy, and Python with it."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        count += 1
    return count


def print_and_answer() -> str:
    """Print on the stream that answers go by; only the answer may arrive."""
    sys.stdout.write("noise\n" * 100)
    sys.stdout.flush()
    return "the answer"


def exit_now() -> NoReturn:
    """End the child without an answer."""
    os._exit(9)


async def clean_up(context: CleanupContext) -> None:
    """Remove the stamps and say so."""
    await context.connection.execute(
        text("DELETE FROM probe.stamps WHERE job_id = :job_id"), {"job_id": context.job.id}
    )


HANDLERS = (
    Handler(kind="probe.write", run=write),
    Handler(kind="probe.post", run=post),
    Handler(kind="probe.misbehave", run=misbehave, cleanup=clean_up),
    Handler(kind="probe.brief", run=misbehave),
    Handler(kind="probe.merge", run=write_at_the_end),
    Handler(kind="probe.follow", run=write_at_the_end),
)
