"""The simulator: a page, and the traces that its script draws."""

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi import Request
from starlette.responses import Response

from api.dependencies import Who
from api.routers import UNAMBIGUOUS, page_router
from api.ui.browser import browser_of
from api.ui.pages import render
from api.ui.words import all_words, translate

if TYPE_CHECKING:
    # The model is 30 ms of imports that only this page wants: they come with its first reader.
    from api.ui.simulator import Made, Traces, Wish

router = page_router(UNAMBIGUOUS)
SPEEDS = (1, 2, 5, 10, 30)
USUAL_SPEED = 5
TOUR = ("normal", "normal", "crash", "zombie", "nofence")
# Words that the script fills in itself; the page carries them in its language.
SCRIPTED = ("simulator.worker", "simulator.job", "simulator.fence", "simulator.lease")
SCRIPTED_GROUPS = ("simulator.state.", "simulator.doing.", "simulator.stopped.")
SCRIPTED_MORE = (
    "play", "pause", "at", "of_steps", "beginning", "database", "outbox", "queue", "workers",
    "expired", "piece", "holds", "broken", "doubled", "lucky", "unsafe", "loading", "failed",
    "network", "clock",
)  # fmt: skip


@router.get("/ui/simulator")
async def show_simulator(request: Request, who: Who) -> Response:
    """The page with the controls as its address has them; with `plain` the steps as a table."""
    from api.ui.simulator import read_wish  # noqa: PLC0415 - see above
    from shared.model.timed.plan import LIMITS, Plan  # noqa: PLC0415

    wish = read_wish(request.query_params.multi_items())
    plan = wish.plan or replace(Plan(), fence=False)
    trace = None
    if "plain" in request.query_params:
        trace = json.loads((await _trace(request, wish, who.principal)).body)
    return render(
        request,
        "simulator.html",
        plan=plan,
        limits=LIMITS,
        speeds=SPEEDS,
        usual_speed=USUAL_SPEED,
        tour=TOUR,
        trace=trace,
        words=_words(request),
    )


@router.get("/ui/simulator/trace")
async def show_trace(request: Request, who: Who) -> Response:
    """A trace as JSON; `Chot-Trace` says whether it was known already."""
    from api.ui.simulator import read_wish  # noqa: PLC0415

    made = await _trace(request, read_wish(request.query_params.multi_items()), who.principal)
    headers = {
        "Cache-Control": "no-store",
        "ETag": f'"{hashlib.sha256(made.body).hexdigest()[:32]}"',
        "Chot-Trace": "known" if made.known else "made",
    }
    return Response(made.body, headers=headers, media_type="application/json")


async def _trace(request: Request, wish: "Wish", principal: str) -> "Made":
    return await traces_of(request).get(wish, browser_of(request).language, principal)


def traces_of(request: Request) -> "Traces":
    """The traces that this process knows."""
    from api.ui.simulator import Traces  # noqa: PLC0415

    state = request.app.state
    if not hasattr(state, "simulator"):
        state.simulator = Traces()
    found: Traces = state.simulator
    return found


def _words(request: Request) -> dict[str, Any]:
    language = browser_of(request).language
    keys = [
        *SCRIPTED,
        *(f"simulator.{name}" for name in SCRIPTED_MORE),
        *(key for key in all_words() if key.startswith(SCRIPTED_GROUPS)),
    ]
    return {key.removeprefix("simulator."): translate(language, key) for key in keys}
