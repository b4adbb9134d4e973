"""Closing a period: look, `closing`, then behind its gate look again and close, or go back.

A close that is refused before it began has kept nobody from writing. One whose worker is lost is
finished by the next attempt; one that ends dead or cancelled is undone by its cleanup. It counts
as asked for only while its row in books.period_events says so: a job that was refused is not
closed by a redrive, which nobody has approved.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import PermanentError
from shared.kinds.periods import PERIOD_CLOSE, PeriodClosePayload
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler
from worker.records.cost_runs import closed_period
from worker.records.ledger_checks import say_ledger
from worker.records.period_checks import find_unready, fitted
from worker.records.periods import (
    Close,
    Standing,
    begin_closing,
    count_closed,
    end_closing,
    hold_gate,
    read_standing,
    refuse_closing,
    undo_closing,
)


class _NotReadyError(Exception):
    """Something was found behind the gate; carries it out of the transaction that held it."""

    def __init__(self, findings: Sequence[dict[str, Any]]) -> None:
        super().__init__(len(findings))
        self.findings = findings


async def close_period(context: JobContext, payload: PeriodClosePayload) -> None:
    """Close the period and complete the job; PERIOD_NOT_READY with what stands against it."""
    standing = await _standing(context, payload)
    close = standing.close
    if standing.event == "close_asked":
        await _look(context, close)
        await _begin(context, close, standing.status)
    context.progress(1, 2, unit="steps", message="closing: waiting for writers, then checking")
    try:
        async with context.completion() as tx:
            await _require_ready(tx.connection, close)
            counted = await count_closed(tx.connection, close)
            ledger = await say_ledger(tx.connection, close)
            await end_closing(tx.connection, close, counted)
            tx.progress(2, 2, unit="steps", message="closed")
            tx.result = {"outcome": "closed", "period": close.period, **counted, "ledger": ledger}
    except _NotReadyError as found:
        await _refuse(context, close, found.findings)


async def _require_ready(conn: AsyncConnection, close: Close) -> None:
    if not await hold_gate(conn, close):
        raise PermanentError(
            f"CLOSE_UNDONE: period {close.period} of company {close.company} was set to another "
            "state while this job was closing it; ask for a new close",
            code="CLOSE_UNDONE",
        )
    findings = await find_unready(conn, close)
    if findings:
        raise _NotReadyError(findings)


async def _standing(context: JobContext, payload: PeriodClosePayload) -> Standing:
    """What this job is to do now; PermanentError where it is not, or no longer, asked for."""
    company = context.job.company
    async with context.read() as conn:
        found = await read_standing(
            conn, company=company, period=payload.period, job_id=context.job.id
        )
    if found is None:
        raise closed_period(company, payload.period, None)
    if found.event == "refused":
        _raise_not_ready(found.close, found.facts["findings"])
    if found.event not in {"close_asked", "closing"}:
        raise PermanentError(
            f"CLOSE_NOT_ASKED: nobody has asked for this close of period {payload.period}, or it "
            "was undone; ask for a new one (`chot period close`)",
            code="CLOSE_NOT_ASKED",
        )
    return found


async def _look(context: JobContext, close: Close) -> None:
    context.progress(0, 2, unit="steps", message="checking the period")
    async with context.read() as conn:
        findings = await find_unready(conn, close)
    if findings:
        await _refuse(context, close, findings)


async def _begin(context: JobContext, close: Close, status: str) -> None:
    async with context.transaction() as tx:
        if not await begin_closing(tx.connection, close):
            raise closed_period(close.company, close.period, status)
        tx.checkpoint = {"closing": True}


async def _refuse(
    context: JobContext, close: Close, findings: Sequence[dict[str, Any]]
) -> NoReturn:
    async with context.transaction() as tx:
        await refuse_closing(tx.connection, close, findings)
    _raise_not_ready(close, findings)


def _raise_not_ready(close: Close, findings: Sequence[dict[str, Any]]) -> NoReturn:
    told = ", ".join(f"{each['code']} ({each['count']})" for each in findings)
    raise PermanentError(
        f"PERIOD_NOT_READY: period {close.period} of company {close.company} is open as before: "
        f"{told}; put it right, then ask for a new close",
        code="PERIOD_NOT_READY",
        details={
            "company": close.company,
            "period": close.period,
            "findings": fitted(findings),
        },
    )


async def clean_up_close(context: CleanupContext) -> None:
    """Open the period again that the job has left `closing`; whoever has taken it over keeps it."""
    await undo_closing(
        context.connection,
        company=context.job.company,
        period=context.job.payload["period"],
        job_id=context.job.id,
    )


HANDLERS = (Handler(kind=PERIOD_CLOSE.name, run=close_period, cleanup=clean_up_close),)
