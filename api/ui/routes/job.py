"""One job: its page, the same live, and what one may do with it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Request, Response
from pydantic import ValidationError

from api.actions import cancelled_view, job_not_found, redrive_one
from api.authentication import Caller
from api.dependencies import Facts, Ready, Who
from api.problems import Problem, ProblemRaised, field_problem, validation_problem
from api.resources import Resources
from api.routers import page_router
from api.routes.outcomes import OutcomesQuery, read_outcomes
from api.ui.browser import Browser, Language, browser_of
from api.ui.flash import see_other
from api.ui.forms import Sent
from api.ui.job_look import JobFollower, Look, look_at
from api.ui.labels import labels
from api.ui.live import LiveStream
from api.ui.pages import fragment, render
from api.ui.pretty import pretty
from api.ui.results import lay_out
from api.ui.sentence import on_page
from api.ui.words import all_words
from shared.access import Role
from shared.types import JobState

router = page_router()
PLACE = "/ui/jobs/{job_id}"
# What changes while one looks on: the id of its element, and its template.
PARTS: Mapping[str, str] = {
    "job-head": "job_head.html",
    "job-why": "job_why.html",
    "job-progress": "job_progress.html",
    "job-timeline": "job_timeline.html",
    "job-events": "job_events.html",
    "job-attempts": "job_attempts.html",
    "job-result": "job_result.html",
    "job-related": "job_related.html",
    "job-kills": "job_kills.html",
    "job-acts": "job_acts.html",
}


@router.get(PLACE)
async def job_page(
    job_id: UUID, request: Request, resources: Ready, facts: Facts, who: Who
) -> Response:
    """All that is known of a job; of an unknown one and of somebody else's the same 404."""
    facts.job_id = str(job_id)
    look = await _found(resources, job_id, who, payload=True)
    return render(
        request,
        "job.html",
        parts=PARTS,
        payload=pretty(look.payload),
        stream=None if look.archived else f"/ui/jobs/{job_id}/live",
        needs_approval="job.redrive" in resources.settings.approved_actions,
        **_values(look, browser_of(request).language),
    )


@router.get(f"{PLACE}/live")
async def follow_job(
    job_id: UUID, request: Request, resources: Ready, facts: Facts, who: Who
) -> LiveStream:
    """What changes on the job's page, as fragments of it."""
    facts.job_id = str(job_id)
    await _found(resources, job_id, who)
    key = ("job", job_id, who.scope, who.has(Role.ADMIN))
    follower = JobFollower(resources, request.app.state.following, job_id, who)
    return LiveStream(request, key, follower.read, _show)


def _show(browser: Browser, look: Look) -> Mapping[str, str]:
    values = _values(look, browser.language)
    return {part: fragment(browser, template, **values) for part, template in PARTS.items()}


async def _found(resources: Resources, job_id: UUID, who: Caller, *, payload: bool = False) -> Look:
    look = await look_at(resources, job_id, who, payload=payload)
    if look is None:
        raise ProblemRaised(job_not_found(job_id))
    return look


def _values(look: Look, language: Language) -> dict[str, Any]:
    """What the templates of the parts ask for."""
    said = look.why["sentence"] if language == "en" else look.vietnamese
    result = look.job["result"]
    return {
        "look": look,
        "job": look.job,
        "why": look.why,
        "sentence": on_page(said, language, look.job["id"]),
        "laid": lay_out(result),
        "result_json": None if result is None else pretty(result),
        "pretty": pretty,
        **labels(look.job["kind"], language),
    }


@router.get(f"{PLACE}/outcomes")
async def outcomes_page(
    job_id: UUID, request: Request, resources: Ready, facts: Facts, who: Who
) -> Response:
    """What became of each document of a posting, as GET /v1/jobs/{id}/outcomes tells it."""
    facts.job_id = str(job_id)
    names = ("outcome", "failed", "cursor")
    given = {name: value for name in names if (value := request.query_params.get(name))}
    try:
        query = OutcomesQuery.model_validate(given)
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, OutcomesQuery)) from None
    page = await read_outcomes(job_id, query, resources, who)
    more = None
    if page["next_cursor"] is not None:
        more = f"{request.url.path}?{urlencode(given | {'cursor': page['next_cursor']})}"
    return render(
        request,
        "outcomes.html",
        job_id=str(job_id),
        failed=query.failed,
        outcomes=page["outcomes"],
        more=more,
    )


@router.post(f"{PLACE}/cancel")
async def cancel(
    job_id: UUID, request: Request, _form: Sent, *, resources: Ready, facts: Facts, who: Who
) -> Response:
    """Cancel a job, as POST /v1/jobs/{id}/cancel does."""
    facts.job_id = str(job_id)
    view = await resources.finish(cancelled_view(resources, job_id, who.scope), name="cancel")
    if view is None:
        raise ProblemRaised(job_not_found(job_id))
    if view["state"] != JobState.CANCELLED:
        return _back(request, job_id, f"job.too_late.{view['state']}", level="bad")
    return _back(request, job_id, "job.cancelled")


@router.post(f"{PLACE}/redrive")
async def redrive(
    job_id: UUID, request: Request, form: Sent, *, resources: Ready, facts: Facts, who: Who
) -> Response:
    """Redrive a dead job, as POST /v1/jobs/{id}/redrive does."""
    facts.job_id = str(job_id)
    approval = _approval(form.get("approval").strip())
    each = redrive_one(resources, job_id, who, approval)
    problem = await resources.finish(each, name="redrive")
    if problem is None:
        return _back(request, job_id, "job.redriven")
    if problem.slug == "job-not-found":
        raise ProblemRaised(problem)
    return _back(request, job_id, words_of(problem), level="bad", detail=problem.detail)


def _approval(said: str) -> UUID | None:
    try:
        return UUID(said) if said else None
    except ValueError:
        rule = "is the id of an approval, as `chot approve` prints it"
        raise ProblemRaised(field_problem("invalid-request", "approval", rule, said)) from None


def words_of(problem: Problem) -> str:
    """The key of the words for why a redrive was refused; `detail` is the api's own."""
    key = f"job.refused.{problem.slug}"
    return key if key in all_words() else "job.refused.other"


def _back(request: Request, job_id: UUID, key: str, **more: Any) -> Response:
    return see_other(request, f"/ui/jobs/{job_id}", key, **more)
