"""Forms: what was sent, and whether it was sent from a page of ours.

A form brings back a token made of its session's seed, which no other site can read. Beside it the
browser says where a request comes from (Origin, Sec-Fetch-Site): another site is refused by that
alone.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends
from starlette.requests import ClientDisconnect, Request

from api.gate import BODY_SECONDS_MAX, too_large
from api.problems import Problem, ProblemRaised
from api.ui.session import FORM_COOKIE, SEED_BYTES, session_of

FIELD = "csrf"
FORM_BYTES = 64 * 1024
MOST_FIELDS = 2000
SEED = "chot.form_seed"
MEDIA_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, in the order sent."""

    fields: Sequence[tuple[str, str]]

    def get(self, name: str, default: str = "") -> str:
        """The first value of a field."""
        return next((value for key, value in self.fields if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.fields if key == name]


def seed_of(request: Request) -> str | None:
    """What this reader's forms are bound to: the session's seed, or that of the form cookie."""
    session = session_of(request)
    if session is not None and session.cookie is not None:
        return session.seed
    made: str | None = request.scope.get(SEED)
    return made or request.cookies.get(FORM_COOKIE) or None


def new_seed(request: Request) -> str:
    """A seed for a reader who has none; the page that shows the form sets its cookie."""
    seed: str = request.scope.setdefault(SEED, secrets.token_urlsafe(SEED_BYTES))
    return seed


def token_for(seed: str) -> str:
    """What a form has to bring back."""
    return hmac.new(seed.encode(), b"chot form", hashlib.sha256).hexdigest()


async def require_csrf(request: Request) -> Form:
    """The form that was sent; ProblemRaised unless a page of ours has shown it to this reader."""
    if _from_elsewhere(request):
        raise ProblemRaised(stale("another site sent this form"))
    form = await read_form(request)
    seed = seed_of(request)
    sent = form.get(FIELD).encode()  # as text it must be ASCII, or comparing it is an error
    if seed is None or not hmac.compare_digest(token_for(seed).encode(), sent):
        raise ProblemRaised(stale("the form is not one of this session's"))
    return form


Sent = Annotated[Form, Depends(require_csrf)]


def stale(detail: str) -> Problem:
    """The 403 of a form that is too old or came from elsewhere; nothing has been done."""
    return Problem(slug="forbidden", detail=f"{detail}; nothing was done", more={"form": "stale"})


def _from_elsewhere(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    origin = request.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    except ValueError:
        return True  # no browser of ours writes such an address


async def read_form(request: Request) -> Form:
    """The fields of a body; ends with 400, 408, 413 or 415 for what no form of ours sends."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != MEDIA_TYPE:
        raise ProblemRaised(Problem(slug="unsupported-media-type", detail=f"send {MEDIA_TYPE}"))
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES:
                    raise ProblemRaised(too_large(FORM_BYTES))
    except TimeoutError:
        problem = Problem(slug="body-too-slow", detail="the form did not arrive in time")
        raise ProblemRaised(problem) from None
    except ClientDisconnect:
        problem = Problem(slug="bad-request", detail="the client went away before its form came")
        raise ProblemRaised(problem) from None
    try:
        said = bytes(body).decode("ascii")
        fields = parse_qsl(
            said, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError:
        problem = Problem(slug="bad-request", detail="the body is no form")
        raise ProblemRaised(problem) from None
    if any("\0" in value for _, value in fields):
        raise ProblemRaised(Problem(slug="bad-request", detail="a field holds U+0000"))
    return Form(tuple(fields))
