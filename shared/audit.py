"""The audit: who did what, and from where; written in the act's own transaction, never changed.

The statement of an act writes its row too (a CTE over what the act returns, so that an act that
did not happen leaves none); `chot.actor()` knows on whose behalf the transaction runs. Submits are
written by chot.enqueue() itself.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope
from shared.json_text import to_json


class Action(StrEnum):
    """What can be done; the words of the column, of filters and of approvals."""

    JOB_SUBMIT = "job.submit"
    JOB_CANCEL = "job.cancel"
    JOB_REDRIVE = "job.redrive"
    QUEUE_PAUSE = "queue.pause"
    QUEUE_RESUME = "queue.resume"
    KIND_PAUSE = "kind.pause"
    KIND_RESUME = "kind.resume"
    BOOKS_FREEZE = "books.freeze"
    BOOKS_THAW = "books.thaw"
    PERIOD_CLOSE = "period.close"
    PERIOD_REOPEN = "period.reopen"
    MIGRATION_PAUSE = "migration.pause"
    MIGRATION_RESUME = "migration.resume"
    GROUP_OPEN = "group.open"
    GROUP_SEAL = "group.seal"
    GROUP_CANCEL = "group.cancel"
    GROUP_REDRIVE = "group.redrive"
    LIMIT_SET = "limit.set"
    LIMIT_REMOVE = "limit.remove"
    QUEUE_WEIGH = "queue.weigh"
    COSTING_METHOD = "costing.method"
    DOCUMENT_VOID = "document.void"
    POSTING_UNPOST = "posting.unpost"
    LEDGER_CHART = "ledger.chart"
    KEY_CREATE = "key.create"
    KEY_REVOKE = "key.revoke"
    KEY_LOGOUT = "key.logout"
    APPROVAL_GIVE = "approval.give"
    DATABASE_RESTORED = "database.restored"
    ALERT_SILENCE = "alert.silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """On whose behalf a transaction runs: account, public id of its key, address, request."""

    principal: str
    key_id: str | None = None
    source: str | None = None
    request_id: str | None = None

    @property
    def said(self) -> str:
        """What `chot.actor` is set to."""
        said = {
            "principal": self.principal,
            "key_id": self.key_id,
            "source": self.source,
            "request_id": self.request_id,
        }
        return to_json({name: value for name, value in said.items() if value is not None})


# A request sets it once; every transaction it opens, in tasks of its own too, runs on its behalf.
ACTOR: ContextVar[Actor | None] = ContextVar("chot actor", default=None)


def acting() -> str:
    """What `chot.actor` is to be set to here; empty where nobody has asked."""
    actor = ACTOR.get()
    return "" if actor is None else actor.said


def noted(
    action: Action,
    rows: str,
    *,
    job_id: str = "NULL::uuid",
    target: str = "NULL",
    company: str = "NULL",
    brand: str = "NULL",
    approver: str = "NULL",
    approval_id: str = "NULL::uuid",
    facts: str = "'{}'::jsonb",
) -> str:
    """A CTE, named `noted`, that writes a row for each of `rows`, an earlier CTE of the statement.

    The others are SQL expressions over it.
    """
    return f"""noted AS (
        INSERT INTO chot.audit (action, principal, key_id, source, request_id, job_id, target,
                                company, brand, approver, approval_id, facts)
        SELECT '{action}', a.principal, a.key_id, a.source, a.request_id, {job_id}, {target},
               {company}, {brand}, {approver}, {approval_id}, {facts}
          FROM {rows} CROSS JOIN chot.actor() AS a)"""


def noted_job(action: Action, rows: str, **more: str) -> str:
    """As noted(), where `rows` are jobs."""
    columns = {"job_id": f"{rows}.id", "company": f"{rows}.company", "brand": f"{rows}.brand"}
    return noted(action, rows, **columns, **more)


# For acts that have no statement of their own to hang on.
NOTE = text("""
    INSERT INTO chot.audit (action, principal, key_id, source, request_id, job_id, target, company,
                            brand, facts)
    SELECT CAST(:action AS text), a.principal, a.key_id, a.source, a.request_id,
           CAST(:job_id AS uuid), CAST(:target AS text), CAST(:company AS text),
           CAST(:brand AS text), CAST(:facts AS jsonb)
      FROM chot.actor() AS a""")


async def note(
    conn: AsyncConnection,
    action: Action,
    *,
    target: str | None = None,
    job_id: UUID | None = None,
    company: str | None = None,
    brand: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write one row in the caller's transaction, which must be that of the act."""
    binds = {
        "action": action.value,
        "job_id": job_id,
        "target": target,
        "company": company,
        "brand": brand,
        "facts": to_json(dict(facts or {})),
    }
    await conn.execute(NOTE, binds)


# Planned for these very values, so that a filter that is not there costs nothing and one that is
# there picks its index. `j` is the name that IN_SCOPE knows.
PLAN_EACH = text("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")
LIST_AUDIT = text(f"""
    SELECT j.id, j.at, j.action, j.principal, j.key_id, host(j.source) AS source, j.request_id,
           j.job_id, j.target, j.company, j.brand, j.approver, j.approval_id, j.facts
      FROM chot.audit j
     WHERE {IN_SCOPE}
       AND (CAST(:action AS text) IS NULL OR j.action = CAST(:action AS text))
       AND (CAST(:principal AS text) IS NULL OR j.principal = CAST(:principal AS text))
       AND (CAST(:job_id AS uuid) IS NULL OR j.job_id = CAST(:job_id AS uuid))
       AND (CAST(:company AS text) IS NULL OR j.company = CAST(:company AS text))
       AND (CAST(:brand AS text) IS NULL OR j.brand = CAST(:brand AS text))
       AND (CAST(:since AS timestamptz) IS NULL OR j.at >= CAST(:since AS timestamptz))
       AND (CAST(:until AS timestamptz) IS NULL OR j.at < CAST(:until AS timestamptz))
       AND (CAST(:before_id AS bigint) IS NULL
            OR (j.at, j.id) < (CAST(:before_at AS timestamptz), CAST(:before_id AS bigint)))
     ORDER BY j.at DESC, j.id DESC LIMIT :limit""")
FILTERS = ("action", "principal", "job_id", "company", "brand", "since", "until")


async def list_audit(
    conn: AsyncConnection,
    filters: Mapping[str, Any],
    *,
    limit: int,
    before: tuple[datetime, int] | None = None,
    scope: Scope = EVERYTHING,
) -> list[RowMapping]:
    """Rows newest first; `before` is the (at, id) that a page begins after.

    `filters` may hold FILTERS; `since` is in it, `until` is not. A row never changes its place, so
    paging neither repeats nor skips one while others are written. Call it in a transaction.
    """
    at, number = before or (None, None)
    binds = dict.fromkeys(FILTERS) | dict(filters) | dict(scope.binds())
    binds |= {"before_at": at, "before_id": number, "limit": limit}
    await conn.execute(PLAN_EACH)
    return list((await conn.execute(LIST_AUDIT, binds)).mappings().all())
