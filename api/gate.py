"""The gate: what is judged by bytes and principal alone, before any route sees the request.

Order: size as announced, authentication, how often the account asks; what it may do is the route's
own rule (api/rights.py). Health asks for no token, and the description asks for none where
CHOT_DOCS_PUBLIC is set: a browser that opens /docs cannot send one. The pages under /ui/ ask for a
session (api/ui/session.py), which no other address believes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.authentication import OWNER, Authenticator, Caller
from api.body_bytes import BODIES
from api.failures import failure_problem
from api.problems import Problem, ProblemRaised
from api.rate import RateLimit
from api.settings import BODY_LIMIT_BYTES, ApiSettings
from api.source import read_networks, source_of
from api.ui.paths import is_page
from shared.audit import ACTOR, Actor
from shared.database import DATABASE_ERRORS

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
DESCRIPTION_PATHS = frozenset({"/docs", "/openapi.json"})
BATCH_PATH = "/v1/jobs:batch"
UPLOAD_PATH = "/v1/files"
DOCUMENTS_PATH = "/v1/documents:batch"
APPEND_PATH = "/v1/groups/*/jobs:batch"  # * is a group's id
FACTS = "chot.facts"
BODY_SECONDS_MAX = 30.0  # 300 KiB at 10 KiB/s; who sends slower only holds a connection


@dataclass(slots=True)
class RequestFacts:
    """What is known of a request beside its bytes; the access log tells it."""

    request_id: str = field(default_factory=lambda: str(uuid4()))
    caller: Caller | None = None
    job_id: str | None = None
    problem: str | None = None


def facts_of(request: Request) -> RequestFacts:
    """The facts that the access log has bound to this request."""
    facts: RequestFacts | None = request.scope.get(FACTS)
    if facts is None:
        facts = request.scope[FACTS] = RequestFacts()
    return facts


# Who looks at a page, and whether nobody may as well (the page to log in, what it looks like).
Doorkeeper = Callable[[Request], Awaitable[tuple[Caller | None, bool]]]
Answering = Callable[[Request, Problem], Awaitable[Response]]


class Gate:
    """ASGI middleware that answers 413 and 401 itself; what passes has its caller in the facts."""

    def __init__(
        self, app: ASGIApp, settings: ApiSettings, pages: Doorkeeper, answer: Answering
    ) -> None:
        self._app = app
        self._pages = pages
        self._answer = answer
        self._batch_limit = settings.batch_body_bytes
        self._upload_limit = settings.upload_bytes
        self._open_paths = OPEN_PATHS | (DESCRIPTION_PATHS if settings.docs_public else set())
        self._open = settings.api_open
        self._trusted = read_networks(settings.trusted_proxies)
        self._rate = RateLimit(per_second=settings.rate_per_second, burst=settings.rate_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with the problem that stops it."""
        problem = await self._problem(Request(scope)) if scope["type"] == "http" else None
        if problem is None:
            with self._acting(scope):
                await self._app(scope, receive, send)
            return
        facts = facts_of(Request(scope))
        facts.problem = problem.slug
        response = await self._answer(Request(scope), problem)
        await response(scope, receive, send)

    @contextmanager
    def _acting(self, scope: Scope) -> Iterator[None]:
        """Every transaction of the request, whichever task it is in, is on its caller's behalf."""
        facts = facts_of(Request(scope)) if scope["type"] == "http" else None
        if facts is None or facts.caller is None:
            yield
            return
        actor = Actor(
            principal=facts.caller.principal,
            key_id=facts.caller.key_id,
            source=source_of(Request(scope), self._trusted),
            request_id=facts.request_id,
        )
        reset = ACTOR.set(actor)
        try:
            yield
        finally:
            ACTOR.reset(reset)

    async def _problem(self, request: Request) -> Problem | None:
        announced = request.headers.get("content-length", "")
        limit = self._limit_of(request.scope["path"])
        if announced.isdigit() and int(announced[:20]) > limit:
            return too_large(limit)
        if request.scope["path"] in self._open_paths:
            return None
        facts = facts_of(request)
        try:
            if is_page(request.scope["path"]):
                facts.caller, passes = await self._pages(request)
                if passes and facts.caller is None:
                    return None
            else:
                facts.caller = await self._caller(request)
        except ProblemRaised as raised:
            return raised.problem
        except DATABASE_ERRORS as error:
            return failure_problem(error, facts.request_id)
        if facts.caller is None:
            return unauthorized()
        wait = self._rate.refuse(facts.caller.principal, monotonic())
        return None if wait is None else self._rate_limited(wait)

    def _limit_of(self, path: str) -> int:
        if path == UPLOAD_PATH:
            return self._upload_limit
        return self._batch_limit if _is_batch(path) else BODY_LIMIT_BYTES

    def _rate_limited(self, wait: int) -> Problem:
        rate = f"{self._rate.per_second:g} requests a second"
        detail = f"an account may make {rate} here, {self._rate.burst} at once; wait {wait} s"
        return Problem(slug="rate-limited", detail=detail, after=wait)

    async def _caller(self, request: Request) -> Caller | None:
        """Who asks; of several Authorization lines none counts: nobody can say which is meant."""
        if self._open and "authorization" not in request.headers:
            return OWNER
        token = token_of(request)
        if token is None:
            return None
        authenticator: Authenticator = request.app.state.authenticator
        return await authenticator.authenticate(token)


def _is_batch(path: str) -> bool:
    before, _, after = APPEND_PATH.partition("*")
    return path in {BATCH_PATH, DOCUMENTS_PATH} or (
        path.startswith(before) and path.endswith(after)
    )


def token_of(request: Request) -> str | None:
    """The bearer token that a request shows, or None."""
    given = request.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


def unauthorized() -> Problem:
    """The 401; it says the same of a key that is unknown, expired or revoked."""
    headers = {"WWW-Authenticate": 'Bearer realm="chot"'}
    detail = (
        "send Authorization: Bearer <key>; a key that is unknown, expired or revoked gets this too"
    )
    return Problem(slug="unauthorized", detail=detail, headers=headers)


def too_large(limit: int) -> Problem:
    """The connection closes with it; what the client still sends is dropped, within bounds."""
    detail = f"a request body has at most {limit} bytes"
    return Problem(slug="too-large", detail=detail, headers={"Connection": "close"})


async def read_json_body(request: Request, *, limit: int = BODY_LIMIT_BYTES) -> bytes:
    """The raw body of a JSON request; ends with 408, 413 or 415 before it is parsed."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    media, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if (
        media.strip().lower() != "application/json"
        or charset not in {"", "charset=utf-8", "charset=utf8"}
        or encoding != "identity"
    ):
        detail = "send Content-Type: application/json in UTF-8, without Content-Encoding"
        raise ProblemRaised(Problem(slug="unsupported-media-type", detail=detail))
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            return await _read_within(request, limit)
    except TimeoutError:
        detail = f"a request body arrives within {BODY_SECONDS_MAX:g} s"
        close = {"Connection": "close"}
        problem = Problem(slug="body-too-slow", detail=detail, headers=close)
        raise ProblemRaised(problem) from None
    except ClientDisconnect:
        # For the log: nobody hears it, and it is no error of ours.
        detail = "the client went away before its body was whole"
        raise ProblemRaised(Problem(slug="bad-request", detail=detail)) from None


async def read_optional_body(request: Request) -> bytes | None:
    """As read_json_body(), where a request without a body is in order too: None."""
    length = request.headers.get("content-length")
    if length == "0" or (length is None and "transfer-encoding" not in request.headers):
        return None
    return await read_json_body(request)


async def _read_within(request: Request, limit: int) -> bytes:
    caller = facts_of(request).caller
    assert caller is not None, "the gate lets nobody else send a body that is read"
    body = bytearray()
    with BODIES.reading(caller.principal) as take:
        async for chunk in request.stream():
            take(len(chunk))
            body += chunk
            if len(body) > limit:
                raise ProblemRaised(too_large(limit))
    return bytes(body)
