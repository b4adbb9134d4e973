"""Exports: a table of a cost run as CSV or XLSX, written by a worker."""

from typing import Any

from fastapi import Request, Response

from api.bodies import SubmitAnswer
from api.cost_pages import RunId
from api.dependencies import Facts, Ready, Who
from api.description import OF_A_BODY, problems
from api.exports import ExportBody, export, read_wish
from api.gate import read_json_body
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.parsing import described_body
from api.routers import keyed_router

router = keyed_router(prefix="/v1/cost-runs", tags=["costs"])
EXAMPLE: dict[str, Any] = {"table": "results", "format": "xlsx", "digits": 2}


@router.post(
    "/{run_id}/exports",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        *KEY_PROBLEMS,
        "cost-run-not-found",
        "cost-run-building",
        "cost-run-gone",
        "not-a-preview",
        "unknown-brand",
        "too-many-pending",
    )
    | {
        202: {"model": SubmitAnswer, "description": "A new job; its result has the file's url."},
        200: {"model": SubmitAnswer, "description": "This export is being written already."},
    },
    openapi_extra=described_body(ExportBody, EXAMPLE) | {"parameters": [KEY_PARAMETER]},
)
async def export_run(
    run_id: RunId, request: Request, resources: Ready, facts: Facts, who: Who
) -> Response:
    """Write a table of a run into a file. A job does it; once it has ended GET the file.

    The file is of the run as it was found: of one that is superseded meanwhile the job dies
    (RUN_SUPERSEDED), and no half of it is ever to be had. Files are removed after 7 days.
    """
    key = key_of(request, resources.settings)
    wish = read_wish(await read_json_body(request), key, run_id, who)
    answer = await resources.finish(export(resources, wish, who), name="export")
    facts.job_id = None if answer.job_id is None else str(answer.job_id)
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")
