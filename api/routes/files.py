"""Files: those that clients send for jobs to read, those that jobs have written; each whole."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from api.dependencies import Ready, Who
from api.description import problems
from api.file_stream import FileStream, etag_of, headers_of, sent_chunks, written_chunks
from api.problems import Problem, ProblemRaised
from api.queries import refuse_unknown
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from api.uploads import UploadQuery, required_storage, take_upload
from shared.files import StoredFile, find_file
from shared.uploads import Upload, expire_upload, find_upload

router = keyed_router(prefix="/v1/files", tags=["files"])
KNOWN_TAG = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "ETags that the client has: 304 where the file is one of them",
}
BINARY: dict[str, Any] = {"schema": {"type": "string", "contentMediaType": "text/csv"}}
CONTENT: dict[str, Any] = {
    "description": "The file, byte for byte; its ETag is the SHA-256 of them.",
    "content": {
        "text/csv": BINARY | {"example": "Brand,Item\r\nLUA,SP-001\r\n"},
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": {
            "schema": {"type": "string", "format": "binary"},
            "example": "PK…",
        },
        # What a client has sent without saying what it is.
        "application/octet-stream": {
            "schema": {"type": "string", "format": "binary"},
            "example": "doc_id,doc_line,kind,…",
        },
    },
}


SENT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file, byte for byte.",
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": "doc_id,doc_line,kind,…",
            }
        },
    }
}


class UploadAnswer(BaseModel):
    """A file that was sent; `sha256` and `size` (bytes) are of its content."""

    id: UUID
    url: str
    company: str
    brand: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    ready_at: datetime
    expires_at: datetime


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses=problems(
        "body-too-slow",
        "too-large",
        "unsupported-media-type",
        "unknown-company",
        "unknown-brand",
        "storage-unavailable",
    )
    | {
        201: {"model": UploadAnswer, "description": "A new file."},
        200: {"model": UploadAnswer, "description": "This very file was there already."},
    },
    openapi_extra=SENT,
)
async def send(
    query: Annotated[UploadQuery, Query()], request: Request, resources: Ready, who: Who
) -> Response:
    """Send a file, for jobs such as imports to read. It is kept for some days.

    The body is the file. The same bytes sent again by the same account under the same name are the
    file that is there already.
    """
    upload, new = await take_upload(request, resources, query, who)
    response = json_response(_told(upload), status=201 if new else 200)
    response.headers["Location"] = f"/v1/files/{upload.id}"
    return response


def _told(upload: Upload) -> dict[str, Any]:
    answer = UploadAnswer(
        id=upload.id,
        url=f"/v1/files/{upload.id}",
        company=upload.company,
        brand=upload.brand,
        name=upload.name,
        media_type=upload.media_type,
        size=upload.size,
        sha256=upload.sha256.hex(),
        ready_at=upload.ready_at,
        expires_at=upload.expires_at,
    )
    return answer.model_dump(mode="json")


@router.get(
    "/{file_id}",
    dependencies=[Depends(refuse_unknown())],
    status_code=200,
    response_class=FileStream,
    response_model=None,
    responses=problems("file-not-found", "storage-unavailable")
    | {200: CONTENT, 304: {"description": "Unchanged since that ETag."}},
    openapi_extra={"parameters": [KNOWN_TAG]},
)
async def download(file_id: UUID, request: Request, resources: Ready, who: Who) -> Response:
    """Download a file. It streams: as fast as the client takes it, however large it is."""
    file = await _required(file_id, resources, who)
    known = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if etag_of(file) in tags or "*" in tags:
        return Response(status_code=304, headers={"ETag": etag_of(file)})
    if isinstance(file, Upload):
        return FileStream(file, sent_chunks(required_storage(resources), file))
    return FileStream(file, written_chunks(resources, file))


@router.head("/{file_id}", include_in_schema=False, dependencies=[Depends(refuse_unknown())])
async def look(file_id: UUID, resources: Ready, who: Who) -> Response:
    """Tell size, name, type and hash of a file, without its content."""
    return Response(headers=headers_of(await _required(file_id, resources, who)))


@router.delete(
    "/{file_id}",
    dependencies=[Depends(refuse_unknown())],
    response_class=Response,
    response_model=None,
    responses=problems("file-not-found")
    | {200: {"model": UploadAnswer, "description": "What it was; nobody finds it any more."}},
)
async def remove(file_id: UUID, resources: Ready, who: Who) -> Response:
    """Remove a file that was sent. A job that has not read it yet ends dead (FILE_UNKNOWN).

    What jobs have written goes by itself.
    """
    async with resources.reading() as conn:
        upload = await find_upload(conn, file_id, who.scope)
    if upload is None:
        raise ProblemRaised(file_not_found(file_id))
    await resources.finish(_expire(resources, file_id), name="remove upload")
    return json_response(_told(upload))


async def _expire(resources: Resources, file_id: UUID) -> None:
    async with resources.transaction() as conn:
        await expire_upload(conn, file_id)


async def _required(file_id: UUID, resources: Ready, who: Who) -> StoredFile | Upload:
    async with resources.reading() as conn:
        file = await find_file(conn, file_id, who.scope)
        upload = None if file is not None else await find_upload(conn, file_id, who.scope)
    found = file or upload
    if found is None:
        raise ProblemRaised(file_not_found(file_id))
    return found


def file_not_found(file_id: UUID) -> Problem:
    """The 404: of an id that is none, of a file of others, and of one that has been removed."""
    detail = (
        f"file {file_id} is not here; files are removed some days after they were written or sent: "
        "ask for an export again, send a file again"
    )
    return Problem(slug="file-not-found", detail=detail)
