"""The pages' routes: each module has a `router`, and is named here once."""

from collections.abc import Sequence

from fastapi import APIRouter

from api.ui.routes import dead_letters, job, jobs, login, overview, simulator, static

PAGE_ROUTERS: Sequence[APIRouter] = (
    overview.router,
    login.router,
    jobs.router,
    job.router,
    dead_letters.router,
    simulator.router,
    static.router,
)
