"""Login and logout: a key is shown once and becomes a session."""

from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from api.authentication import Authenticator
from api.dependencies import Ready
from api.gate import facts_of
from api.rate import RateLimit
from api.routers import page_router
from api.source import read_networks, source_of
from api.ui.flash import see_other
from api.ui.forms import Form, read_form, require_csrf, seed_of
from api.ui.pages import render
from api.ui.paths import HOME, LOGIN, LOGOUT, safe_place
from api.ui.session import (
    COOKIE,
    FORM_COOKIE,
    PATH,
    SESSION_SECONDS,
    Sessions,
    session_of,
    set_cookie,
)
from shared.logs import log

router = page_router()
LONGEST_KEY = 1000
# Wrong keys of one address: as many at once, and one more every so often (a second).
WRONG_BURST, WRONG_PER_SECOND = 10, 0.2


@dataclass(slots=True)
class Guesses:
    """How often an address may be wrong; who is told to wait is not looked up at all."""

    limit: RateLimit = field(
        default_factory=lambda: RateLimit(per_second=WRONG_PER_SECOND, burst=WRONG_BURST)
    )
    _until: dict[str, float] = field(default_factory=dict)

    def wait(self, source: str) -> int:
        """Whole seconds until this address may try again; 0: now."""
        left = self._until.get(source, 0.0) - monotonic()
        if left <= 0:
            self._until.pop(source, None)
            return 0
        return max(1, round(left))

    def wrong(self, source: str) -> None:
        """Note a wrong key."""
        now = monotonic()
        wait = self.limit.refuse(source, now)
        if wait is not None:
            if len(self._until) >= 10_000:
                self._until.clear()
            self._until[source] = now + wait


@router.get(LOGIN)
async def show_login(request: Request) -> Response:
    """The form; who is logged in already goes on."""
    place = safe_place(request.query_params.get("next"))
    if session_of(request) is not None:
        return see_other(request, place)
    query = request.query_params
    said = "login.ended" if "ended" in query else "login.bye" if "bye" in query else None
    return render(request, "login.html", place=place, said=said, said_values={})


@router.post(LOGIN)
async def log_in(request: Request, resources: Ready) -> Response:
    """Begin a session of whoever holds the key; the form comes back with what is wrong."""
    if session_of(request) is not None:  # of another tab, meanwhile
        return see_other(request, HOME)
    if seed_of(request) is None:
        form = await read_form(request)
        return _again(request, form, "login.no_cookie", HTTPStatus.FORBIDDEN)
    form = await require_csrf(request)
    source = source_of(request, read_networks(resources.settings.trusted_proxies)) or "local"
    guesses = _guesses(request)
    wait = guesses.wait(source)
    if wait:
        return _again(request, form, "login.too_many", HTTPStatus.TOO_MANY_REQUESTS, seconds=wait)
    key = form.get("key").strip()
    authenticator: Authenticator = request.app.state.authenticator
    caller = await authenticator.authenticate(key) if 0 < len(key) <= LONGEST_KEY else None
    if caller is None:
        guesses.wrong(source)
        log.warning("ui.login_refused", source=source, request_id=facts_of(request).request_id)
        return _again(request, form, "login.refused", HTTPStatus.FORBIDDEN)
    facts_of(request).caller = caller
    sessions: Sessions = request.app.state.sessions
    cookie = await sessions.begin(caller)
    log.info("ui.login", principal=caller.principal, key=caller.key_id, source=source)
    response = see_other(request, form.get("next"))
    set_cookie(response, request, COOKIE, cookie, max_age=SESSION_SECONDS)
    # What forms were bound to before the login is worth nothing after it.
    response.delete_cookie(FORM_COOKIE, path=PATH)
    return response


@router.post(LOGOUT)
async def log_out(request: Request, _: Ready) -> Response:
    """End the session, in every browser that has a copy; with `everywhere`, all of its key's."""
    session = session_of(request)
    if session is None:
        return see_other(request, HOME)
    form = await require_csrf(request)
    sessions: Sessions = request.app.state.sessions
    caller = session.caller
    if session.cookie is not None and form.get("everywhere"):
        ended = await sessions.end_all(session)
        log.info("ui.logout_everywhere", principal=caller.principal, sessions=ended)
    else:
        await sessions.end(session)
        log.info("ui.logout", principal=caller.principal)
    response = RedirectResponse(f"{LOGIN}?bye=1", HTTPStatus.SEE_OTHER)
    response.delete_cookie(COOKIE, path=PATH)
    return response


def _again(
    request: Request, form: Form, said: str, status: HTTPStatus, **values: object
) -> Response:
    place = safe_place(form.get("next"))
    return render(request, "login.html", status, place=place, said=said, said_values=values)


def _guesses(request: Request) -> Guesses:
    state = request.app.state
    if not hasattr(state, "guesses"):
        state.guesses = Guesses()
    found: Guesses = state.guesses
    return found
