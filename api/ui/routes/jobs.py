"""The list of jobs: filters, keyset pages, states that stay new."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Request, Response
from pydantic import ValidationError

from api.authentication import Caller
from api.bodies import job_summary
from api.dependencies import Ready, Who
from api.problems import Problem, ProblemRaised, validation_problem
from api.resources import Resources
from api.routers import page_router
from api.routes.listing import STATES, ListQuery, read_page
from api.ui.browser import Browser
from api.ui.following import Following, reasons_of, waits
from api.ui.live import LiveStream
from api.ui.pages import fragment, render
from shared.jobs.pace import Row
from shared.types import JobState

router = page_router()
PLACE, LIVE = "/ui/jobs", "/ui/jobs-live"
TEXTS = ("kind", "company", "brand", "submitter", "group", "cursor")
# What a browser's field for a local time sends; Viet Nam has one hour and no summer time.
OFFSET = "+07:00"
MOST_LIVE = 200


@router.get(PLACE)
async def list_jobs_page(request: Request, resources: Ready, who: Who) -> Response:
    """Jobs, newest first; a filter that is wrong is said beside the form, and lists nothing."""
    asked = dict(_asked(request))
    page: dict[str, Any] = {"jobs": [], "next_cursor": None}
    refused: Problem | None = None
    try:
        page = await read_page(_query(asked), resources, who)
    except ProblemRaised as raised:
        refused = raised.problem
    ids = [job["id"] for job in page["jobs"]]
    reasons = await _reasons(resources, page["jobs"])
    return render(
        request,
        "jobs.html",
        200 if refused is None else refused.status,
        jobs=[job | {"waits": waits(reasons.get(job["id"]))} for job in page["jobs"]],
        asked=asked,
        states=STATES,
        kinds=sorted(resources.kinds),
        chosen=(asked.get("state") or "").split(","),
        refused=refused,
        more_filters=bool(asked.keys() - {"state", "cursor", "group"}),
        filtered=any(value for name, value in asked.items() if name not in {"cursor", "limit"}),
        older=_older(asked, page["next_cursor"]),
        stream=f"{LIVE}?{urlencode({'ids': ','.join(ids)})}" if ids else None,
    )


async def _reasons(resources: Resources, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Row]:
    """Why each of a page waits, by one statement for all of them."""
    rows = [{"id": UUID(job["id"]), "state": job["state"]} for job in jobs]
    if all(row["state"] != JobState.PENDING for row in rows):
        return {}
    async with resources.reading() as conn:
        found = await reasons_of(conn, rows)
    return {str(job_id): row for job_id, row in found.items()}


def _asked(request: Request) -> Iterator[tuple[str, str]]:
    """What the form has sent, without what was left empty."""
    query = request.query_params
    states = [part for said in query.getlist("state") for part in said.split(",") if part]
    if states:
        yield "state", ",".join(dict.fromkeys(states))
    for name in (*TEXTS, "from", "to"):
        value = query.get(name, "").strip()
        if value:
            yield name, value


def _query(asked: Mapping[str, str]) -> ListQuery:
    given: dict[str, Any] = {name: value for name, value in asked.items() if name in TEXTS}
    given |= {name: asked[name] for name in ("state",) if name in asked}
    for name in ("from", "to"):
        if name in asked:
            given[f"created_{name}"] = _instant(asked[name])
    try:
        return ListQuery.model_validate(given)
    except ValidationError as error:
        raise ProblemRaised(validation_problem(error, ListQuery)) from None


def _instant(local: str) -> str:
    """A local time of the form `2026-01-31T18:00` as the api takes it."""
    return f"{local}:00{OFFSET}" if len(local) == len("2026-01-31T18:00") else f"{local}{OFFSET}"


def _older(asked: Mapping[str, str], cursor: str | None) -> str | None:
    return None if cursor is None else f"{PLACE}?{urlencode({**asked, 'cursor': cursor})}"


@router.get(LIVE)
async def live_jobs(request: Request, who: Who) -> Response:
    """The states of the jobs of a page as they change."""
    ids = _ids(request.query_params.get("ids", ""))
    key = ("jobs", who.scope, ids)

    async def read() -> Any:
        return await _read(request.app.state.following, ids, who)

    return LiveStream(request, key, read, _cells)


def _ids(said: str) -> tuple[UUID, ...]:
    try:
        ids = tuple(UUID(each) for each in said.split(","))
    except ValueError:
        ids = ()
    if not 0 < len(ids) <= MOST_LIVE:
        raise ProblemRaised(Problem(slug="invalid-request", detail="ids: is no list of jobs' ids"))
    return ids


async def _read(following: Following, ids: tuple[UUID, ...], who: Caller) -> Any:
    return [
        job_summary(row) | {"waits": waits(reason)}
        for row, reason in await following.listed(ids)
        if who.scope.covers(row["company"], row["brand"])
    ]


def _cells(browser: Browser, jobs: Any) -> Mapping[str, str]:
    parts: dict[str, str] = {}
    for job in jobs:
        parts[f"state-{job['id']}"] = fragment(browser, "jobs_state.html", job=job)
        parts[f"progress-{job['id']}"] = fragment(browser, "jobs_progress.html", job=job)
        parts[f"waits-{job['id']}"] = fragment(browser, "jobs_waits.html", job=job)
    return parts
