"""Kinds of a month end: postings, costings, counts and closes that lock, reports that do not."""

import asyncio
import os
from datetime import timedelta
from typing import Any

from shared.errors import PermanentError
from shared.kinds import Kind, Lock, Payload, RetryPolicy
from tests.faults.handlers import EFFECT
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler

FAST = RetryPolicy(base=timedelta(milliseconds=50), cap=timedelta(milliseconds=400))
# No more feeds than these may run, of all brands together.
MOST_FEEDS = 4


class Work(Payload):
    """So many seconds of work on a period and a store; `poison` dies."""

    number: int
    period: str
    store: str
    seconds: float = 0.0
    poison: bool = False


PERIOD = "{payload.period}"
# A posting is of its period; a costing changes all from its period on; a close is of all brands.
POSTING = Lock(
    root="books/{company}", part="{brand}", mode="shared", period_from=PERIOD, period_to=PERIOD
)
COSTING = Lock(root="books/{company}", part="{brand}", period_from=PERIOD)
CLOSE = Lock(root="books/{company}", period_from=PERIOD, period_to=PERIOD)
SHELF = Lock(root="stock/{company}", part="{payload.store}")


def _kind(name: str, *locks: Lock, **more: Any) -> Kind:
    return Kind(
        name=name,
        payload=Work,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
        locks=locks,
        **more,
    )


KINDS = (
    _kind("month.post", POSTING),
    _kind("month.cost", COSTING),
    _kind("month.count", SHELF),
    _kind("month.transfer", POSTING, SHELF),
    _kind("month.close", CLOSE),
    _kind("month.report"),
    _kind("month.feed", max_running=MOST_FEEDS),
    _kind("month.item"),
    _kind("month.sum"),
)


async def work(context: JobContext, payload: Work) -> None:
    """One effect, in one commit with the completion."""
    if payload.poison:
        raise PermanentError("told to be wrong", code="TOLD")
    await asyncio.sleep(payload.seconds)
    async with context.completion() as tx:
        binds = {
            "job_id": context.job.id,
            "chunk": 0,
            "item": None,
            "fence": context.lease.fence,
            "attempt": context.job.attempt,
            "pid": os.getpid(),
        }
        await tx.connection.execute(EFFECT, binds)
        tx.result = {"store": payload.store}


async def clean_up(context: CleanupContext) -> None:
    """What was committed stays."""
    assert context.job.kind.startswith("month."), "only our own kinds come here"


HANDLERS = tuple(Handler(kind=kind.name, run=work, cleanup=clean_up) for kind in KINDS)
