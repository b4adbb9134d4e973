"""Documents: put many, list them, look at one, void a draft."""

from datetime import date
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Caller
from api.cost_pages import LARGEST_ID, Code, Cursor, Name, refuse_unknown_place
from api.cursors import as_number, read_cursor, refused_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.document_batch import DocumentsAnswer, put_batch, read_documents
from api.document_bodies import DOCUMENTS_EXAMPLE, DOCUMENTS_SCHEMA, VoidBody
from api.document_views import (
    DocumentSummary,
    DocumentView,
    Status,
    document_not_found,
    document_summary,
    document_view,
)
from api.gate import DOCUMENTS_PATH, read_json_body, read_optional_body
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.ledger_views import entry_summary
from api.problems import Problem, ProblemRaised, validation_problem
from api.queries import Limit, digits_only
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from api.strict_json import parse_object
from shared.documents.read import list_documents, read_document, read_lines
from shared.documents.void import void_document
from shared.json_text import to_json
from shared.ledger.entries import list_entries
from shared.ledger.rules import DocumentType

router = keyed_router(tags=["documents"])
MOST_LINES_SHOWN = 1000
MOST_ENTRIES = 50
DocumentId = Annotated[int, Path(ge=1, le=LARGEST_ID), BeforeValidator(digits_only(18))]
Day = Annotated[date | None, Field(examples=["2026-01-31"])]
AfterLine = Annotated[int, Field(ge=0, le=999_999), BeforeValidator(digits_only(6))]


class DocumentsQuery(BaseModel):
    """Which documents; dates are posting dates."""

    model_config = ConfigDict(extra="forbid")

    company: Code = Field(examples=["SAMPLE"])
    type: DocumentType | None = None
    status: Status | None = None
    store: Name = Field(None, description="from or to it")
    party: Name = None
    doc_no: Name = None
    date_from: Day = None
    date_to: Day = None
    cursor: Cursor = None
    limit: Limit = 50


class DocumentQuery(BaseModel):
    """Which lines: a thousand at a time."""

    model_config = ConfigDict(extra="forbid")

    after_line: AfterLine = 0


class DocumentPage(BaseModel):
    """Documents, the latest posting date first; `next_cursor` is null at the end."""

    documents: list[DocumentSummary]
    next_cursor: str | None


@router.post(
    DOCUMENTS_PATH,
    response_class=Response,
    responses=problems(*OF_A_BODY, *KEY_PROBLEMS, "unknown-company")
    | {200: {"model": DocumentsAnswer, "description": "What became of each document."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": DOCUMENTS_SCHEMA, "example": DOCUMENTS_EXAMPLE}
            },
        },
        "parameters": [KEY_PARAMETER],
    },
)
async def put_many(request: Request, resources: Ready, who: Who) -> Response:
    """Put up to 1,000 documents in one transaction; each is told what became of it.

    A document is known by its type and number: sending it again is a replay, sending it changed
    replaces the draft. A posted one is never touched.
    """
    key = key_of(request, resources.settings)
    body = await read_json_body(request, limit=resources.settings.batch_body_bytes)
    batch = await resources.off_loop.run(len(body), read_documents, body, key, who)
    answer = await resources.finish(put_batch(resources, batch), name="put documents")
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")


@router.get(
    "/v1/documents",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": DocumentPage}},
)
async def documents(
    query: Annotated[DocumentsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """List documents; an account with some brands sees those of their stores."""
    before = None if query.cursor is None else _before(query.cursor)
    filters = {
        "status": query.status,
        "store": query.store,
        "party": query.party,
        "doc_no": query.doc_no,
        "since": query.date_from,
        "until": query.date_to,
    }
    async with resources.transaction() as conn:
        rows = await list_documents(
            conn,
            who.scope,
            query.company,
            filters,
            kind=query.type,
            before=before,
            limit=query.limit + 1,
        )
        if not rows:
            await refuse_unknown_place(conn, who.scope, query.company, None)
    page = rows[: query.limit]
    following = None
    if len(rows) > query.limit:
        following = write_cursor(page[-1]["posting_date"].isoformat(), str(page[-1]["id"]))
    shown = [document_summary(row) for row in page]
    return json_response({"documents": shown, "next_cursor": following})


def _before(cursor: str) -> tuple[date, int]:
    day, number = read_cursor(cursor, keys=2)
    try:
        return date.fromisoformat(day), as_number(number, cursor)
    except ValueError:
        raise refused_cursor(cursor) from None


@router.get(
    "/v1/documents/{document_id}",
    response_class=Response,
    responses=problems("document-not-found") | {200: {"model": DocumentView}},
)
async def show(
    document_id: DocumentId,
    query: Annotated[DocumentQuery, Query()],
    resources: Ready,
    who: Who,
) -> Response:
    """Show a document as it stands, with its lines and its entries in the ledger."""
    async with resources.transaction() as conn:
        return json_response(await _shown(conn, document_id, who, after_line=query.after_line))


@router.post(
    "/v1/documents/{document_id}/void",
    response_class=Response,
    responses=problems(*OF_A_BODY, "document-not-found", "document-posted")
    | {200: {"model": DocumentView, "description": "It is void."}},
    openapi_extra={
        "requestBody": {
            "required": False,
            "content": {
                "application/json": {
                    "schema": VoidBody.model_json_schema(),
                    "example": {"reason": "entered twice"},
                }
            },
        }
    },
)
async def void(document_id: DocumentId, request: Request, resources: Ready, who: Who) -> Response:
    """Void a draft: it stays to be seen, and its number is never given again.

    Voiding a void one changes nothing; a posted one is to be unposted first.
    """
    reason = await _reason(request)
    view = await resources.finish(_voided(resources, document_id, who, reason), name="void")
    return json_response(view)


async def _reason(request: Request) -> str | None:
    body = await read_optional_body(request)
    if body is None:
        return None
    raw = parse_object(body)
    try:
        return VoidBody.model_validate_json(to_json(raw)).reason
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, VoidBody)) from None


async def _voided(
    resources: Resources, document_id: int, who: Caller, reason: str | None
) -> dict[str, Any]:
    async with resources.transaction() as conn:
        was = await void_document(conn, document_id, who.scope, reason=reason)
        if was is None:
            raise ProblemRaised(document_not_found(document_id))
        if was == "posted":
            detail = f"document {document_id} is posted; unpost it (posting.unpost), then void it"
            raise ProblemRaised(Problem(slug="document-posted", detail=detail))
        return await _shown(conn, document_id, who, after_line=0)


async def _shown(
    conn: AsyncConnection, document_id: int, who: Caller, *, after_line: int
) -> dict[str, Any]:
    row = await read_document(conn, document_id, who.scope)
    if row is None:
        raise ProblemRaised(document_not_found(document_id))
    lines = await read_lines(conn, document_id, after=after_line, limit=MOST_LINES_SHOWN + 1)
    page = lines[:MOST_LINES_SHOWN]
    entries = await list_entries(
        conn, who.scope, row["company"], {"document": document_id}, limit=MOST_ENTRIES
    )
    return document_view(
        row,
        page,
        next_line=page[-1]["line_no"] if len(lines) > MOST_LINES_SHOWN else None,
        entries=[entry_summary(each) for each in entries],
    )
