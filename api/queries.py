"""Query strings, strictly: what could be read in two ways is refused, as in a body."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Request
from pydantic import BeforeValidator, Field

from api.problems import ProblemRaised, field_problem

STRAY_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
LIMIT_MAX = 200


async def refuse_ambiguous(request: Request) -> None:
    """ProblemRaised for a parameter that is there twice, or whose bytes are no text.

    One of the two would win silently, and broken bytes would be looked for as other characters.
    """
    query: bytes = request.scope["query_string"]
    names = [_read(pair) for pair in query.split(b"&") if pair]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise ProblemRaised(field_problem("invalid-request", twice, "is there more than once"))


def refuse_unknown(*known: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency of a route whose query is no model: ProblemRaised for any other parameter."""
    names = f"; known parameters: {', '.join(known)}" if known else ", which has none"

    async def refuse(request: Request) -> None:
        for name, value in request.query_params.items():
            if name not in known:
                rule = f"is not a parameter of this route{names}"
                raise ProblemRaised(field_problem("invalid-request", name[:100], rule, value))

    return refuse


def _read(pair: bytes) -> str:
    name, _, value = (part.replace(b"+", b" ") for part in pair.partition(b"="))
    said = unquote_to_bytes(name).decode(errors="replace")
    if STRAY_PERCENT.search(pair):
        rule = "a percent sign that begins no escape is written %25"
        raise ProblemRaised(field_problem("invalid-request", said, rule))
    try:
        unquote_to_bytes(value).decode()
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        rule = "must be UTF-8"
        raise ProblemRaised(field_problem("invalid-request", said, rule)) from None


def digits_only(most: int) -> Callable[[object], object]:
    """Refuse what int() would take beside digits: signs, blanks, underscores, other scripts."""
    pattern = re.compile(rf"[0-9]{{1,{most}}}", re.ASCII)

    def judge(value: object) -> object:
        if isinstance(value, str) and not pattern.fullmatch(value):
            raise ValueError("must be a whole number, in digits only")
        return value

    return judge


def refuse_nul(value: object) -> object:
    """Refuse U+0000, which no text of the database holds."""
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("must not hold U+0000")
    return value


def _seconds(value: object) -> object:
    if isinstance(value, str) and not DECIMAL.fullmatch(value):
        raise ValueError("must be a number of seconds such as 20 or 2.5")
    return value


Limit = Annotated[int, Field(ge=1, le=LIMIT_MAX), BeforeValidator(digits_only(9))]
WaitSeconds = Annotated[float, Field(ge=0, le=30), BeforeValidator(_seconds)]
