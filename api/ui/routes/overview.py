"""The overview: is anything wrong, and where to look; live while somebody looks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from api.dependencies import Ready, Who
from api.routers import page_router
from api.ui.browser import Browser, browser_of
from api.ui.live import LiveStream
from api.ui.overview import Overview, OverviewReader, Span, counted
from api.ui.overview_charts import ended_chart, levels_chart
from api.ui.pages import fragment, may, render
from api.ui.paths import HOME
from api.ui.words import all_words, translate

router = page_router()
# The id of each part that changes, and its template. Kinds stand in a fold: they are read with the
# page, and a paused one is told on top.
PARTS = {
    **{
        part: f"overview_{part}.html"
        for part in ("verdict", "tiles", "alerts", "charts", "queues", "crew", "workers")
    },
    "more-queues": "overview_more_queues.html",
}
PAUSE = "/ui/queues/{queue}/pause"
OFFERED = (
    *(("GET", f"/ui/{name}") for name in ("jobs", "dead-letters", "queues", "workers", "kinds")),
    ("POST", PAUSE),
)
# As the rows of the lists: of findings and alerts the first stand here.
MOST_TOLD = 6


@router.get("/ui")
async def to_overview() -> Response:
    """The pages begin below the slash."""
    return RedirectResponse(HOME)


@router.get(HOME)
async def overview(request: Request, resources: Ready, who: Who) -> Response:
    """The page as it is now; it goes on by its stream."""
    span = _span(request)
    seen = await OverviewReader(resources, who.scope, span).read()
    values = _values(seen, browser_of(request), _offered(request))
    return render(request, "overview.html", span=span, **values)


@router.get("/ui/events")
async def follow_overview(request: Request, resources: Ready, who: Who) -> LiveStream:
    """What changes on the overview, as fragments of it."""
    offered, span = _offered(request), _span(request)
    reader = OverviewReader(resources, who.scope, span)
    key = ("overview", who.scope, offered, span)
    return LiveStream(request, key, reader.read, partial(_show, offered=offered))


def _span(request: Request) -> Span:
    return "day" if request.query_params.get("span") == "day" else "hour"


def _offered(request: Request) -> frozenset[str]:
    """What this reader may be sent to, and may do."""
    return frozenset(path for method, path in OFFERED if may(request, method, path))


def _show(browser: Browser, seen: Overview, *, offered: frozenset[str]) -> Mapping[str, str]:
    values = _values(seen, browser, offered)
    return {part: fragment(browser, template, **values) for part, template in PARTS.items()}


def _values(seen: Overview, browser: Browser, offered: frozenset[str]) -> dict[str, Any]:
    def leads(place: str | None) -> str | None:
        """The address, if this reader may go there."""
        if place is None or place.startswith("#"):
            return place
        return place if place.partition("?")[0] in offered else None

    def summary(alert: Mapping[str, Any]) -> str:
        """What an alert is about; a rule that an operator has added has its own words only."""
        key = f"alert.{alert['rule']}"
        known = key in all_words()
        return translate(browser.language, key) if known else str(alert["summary"])

    return {
        "seen": seen,
        "queues": seen.shown_queues,
        "rates": seen.rates,
        "kinds": seen.shown_kinds,
        "workers": seen.crew.notable,
        "most": MOST_TOLD,
        "leads": leads,
        "summary": summary,
        "counted": counted,
        "operates": PAUSE in offered,
        "levels": levels_chart(seen.history, browser.language),
        "ended": ended_chart(seen.history, browser.language),
    }
