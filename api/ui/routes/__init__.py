"""The pages' routes: each module has a `router`, and is named here once."""

from collections.abc import Sequence

from fastapi import APIRouter

from api.ui.routes import (
    dead_letters,
    job,
    jobs,
    lists,
    login,
    overview,
    pausing,
    runs,
    simulator,
    static,
)

PAGE_ROUTERS: Sequence[APIRouter] = (
    overview.router,
    lists.router,
    pausing.router,
    login.router,
    jobs.router,
    job.router,
    dead_letters.router,
    runs.router,
    simulator.router,
    static.router,
)
