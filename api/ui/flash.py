"""A message that is shown once: after a form is sent, on the page that its sender comes to.

It travels in a cookie, marked by the reader's seed, so that nobody else can have us say things.
"""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.ui.forms import seed_of
from api.ui.paths import safe_place
from api.ui.session import PATH, set_cookie

COOKIE = "chot_flash"
SEE_OTHER = 303
SHOWN_WITHIN_SECONDS = 60
LONGEST = 3000
Level = Literal["ok", "bad"]


@dataclass(frozen=True, slots=True)
class Flash:
    """Words by their key and values, and whether they are good news."""

    level: str
    key: str
    values: dict[str, str]


def see_other(
    request: Request, place: str, key: str | None = None, *, level: Level = "ok", **values: object
) -> Response:
    """Send the reader on to a page of ours (303), which says the words of `key` once."""
    response = RedirectResponse(safe_place(place), SEE_OTHER)
    seed = seed_of(request)
    if key is not None and seed is not None:
        said = json.dumps([level, key, {name: str(each)[:500] for name, each in values.items()}])
        packed = base64.urlsafe_b64encode(said.encode()).decode()
        cookie = f"{packed}.{_mark(seed, packed)}"
        set_cookie(response, request, COOKIE, cookie, strict=True, max_age=SHOWN_WITHIN_SECONDS)
    return response


def take_flash(request: Request) -> Flash | None:
    """The message that this page has to show; None where there is none of this reader's."""
    packed, _, mark = request.cookies.get(COOKIE, "").partition(".")
    seed = seed_of(request)
    if not packed or len(packed) > LONGEST or seed is None:
        return None
    if not hmac.compare_digest(_mark(seed, packed).encode(), mark.encode()):
        return None
    try:
        match json.loads(base64.urlsafe_b64decode(packed)):
            case [("ok" | "bad") as level, str() as key, dict() as values]:
                return Flash(level, key, values)
    except (ValueError, binascii.Error):
        pass
    return None


def forget_flash(request: Request, response: Response) -> None:
    """It has been shown."""
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, path=PATH)


def _mark(seed: str, packed: str) -> str:
    return hmac.new(seed.encode(), b"flash" + packed.encode(), hashlib.sha256).hexdigest()
