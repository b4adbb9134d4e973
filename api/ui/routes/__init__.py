"""The pages' routes: each module has a `router`, and is named here once."""

from collections.abc import Sequence

from fastapi import APIRouter

from api.ui.routes import login, overview, simulator, static

PAGE_ROUTERS: Sequence[APIRouter] = (overview.router, login.router, simulator.router, static.router)
