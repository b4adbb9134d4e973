"""Sessions: a signed cookie becomes a caller, as a bearer token does elsewhere.

The cookie names the key (its public id), never the key itself, and is worth what the key is worth
now: revoked or expired, it ends within CACHE_SECONDS, roles and scope are today's. A session of
the deployment's token ends with that token.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from api.authentication import CACHE_SECONDS, LOOKUPS, OWNER, Caller, caller_of
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.ui.signing import SESSION_HOURS, Signer
from shared.api_keys import find_key, key_id_of

COOKIE = "chot_session"
FORM_COOKIE = "chot_form"  # the seed of forms where nobody is logged in, or the api is open
SESSION = "chot.session"
SESSION_SECONDS = SESSION_HOURS * 3600
SKEW_SECONDS = 60  # the clocks of two api processes
PATH = "/ui"
MOST_KNOWN = 10_000
LONGEST_COOKIE = 1000
SEED_BYTES = 16
DEPLOYMENT = "token:"  # in the place of a key's id

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
    _known: dict[str, _Known] = field(default_factory=dict)
    _asking: "dict[str, asyncio.Task[Caller | None]]" = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKUPS))

    def __post_init__(self) -> None:
        self.signer = Signer(self.resources)

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
        if not -SKEW_SECONDS <= age < SESSION_SECONDS:
            return None
        caller = await self._caller(account, seed)
        return None if caller is None else Session(caller=caller, seed=seed, cookie=cookie)

    async def begin(self, caller: Caller) -> str:
        """The cookie of a session that begins now, with a seed that nobody has known before."""
        seed = secrets.token_urlsafe(SEED_BYTES)
        account = caller.key_id or _token_mark(self._token(), seed)
        return await self.signer.sign([account, int(time()), seed])

    async def _caller(self, account: str, seed: str) -> Caller | None:
        place = f"{account}/{seed}" if account.startswith(DEPLOYMENT) else account
        known = self._known.get(place)
        if known is not None and monotonic() < known.until:
            return known.caller
        if place is account:
            return await self._look_up(account)
        token = self._token()
        if not token or not hmac.compare_digest(account, _token_mark(token, seed)):
            return None
        self._remember(place, OWNER, monotonic() + CACHE_SECONDS)
        return OWNER

    async def _look_up(self, key_id: str) -> Caller | None:
        """Who holds the key now: all who ask at once, as the streams of a page do, ask once."""
        task = self._asking.get(key_id)
        if task is None:
            task = asyncio.create_task(self._ask(key_id), name="look up a session")
            self._asking[key_id] = task
            task.add_done_callback(lambda done: self._asked(key_id, done))
        return await asyncio.shield(task)

    def _asked(self, key_id: str, task: "asyncio.Task[Caller | None]") -> None:
        del self._asking[key_id]
        if not task.cancelled():
            task.exception()  # seen: where nobody waits any more, nobody else would look

    async def _ask(self, key_id: str) -> Caller | None:
        began = monotonic()
        async with self._turn(), self.resources.reading() as conn:
            row = await find_key(conn, key_id)
        if row is None:
            self._known.pop(key_id, None)
            return None
        caller = caller_of(row, key_id)
        left = CACHE_SECONDS if row.seconds_left is None else min(CACHE_SECONDS, row.seconds_left)
        self._remember(key_id, caller, began + left)
        return caller

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place among LOOKUPS; TimeoutError, as of a pool, where none is free in time."""
        async with asyncio.timeout(self.resources.settings.api_pool_timeout_seconds):
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    def _remember(self, place: str, caller: Caller, until: float) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[place] = _Known(caller, until)

    def _token(self) -> str:
        """The deployment's token where it is one: a key in that variable is no second way in."""
        token = self.resources.settings.token
        said = "" if token is None else token.get_secret_value()
        return said if key_id_of(said) is None else ""


def _token_mark(token: str, seed: str) -> str:
    """What a session of the deployment's token holds of it: nothing that tells the token."""
    if not token:
        return DEPLOYMENT
    # As slow as a password's: CHOT_TOKEN may be one that a person has chosen.
    derived = hashlib.scrypt(token.encode(), salt=seed.encode(), n=2**10, r=8, p=1, dklen=18)
    return f"{DEPLOYMENT}{derived.hex()}"


def _sound(seed: str | None) -> str | None:
    return seed if seed and len(seed) < LONGEST_COOKIE and seed.isascii() else None


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
