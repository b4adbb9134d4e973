"""All queues, all workers, all kinds, by pages: of each the overview shows those that matter."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.dependencies import Ready, Who
from api.problems import ProblemRaised, validation_problem
from api.routers import page_router
from api.ui.overview import counted, worker_as_seen
from api.ui.pages import may, render
from api.ui.paths import KINDS, QUEUES, WORKERS
from shared.jobs.crew import page_workers
from shared.jobs.kinds import list_kinds
from shared.jobs.minutes import read_rates
from shared.jobs.queues import list_queues

router = page_router()
ROWS = 100
# Beyond this page nobody looks any more, and a database would count to it for nothing.
LAST_PAGE = 1000


class Asked(BaseModel):
    """Which of them: a part of the name, or a worker's state, and the page."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field("", max_length=200)
    state: str = Field("", pattern="^(working|alone|draining|lost)?$")
    page: int = Field(1, ge=1, le=LAST_PAGE)


def _asked(request: Request) -> Asked:
    try:
        return Asked.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, Asked)) from None


Asks = Annotated[Asked, Depends(_asked)]


@router.get(QUEUES)
async def all_queues(request: Request, asked: Asks, resources: Ready, who: Who) -> Response:
    """Every queue, with what the overview says of it."""
    async with resources.reading() as conn:
        found = await list_queues(conn, scope=who.scope)
        rates = await read_rates(conn, scope=who.scope)
    shown = {"queues": _named(found, asked), "counted": counted, "rates": rates}
    return _page(request, "queues", asked, shown)


@router.get(WORKERS)
async def all_workers(request: Request, asked: Asks, resources: Ready, who: Who) -> Response:
    """Every worker of the last hour."""
    async with resources.reading() as conn:
        found = await page_workers(
            conn,
            state=asked.state or None,
            skip=(asked.page - 1) * ROWS,
            most=ROWS + 1,
            scope=who.scope,
        )
    everywhere = who.scope.is_everything
    shown = [worker_as_seen(dict(row), everywhere=everywhere) for row in found]
    return _page(request, "workers", asked, {"workers": shown})


@router.get(KINDS)
async def all_kinds(request: Request, asked: Asks, resources: Ready, who: Who) -> Response:
    """Every kind."""
    async with resources.reading() as conn:
        found = await list_kinds(conn, scope=who.scope)
    return _page(request, "kinds", asked, {"kinds": _named(found, asked)})


def _named(rows: Sequence[Any], asked: Asked) -> Sequence[Any]:
    """A page of those whose name has what is asked for, and one more; the very name comes first."""
    found = [row for row in rows if asked.name in str(row["name"])]
    found.sort(key=lambda row: row["name"] != asked.name)
    skip = (asked.page - 1) * ROWS
    return found[skip : skip + ROWS + 1]


def _page(request: Request, what: str, asked: Asked, values: dict[str, Any]) -> Response:
    rows = values[what]
    shown: dict[str, Any] = values | {
        what: rows[:ROWS],
        "what": what,
        "asked": asked,
        "more": len(rows) > ROWS and asked.page < LAST_PAGE,
        "operates": may(request, "POST", "/ui/queues/{queue}/pause"),
        "leads": lambda place: place,
    }
    return render(request, "lists.html", **shown)
