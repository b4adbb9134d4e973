"""Costs into the ledger: plan what differs, post it chunk by chunk, and see that nothing changed.

Each chunk is one fenced transaction behind the period's gate, which an activation takes alone: in
it the results are still those the plan was made from, or the plan is made again. So what ends with
this job are the costs of the results that speak then, whatever was posted before, by whomever.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.errors import PermanentError
from shared.kinds.cost_documents import POSTING_COSTS, PostingCostsPayload
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler
from worker.records.cost_plan import CostPeriod, forget_plan, make_plan, read_state
from worker.records.cost_posting import hold_documents, next_pending, pass_gate, post_pending
from worker.records.cost_results import shown
from worker.records.cost_runs import closed_period
from worker.records.posting import GATE_REFUSALS
from worker.records.unread_movements import count_unread

# How often an attempt follows costings that become active under it before it lets them pass.
MOST_ROUNDS = 5
LET_PASS = timedelta(seconds=30)

READ_PERIOD = text("""
    SELECT p.starts_on, p.ends_on, p.status, c.minor_digits,
           EXISTS (SELECT FROM books.gl_accounts g WHERE g.company = p.company) AS chart
      FROM books.periods p JOIN books.companies c ON c.code = p.company
     WHERE p.company = :company AND p.period = :period""")
READ_RUNS = text("""
    SELECT count(*) FILTER (WHERE a.failed) AS failed, count(*) FILTER (WHERE a.stale) AS stale,
           coalesce(array_agg(DISTINCT a.run_id) FILTER (WHERE NOT a.failed), '{}') AS runs
      FROM books.active_results a WHERE a.company = :company AND a.period = :period""")
# Beyond so many runs that speak for a period their ids are told by GET /v1/periods.
MOST_RUNS = 50


class _ResultsChangedError(Exception):
    """Another run speaks than when the plan was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The plan, and how far it is: what the checkpoint says. `posted` counts all plans' documents.

    `amounts` are what the costs of the period come to by role, in minor units.
    """

    state: str
    wanted: int
    unchanged: int
    work: int
    amounts: dict[str, str]
    after: int = 0
    done: int = 0
    posted: int = 0
    reversed: int = 0


async def post_costs(context: JobContext, payload: PostingCostsPayload) -> None:
    """Let the cost documents of the period be those of its results; see the module.

    PermanentError PERIOD_CLOSED, PERIOD_UNKNOWN, CHART_MISSING, COSTS_REFUSED or COMPANY_WIDE.
    """
    costs, digits = await _read_period(context, payload)
    if context.checkpoint is None:
        await _plan(context, costs, None)
    for _ in range(MOST_ROUNDS):
        try:
            while await _post_chunk(context, costs, payload.chunk_lines):
                context.yield_if_asked()
            await _complete(context, costs, digits)
        except _ResultsChangedError:
            await _plan(context, costs, _course(context))
        except DBAPIError as error:
            if sqlstate_of(error) not in GATE_REFUSALS:
                raise
            raise closed_period(costs.company, costs.period, "closed") from error
        else:
            return
    context.snooze("runs become active while their costs are posted", after=LET_PASS)


def _course(context: JobContext) -> Course:
    assert context.checkpoint is not None, "a plan has been made"
    return Course(**context.checkpoint)


async def _read_period(context: JobContext, payload: PostingCostsPayload) -> tuple[CostPeriod, int]:
    job = context.job
    if job.brand is not None:
        raise PermanentError(
            f"COMPANY_WIDE: brand={job.brand!r}: brands may share a pool, so cost documents are of "
            "the whole company; ask again without a brand",
            code="COMPANY_WIDE",
        )
    async with context.read() as conn:
        binds = {"company": job.company, "period": payload.period}
        row = (await conn.execute(READ_PERIOD, binds)).one_or_none()
    if row is None or row.status != "open":
        raise closed_period(job.company, payload.period, None if row is None else row.status)
    if not row.chart:
        raise PermanentError(
            f"CHART_MISSING: company {job.company} has no chart of accounts; adopt one first "
            "(`chot ledger adopt`)",
            code="CHART_MISSING",
        )
    costs = CostPeriod(
        company=job.company,
        period=payload.period,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
        by=payload.by,
        job_id=job.id,
        fence=context.lease.fence,
    )
    return costs, row.minor_digits


async def _plan(context: JobContext, costs: CostPeriod, before: Course | None) -> None:
    context.progress(0, unit="documents", message="comparing costs with what is posted")
    async with context.transaction() as tx:
        plan = await make_plan(tx.connection, costs)
        course = Course(
            state=plan.state,
            wanted=plan.wanted,
            unchanged=plan.wanted - plan.new,
            work=plan.work,
            amounts=plan.amounts,
            posted=0 if before is None else before.posted,
            reversed=0 if before is None else before.reversed,
        )
        tx.checkpoint = asdict(course)


async def _post_chunk(context: JobContext, costs: CostPeriod, lines: int) -> bool:
    """The next documents of the plan; False at its end."""
    course = _course(context)
    async with context.transaction() as tx:
        pending = await next_pending(tx.connection, costs, course.after, lines)
        if pending is None:
            return False
        await hold_documents(tx.connection, pending)
        await _require_same_results(tx.connection, costs, course)
        await post_pending(tx.connection, costs, pending, context.job.principal)
        later = replace(
            course,
            after=pending.seqs[-1],
            done=course.done + len(pending.seqs),
            posted=course.posted + len(pending.new),
            reversed=course.reversed + len(pending.old),
        )
        tx.checkpoint = asdict(later)
        tx.progress(later.done, later.work, unit="documents", message="posting costs")
    return True


async def _require_same_results(conn: AsyncConnection, costs: CostPeriod, course: Course) -> None:
    await pass_gate(conn, costs)
    # A new statement: what waited at the gate would still see the results as they were.
    if await read_state(conn, costs) != course.state:
        raise _ResultsChangedError


async def _complete(context: JobContext, costs: CostPeriod, digits: int) -> None:
    course = _course(context)
    async with context.read() as conn:
        unread = await count_unread(conn, costs)
    async with context.completion() as tx:
        await _require_same_results(tx.connection, costs, course)
        scope = {"company": costs.company, "period": costs.period}
        found = (await tx.connection.execute(READ_RUNS, scope)).one()
        warned = {"ITEMS_FAILED": found.failed, "RESULTS_STALE": found.stale} | unread
        tx.result = _result(costs, course, found.runs, warned, digits)
        tx.progress(course.work, course.work, unit="documents", message="posted")


def _result(
    costs: CostPeriod, course: Course, runs: Sequence[Any], warned: dict[str, int], digits: int
) -> dict[str, Any]:
    warnings = [{"code": code, "items": items} for code, items in warned.items() if items]
    changed = course.posted or course.reversed
    return {
        "outcome": "succeeded" if changed else "nothing_to_do",
        "period": costs.period,
        "by": costs.by,
        "runs": list(runs)[:MOST_RUNS],
        "documents": {
            "standing": course.wanted,
            "posted": course.posted,
            "reversed": course.reversed,
            "unchanged": course.unchanged,
        },
        "amounts": {
            role: shown(Decimal(amount), digits) for role, amount in course.amounts.items()
        },
        "warnings": warnings,
    }


async def clean_up_costs(context: CleanupContext) -> None:
    """Remove what the job has staged; what it has posted stays."""
    await forget_plan(context.connection, context.job.id)


HANDLERS = (Handler(kind=POSTING_COSTS.name, run=post_costs, cleanup=clean_up_costs),)
