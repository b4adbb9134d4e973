"""Dead letters: what died of what, the way back for one, a cause or all, and raw dead messages."""

from typing import Any

from fastapi import Request, Response
from pydantic import ValidationError

from api.authentication import Caller
from api.cursors import read_job_cursor, write_cursor
from api.dependencies import Ready, Who
from api.gate import facts_of
from api.problems import ProblemRaised, validation_problem
from api.resources import Resources
from api.routers import page_router
from api.routes.causes import cause_view
from api.routes.dead_letters import (
    DeadLettersQuery,
    RedriveBody,
    dead_job,
    dead_message,
    redrive_each,
    sees_messages,
)
from api.ui.forms import Form, Sent
from api.ui.pages import render
from api.ui.pretty import pretty
from api.ui.words import all_words
from shared.jobs.causes import list_causes
from shared.jobs.dead_letters import list_dead_jobs, list_dead_messages

router = page_router()
PLACE = "/ui/dead-letters"
MOST_CAUSES, MOST_JOBS, MOST_MESSAGES = 50, 50, 20


@router.get(PLACE)
async def dead_letters_page(request: Request, resources: Ready, who: Who) -> Response:
    """Causes, the jobs of one of them or of all, and for whoever may see them dead messages."""
    asked = _asked(request)
    return render(
        request,
        "dead_letters.html",
        asked=asked,
        pretty=pretty,
        sees_messages=sees_messages(who),
        needs_approval="job.redrive" in resources.settings.approved_actions,
        **await _read(resources, asked, who),
    )


def _asked(request: Request) -> DeadLettersQuery:
    names = ("kind", "cause", "cursor")
    given = {name: request.query_params[name] for name in names if request.query_params.get(name)}
    try:
        return DeadLettersQuery.model_validate(given)
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, DeadLettersQuery)) from None


async def _read(resources: Resources, asked: DeadLettersQuery, who: Caller) -> dict[str, Any]:
    before = None if asked.cursor is None else read_job_cursor(asked.cursor)
    messages: list[Any] = []
    async with resources.reading() as conn:
        causes = await list_causes(conn, kind=asked.kind, limit=MOST_CAUSES, scope=who.scope)
        jobs = await list_dead_jobs(
            conn,
            kind=asked.kind,
            cause=asked.cause,
            before=before,
            limit=MOST_JOBS + 1,
            scope=who.scope,
        )
        if sees_messages(who):
            messages = await list_dead_messages(conn, limit=MOST_MESSAGES + 1)
    more = write_cursor(str(jobs[MOST_JOBS - 1]["id"])) if len(jobs) > MOST_JOBS else None
    shown = [cause_view(row) for row in causes.rows]
    return {
        "causes": shown,
        "cause": next((each for each in shown if each["cause"] == asked.cause), None),
        "total_jobs": causes.jobs,
        "total_causes": causes.causes,
        "total_killers": causes.killers,
        "jobs": [dead_job(row) for row in jobs[:MOST_JOBS]],
        "older": more,
        "messages": [dead_message(row) for row in messages[:MOST_MESSAGES]],
        "more_messages": len(messages) > MOST_MESSAGES,
    }


@router.post(f"{PLACE}/redrive")
async def redrive(request: Request, form: Sent, resources: Ready, who: Who) -> Response:
    """Redrive what the form names, as POST /v1/dead-letters/redrive; shows what became of each."""
    body = _body(form)
    work = redrive_each(resources, body, who, facts_of(request).request_id)
    report = await resources.finish(work, name="redrive")
    again = {name: value for name in ("kind", "cause") if (value := getattr(body, name))}
    return render(
        request,
        "redriven.html",
        report=report,
        again=again | ({"all": "true"} if body.all else {}),
        back=PLACE,
        known=lambda slug: f"job.refused.{slug}" in all_words(),
    )


def _body(form: Form) -> RedriveBody:
    given: dict[str, Any] = {
        name: form.get(name) for name in ("kind", "cause", "cursor") if form.get(name)
    }
    if form.all("ids"):
        given["ids"] = form.all("ids")
    if form.get("all"):
        given["all"] = form.get("all") == "true"  # anything else is refused, as in the api
    try:
        return RedriveBody.model_validate(given)
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, RedriveBody)) from None
