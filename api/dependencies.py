"""What routes ask for by annotation."""

from typing import Annotated

from fastapi import Depends, Request

from api.authentication import Caller
from api.gate import RequestFacts, facts_of
from api.problems import Problem, ProblemRaised
from api.resources import Resources


def _open(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


def _ready(request: Request) -> Resources:
    """Until the kinds are mirrored a submit could be refused for a kind that is known."""
    resources = _open(request)
    if resources.unready is not None:
        raise ProblemRaised(Problem(slug="starting", detail=resources.unready))
    return resources


def _caller(request: Request) -> Caller:
    """Whoever got here was let through by the gate, or the route is none of its open paths."""
    caller = facts_of(request).caller
    assert caller is not None, "a route without a caller acts for nobody"
    return caller


Who = Annotated[Caller, Depends(_caller)]
Facts = Annotated[RequestFacts, Depends(facts_of)]
Open = Annotated[Resources, Depends(_open)]
Ready = Annotated[Resources, Depends(_ready)]
