"""Many jobs by one request."""

from typing import Any

from fastapi import Request, Response

from api.batch import BATCH_SCHEMA, BatchAnswer, read_batch, submit_batch
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import BATCH_PATH, read_json_body
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.routers import keyed_router

router = keyed_router(tags=["jobs"])
OF_SAMPLE = {"kind": "costing.run", "company": "SAMPLE"}
BATCH_EXAMPLE: dict[str, Any] = {
    "jobs": [
        OF_SAMPLE | {"brand": brand, "payload": {"period": "2026-01"}} for brand in ("LUA", "NHA")
    ]
}


@router.post(
    BATCH_PATH,
    response_class=Response,
    responses=problems(*OF_A_BODY, *KEY_PROBLEMS, "too-many-pending")
    | {200: {"model": BatchAnswer, "description": "What became of each item."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": BATCH_SCHEMA, "example": BATCH_EXAMPLE}},
        },
        "parameters": [KEY_PARAMETER],
    },
)
async def submit_many(request: Request, resources: Ready, who: Who) -> Response:
    """Submit up to 1,000 jobs in one transaction; each item is created, a duplicate or an error."""
    key = key_of(request, resources.settings)
    body = await read_json_body(request, limit=resources.settings.batch_body_bytes)
    batch = await resources.off_loop.run(len(body), read_batch, body, key, resources.kinds, who)
    answer = await resources.finish(submit_batch(resources, batch), name="submit a batch")
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")
