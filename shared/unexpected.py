"""Whether somebody meant an error as it is kept, or it came from a bug or from below."""

import re
from collections.abc import Mapping
from typing import Any

# Codes that an error gets which has none, and types whose message is written for operators.
UNNAMED = frozenset({None, "FAILED", "PERMANENT"})
# The code of an error that PostgreSQL reported, which nobody meant either.
SQLSTATE = re.compile(r"(?=.*\d)[0-9A-Z]{5}")
RAISED_ON_PURPOSE = frozenset({"PermanentError", "RetryableError"})


def unnamed(message: str, name: str | None) -> str:
    """The message without its name in front: many errors begin with their code."""
    return message.removeprefix(f"{name}:").lstrip() if name else message


def unexpected_type(error: Mapping[str, Any]) -> str | None:
    """Its type where nobody meant it: without that a KeyError's message is a word and no reason."""
    code, kind = error.get("code"), error.get("type")
    meant = code not in UNNAMED and not SQLSTATE.fullmatch(str(code))
    return None if meant or kind in {None, code, *RAISED_ON_PURPOSE} else str(kind)
