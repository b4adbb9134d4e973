"""Close a period: begin, take its gate, end, or go back; its own row in books.period_events each.

`closing` is committed first, so that no writer begins that would have to be waited for. Then the
gate is taken alone, which waits for those that passed it before; what is looked at under it stays
as it is until the commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.json_text import to_json
from worker.records.activation import LOCK_GATE, LOCK_PERIOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """One close: the period, its days, and the job that does it."""

    company: str
    period: str
    job_id: UUID
    starts_on: date
    ends_on: date

    def binds(self) -> dict[str, Any]:
        """What the statements here are bound to."""
        return {"company": self.company, "period": self.period, "job_id": self.job_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The period as a close finds it: its status, and the last that became of it by this job."""

    close: Close
    status: str
    event: str | None
    facts: dict[str, Any]


READ_STANDING = text("""
    SELECT p.status, p.starts_on, p.ends_on, e.event, e.facts
      FROM books.periods p
      LEFT JOIN LATERAL (
           SELECT e.event, e.facts FROM books.period_events e
            WHERE e.company = p.company AND e.period = p.period
              AND e.job_id = CAST(:job_id AS uuid)
            ORDER BY e.id DESC LIMIT 1) AS e ON true
     WHERE p.company = :company AND p.period = :period""")


async def read_standing(
    conn: AsyncConnection, *, company: str, period: str, job_id: UUID
) -> Standing | None:
    """How the period stands for this job; None where there is no such period."""
    binds = {"company": company, "period": period, "job_id": job_id}
    row = (await conn.execute(READ_STANDING, binds)).one_or_none()
    if row is None:
        return None
    close = Close(
        company=company,
        period=period,
        job_id=job_id,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
    )
    return Standing(close=close, status=row.status, event=row.event, facts=row.facts or {})


# A period that a dead job has left `closing` is taken over: its cleanup then leaves it alone.
BEGIN_CLOSING = text("""
    WITH begun AS (
        UPDATE books.periods p SET status = 'closing', version = p.version + 1
         WHERE p.company = :company AND p.period = :period AND p.status IN ('open', 'closing')
        RETURNING p.company, p.period)
    INSERT INTO books.period_events (company, period, event, requester, approver, approval_id,
                                     job_id, reason)
    SELECT b.company, b.period, 'closing', e.requester, e.approver, e.approval_id, e.job_id,
           e.reason
      FROM begun b JOIN books.period_events e
        ON e.company = b.company AND e.period = b.period AND e.event = 'close_asked'
       AND e.job_id = CAST(:job_id AS uuid)""")


async def begin_closing(conn: AsyncConnection, close: Close) -> bool:
    """From its commit on no writer passes the gate; False: the period is closed."""
    return (await conn.execute(BEGIN_CLOSING, close.binds())).rowcount == 1


NEWEST = text("""
    SELECT e.job_id FROM books.period_events e
     WHERE e.company = :company AND e.period = :period ORDER BY e.id DESC LIMIT 1""")


async def hold_gate(conn: AsyncConnection, close: Close) -> bool:
    """Hold the period for this transaction, nobody within; False: it is no longer this job's.

    Waits for writers that passed the gate before. Check nothing before this.
    """
    scope = {"company": close.company, "period": close.period}
    await conn.execute(LOCK_GATE, scope)
    # New statements: one that waited for the lock would still see the period as it was.
    status = (await conn.execute(LOCK_PERIOD, scope)).scalar_one()
    newest: UUID | None = await conn.scalar(NEWEST, scope)
    return status == "closing" and newest == close.job_id


# The newest row of the period is this job's: it has asked, or is closing.
_LEAVES = """
    WITH left_it AS (
        UPDATE books.periods p SET status = {status}, version = p.version + 1
         WHERE p.company = :company AND p.period = :period AND p.status = 'closing'
           AND (SELECT e.job_id FROM books.period_events e
                 WHERE e.company = p.company AND e.period = p.period
                 ORDER BY e.id DESC LIMIT 1) = CAST(:job_id AS uuid)
        RETURNING p.company, p.period)
    INSERT INTO books.period_events (company, period, event, requester, approver, approval_id,
                                     job_id, reason, facts)
    SELECT l.company, l.period, {event}, e.requester, e.approver, e.approval_id, e.job_id,
           e.reason, CAST(:facts AS jsonb)
      FROM left_it l JOIN books.period_events e
        ON e.company = l.company AND e.period = l.period AND e.event = 'close_asked'
       AND e.job_id = CAST(:job_id AS uuid)"""
END_CLOSING = text(_LEAVES.format(status="'closed'", event="'closed'"))
LEAVE_CLOSING = text(
    _LEAVES.format(status="'open'", event="CAST(:event AS text)"),
)
# A refusal before `closing`: the period has stayed as it was.
NOTE_REFUSED = text("""
    INSERT INTO books.period_events (company, period, event, requester, approver, approval_id,
                                     job_id, reason, facts)
    SELECT e.company, e.period, 'refused', e.requester, e.approver, e.approval_id, e.job_id,
           e.reason, CAST(:facts AS jsonb)
      FROM books.period_events e
     WHERE e.company = :company AND e.period = :period AND e.event = 'close_asked'
       AND e.job_id = CAST(:job_id AS uuid)""")


async def end_closing(conn: AsyncConnection, close: Close, facts: dict[str, Any]) -> None:
    """Closed, under the gate of hold_gate(); a driver's error CH107 where an earlier one is not."""
    done = await conn.execute(END_CLOSING, close.binds() | {"facts": to_json(facts)})
    assert done.rowcount == 1, "its row is locked, and was closing by this job"


async def refuse_closing(
    conn: AsyncConnection, close: Close, findings: Sequence[dict[str, Any]]
) -> None:
    """Back to open, where this job has been closing it, with what was found."""
    facts = {"facts": to_json({"findings": list(findings)})}
    left = await conn.execute(LEAVE_CLOSING, close.binds() | facts | {"event": "refused"})
    if left.rowcount == 0:
        await conn.execute(NOTE_REFUSED, close.binds() | facts)


async def undo_closing(conn: AsyncConnection, *, company: str, period: str, job_id: UUID) -> bool:
    """Back to open, where this job has left it `closing`. Idempotent; False: there was nothing."""
    binds = {"company": company, "period": period, "job_id": job_id}
    left = await conn.execute(LEAVE_CLOSING, binds | {"facts": "{}", "event": "interrupted"})
    return left.rowcount == 1


# Beyond so many runs that speak for a period their ids are told by GET /v1/periods.
MOST_RUNS = 50
COUNT_CLOSED = text("""
    SELECT count(*) AS results, count(DISTINCT a.run_id) AS runs_total,
           (array_agg(DISTINCT a.run_id))[1 : CAST(:most AS integer)] AS runs
      FROM books.active_results a WHERE a.company = :company AND a.period = :period""")


async def count_closed(conn: AsyncConnection, close: Close) -> dict[str, Any]:
    """The results that the period is closed with, under its gate."""
    row = (await conn.execute(COUNT_CLOSED, close.binds() | {"most": MOST_RUNS})).one()
    return {"results": row.results, "runs_total": row.runs_total, "runs": list(row.runs or ())}
