"""The Idempotency-Key header: its syntax, whether it must be there, how /openapi.json tells it."""

import re
from collections.abc import Sequence
from typing import Any

from fastapi import Request

from api.problems import Problem, ProblemRaised
from api.settings import ApiSettings

HEADER = "Idempotency-Key"
LONGEST_KEY = 255
# RFC 9651: a string, escapes \" and \\ only, then parameters, which say nothing to us.
QUOTED = re.compile(
    r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"'
    r'( *; *[a-z*][a-z0-9_.*-]*(=("(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"|[^\s",;]+))?)*'
)
BARE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
# What a client should send; the parameters that are passed over are not advertised.
PATTERN = (
    r'^("([\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255}"'
    r"|[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{1,255})$"
)
# For `openapi_extra` of a route that calls key_of(), and the types it may then answer with.
KEY_PARAMETER: dict[str, Any] = {
    "in": "header",
    "name": HEADER,
    "schema": {"type": "string", "pattern": PATTERN},
    "example": '"8e03978e-40d5-43e8-bc93-6894a57f9324"',
}
KEY_PROBLEMS = (
    "missing-idempotency-key",
    "malformed-idempotency-key",
    "idempotency-key-in-progress",
    "idempotency-key-reused",
)


class MalformedKey(ValueError):
    """The header holds no key of ours; the text says why."""


def parse_key(lines: Sequence[str]) -> str | None:
    """The key of the header's lines, quoted or bare alike; None when there is no header."""
    if not lines:
        return None
    if len(lines) > 1:
        raise MalformedKey("send one Idempotency-Key line, not several")
    given = lines[0].strip(" \t")
    quoted = QUOTED.fullmatch(given)
    if quoted is not None:
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    elif BARE.fullmatch(given):
        key = given
    else:
        raise MalformedKey('send one key of printable ASCII, as "key" or bare')
    if not 1 <= len(key) <= LONGEST_KEY:
        raise MalformedKey(f"the key has {len(key)} characters; 1 to {LONGEST_KEY} are allowed")
    return key


def key_of(request: Request, settings: ApiSettings) -> str | None:
    """The request's key; ProblemRaised (400) for one that is malformed, or missing where required.

    Judged before the body is read: nothing is written, and the database is not asked.
    """
    try:
        key = parse_key(request.headers.getlist(HEADER))
    except MalformedKey as error:
        problem = Problem(slug="malformed-idempotency-key", detail=str(error))
        raise ProblemRaised(problem) from None
    if key is None and settings.idempotency_required:
        detail = f"send {HEADER}: this deployment asks for one, so that a repeat is safe"
        raise ProblemRaised(Problem(slug="missing-idempotency-key", detail=detail))
    return key


def describe_keys(document: dict[str, Any], settings: ApiSettings) -> None:
    """Tell this deployment's policy wherever the OpenAPI document names the header."""
    policy = {
        "required": settings.idempotency_required,
        "description": "Repeats of the same request by the same account get the same answer, byte "
        "for byte, and cause nothing a second time. An answer is kept for "
        f"{settings.idempotency_hours} hours. "
        '`"key"` (RFC 9651) or bare, 1 to 255 printable ASCII characters.',
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == HEADER:
                    parameter.update(policy)
