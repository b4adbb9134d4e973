"""Periods of a company's books: how each stands, asking for its close, and reopening it.

A period is closed by a job (worker/handlers/periods.py), which POST /v1/periods/{period}/close asks
for; it is reopened at once. Both leave a row in the audit and one in books.period_events, with who
asked and who approved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Scope
from shared.approvals import Approval
from shared.audit import Action, noted
from shared.jobs.enqueue import Accepted, Submit, enqueue
from shared.kinds.periods import PERIOD_CLOSE


class PeriodStatus(StrEnum):
    """Only an open period takes movements and results."""

    OPEN = "open"
    CLOSING = "closing"  # a job is closing it, or goes back on it
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodKey:
    """A period of a company."""

    company: str
    period: str

    @property
    def target(self) -> str:
        """What approvals and the audit call it; no period has a slash in its name."""
        return f"{self.company}/{self.period}"

    @classmethod
    def of_target(cls, target: str) -> "PeriodKey":
        """The period that `target` names, if there is one."""
        company, _, period = target.rpartition("/")
        return cls(company=company, period=period)

    def binds(self) -> dict[str, str]:
        """What the statements here are bound to."""
        return {"company": self.company, "period": self.period}


# Results are found by brand: that is how their key begins. `late` is of the movements' own log.
_STANDING = """
    SELECT p.company, p.period, p.starts_on, p.ends_on, p.status, p.version,
           r.results, r.failed, r.stale, r.late, r.runs, e.*
      FROM books.periods p
     CROSS JOIN LATERAL (
           SELECT CAST(coalesce(sum(each.results), 0) AS bigint) AS results,
                  CAST(coalesce(sum(each.failed), 0) AS bigint) AS failed,
                  CAST(coalesce(sum(each.stale), 0) AS bigint) AS stale,
                  CAST(coalesce(sum(each.late), 0) AS bigint) AS late,
                  coalesce(array_agg(DISTINCT each.run) FILTER (WHERE each.run IS NOT NULL), '{}')
                      AS runs
             FROM (SELECT count(*) AS results, count(*) FILTER (WHERE a.failed) AS failed,
                          count(*) FILTER (WHERE a.stale) AS stale, 0 AS late, a.run_id AS run
                     FROM books.brands b
                     JOIN books.active_results a
                       ON a.company = b.company AND a.brand = b.code AND a.period = p.period
                    WHERE b.company = p.company
                      AND (CAST(:scope_brands AS text[]) IS NULL
                           OR b.code = ANY(CAST(:scope_brands AS text[])))
                    GROUP BY a.run_id
                   UNION ALL
                   SELECT 0, 0, 0, count(DISTINCT (l.brand, l.item)), NULL
                     FROM books.late_movements l
                    WHERE l.company = p.company AND l.period = p.period
                      AND (CAST(:scope_brands AS text[]) IS NULL
                           OR l.brand = ANY(CAST(:scope_brands AS text[])))) AS each) AS r
      LEFT JOIN LATERAL (
           SELECT e.at, e.event, e.requester, e.approver, e.job_id, e.reason
             FROM books.period_events e
            WHERE e.company = p.company AND e.period = p.period
            ORDER BY e.id DESC LIMIT 1) AS e ON true
     WHERE p.company = :company"""
LIST_PERIODS = text(f"""{_STANDING}
       AND (CAST(:before AS text) IS NULL OR p.period < CAST(:before AS text))
     ORDER BY p.period DESC LIMIT :limit""")
READ_PERIOD = text(f"{_STANDING} AND p.period = :period")


IS_COMPANY = text("SELECT EXISTS (SELECT FROM books.companies c WHERE c.code = :company)")


async def is_seen(conn: AsyncConnection, company: str, *, scope: Scope) -> bool:
    """Whether there is such a company in this scope."""
    if not scope.covers_company(company):
        return False
    return bool(await conn.scalar(IS_COMPANY, {"company": company}))


async def list_periods(
    conn: AsyncConnection, company: str, *, scope: Scope, limit: int, before: str | None = None
) -> Sequence[RowMapping]:
    """The company's periods, newest first, each with its newest event.

    Its results, failed, stale and late items are counted in the brands of the scope, which covers
    the company.
    """
    binds = {"company": company, "before": before, "limit": limit}
    return (await conn.execute(LIST_PERIODS, binds | _brands(scope))).mappings().all()


async def read_period(conn: AsyncConnection, key: PeriodKey, *, scope: Scope) -> RowMapping | None:
    """One period as list_periods() has it; None where there is none in this scope."""
    if not scope.covers_company(key.company):
        return None
    found = await conn.execute(READ_PERIOD, key.binds() | _brands(scope))
    return found.mappings().one_or_none()


def _brands(scope: Scope) -> dict[str, object]:
    return {"scope_brands": scope.binds()["scope_brands"]}


LIST_EVENTS = text("""
    SELECT e.at, e.event, e.requester, e.approver, e.job_id, e.reason, e.facts
      FROM books.period_events e WHERE e.company = :company AND e.period = :period
     ORDER BY e.id DESC LIMIT :limit""")


async def list_events(conn: AsyncConnection, key: PeriodKey, *, limit: int) -> Sequence[RowMapping]:
    """What became of the period, newest first."""
    return (await conn.execute(LIST_EVENTS, key.binds() | {"limit": limit})).mappings().all()


LIST_AFFECTED = text("""
    SELECT p.period, p.status, count(*) AS results, count(*) FILTER (WHERE a.stale) AS stale,
           count(DISTINCT a.item) AS items_total,
           (array_agg(DISTINCT a.item))[1 : CAST(:most AS integer)] AS items,
           array_agg(DISTINCT a.run_id) AS runs
      FROM books.periods p
      JOIN books.brands b ON b.company = p.company
      JOIN books.active_results a
        ON a.company = b.company AND a.brand = b.code AND a.period = p.period
     WHERE p.company = :company AND p.period > :period
       AND (CAST(:scope_brands AS text[]) IS NULL
            OR b.code = ANY(CAST(:scope_brands AS text[])))
     GROUP BY p.period, p.status ORDER BY p.period""")


async def list_affected(
    conn: AsyncConnection, key: PeriodKey, *, scope: Scope, items: int
) -> Sequence[RowMapping]:
    """Later periods whose results were built on this one, with their runs and first `items`."""
    binds = key.binds() | _brands(scope) | {"most": items}
    return (await conn.execute(LIST_AFFECTED, binds)).mappings().all()


LATER_CLOSED = text("""
    SELECT p.period FROM books.periods p
     WHERE p.company = :company AND p.period > :period AND p.status = 'closed'
     ORDER BY p.period""")


async def later_closed(conn: AsyncConnection, key: PeriodKey) -> Sequence[str]:
    """Closed periods after this one; the latest of them is reopened first."""
    return (await conn.execute(LATER_CLOSED, key.binds())).scalars().all()


READ_STATUS = text("""
    SELECT p.status FROM books.periods p WHERE p.company = :company AND p.period = :period""")
NOTE_ASKED = text(f"""
    WITH asked AS (
        INSERT INTO books.period_events (company, period, event, requester, approver, approval_id,
                                         job_id, reason)
        SELECT :company, :period, 'close_asked', a.principal, CAST(:approver AS text),
               CAST(:approval_id AS uuid), CAST(:job_id AS uuid), CAST(:reason AS text)
          FROM chot.actor() AS a
        RETURNING *),
    {
    noted(
        Action.PERIOD_CLOSE,
        "asked",
        job_id="asked.job_id",
        target="asked.company || '/' || asked.period",
        company="asked.company",
        approver="asked.approver",
        approval_id="asked.approval_id",
        facts="jsonb_strip_nulls(jsonb_build_object('reason', asked.reason))",
    )
}
    SELECT count(*) FROM asked""")


async def status_of(conn: AsyncConnection, key: PeriodKey) -> PeriodStatus | None:
    """How the period stands; None where there is none."""
    found = await conn.scalar(READ_STATUS, key.binds())
    return None if found is None else PeriodStatus(found)


async def submit_close(conn: AsyncConnection, key: PeriodKey, *, principal: str) -> Accepted:
    """Submit the job that closes the period, or join the one that does so already.

    Where it is new, note_asked() in the same transaction: without it the job closes nothing.
    """
    job = Submit(
        kind=PERIOD_CLOSE.name,
        company=key.company,
        payload={"period": key.period},
        principal=principal,
        payload_version=PERIOD_CLOSE.version,
    )
    return await enqueue(conn, job)


async def note_asked(
    conn: AsyncConnection,
    key: PeriodKey,
    accepted: Accepted,
    *,
    reason: str | None,
    approval: Approval | None,
) -> None:
    """Write who asked for the close, and who approved, into the period's events and the audit."""
    binds = key.binds() | _approved(approval) | {"job_id": accepted.job_id, "reason": reason}
    await conn.execute(NOTE_ASKED, binds)


LOCK_PERIOD = text("""
    SELECT p.status FROM books.periods p
     WHERE p.company = :company AND p.period = :period FOR UPDATE""")
REOPEN = text(f"""
    WITH opened AS (
        UPDATE books.periods p SET status = 'open', version = p.version + 1
         WHERE p.company = :company AND p.period = :period AND p.status = 'closed'
        RETURNING p.company, p.period),
    told AS (
        INSERT INTO books.period_events (company, period, event, requester, approver, approval_id,
                                         reason)
        SELECT o.company, o.period, 'reopened', a.principal, CAST(:approver AS text),
               CAST(:approval_id AS uuid), CAST(:reason AS text)
          FROM opened o CROSS JOIN chot.actor() AS a
        RETURNING *),
    {
    noted(
        Action.PERIOD_REOPEN,
        "told",
        target="told.company || '/' || told.period",
        company="told.company",
        approver="told.approver",
        approval_id="told.approval_id",
        facts="jsonb_build_object('reason', told.reason)",
    )
}
    SELECT count(*) FROM opened""")


@dataclass(frozen=True, slots=True)
class NotClosed:
    """There is nothing to reopen: the period is in this state."""

    status: PeriodStatus


@dataclass(frozen=True, slots=True)
class LaterClosed:
    """Later periods are closed; the last of them is reopened first."""

    periods: Sequence[str]


async def reopen(
    conn: AsyncConnection, key: PeriodKey, *, reason: str, approval: Approval | None
) -> NotClosed | LaterClosed | None:
    """Open a closed period again; None: it is open. The period must be there.

    The results stay as they are, and so do those of later periods, until somebody costs it anew.
    Raises a driver's error CH107 where a later period was closed at this very moment.
    """
    status = PeriodStatus((await conn.execute(LOCK_PERIOD, key.binds())).scalar_one())
    if status != PeriodStatus.CLOSED:
        return NotClosed(status)
    later = await later_closed(conn, key)
    if later:
        return LaterClosed(later)
    opened = await conn.scalar(REOPEN, key.binds() | _approved(approval) | {"reason": reason})
    assert opened == 1, "its row is locked, and was closed"
    return None


def _approved(approval: Approval | None) -> dict[str, object]:
    return {
        "approver": None if approval is None else approval.approver,
        "approval_id": None if approval is None else approval.id,
    }
