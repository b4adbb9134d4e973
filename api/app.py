"""The ASGI application: routes, middleware, and errors as problems."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
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
from api.resources import open_resources
from api.routers import RIGHT, guarded
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

# In the order in which they are looked through and described.
ROUTERS = (
    jobs.router,
    listing.router,
    events.router,
    outcomes.router,
    why.router,
    batch.router,
    groups.router,
    dead_letters.router,
    causes.router,
    approvals.router,
    alerts.router,
    queues.router,
    weights.router,
    kinds.router,
    limits.router,
    books.router,
    cost_runs.router,
    cost_results.router,
    costing_methods.router,
    exports.router,
    ledger_chart.router,
    ledger.router,
    ledger_control.router,
    ledger_exports.router,
    files.router,
    periods.router,
    documents.router,
    audit.router,
    migrations.router,
    metrics.router,
    health.router,
    docs.router,
)


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
        dependencies=[RIGHT],  # of what is declared on the application itself
        redirect_slashes=False,
        docs_url=None,  # the framework's pages load scripts from elsewhere; ours is api/routes/docs
        redoc_url=None,
    )
    for each in (*ROUTERS, *PAGE_ROUTERS):
        # Not included: that would analyse each route twice more (api/routers.py).
        app.router.routes.extend(guarded(each).routes)
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
