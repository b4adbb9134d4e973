"""Routes as they stand in the application: declared once, and guarded before all else."""

import subprocess
import sys
from collections.abc import Sequence

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.routing import Match, Route

from api.app import create_app
from api.late_route import LateRoute
from api.queries import refuse_ambiguous
from api.rights import refuse_without_right
from api.routers import RIGHT, guarded, page_router
from api.settings import ApiSettings
from api.ui.paths import is_page
from dev.stack_config import ROOT

NOT_ANALYSED = """
from api.app import create_app
print([r.path for r in create_app().routes if r.path != "/openapi.json" and "dependant" in vars(r)])
"""
OPEN = {"/healthz", "/readyz", "/docs"}


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """The application, with nothing of it opened."""
    url = "postgresql://chot_app@localhost/chot"
    return create_app(ApiSettings.model_validate({"database_url": url}))


def described(app: FastAPI) -> Sequence[APIRoute]:
    """All but the description itself."""
    return [route for route in app.routes if isinstance(route, APIRoute)]


def test_no_route_is_included_and_so_analysed_again(app: FastAPI) -> None:
    others = [route for route in app.routes if not isinstance(route, APIRoute)]
    assert [route.path for route in others if isinstance(route, Route)] == ["/openapi.json"]
    assert len(others) == 1
    assert len(described(app)) > 100


def test_making_the_app_analyses_no_route() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NOT_ANALYSED],
        env={"CHOT_DATABASE_URL": "postgresql://chot_app@localhost/chot"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "[]\n", ended.stderr


def test_a_route_is_analysed_when_it_is_asked_and_is_then_as_the_framework_makes_it() -> None:
    late, at_once = (
        kind("/{name}", asked, methods=["get"], dependencies=[RIGHT])
        for kind in (LateRoute, APIRoute)
    )
    scope = {"type": "http", "method": "GET", "path": "/x", "root_path": ""}
    assert late.matches(scope)[0] is at_once.matches(scope)[0] is Match.FULL
    assert late.methods == at_once.methods == {"GET"}
    assert "dependant" not in vars(late)
    for route in (late, at_once):
        assert [each.name for each in route.dependant.path_params] == ["name"]
        assert route.dependant.dependencies[0].call is refuse_without_right
    assert (late.name, late.unique_id) == (at_once.name, at_once.unique_id)
    assert vars(late).keys() == vars(at_once).keys()
    with pytest.raises(AttributeError, match="nothing_of_a_route"):
        getattr(late, "nothing_of_a_" + "route")


async def asked(name: str) -> None:
    """A route's endpoint."""


def test_every_route_asks_for_its_right_before_all_else(app: FastAPI) -> None:
    for route in described(app):
        assert route.dependant.dependencies[0].call is refuse_without_right, route.path


def test_a_router_that_asks_for_no_right_is_refused() -> None:
    with pytest.raises(AssertionError, match="/v1/new: routes that ask for no right"):
        guarded(APIRouter(prefix="/v1/new"))
    router = page_router()
    assert guarded(router) is router


def test_every_route_of_the_api_that_is_not_open_refuses_an_ambiguous_query(app: FastAPI) -> None:
    for route in described(app):
        if route.path in OPEN or is_page(route.path):
            continue
        _, bearer, query = route.dependant.dependencies[:3]
        assert isinstance(bearer.call, HTTPBearer), route.path
        assert query.call is refuse_ambiguous, route.path


def test_pages_are_not_described(app: FastAPI) -> None:
    assert not [r.path for r in described(app) if is_page(r.path) and r.include_in_schema]
