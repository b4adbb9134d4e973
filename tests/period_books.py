"""Closes for tests: ask for one as the api does, claim it, run its handler; what became of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.approvals import Approval
from shared.errors import PermanentError
from shared.jobs.cancel import cancel_job
from shared.kinds.periods import PERIOD_CLOSE, PeriodClosePayload
from shared.periods import PeriodKey, note_asked, submit_close
from shared.types import JobId, WorkerId
from tests.costing_books import JANUARY, Books
from tests.factories import TIMING, autocommit, execute, fetch, scalar
from worker.claim import Claimant, claim_jobs, read_input
from worker.cleanup import clean_up_one
from worker.context import JobContext
from worker.handlers.periods import HANDLERS, close_period

CLOSER = Claimant(
    worker_id=WorkerId("closer"),
    code_version="test",
    kinds={PERIOD_CLOSE.name: PERIOD_CLOSE},
    timing=TIMING,
)
KINDS = {each.kind: each for each in HANDLERS}


class Killed(BaseException):
    """The worker is gone, in the middle of it."""


async def ask(
    app: AsyncEngine, period: str = JANUARY, *, approval: Approval | None = None
) -> JobId:
    """Ask for the close of ACME's period; the job is pending."""
    key = PeriodKey(company="ACME", period=period)
    async with app.begin() as conn:
        accepted = await submit_close(conn, key, principal="clerk")
        assert accepted.created, "the period was being closed already"
        await note_asked(conn, key, accepted, reason="month end", approval=approval)
    return accepted.job_id


async def claimed(books: Books, job_id: UUID) -> tuple[JobContext, PeriodClosePayload]:
    """The context and payload of a fresh claim, taking over an expired one."""
    auto = autocommit(books.app)
    (held,) = await claim_jobs(auto, CLOSER, [JobId(job_id)], wait=True)
    raw, _ = await read_input(auto, held)
    payload = PeriodClosePayload.model_validate_json(raw)
    context = JobContext(
        job=replace(held.job, payload=payload.model_dump()),
        checkpoint=None,
        _held=held,
        _engines=books.engines,
        _timing=TIMING,
        _draining=asyncio.Event(),
    )
    return context, payload


async def attempt(books: Books, job_id: UUID) -> None:
    """Claim the job and run its handler once; what the handler raises is raised."""
    context, payload = await claimed(books, job_id)
    try:
        await close_period(context, payload)
    finally:
        await context.close()


async def close(books: Books, period: str = JANUARY) -> dict[str, Any]:
    """Ask for a close and run it to its end; the job's result."""
    job_id = await ask(books.app, period)
    await attempt(books, job_id)
    return await books.result(job_id)


async def refused(books: Books, period: str = JANUARY) -> dict[str, Any]:
    """The findings, by code, of a close that is refused; its job ends dead as a worker ends it."""
    job_id = await ask(books.app, period)
    with pytest.raises(PermanentError) as error:
        await attempt(books, job_id)
    assert error.value.code == "PERIOD_NOT_READY", error.value
    await over(books, job_id)
    details = error.value.details or {}
    return {each["code"]: each for each in details["findings"]}


async def over(books: Books, job_id: UUID) -> None:
    """The job is ended without a worker, and cleaned up, so that another close can be asked for."""
    async with books.app.begin() as conn:
        assert await cancel_job(conn, JobId(job_id))
    await clean_up(books)


async def clean_up(books: Books) -> bool:
    """What a worker's maintenance does for one job that ended dead or cancelled."""
    return await clean_up_one(books.app, KINDS, TIMING)


async def status(books: Books, period: str = JANUARY) -> str:
    """How ACME's period stands."""
    query = "SELECT status FROM books.periods WHERE company = 'ACME' AND period = :period"
    return str(await scalar(books.app, query, period=period))


async def events(books: Books, period: str = JANUARY) -> list[str]:
    """What became of ACME's period, oldest first."""
    query = "SELECT event FROM books.period_events WHERE period = :period ORDER BY id"
    return [row.event for row in await fetch(books.app, query, period=period)]


async def without_locks(owner: AsyncEngine, job_id: UUID) -> None:
    """As a worker of a version before business locks would claim it: the gate alone is left."""
    await execute(owner, "DELETE FROM chot.job_locks WHERE job_id = :job_id", job_id=job_id)
    statement = "UPDATE chot.jobs SET lock_roots = NULL WHERE id = :job_id"
    await execute(owner, statement, job_id=job_id)


def after(step: Callable[..., Awaitable[Any]], then: Callable[[], Awaitable[Any]]) -> Any:
    """The step, and then something that happens right behind it, once."""
    done: list[bool] = []

    async def both(*arguments: Any, **named: Any) -> Any:
        found = await step(*arguments, **named)
        if not done:
            done.append(True)
            await then()
        return found

    return both
