"""The ASGI application: routes, middleware, and errors as problems."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.access_log import AccessLog
from api.allowed import allowed_methods
from api.authentication import open_authenticator
from api.background import background_loops
from api.document import DescribedApi
from api.dropping import Dropping
from api.failures import failure_problem, http_problem, request_problem
from api.gate import Gate, facts_of
from api.lane import SubmitLane
from api.problems import Problem, ProblemRaised, field_problem
from api.queries import refuse_ambiguous
from api.resources import open_resources
from api.rights import refuse_without_right
from api.routes import (
    alerts,
    approvals,
    audit,
    batch,
    books,
    causes,
    cost_results,
    cost_runs,
    costing_methods,
    dead_letters,
    docs,
    documents,
    events,
    exports,
    files,
    groups,
    health,
    jobs,
    kinds,
    ledger,
    ledger_chart,
    ledger_control,
    ledger_exports,
    limits,
    listing,
    metrics,
    migrations,
    outcomes,
    periods,
    queues,
    weights,
    why,
)
from api.settings import ApiSettings, load_settings
from api.strict_json import Malformed
from api.ui.door import find_reader
from api.ui.errors import answer_problem
from api.ui.following import Following
from api.ui.live import Feeds
from api.ui.routes import PAGE_ROUTERS
from api.ui.session import Sessions
from api.watching import open_hub
from shared.database import DATABASE_ERRORS
from shared.errors import Busy
from shared.kinds.registry import load_kinds
from shared.migrations.registry import load_tasks

DESCRIPTION = """Chốt takes long work out of the request: submit a job, poll its status.

Errors are problem+json (RFC 9457) with a stable `type`."""


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """Build the application; ConfigRefused for settings or kinds that cannot work.

    Nothing is opened before its lifespan starts, and that waits for no server.
    """
    chosen = settings or load_settings()
    known = load_kinds(chosen.kind_modules)
    load_tasks(chosen.task_modules)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_resources(chosen, known) as resources, background_loops(resources):
            app.state.resources = resources
            app.state.authenticator = open_authenticator(chosen, resources)
            app.state.sessions = Sessions(resources)
            app.state.feeds = Feeds(resources)
            app.state.following = Following(resources)
            async with open_hub(resources, app.state.authenticator) as app.state.hub:
                yield

    app = DescribedApi(
        chosen,
        title="Chốt",
        description=DESCRIPTION,
        version="1",
        lifespan=lifespan,
        dependencies=[Depends(refuse_without_right)],
        redirect_slashes=False,
        docs_url=None,  # the framework's pages load scripts from elsewhere; ours is api/routes/docs
        redoc_url=None,
    )
    # The scheme is for readers of /docs; the gate itself asks who holds the token.
    bearer = Security(HTTPBearer(auto_error=False))
    secured = APIRouter(dependencies=[bearer, Depends(refuse_ambiguous)])
    for routes in (
        jobs,
        listing,
        events,
        outcomes,
        why,
        batch,
        groups,
        dead_letters,
        causes,
        approvals,
        alerts,
        queues,
        weights,
        kinds,
        limits,
        books,
        cost_runs,
        cost_results,
        costing_methods,
        exports,
        ledger_chart,
        ledger,
        ledger_control,
        ledger_exports,
        files,
        periods,
        documents,
        audit,
        migrations,
        metrics,
    ):
        secured.include_router(routes.router)
    app.include_router(secured)
    app.include_router(health.router)
    app.include_router(docs.router)
    for pages in PAGE_ROUTERS:
        app.include_router(pages, include_in_schema=False)
    _map_errors(app)
    app.add_middleware(SubmitLane, answer=_answer_error, known=KNOWN_ERRORS)
    app.add_middleware(Gate, settings=chosen, pages=find_reader, answer=answer_problem)
    app.add_middleware(Dropping)
    app.add_middleware(AccessLog)
    return app


KNOWN_ERRORS = (
    ProblemRaised,
    Malformed,
    Busy,
    RequestValidationError,
    HTTPException,
    *DATABASE_ERRORS,
)


def _map_errors(app: FastAPI) -> None:
    for kind in (*KNOWN_ERRORS, Exception):
        app.add_exception_handler(kind, _answer_error)


async def _answer_error(request: Request, error: Exception) -> Response:
    facts = facts_of(request)
    problem = _problem_of(error, request, facts.request_id)
    facts.problem = problem.slug
    return await answer_problem(request, problem)


def _problem_of(error: Exception, request: Request, request_id: str) -> Problem:
    match error:
        case ProblemRaised():
            return error.problem
        case Malformed():
            return field_problem("malformed-json", error.field, error.rule, error.value)
        case Busy():
            return Problem(slug="busy", detail=str(error))
        case RequestValidationError():
            return request_problem(error, request)
        case HTTPException():
            return http_problem(error, allowed_methods(request.scope["path"]))
        case _:
            return failure_problem(error, request_id)
