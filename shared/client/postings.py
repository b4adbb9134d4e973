"""Postings of a ChotClient: what became of each document, and the approval of an unposting.

Either is submitted, waited for and cancelled like any job: `client.submit("posting.unpost", …)`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.client.errors import no_answer_of_ours
from shared.client.reading import understood
from shared.client.wanted import JobRequest
from shared.json_text import to_json

Row = Mapping[str, Any]
PAGE = 200


@dataclass(frozen=True, slots=True)
class Postings:
    """The calls on postings and unpostings; rows are as the api shows them."""

    _ask: Callable[..., Awaitable[httpx.Response]]

    async def outcomes(
        self, job_id: UUID | str, *, outcomes: Iterable[str] = (), failed: bool = False
    ) -> AsyncIterator[Row]:
        """What became of each document of the job, page by page as they are asked for.

        `outcomes`: only those that ended so. `failed`: only those that did not end well.
        """
        asked = {"limit": str(PAGE)}
        wanted = ",".join(outcomes)
        asked |= ({"outcome": wanted} if wanted else {}) | ({"failed": "true"} if failed else {})
        path = f"/v1/jobs/{quote(str(job_id), safe='')}/outcomes"
        cursor: str | None = ""
        while cursor is not None:
            given = asked | ({"cursor": cursor} if cursor else {})
            answer = await self._ask("GET", path, params=given)
            found, following = understood(answer, _page)
            for each in found:
                yield each
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following

    async def approve(self, job: JobRequest, *, reason: str | None = None) -> UUID:
        """Approve an unposting that another account will submit, once; the approval's id.

        `job`: its kind, company, brand and payload.
        """
        said = job.body()
        named = {
            name: said[name] for name in ("kind", "company", "brand", "payload") if name in said
        }
        body = {"action": "posting.unpost", "job": named}
        body |= {} if reason is None else {"reason": reason}
        answer = await self._ask("POST", "/v1/approvals", body=to_json(body))
        return understood(answer, lambda found: UUID(found["id"]))


def _page(body: Mapping[str, Any]) -> tuple[Sequence[Row], str | None]:
    return body["outcomes"], body["next_cursor"]
