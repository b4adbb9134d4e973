"""One POST of many documents: judged one by one, written together, answered in the order sent."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, TypeAdapter
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Caller
from api.batch import AT_ONCE, DEEPEST, condensed
from api.company_wide import unknown_company
from api.cost_pages import COMPANY_IS_KNOWN
from api.document_bodies import MOST_DOCUMENTS
from api.document_views import Status, document_url
from api.gate import DOCUMENTS_PATH
from api.idempotency import Answer, Asked, ask, store_answer
from api.problems import MOST_ERRORS, Problem, ProblemRaised, field_problem
from api.resources import Resources
from api.strict_json import parse_object
from api.submission import begin
from shared.documents.put import Fault, Put, put_documents
from shared.documents.read import is_any_hidden
from shared.json_text import to_json

MEMBERS = ("company", "documents")
IDS: TypeAdapter[list[int]] = TypeAdapter(list[int])


class DocumentFault(BaseModel):
    """A rule that the document breaks: where, with which value, and what holds instead."""

    field: str = Field(examples=["documents[0].lines[2].net"])
    code: str = Field(examples=["AMOUNT_NOT_EXACT"])
    rule: str
    value: str | None = Field(description="shortened")


class DocumentOutcome(BaseModel):
    """What became of one document; of an error there is no id, and nothing was written."""

    outcome: Literal["created", "updated", "unchanged", "error"]
    id: int | None = None
    version: int | None = None
    status: Status | None = None
    url: str | None = None
    faults: list[DocumentFault] | None = Field(None, description="the first 20")
    faults_total: int | None = None


class DocumentsAnswer(BaseModel):
    """Outcomes in the order of the documents, and how many there are of each."""

    created: int
    updated: int
    unchanged: int
    errors: int
    documents: list[DocumentOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBatch:
    """A batch as parsed, under its key if there is one; `documents` is JSON text."""

    asked: Asked | None
    who: Caller
    company: str
    documents: str


def read_documents(body: bytes, key: str | None, who: Caller) -> DocumentBatch:
    """Everything that is judged without the database; raises Malformed and ProblemRaised.

    CPU work in proportion to the body, on no data but its own: it may run in a thread.
    """
    raw = parse_object(body, deepest=DEEPEST)
    broken = _envelope_problem(raw)
    if broken is not None:
        raise ProblemRaised(broken)
    if not who.scope.covers_company(raw["company"]):
        raise ProblemRaised(unknown_company(raw["company"]))
    asked = None
    if key is not None:
        said = condensed(raw, "documents")
        asked = ask(who.principal, key, method="POST", route=DOCUMENTS_PATH, body=said)
    return DocumentBatch(
        asked=asked, who=who, company=raw["company"], documents=to_json(raw["documents"])
    )


def _envelope_problem(raw: Mapping[str, Any]) -> Problem | None:
    for name in raw:
        if name not in MEMBERS:
            rule = f"is none of the members of a batch: {', '.join(MEMBERS)}"
            return field_problem("invalid-request", name[:100], rule, raw[name])
    for name in MEMBERS:
        if raw.get(name) is None:
            return field_problem("invalid-request", name, "is required")
    company, documents = raw["company"], raw["documents"]
    if not isinstance(company, str) or not 1 <= len(company) <= 100:
        rule = "must be a string of 1 to 100 characters"
        return field_problem("invalid-request", "company", rule, company)
    if not isinstance(documents, list):
        return field_problem("invalid-request", "documents", "must be a list", documents)
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        rule = f"must have 1 to {MOST_DOCUMENTS} members, not {len(documents)}"
        return field_problem("invalid-request", "documents", rule)
    return None


async def put_batch(resources: Resources, batch: DocumentBatch) -> Answer:
    """Put once: all documents and the answer are committed together or not at all.

    A document that breaks a rule is part of the answer and spoils no other one. ProblemRaised with
    nothing written for a company that is none.
    """
    async with resources.transaction() as conn:
        if batch.asked is not None:
            found = await begin(conn, batch.asked)
            if found is not None:
                await _refuse_lost_rights(conn, found, batch.who)
                return found
        if not await conn.scalar(COMPANY_IS_KNOWN, {"company": batch.company}):
            raise ProblemRaised(unknown_company(batch.company))
        puts = await put_documents(
            conn,
            batch.company,
            batch.documents,
            principal=batch.who.principal,
            source="api",
            brands=batch.who.scope.brands,
        )
        answer = await _answer(puts)
        if batch.asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, batch.asked, answer, hours=hours)
    return answer


async def _refuse_lost_rights(conn: AsyncConnection, stored: Answer, who: Caller) -> None:
    """ProblemRaised where the stored answer shows a document that the account may not see today."""
    brands = who.scope.brands
    if brands is None:
        return
    shown = [each.get("id") for each in json.loads(stored.body)["documents"]]
    ids = IDS.validate_python([each for each in shown if each is not None])
    if await is_any_hidden(conn, ids, brands):
        detail = "the stored answer has documents of brands that this account no longer has"
        raise ProblemRaised(Problem(slug="forbidden", detail=detail))


async def _answer(puts: Sequence[Put]) -> Answer:
    counts = {"created": 0, "updated": 0, "unchanged": 0, "error": 0}
    written = []
    for index, each in enumerate(puts):
        counts[each.outcome] += 1
        written.append(to_json(_outcome(each, index)))
        if index % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
    counts["errors"] = counts.pop("error")
    body = f'{to_json(counts)[:-1]},"documents":[{",".join(written)}]}}'
    return Answer(status=200, headers={}, body=body.encode(), job_id=None)


def _outcome(put: Put, index: int) -> dict[str, JsonValue]:
    if put.document_id is None:
        faults = [_fault(each, index) for each in put.faults[:MOST_ERRORS]]
        return {"outcome": put.outcome, "faults": [*faults], "faults_total": len(put.faults)}
    return {
        "outcome": put.outcome,
        "id": put.document_id,
        "version": put.version,
        "status": put.status,
        "url": document_url(put.document_id),
    }


def _fault(fault: Fault, index: int) -> dict[str, JsonValue]:
    return {
        "field": f"documents[{index}].{fault.field}".rstrip("."),
        "code": fault.code,
        "rule": fault.rule,
        "value": fault.value,
    }
