"""Pause and resume of queues and kinds, by the functions and with the audit of the API."""

from fastapi import Request
from starlette.responses import Response

from api.dependencies import Ready
from api.routers import page_router
from api.routes import kinds, queues
from api.ui.flash import see_other
from api.ui.forms import Form, Sent
from api.ui.paths import HOME, KINDS, QUEUES

router = page_router()


@router.post("/ui/queues/{queue}/pause")
async def pause_queue(request: Request, queue: str, resources: Ready, form: Sent) -> Response:
    """Stop claims of a queue's jobs."""
    await queues.pause(queue, resources)
    return see_other(request, _back(form), "overview.done_pause_queue", name=queue)


@router.post("/ui/queues/{queue}/resume")
async def resume_queue(request: Request, queue: str, resources: Ready, form: Sent) -> Response:
    """Let a queue's jobs be claimed again."""
    await queues.resume(queue, resources)
    return see_other(request, _back(form), "overview.done_resume_queue", name=queue)


@router.post("/ui/kinds/{kind}/pause")
async def pause_kind(request: Request, kind: str, resources: Ready, form: Sent) -> Response:
    """Stop claims of a kind's jobs."""
    await kinds.pause(kind, resources)
    return see_other(request, _back(form), "overview.done_pause_kind", name=kind)


@router.post("/ui/kinds/{kind}/resume")
async def resume_kind(request: Request, kind: str, resources: Ready, form: Sent) -> Response:
    """Let a kind's jobs be claimed again."""
    await kinds.resume(kind, resources)
    return see_other(request, _back(form), "overview.done_resume_kind", name=kind)


def _back(form: Form) -> str:
    """Where the button was pressed: the overview, or the list of all; nowhere else."""
    back = form.get("back")
    return back if back in {QUEUES, KINDS} else HOME
