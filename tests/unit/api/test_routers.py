"""Routes as they stand in the application: declared once, and guarded before all else."""

from collections.abc import Sequence

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.routing import Route

from api.app import create_app
from api.queries import refuse_ambiguous
from api.rights import refuse_without_right
from api.settings import ApiSettings
from api.ui.paths import is_page

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


def test_every_route_asks_for_its_right_before_all_else(app: FastAPI) -> None:
    for route in described(app):
        assert route.dependant.dependencies[0].call is refuse_without_right, route.path


def test_every_route_of_the_api_that_is_not_open_refuses_an_ambiguous_query(app: FastAPI) -> None:
    for route in described(app):
        if route.path in OPEN or is_page(route.path):
            continue
        _, bearer, query = route.dependant.dependencies[:3]
        assert isinstance(bearer.call, HTTPBearer), route.path
        assert query.call is refuse_ambiguous, route.path


def test_pages_are_not_described(app: FastAPI) -> None:
    assert not [r.path for r in described(app) if is_page(r.path) and r.include_in_schema]
