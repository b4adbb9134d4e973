"""The overview: is anything wrong, and where to look; live while somebody looks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from api.dependencies import Ready, Who
from api.event_stream import MEDIA_TYPE
from api.ui.browser import Browser
from api.ui.live import LiveStream
from api.ui.overview import Overview, counted, read_overview
from api.ui.pages import fragment, may, render
from api.ui.paths import HOME

router = APIRouter()
PARTS = ("verdict", "tiles", "queues", "workers")


@router.get("/ui")
async def to_overview() -> Response:
    """The pages begin below the slash."""
    return RedirectResponse(HOME)


@router.get(HOME)
async def overview(request: Request, resources: Ready, who: Who) -> Response:
    """The page as it is now; it goes on by its stream."""
    seen = await read_overview(resources, who.scope)
    return render(request, "overview.html", **_values(seen, _offered(request)))


@router.get("/ui/events", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def follow_overview(request: Request, resources: Ready, who: Who) -> LiveStream:
    """What changes on the overview, as fragments of it."""
    offered = _offered(request)
    key = ("overview", who.scope, offered)
    show = partial(_show, offered=offered)
    return LiveStream(request, key, partial(read_overview, resources, who.scope), show)


def _offered(request: Request) -> frozenset[str]:
    """Which pages this reader may be sent to."""
    places = ("/ui/jobs", "/ui/dead-letters", "/ui/runs")
    return frozenset(each for each in places if may(request, "GET", each))


def _show(browser: Browser, seen: Overview, *, offered: frozenset[str]) -> Mapping[str, str]:
    values = _values(seen, offered)
    return {part: fragment(browser, f"overview_{part}.html", **values) for part in PARTS}


def _values(seen: Overview, offered: frozenset[str]) -> dict[str, Any]:
    def leads(place: str | None) -> str | None:
        """The address, if this reader may go there."""
        return place if place is not None and place.partition("?")[0] in offered else None

    return {"seen": seen, "leads": leads, "counted": counted}
