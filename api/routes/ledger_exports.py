"""Reports on the ledger as CSV or XLSX, written by a worker."""

from typing import Any

from fastapi import Request, Response

from api.bodies import SubmitAnswer
from api.dependencies import Facts, Ready, Who
from api.description import OF_A_BODY, problems
from api.gate import read_json_body
from api.idempotency_key import KEY_PARAMETER, KEY_PROBLEMS, key_of
from api.ledger_exports import LedgerExportBody, export
from api.parsing import described_body
from api.routers import keyed_router

router = keyed_router(prefix="/v1/ledger", tags=["ledger"])
EXAMPLE: dict[str, Any] = {
    "company": "SAMPLE",
    "report": "trial_balance",
    "format": "xlsx",
    "period": "2026-01",
}


@router.post(
    "/exports",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY, *KEY_PROBLEMS, "unknown-company", "unknown-brand", "too-many-pending"
    )
    | {202: {"model": SubmitAnswer, "description": "A new job; its result has the file's url."}},
    openapi_extra=described_body(LedgerExportBody, EXAMPLE) | {"parameters": [KEY_PARAMETER]},
)
async def export_report(request: Request, resources: Ready, facts: Facts, who: Who) -> Response:
    """Write a report into a file. A job does it; once it has ended GET the file.

    The file is of one moment, whatever is posted meanwhile. Files are removed after 7 days.
    """
    key = key_of(request, resources.settings)
    body = await read_json_body(request)
    answer = await resources.finish(export(resources, body, key, who), name="export")
    facts.job_id = None if answer.job_id is None else str(answer.job_id)
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers, media_type="application/json")
