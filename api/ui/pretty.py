"""JSON as a person reads it: a member a line, each number as it was written."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from shared.json_text import portable

STEP = "  "
# A result of 1 MiB may be nested so deep that its indents alone are 35 MiB; /v1 has the whole.
LONGEST = 300_000


def pretty(value: Any, longest: int = LONGEST) -> str:
    """The value, a member a line; integers that a browser would round are texts, as in the api.

    What is longer than `longest` characters is cut there, and ends with a line of an ellipsis.
    """
    parts: list[str] = []
    left = longest
    for part in _written(portable(value), "\n"):
        if len(part) > left:
            return "".join([*parts, part[:left], "\n…"])
        parts.append(part)
        left -= len(part)
    return "".join(parts)


def _written(value: Any, line: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield "{"
        for index, (name, member) in enumerate(value.items()):
            yield f"{',' if index else ''}{line}{STEP}{_text(name)}: "
            yield from _written(member, line + STEP)
        yield f"{line}}}"
    elif isinstance(value, list | tuple) and value:
        yield "["
        for index, item in enumerate(value):
            yield f"{',' if index else ''}{line}{STEP}"
            yield from _written(item, line + STEP)
        yield f"{line}]"
    elif isinstance(value, Decimal):
        yield str(value)
    else:
        yield _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
