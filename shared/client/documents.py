"""Documents of a ChotClient: put, list, show, void."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import httpx

from shared.client.errors import no_answer_of_ours
from shared.client.reading import understood
from shared.client.wanted import document_bodies, fresh_key
from shared.json_text import to_json

Row = Mapping[str, Any]
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule that a document breaks; `field` is its path in the document ("lines[0].net")."""

    field: str
    code: str
    rule: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutDocument:
    """What became of one document; of an error there is no id, and `faults` has the first 20."""

    outcome: Literal["created", "updated", "unchanged", "error"]
    id: int | None
    version: int | None
    status: str | None
    faults: tuple[Fault, ...]
    faults_total: int

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read it."""
        return cls(
            outcome=body["outcome"],
            id=body.get("id"),
            version=body.get("version"),
            status=body.get("status"),
            faults=tuple(map(_fault, body.get("faults") or ())),
            faults_total=body.get("faults_total", 0),
        )


@dataclass(frozen=True, slots=True)
class Documents:
    """The calls on documents; they are dictionaries as the api has them, numbers as text."""

    _ask: Callable[..., Awaitable[httpx.Response]]

    async def put(
        self, company: str, documents: Iterable[Mapping[str, Any]]
    ) -> AsyncIterator[PutDocument]:
        """Put any number of documents, a thousand a request; what became of each, in their order.

        Drafts are made and replaced. Sending the same again changes nothing, so a put that ended
        in an error is simply done once more.
        """
        said = (to_json(dict(each)) for each in documents)
        for body in document_bodies(company, said):
            answer = await self._ask("POST", "/v1/documents:batch", body=body, key=fresh_key())
            for each in understood(answer, _outcomes):
                yield each

    def list(self, company: str, **filters: str) -> AsyncIterator[Row]:
        """Documents, the latest posting date first, page by page as they are asked for.

        Filters are those of the route: type, status, store, party, doc_no, date_from, date_to.
        """
        return self._pages({"company": company, "limit": str(PAGE)} | filters)

    async def _pages(self, asked: Mapping[str, str]) -> AsyncIterator[Row]:
        cursor: str | None = ""
        while cursor is not None:
            given = dict(asked) | ({"cursor": cursor} if cursor else {})
            answer = await self._ask("GET", "/v1/documents", params=given)
            found, following = understood(answer, _page)
            for each in found:
                yield each
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following

    async def show(self, document_id: int, *, after_line: int = 0) -> Row:
        """A document with its lines (a thousand, from behind `after_line` on) and its entries."""
        params = {"after_line": str(after_line)}
        answer = await self._ask("GET", f"/v1/documents/{int(document_id)}", params=params)
        return understood(answer, lambda body: body)

    async def void(self, document_id: int, *, reason: str | None = None) -> Row:
        """Void a draft; one that is void stays so."""
        body = to_json({} if reason is None else {"reason": reason})
        answer = await self._ask("POST", f"/v1/documents/{int(document_id)}/void", body=body)
        return understood(answer, lambda body: body)


def _fault(body: Mapping[str, Any]) -> Fault:
    where = body["field"].partition("]")[2].removeprefix(".")
    return Fault(field=where, code=body["code"], rule=body["rule"], value=body["value"])


def _outcomes(body: Mapping[str, Any]) -> Sequence[PutDocument]:
    return [PutDocument.of(each) for each in body["documents"]]


def _page(body: Mapping[str, Any]) -> tuple[Sequence[Row], str | None]:
    return body["documents"], body["next_cursor"]
