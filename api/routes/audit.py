"""The audit: who did what, when, and from where."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy import RowMapping

from api.bodies import parse_instant, show_instant
from api.cursors import as_number, read_cursor, refused_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.queries import Limit, refuse_nul
from api.responses import json_response
from api.routers import keyed_router
from shared.audit import Action, list_audit

router = keyed_router(prefix="/v1/audit", tags=["audit"])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Instant = Annotated[datetime | None, BeforeValidator(parse_instant)]
Name = Annotated[str | None, Field(max_length=100), BeforeValidator(refuse_nul)]


class AuditQuery(BaseModel):
    """Filters of the audit; they narrow what the account sees anyway."""

    model_config = ConfigDict(extra="forbid")

    action: Action | None = None
    principal: Name = None
    job_id: UUID | None = None
    company: Name = None
    brand: Name = None
    since: Instant = Field(None, alias="from", description="from this instant on, RFC 3339")
    until: Instant = Field(None, alias="to", description="before this instant, RFC 3339")
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 50


class AuditView(BaseModel):
    """One act. `target` is what it was done to where that is no job; `facts` hang on the action."""

    id: str
    at: str
    action: Action
    principal: str
    key_id: str | None = Field(description="public id of the key that was shown")
    source: str | None = Field(description="the address it came from")
    request_id: str | None = Field(description="as in X-Request-Id and the access log")
    job_id: str | None
    target: str | None
    company: str | None
    brand: str | None
    approver: str | None = Field(description="the other account, of an act that was approved")
    approval_id: str | None
    facts: dict[str, Any]


class AuditPage(BaseModel):
    """Acts, newest first; `next_cursor` is null at the end."""

    acts: list[AuditView]
    next_cursor: str | None


@router.get("", response_class=Response, responses=problems() | {200: {"model": AuditPage}})
async def audit(query: Annotated[AuditQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show who did what in the account's scope, newest first; written with each act, for good."""
    filters = query.model_dump(exclude={"cursor", "limit"}, exclude_none=True)
    if query.action is not None:
        filters["action"] = query.action.value
    before = _read(query.cursor) if query.cursor is not None else None
    async with resources.transaction() as conn:
        rows = await list_audit(
            conn, filters, limit=query.limit + 1, before=before, scope=who.scope
        )
    page = rows[: query.limit]
    more = len(rows) > query.limit
    return json_response(
        {"acts": [_view(row) for row in page], "next_cursor": _write(page[-1]) if more else None}
    )


def _view(row: RowMapping) -> dict[str, Any]:
    ids = ("id", "request_id", "job_id", "approval_id")
    named = {name: None if row[name] is None else str(row[name]) for name in ids}
    return dict(row) | named | {"at": show_instant(row["at"])}


def _write(row: RowMapping) -> str:
    return write_cursor(str((row["at"] - EPOCH) // MICROSECOND), str(row["id"]))


def _read(cursor: str) -> tuple[datetime, int]:
    at, number = (as_number(key, cursor) for key in read_cursor(cursor, keys=2))
    try:
        return EPOCH + at * MICROSECOND, number
    except OverflowError:  # beyond the year 9999, where no row can be
        raise refused_cursor(cursor) from None
