"""Close and reopen as the api does them: who may, who has approved, and what is answered."""

from dataclasses import dataclass
from typing import Any, assert_never
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.approving import require_given
from api.authentication import Caller
from api.bodies import job_url, show_instant
from api.period_views import (
    affected_views,
    full_event,
    later_period_closed,
    period_not_found,
    period_state,
    period_summary,
)
from api.problems import ProblemRaised
from api.resources import Resources
from shared.access import EVERYTHING
from shared.audit import Action
from shared.database import sqlstate_of
from shared.errors import Busy
from shared.jobs.enqueue import Accepted
from shared.kinds.periods import PERIOD_CLOSE
from shared.periods import (
    LaterClosed,
    NotClosed,
    PeriodKey,
    PeriodStatus,
    later_closed,
    list_affected,
    list_events,
    note_asked,
    read_period,
    reopen,
    status_of,
    submit_close,
)

MOST_EVENTS, MOST_ITEMS = 50, 100
PERIOD_ORDER = "CH107"
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A close or a reopening that an account asks for."""

    key: PeriodKey
    who: Caller
    reason: str | None
    approval_id: UUID | None


async def asked_close(resources: Resources, act: Act) -> tuple[bool, dict[str, Any]]:
    """Whether there is a new job, and the job's view: whoever asks twice gets the same one.

    An approval is used for a new job only.
    """
    async with resources.transaction() as conn:
        status = await status_of(conn, act.key)
        if status is None:
            raise ProblemRaised(period_not_found(act.key))
        if status == PeriodStatus.CLOSED:
            raise ProblemRaised(await _closed(conn, act.key))
        accepted = await submit_close(conn, act.key, principal=act.who.principal)
        if accepted.created:
            approval = await require_given(
                conn,
                resources.settings,
                Action.PERIOD_CLOSE,
                act.key.target,
                act.approval_id,
                requester=act.who.principal,
            )
            await note_asked(conn, act.key, accepted, reason=act.reason, approval=approval)
    resources.relay.wake()
    return accepted.created, _job(act.key, accepted)


async def _closed(conn: AsyncConnection, key: PeriodKey) -> Any:
    """Says which job has closed it: whoever has lost an answer knows its own."""
    row = await read_period(conn, key, scope=EVERYTHING)
    job = None if row is None or row["job_id"] is None else str(row["job_id"])
    return period_state(PeriodStatus.CLOSED, {"job_id": job})


def _job(key: PeriodKey, accepted: Accepted) -> dict[str, Any]:
    url = job_url(accepted.job_id)
    return {
        "id": str(accepted.job_id),
        "kind": PERIOD_CLOSE.name,
        "company": key.company,
        "brand": None,
        "state": accepted.state,
        "created": accepted.created,
        "duplicate": accepted.duplicate,
        "input_as_of": show_instant(accepted.input_as_of),
        "status_url": url,
        "links": {"self": url, "cancel": f"{url}/cancel"},
    }


async def reopened(resources: Resources, act: Act) -> dict[str, Any]:
    """The period, open again, with what was built on it; ProblemRaised where it stays as it is."""
    for _ in range(TRIES):
        try:
            return await _reopened(resources, act)
        except DBAPIError as error:
            # A later period was closed at this very moment: the next look finds it.
            if sqlstate_of(error) != PERIOD_ORDER:
                raise
    raise Busy("the company's periods are being closed and opened; try again")


async def _reopened(resources: Resources, act: Act) -> dict[str, Any]:
    async with resources.transaction() as conn:
        if await status_of(conn, act.key) is None:
            raise ProblemRaised(period_not_found(act.key))
        approval = await require_given(
            conn,
            resources.settings,
            Action.PERIOD_REOPEN,
            act.key.target,
            act.approval_id,
            requester=act.who.principal,
        )
        answer = await reopen(conn, act.key, reason=act.reason or "", approval=approval)
        match answer:
            case None:
                pass
            case NotClosed():
                raise ProblemRaised(period_state(answer.status))
            case LaterClosed():
                raise ProblemRaised(later_period_closed(answer.periods))
            case _:
                assert_never(answer)
        scope = act.who.scope
        row = await read_period(conn, act.key, scope=scope)
        affected = await list_affected(conn, act.key, scope=scope, items=MOST_ITEMS)
    assert row is not None, "it was reopened in this very transaction"
    return period_summary(row) | {"affects": affected_views(affected)}


async def shown_period(resources: Resources, key: PeriodKey, who: Caller) -> dict[str, Any]:
    """What PeriodView describes; ProblemRaised where there is none in the account's scope."""
    async with resources.reading() as conn:
        row = await read_period(conn, key, scope=who.scope)
        if row is None:
            raise ProblemRaised(period_not_found(key))
        events = await list_events(conn, key, limit=MOST_EVENTS)
        reopening = None
        if row["status"] == PeriodStatus.CLOSED:
            affected = await list_affected(conn, key, scope=who.scope, items=MOST_ITEMS)
            reopening = {
                "later_closed": list(await later_closed(conn, key)),
                "affects": affected_views(affected),
            }
    return period_summary(row) | {
        "events": [full_event(each) for each in events],
        "reopening": reopening,
    }
