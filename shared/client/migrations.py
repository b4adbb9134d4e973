"""Migrations of a ChotClient: look, read what was set aside, pause, resume.

One is submitted, waited for and cancelled like any job: `client.submit("migration.run", …)`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.errors import no_answer_of_ours
from shared.client.reading import understood
from shared.types import JobState

PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A run of a task: how far it is, and why it waits. `body` is all that the api said."""

    id: UUID
    company: str
    brand: str | None
    task: str | None
    state: JobState
    paused: bool
    dry_run: bool
    rows_total: int | None
    rows_done: int
    rows_failed: int
    counts: Mapping[str, int]
    waits_for: str | None
    body: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            id=UUID(body["id"]),
            company=body["company"],
            brand=body["brand"],
            task=body["task"],
            state=JobState(body["state"]),
            paused=body["paused"],
            dry_run=body["dry_run"],
            rows_total=body["rows_total"],
            rows_done=body["rows_done"],
            rows_failed=body["rows_failed"],
            counts=body["counts"],
            waits_for=body["waits_for"],
            body=body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that could not be taken, and the rule that it breaks."""

    seq: int
    line: int | None
    key: tuple[str, ...] | None
    field: str | None
    value: str | None
    code: str
    rule: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            seq=body["seq"],
            line=body["line"],
            key=None if body["key"] is None else tuple(body["key"]),
            field=body["field"],
            value=body["value"],
            code=body["code"],
            rule=body["rule"],
        )


class Migrations:
    """Calls on migrations, of the client that made it."""

    def __init__(self, ask: Callable[..., Awaitable[httpx.Response]]) -> None:
        self._ask = ask

    async def list(self, company: str | None = None) -> AsyncIterator[Migration]:
        """Migrations, newest first, page by page as they are asked for."""
        asked = {} if company is None else {"company": company}
        async for body in self._pages("/v1/migrations", "migrations", asked):
            yield Migration.of(body)

    async def show(self, job_id: UUID | str) -> Migration:
        """The migration as it stands now."""
        return understood(await self._ask("GET", _path(job_id)), Migration.of)

    async def rejects(self, job_id: UUID | str) -> AsyncIterator[RejectedRow]:
        """The rows that it could not take, in their order."""
        async for body in self._pages(f"{_path(job_id)}/rejects", "rejects", {}):
            yield RejectedRow.of(body)

    async def pause(self, job_id: UUID | str) -> bool:
        """Pause it: one that runs ends behind its batch. Whether it is paused now."""
        answer = await self._ask("POST", f"{_path(job_id)}/pause")
        return understood(answer, _is_paused)

    async def resume(self, job_id: UUID | str) -> bool:
        """Let it go on behind the last row that is done. Whether it is paused now."""
        answer = await self._ask("POST", f"{_path(job_id)}/resume")
        return understood(answer, _is_paused)

    async def _pages(
        self, path: str, name: str, asked: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        cursor: str | None = ""
        while cursor is not None:
            query = {**asked, "limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
            answer = await self._ask("GET", path, params=query)
            found, following = understood(answer, lambda body: _page(body, name))
            for each in found:
                yield each
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following


def _page(body: Mapping[str, Any], name: str) -> tuple[Sequence[Mapping[str, Any]], str | None]:
    return body[name], body["next_cursor"]


def _is_paused(body: Mapping[str, Any]) -> bool:
    return bool(body["paused"])


def _path(job_id: UUID | str) -> str:
    return f"/v1/migrations/{quote(str(job_id), safe='')}"
