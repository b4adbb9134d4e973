"""What routes ask for by annotation.

Each is `async`: the framework runs a plain function in a thread, and a request that has to wait
for threads waits for everything else that is busy.
"""

from typing import Annotated

from fastapi import Depends, Request

from api.authentication import Caller
from api.gate import RequestFacts, facts_of
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.watching import Hub


async def _open(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


async def ready_resources(request: Request) -> Resources:
    """Until the kinds are mirrored a submit could be refused for a kind that is known."""
    resources = await _open(request)
    if resources.unready is not None:
        raise ProblemRaised(Problem(slug="starting", detail=resources.unready))
    return resources


async def caller_of_request(request: Request) -> Caller:
    """Whoever got here was let through by the gate, or the route is none of its open paths."""
    caller = facts_of(request).caller
    assert caller is not None, "a route without a caller acts for nobody"
    return caller


async def _facts(request: Request) -> RequestFacts:
    return facts_of(request)


async def _hub(request: Request) -> Hub:
    """Of an api that is ready; its resources are those of the request."""
    await ready_resources(request)
    hub: Hub = request.app.state.hub
    return hub


Who = Annotated[Caller, Depends(caller_of_request)]
Facts = Annotated[RequestFacts, Depends(_facts)]
Live = Annotated[Hub, Depends(_hub)]
Open = Annotated[Resources, Depends(_open)]
Ready = Annotated[Resources, Depends(ready_resources)]
