"""Sessions: a signed cookie becomes a caller, as a bearer token does elsewhere.

The cookie names the key (its public id), never the key itself, and is worth what the key is worth
now: revoked or expired, it ends within CACHE_SECONDS, roles and scope are today's. A session of
the deployment's token ends with that token. What is signed is believed where PostgreSQL has a row
of it, found by the hash of the 256 random bits inside: logged out, it ends in every browser.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from api.authentication import CACHE_SECONDS, OWNER, Caller
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.ui.session_rows import Asked, Found, SessionRows
from api.ui.signing import Signer
from shared.api_keys import key_id_of
from shared.sessions import (
    OF_TOKEN,
    SESSION_HOURS,
    TOKEN_BYTES,
    begin_session,
    end_session,
    end_sessions,
)

COOKIE = "chot_session"
FORM_COOKIE = "chot_form"  # the seed of forms where nobody is logged in, or the api is open
SESSION = "chot.session"
SESSION_SECONDS = SESSION_HOURS * 3600
SKEW_SECONDS = 60  # the clocks of two api processes
PATH = "/ui"
MOST_KNOWN = 10_000
LONGEST_COOKIE = 1000
SEED_BYTES = 16
SOUND = re.compile(r"[A-Za-z0-9_:-]+", re.ASCII)
# Apis of the version before sign sessions without a row, of a shorter seed. While they are being
# replaced nobody is to be logged out again and again: such a session is believed, as they believe
# it, where it began no later than this after the first api of this version had come.
OF_BEFORE_SECONDS = 3600

# A name that some site has had point here would make that site's scripts ours, in a browser's eyes.
STRANGE_HOST = Problem(
    slug="forbidden",
    detail="an api that asks for no token shows its pages at localhost and 127.0.0.1 only",
    more={"form": "host"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who looks at a page, and the seed of what its forms must bring back (None: not given yet)."""

    caller: Caller
    seed: str | None
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Caller
    until: float


@dataclass(slots=True)
class Sessions:
    """Opens sessions and tells whose a request is."""

    resources: Resources
    signer: Signer = field(init=False)
    rows: SessionRows = field(init=False)
    _known: dict[str, _Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.signer = Signer(self.resources)
        self.rows = SessionRows(self.resources)

    async def of(self, request: HTTPConnection) -> Session | None:
        """The session that a request's cookie names, or that of an open api; None: nobody's.

        Raises what the database raises when it cannot be asked: no answer is no permission.
        """
        if self.resources.settings.api_open:
            if not _is_local(request.url.hostname):
                raise ProblemRaised(STRANGE_HOST)
            return Session(caller=OWNER, seed=_sound(request.cookies.get(FORM_COOKIE)))
        return await self.read(request.cookies.get(COOKIE))

    async def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie as it is now; streams ask again while they last."""
        if self.resources.settings.api_open:
            return Session(caller=OWNER, seed=None)
        if not cookie or len(cookie) > LONGEST_COOKIE:
            return None
        if self.resources.unready is not None:
            raise ProblemRaised(Problem(slug="starting", detail=self.resources.unready))
        match await self.signer.read(cookie):
            case [str() as account, int() as began, str() as seed]:
                age = time() - began
            case _:
                return None
        if not -SKEW_SECONDS <= age < SESSION_SECONDS or not _sound(account) or not _sound(seed):
            return None
        caller = await self._caller(account, seed, began)
        return None if caller is None else Session(caller=caller, seed=seed, cookie=cookie)

    async def begin(self, caller: Caller) -> str:
        """The cookie of a session that begins now, with a token that nobody has known before."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        account = caller.key_id or _token_mark(self._token(), token)
        cookie = await self.signer.sign([account, int(time()), token])
        async with self.resources.transaction() as conn:
            await begin_session(conn, token, caller.key_id or OF_TOKEN)
        return cookie

    async def end(self, session: Session) -> None:
        """End this one in every browser, within CACHE_SECONDS."""
        if session.cookie is None or session.seed is None:
            return
        async with self.resources.transaction() as conn:
            await end_session(conn, session.seed)
        self._forget(f"/{session.seed}")

    async def end_all(self, session: Session) -> int:
        """End all sessions of this one's key, as end() does; how many there were."""
        async with self.resources.transaction() as conn:
            ended = await end_sessions(conn, session.caller.key_id or OF_TOKEN)
        self._known.clear()
        return ended

    async def _caller(self, account: str, seed: str, began: int) -> Caller | None:
        place = f"{account}/{seed}"
        known = self._known.get(place)
        if known is not None and monotonic() < known.until:
            return known.caller
        of_token = account.startswith(OF_TOKEN)
        found = await self.rows.find(Asked.of(seed, OF_TOKEN if of_token else account))
        caller = found.caller
        if of_token:
            token = self._token()
            marked = token and hmac.compare_digest(account, _token_mark(token, seed))
            caller = OWNER if marked else None
        if caller is None or not (found.stands or _is_of_before(seed, began, found)):
            self._known.pop(place, None)
            return None
        self._remember(place, caller, found.at + min(CACHE_SECONDS, found.left))
        return caller

    def _forget(self, ending: str) -> None:
        for place in [each for each in self._known if each.endswith(ending)]:
            del self._known[place]

    def _remember(self, place: str, caller: Caller, until: float) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[place] = _Known(caller, until)

    def _token(self) -> str:
        """The deployment's token where it is one: a key in that variable is no second way in."""
        token = self.resources.settings.token
        said = "" if token is None else token.get_secret_value()
        return said if key_id_of(said) is None else ""


def _is_of_before(seed: str, began: int, found: Found) -> bool:
    """Whether an api of the version before has made it, so that it has no row; see above."""
    return len(seed) < TOKEN_BYTES and began < found.since + OF_BEFORE_SECONDS


def _token_mark(token: str, seed: str) -> str:
    """What a session of the deployment's token holds of it: nothing that tells the token."""
    if not token:
        return OF_TOKEN
    # As slow as a password's: CHOT_TOKEN may be one that a person has chosen.
    derived = hashlib.scrypt(token.encode(), salt=seed.encode(), n=2**10, r=8, p=1, dklen=18)
    return f"{OF_TOKEN}{derived.hex()}"


def _sound(seed: str | None) -> str | None:
    """What was read of a cookie, where it is nothing strange: no database takes a NUL."""
    return seed if seed and len(seed) < LONGEST_COOKIE and SOUND.fullmatch(seed) else None


def session_of(request: HTTPConnection) -> Session | None:
    """The session that the gate has found for this request."""
    found: Session | None = request.scope.get(SESSION)
    return found


def set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    *,
    strict: bool = False,
    **more: Any,
) -> None:
    """A cookie of the pages: not for scripts, not for other paths, and over https where it can be.

    Lax for sessions: a link in an alert or a chat must open its page. No GET of ours does
    anything, and every POST brings back its form's token.
    """
    response.set_cookie(
        name,
        value,
        path=PATH,
        httponly=True,
        secure=is_secure(request),
        samesite="strict" if strict else "lax",
        **more,
    )


def is_secure(request: Request) -> bool:
    """Whether cookies are for https alone: everywhere but on this very machine, or where told.

    A proxy in front is believed to speak https: what it says can only make it stricter.
    """
    settings = request.app.state.resources.settings
    if settings.ui_plain_http:
        return False
    forwarded = any(name in request.headers for name in ("x-forwarded-for", "forwarded"))
    return forwarded or request.url.scheme == "https" or not _is_local(request.url.hostname)


def _is_local(host: str | None) -> bool:
    if host is None or host == "localhost":
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
