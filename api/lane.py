"""A lane of its own for the route that is asked most: POST /v1/jobs, past the router.

The framework's way to a route (matching it among all, solving its dependencies, two stacks of
exits) costs a submit a quarter of its processor time. The lane does by plain calls what the route's
dependencies do, in their order, and answers errors as the application does. The route itself stays
where it is: it is what /openapi.json describes, and what a test holds the lane to.
"""

from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.dependencies import caller_of_request, ready_resources
from api.gate import facts_of
from api.queries import refuse_ambiguous
from api.rights import refuse_without_right
from api.routes.jobs import router, submit_job

PATH = "/v1/jobs"
Answering = Callable[[Request, Exception], Awaitable[Response]]


class SubmitLane:
    """Innermost ASGI middleware; what is no submit goes on to the router.

    `answer` makes the response to an error of `known` kinds; others are the application's to meet.
    """

    def __init__(self, app: ASGIApp, answer: Answering, known: tuple[type[Exception], ...]) -> None:
        self._app = app
        self._answer = answer
        self._known = known
        self._route = next(
            route
            for route in router.routes
            if isinstance(route, APIRoute) and route.endpoint is submit_job
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a submit, or pass on."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        scope["endpoint"] = self._route.endpoint
        request = Request(scope, receive, send)
        try:
            response = await _submitted(request)
        except self._known as error:
            response = await self._answer(request, error)
        await response(scope, receive, send)


async def _submitted(request: Request) -> Response:
    await refuse_without_right(request)
    await refuse_ambiguous(request)
    resources = await ready_resources(request)
    return await submit_job(request, resources, facts_of(request), await caller_of_request(request))
