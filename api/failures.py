"""What went wrong without being meant to: the framework's refusals and the world's failures."""

from http import HTTPStatus

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api.problems import Problem, invalid_problem
from shared.database import is_unreachable, sqlstate_of
from shared.logs import log

CONTENDED = frozenset({"55P03", "40P01", "40001"})  # lock timeout, deadlock, serialization
CANCELED = "57014"
OF_A_JOB = ("job-not-found", "a job's id is a UUID")
OF_PATH = {
    "run_id": ("cost-run-not-found", "a cost run's id is a number of up to 18 digits"),
    "file_id": ("file-not-found", "a file's id is a UUID"),
}
OF_STATUS = {404: "not-found", 405: "method-not-allowed"}


def request_problem(error: RequestValidationError, request: Request) -> Problem:
    """A wrong query, or a path that cannot be an id: nothing is under such an address."""
    details = error.errors()
    for item in details:
        if item["loc"][0] == "path":
            slug, detail = OF_PATH.get(str(item["loc"][1]), OF_A_JOB)
            return Problem(slug=slug, detail=detail)
    shortened = [item | {"loc": tuple(item["loc"][1:])} for item in details]
    return invalid_problem(shortened, model=_query_model(request), query=True)


def _query_model(request: Request) -> type[BaseModel] | None:
    """What the route reads its query by, if that is a model: it refuses what it does not know."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return None
    kinds = (each.field_info.annotation for each in route.dependant.query_params)
    return next(
        (each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)), None
    )


def http_problem(error: HTTPException, allowed: str) -> Problem:
    """What the router refuses; a 405 names all the methods that the address takes."""
    slug = OF_STATUS.get(error.status_code, "bad-request")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed
    return Problem(slug=slug, detail=str(error.detail), headers=headers)


def failure_problem(error: Exception, request_id: str) -> Problem:
    """An error of the database or a bug of ours; only a bug is logged with its traceback."""
    state = sqlstate_of(error)
    if state in CONTENDED:
        return Problem(slug="busy", detail="a row could not be had in time; send it again")
    if isinstance(error, PoolTimeout) or state == CANCELED or is_unreachable(error):
        log.warning("database.unavailable", request_id=request_id, error=type(error).__name__)
        detail = "nothing is known to be written; send it again, under the same Idempotency-Key"
        return Problem(slug="database-unavailable", detail=detail)
    log.error("request.failed", request_id=request_id, exc_info=error)
    return Problem(slug="internal-error", detail="the log tells more under this instance")
