"""Periods of a ChotClient: look, close, reopen."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, Self
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.errors import PeriodState, no_answer_of_ours
from shared.client.patience import Patience
from shared.client.reading import understood
from shared.client.results import moment
from shared.json_text import to_json

PAGE = 24
Status = Literal["open", "closing", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodEvent:
    """What became of the period: who asked, who approved, and the job that did it.

    `facts` of a close that was refused hold its `findings`; in lists they are empty.
    """

    at: datetime
    event: str
    requester: str
    approver: str | None
    job_id: UUID | None
    reason: str | None
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            at=moment(body["at"]),
            event=body["event"],
            requester=body["requester"],
            approver=body["approver"],
            job_id=None if body["job_id"] is None else UUID(body["job_id"]),
            reason=body["reason"],
            facts=body.get("facts") or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A later period with results that were built on one that is reopened."""

    period: str
    status: Status
    results: int
    stale: int
    items_total: int
    items: tuple[str, ...]
    runs: tuple[str, ...]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            period=body["period"],
            status=body["status"],
            results=body["results"],
            stale=body["stale"],
            items_total=body["items_total"],
            items=tuple(body["items"]),
            runs=tuple(body["runs"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period: its days, whether it takes movements, and how its costs stand.

    `events` are of show() and reopen() alone; `affects` says which later periods were built on it.
    """

    company: str
    period: str
    starts_on: date
    ends_on: date
    status: Status
    results: int
    failed: int
    stale: int
    late: int
    last_event: PeriodEvent | None
    events: tuple[PeriodEvent, ...]
    affects: tuple[Affected, ...]
    body: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it, of a list, its own page or a reopening."""
        last, counted = body["last_event"], body["results"]
        reopening = body.get("reopening") or {}
        return cls(
            company=body["company"],
            period=body["period"],
            starts_on=date.fromisoformat(body["starts_on"]),
            ends_on=date.fromisoformat(body["ends_on"]),
            status=body["status"],
            results=counted["total"],
            failed=counted["failed"],
            stale=counted["stale"],
            late=counted["late"],
            last_event=None if last is None else PeriodEvent.of(last),
            events=tuple(map(PeriodEvent.of, body.get("events") or ())),
            affects=tuple(map(Affected.of, body.get("affects") or reopening.get("affects") or ())),
            body=body,
        )


class Periods:
    """Calls on a company's periods, of the client that made it."""

    def __init__(self, ask: Callable[..., Awaitable[httpx.Response]], deadline: float) -> None:
        self._ask = ask
        self._deadline = deadline

    async def list(self, company: str) -> AsyncIterator[Period]:
        """The company's periods, newest first, page by page as they are asked for."""
        cursor: str | None = ""
        while cursor is not None:
            asked = {"company": company, "limit": str(PAGE)}
            answer = await self._ask(
                "GET", "/v1/periods", params=asked | ({"cursor": cursor} if cursor else {})
            )
            periods, following = understood(answer, _page)
            for each in periods:
                yield each
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following

    async def show(self, company: str, period: str) -> Period:
        """The period with what became of it, and what its reopening would affect."""
        answer = await self._ask("GET", period_path(period), params={"company": company})
        return understood(answer, Period.of)

    async def close(
        self,
        company: str,
        period: str,
        *,
        reason: str | None = None,
        approval: UUID | str | None = None,
    ) -> UUID:
        """Ask for the close; the id of the job that does it, or is doing it already.

        Wait for that job as for any: dead with code PERIOD_NOT_READY, it says what is missing.
        """
        patience = Patience(self._deadline)
        path, body = f"{period_path(period)}/close", _body(company, reason, approval)
        try:
            answer = await self._ask("POST", path, body=body, patience=patience)
        except PeriodState as refused:
            # An answer was lost, and the period is closed: that was this close, or one like it.
            job = refused.more.get("job_id")
            if patience.tries == 1 or job is None:
                raise
            return UUID(str(job))
        return understood(answer, _job_id)

    async def reopen(
        self, company: str, period: str, *, reason: str, approval: UUID | str | None = None
    ) -> Period:
        """Reopen the latest closed period; `affects` has the later ones that were built on it."""
        patience = Patience(self._deadline)
        path, body = f"{period_path(period)}/reopen", _body(company, reason, approval)
        try:
            answer = await self._ask("POST", path, body=body, patience=patience)
        except PeriodState as refused:
            if patience.tries == 1 or refused.more.get("state") != "open":
                raise
            return await self.show(company, period)
        return understood(answer, Period.of)


def _body(company: str, reason: str | None, approval: UUID | str | None) -> str:
    given = {
        "company": company,
        "reason": reason,
        "approval": None if approval is None else str(approval),
    }
    return to_json({name: value for name, value in given.items() if value is not None})


def _page(body: Mapping[str, Any]) -> tuple[Sequence[Period], str | None]:
    return [Period.of(each) for each in body["periods"]], body["next_cursor"]


def _job_id(body: Mapping[str, Any]) -> UUID:
    return UUID(body["id"])


def period_path(period: str) -> str:
    """Path of a period's route; whatever was given as a name stays one path segment."""
    return f"/v1/periods/{quote(period, safe='')}"
