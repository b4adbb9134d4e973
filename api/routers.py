"""The routers that routes are declared on: whatever guards a route is there from the first.

FastAPI analyses a route (its parameters, its models, what it depends on) when it is declared, again
when its router is included with dependencies of its own, and once more at the first request. That
is most of what the api has to do before it serves. Routes of these routers are complete as they are
declared, api/app.py puts them into the application's list without including them, and each is
analysed once, when it is first asked for (api/late_route.py).
"""

from collections.abc import Sequence

from fastapi import APIRouter, Depends, Security
from fastapi.params import Depends as Dependency
from fastapi.security import HTTPBearer

from api.late_route import LateRoute
from api.queries import refuse_ambiguous
from api.rights import refuse_without_right

# Of every route and before all else: none is open because somebody forgot to say what it asks for.
RIGHT = Depends(refuse_without_right)
# The scheme is for readers of /docs; the gate itself asks who holds the token.
BEARER = Security(HTTPBearer(auto_error=False))
UNAMBIGUOUS = Depends(refuse_ambiguous)


def keyed_router(*, prefix: str = "", tags: Sequence[str] = ()) -> APIRouter:
    """For routes that ask for a key."""
    return APIRouter(
        prefix=prefix,
        tags=list(tags),
        dependencies=[RIGHT, BEARER, UNAMBIGUOUS],
        route_class=LateRoute,
    )


def open_router(*, tags: Sequence[str] = ()) -> APIRouter:
    """For routes that need no key: of health, of the description."""
    return APIRouter(tags=list(tags), dependencies=[RIGHT], route_class=LateRoute)


def page_router(*more: Dependency) -> APIRouter:
    """For pages, which /openapi.json does not describe; `more` is of each of its routes."""
    return APIRouter(dependencies=[RIGHT, *more], include_in_schema=False, route_class=LateRoute)


def guarded(router: APIRouter) -> APIRouter:
    """The router itself; AssertionError for one that would let anybody in: it is none of these."""
    assert router.dependencies[:1] == [RIGHT], f"{router.prefix}: routes that ask for no right"
    return router
