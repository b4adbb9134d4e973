"""Files that jobs have written: downloaded whole, as they are stored."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from api.dependencies import Ready, Who
from api.description import problems
from api.file_stream import FileStream, etag_of, headers_of
from api.problems import Problem, ProblemRaised
from api.queries import refuse_unknown
from shared.files import StoredFile, find_file

router = APIRouter(prefix="/v1/files", tags=["files"])
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
    },
}


@router.get(
    "/{file_id}",
    dependencies=[Depends(refuse_unknown())],
    status_code=200,
    response_class=FileStream,
    response_model=None,
    responses=problems("file-not-found")
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
    return FileStream(resources, file)


@router.head("/{file_id}", include_in_schema=False, dependencies=[Depends(refuse_unknown())])
async def look(file_id: UUID, resources: Ready, who: Who) -> Response:
    """Tell size, name, type and hash of a file, without its content."""
    return Response(headers=headers_of(await _required(file_id, resources, who)))


async def _required(file_id: UUID, resources: Ready, who: Who) -> StoredFile:
    async with resources.reading() as conn:
        file = await find_file(conn, file_id, who.scope)
    if file is None:
        raise ProblemRaised(file_not_found(file_id))
    return file


def file_not_found(file_id: UUID) -> Problem:
    """The 404: of an id that is none, of a file of others, and of one that has been removed."""
    detail = (
        f"file {file_id} is not here; files are removed some days after they were written, and an "
        "export may be asked for again"
    )
    return Problem(slug="file-not-found", detail=detail)
