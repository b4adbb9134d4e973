"""Cost runs and postings: the list, one of them, and its tables as files."""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Request, Response

from api.actions import job_not_found
from api.authentication import Caller
from api.bodies import job_view
from api.cost_pages import LARGEST_ID, ResultsQuery, run_not_found
from api.dependencies import Ready, Who
from api.exports import export, read_wish
from api.gate import facts_of
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.routers import UNAMBIGUOUS, page_router
from api.routes.cost_results import (
    DifferencesQuery,
    ErrorsQuery,
    read_differences,
    read_errors,
    read_results,
)
from api.routes.cost_runs import read_run_view
from api.routes.files import download
from api.ui.browser import Browser, browser_of
from api.ui.compared import other_runs
from api.ui.flash import see_other
from api.ui.forms import Form, Sent
from api.ui.live import LiveStream
from api.ui.pages import fragment, render
from api.ui.results import lay_out
from api.ui.runs import (
    changes,
    choose_company,
    exact,
    find_previous,
    list_everything,
    read_posting,
    read_query,
    results_before,
    rows_away,
)
from api.ui.words import all_words
from shared.jobs.read import show_job
from shared.kinds.exporting import COSTING_EXPORT

router = page_router(UNAMBIGUOUS)
PAGE = {"limit": "25"}
ASKED = (
    "period",
    "by",
    "date_from",
    "date_to",
    "types",
    "stores",
    "documents",
    "mode",
    "reversal_date",
    "reason",
)
MOST_NAMED = 30
OUTCOMES = ("outcome", "failed", "cursor")
# What a run in this state has to show.
TABLES: Mapping[str, tuple[str, ...]] = {
    "active": ("results", "stores", "movements", "errors"),
    "previewed": ("differences", "errors"),
}
FORMATS = ("xlsx", "csv")
Read = Callable[[int, Any, Resources, Caller], Awaitable[dict[str, Any]]]


@router.get("/ui/runs")
async def list_page(request: Request, resources: Ready, who: Who) -> Response:
    """A company's periods, cost runs and postings."""
    given = _given(request, "company", "period", "status", "cursor")
    companies, company = await choose_company(resources, who, given.get("company"))
    found: dict[str, Any] = {"periods": [], "runs": [], "next_cursor": None, "postings": []}
    if company is not None:
        given["company"] = company
        found = await list_everything(resources, who, given)
    return render(
        request,
        "runs.html",
        companies=companies,
        company=company,
        asked=given,
        more=_more(request, given, "cursor", found["next_cursor"]),
        exact=partial(exact, language=browser_of(request).language),
        **found,
    )


@router.get("/ui/runs/{run_id}")
async def one_page(run_id: str, request: Request, resources: Ready, who: Who) -> Response:
    """A cost run by its number, or a posting by the id of its job."""
    number = _number(run_id)
    if number is not None:
        return await _cost_run(number, request, resources, who)
    try:
        job_id = UUID(run_id)
    except ValueError:
        raise ProblemRaised(run_not_found(run_id[:100])) from None
    facts_of(request).job_id = str(job_id)
    return await _posting(job_id, request, resources, who)


def _number(said: str) -> int | None:
    if not (said.isascii() and said.isdigit() and len(said) <= len(str(LARGEST_ID))):
        return None
    return int(said) if 1 <= int(said) <= LARGEST_ID else None


async def _cost_run(run_id: int, request: Request, resources: Resources, who: Caller) -> Response:
    run = await read_run_view(run_id, resources, who)
    given = _given(request, "item", "pool", "store", "cursor")
    wrong = _given(request, "code", "errors_cursor")
    other = _given(request, "account", "differences_cursor")
    asker = (resources, who)
    previous = None if run["dry_run"] else await find_previous(resources, who, run)
    results, away = await _rows(read_results, run_id, read_query(ResultsQuery, given | PAGE), asker)
    rows = results["results"] if results else []
    before = {} if previous is None else await results_before(resources, previous, rows)
    errors, _ = await _rows(
        read_errors, run_id, read_query(ErrorsQuery, _renamed(wrong, "errors_cursor")), asker
    )
    query = read_query(DifferencesQuery, _renamed(other, "differences_cursor"))
    differences, _ = await _rows(read_differences, run_id, query, asker)
    return render(
        request,
        "cost_run.html",
        run=run,
        others=await other_runs(resources, who, run),
        previous=previous,
        compared=bool(before),
        asked=given | wrong | other,
        results=None if results is None else changes(rows, before),
        away=away,
        errors=errors,
        differences=differences,
        more=_more(request, given, "cursor", _next(results)),
        more_errors=_more(request, given | wrong, "errors_cursor", _next(errors)),
        more_differences=_more(request, other, "differences_cursor", _next(differences)),
        known_errors=_named("runs.error."),
        tables=TABLES.get(run["status"], ()),
        formats=FORMATS,
        needs_brand=run["of_brands"] if run["of_brands"] and len(run["of_brands"]) > 1 else (),
        exact=partial(exact, language=browser_of(request).language),
    )


async def _rows(
    read: Read, run_id: int, query: Any, asker: tuple[Resources, Caller]
) -> tuple[dict[str, Any] | None, Problem | None]:
    """A page of a run's rows; or nothing, and why there is nothing to be shown."""
    try:
        return await read(run_id, query, *asker), None
    except ProblemRaised as raised:
        away = rows_away(raised.problem)
        if away is None:
            raise
        return None, away


def _renamed(given: Mapping[str, str], name: str) -> dict[str, str]:
    return {"cursor" if key == name else key: value for key, value in given.items()}


async def _posting(job_id: UUID, request: Request, resources: Resources, who: Caller) -> Response:
    given = _given(request, *OUTCOMES)
    check = "check" in request.query_params
    found = await read_posting(resources, who, job_id, given, check=check)
    if found is None:
        raise ProblemRaised(job_not_found(job_id))
    return render(
        request,
        "posting_run.html",
        asked=given,
        checked=check,
        known_outcomes=_named("runs.ended."),
        wanted=_wanted(found["payload"]),
        more=_more(request, given, "cursor", found["next_cursor"]),
        laid=lay_out(found["job"]["result"]),
        exact=partial(exact, language=browser_of(request).language),
        **found,
    )


# ---- files


@router.post("/ui/runs/{run_id}/export")
async def begin_export(
    run_id: str, request: Request, form: Sent, resources: Ready, who: Who
) -> Response:
    """Start the job that writes a table into a file, and go where its progress is shown."""
    number = _number(run_id)
    if number is None:
        raise ProblemRaised(run_not_found(run_id[:100]))
    wish = read_wish(_body(form), None, number, who)
    answer = await resources.finish(export(resources, wish, who), name="export")
    job_id = str(json.loads(answer.body)["id"])
    facts_of(request).job_id = job_id
    return see_other(request, f"/ui/runs/{number}/exports/{job_id}")


def _body(form: Form) -> bytes:
    """What POST /v1/cost-runs/{id}/exports would be sent."""
    said: dict[str, Any] = {
        name: form.get(name) for name in ("table", "format", "brand") if form.get(name)
    }
    said["bom"] = form.get("format") == "csv"
    return json.dumps(said).encode()


@router.get("/ui/runs/{run_id}/exports/{job_id}")
async def export_page(
    run_id: str, job_id: UUID, request: Request, resources: Ready, who: Who
) -> Response:
    """How far the file has got, live; then the file."""
    facts_of(request).job_id = str(job_id)
    job = await _export_job(resources, who, job_id)
    return render(request, "export.html", run_id=run_id[:20], job=job, file=_file_of(job))


@router.get("/ui/runs/{run_id}/exports/{job_id}/live")
async def follow_export(
    run_id: str, job_id: UUID, request: Request, resources: Ready, who: Who
) -> LiveStream:
    """The same, as it changes."""
    del run_id  # the address of the page that follows it
    facts_of(request).job_id = str(job_id)
    await _export_job(resources, who, job_id)
    read = partial(_export_job, resources, who, job_id)
    return LiveStream(request, ("export", job_id, who.scope), read, _show_export, interval=1.0)


def _show_export(browser: Browser, job: Mapping[str, Any]) -> Mapping[str, str]:
    return {"export-state": fragment(browser, "export_state.html", job=job, file=_file_of(job))}


async def _export_job(resources: Resources, who: Caller, job_id: UUID) -> dict[str, Any]:
    async with resources.reading() as conn:
        row = await show_job(conn, job_id, scope=who.scope)
    if row is None or row["kind"] != COSTING_EXPORT.name:
        raise ProblemRaised(job_not_found(job_id))
    return job_view(row, everywhere=who.scope.is_everything)


def _file_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    result = job["result"]
    return result.get("file") if isinstance(result, Mapping) else None


@router.get("/ui/files/{file_id}")
async def file_page(file_id: UUID, request: Request, resources: Ready, who: Who) -> Response:
    """The file itself, as GET /v1/files/{id} streams it."""
    return await download(file_id, request, resources, who)


def _given(request: Request, *names: str) -> dict[str, str]:
    return {name: value for name in names if (value := request.query_params.get(name))}


def _wanted(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a posting was asked for: (member, what it says), in the order that people think in."""
    shown = []
    for name in ASKED:
        value = payload.get(name)
        if isinstance(value, list):
            more = f" … (+{len(value) - MOST_NAMED})" if len(value) > MOST_NAMED else ""
            value = ", ".join(map(str, value[:MOST_NAMED])) + more
        if value is not None:
            shown.append((name, str(value)))
    return shown


def _named(beginning: str) -> frozenset[str]:
    """The codes that there are words for."""
    return frozenset(k.removeprefix(beginning) for k in all_words() if k.startswith(beginning))


def _next(page: Mapping[str, Any] | None) -> str | None:
    return None if page is None else page["next_cursor"]


def _more(request: Request, given: Mapping[str, str], name: str, cursor: str | None) -> str | None:
    """The address of the next page of one of the lists."""
    if not cursor:
        return None
    return f"{request.url.path}?{urlencode({**given, name: cursor})}"
