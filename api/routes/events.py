"""Events of a job: its news as they come, until it has ended."""

from typing import Any
from uuid import UUID

from fastapi import Depends, Request

from api.dependencies import Facts, Live, Who
from api.description import problems
from api.event_stream import MEDIA_TYPE, EventStream
from api.gate import token_of
from api.queries import refuse_unknown
from api.routers import keyed_router

router = keyed_router(prefix="/v1/jobs", tags=["jobs"])
EXAMPLE = """retry: 2000

id: 1.5f1d0c9a7be24c3f8a6d0e21
event: state
data: {"id":"0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a10","state":"running","progress":null}

id: 1.0b7a2e9d4c5f4e1bb3a8c6d7
event: progress
data: {"id":"0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a10","state":"running","progress":{"done":400}}

: alive

id: end.succeeded.1.1767258000.123456
event: end
data: {"id":"0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a10","state":"succeeded","progress":{"done":1200}}

"""
# Of each event: in OpenAPI 3.1 a stream's schema is that of what it is made of.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": ["state", "progress", "end"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/JobSummary"},
        },
    },
}
STREAM: dict[str, Any] = {
    "description": "Events `state`, `progress` and, as the last, `end`. Each `data` is one line "
    "of JSON: the job as GET /v1/jobs lists it (the examples are shortened).",
    "content": {MEDIA_TYPE: {"schema": EVENT, "example": EXAMPLE}},
}


@router.get(
    "/{job_id}/events",
    dependencies=[Depends(refuse_unknown())],
    status_code=200,
    response_class=EventStream,
    response_model=None,
    responses=problems("job-not-found")
    | {
        200: STREAM,
        204: {"description": "The job has ended and Last-Event-ID is its end: do not come again."},
    },
    openapi_extra={
        "parameters": [
            {
                "in": "header",
                "name": "Last-Event-ID",
                "schema": {"type": "string"},
                "description": "the `id` of the last event that arrived; anything but the newest "
                "one's id gets the newest state at once",
            }
        ]
    },
)
async def events(job_id: UUID, request: Request, hub: Live, facts: Facts, who: Who) -> EventStream:
    """Follow a job: its newest state, then what changes, until it has ended."""
    facts.job_id = str(job_id)
    known = request.headers.get("last-event-id")
    return EventStream(hub, job_id, who, token_of(request), known)
