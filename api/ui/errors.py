"""Errors under /ui/: the same problems as everywhere, as a page that says what to do next."""

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.gate import facts_of
from api.problems import PROBLEMS, Problem, problem_response
from api.ui.pages import render
from api.ui.paths import HOME, LOGIN, is_page
from api.ui.session import COOKIE, PATH
from api.ui.words import all_words

SEE_OTHER = 303
# Pages that come back by themselves; a form is not sent again.
BACK_SOON = frozenset({"database-unavailable", "starting"})


async def answer_problem(request: Request, problem: Problem) -> Response:
    """A problem as its reader can use it: a page below /ui/, problem+json everywhere else."""
    facts = facts_of(request)
    if not is_page(request.scope["path"]) or not _wants_page(request):
        return problem_response(problem, facts.request_id)
    if problem.slug == "unauthorized" and request.method == "GET":
        return _to_login(request)
    words = _words_of(problem)
    response = render(
        request, "error.html", problem.status, **words, code=problem.status, id=facts.request_id
    )
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
        if request.method == "GET" and problem.slug in BACK_SOON:
            response.headers["Refresh"] = str(problem.retry_after)
    response.headers.update(
        {name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"}
    )
    return response


def _wants_page(request: Request) -> bool:
    """A stream of events or a script's request has no use for a page."""
    return request.headers.get("sec-fetch-mode", "navigate") in {
        "navigate",
        "nested-navigate",
    } and ("text/event-stream" not in request.headers.get("accept", ""))


def _to_login(request: Request) -> Response:
    """To the login page and back here; a cookie that is worth nothing any more goes."""
    place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = {} if place in {HOME, "/ui"} else {"next": place}
    ended = COOKIE in request.cookies
    if ended:
        query["ended"] = "1"
    response = RedirectResponse(LOGIN + (f"?{urlencode(query)}" if query else ""), SEE_OTHER)
    if ended:
        response.delete_cookie(COOKIE, path=PATH)
    return response


def _words_of(problem: Problem) -> dict[str, Any]:
    """Which words the page uses: those of the problem, else of its status, else of all."""
    name = problem.slug
    if problem.slug == "forbidden":
        name = str(problem.more.get("form", "forbidden"))
    known = all_words()
    key = next(
        each
        for each in (f"error.{name}", f"error.{problem.status}", "error.other")
        if each in known
    )
    more = {"key": key, "role": problem.more.get("role")}
    return more | {"title": PROBLEMS[problem.slug][1], "detail": problem.detail}
