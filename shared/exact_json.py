"""JSON without loss: numbers are exact on the way in, money is a string on the way out."""

import json
import re
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel

# An escape, not six harmless characters behind an escaped backslash.
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def load_exact(text: str | bytes) -> Any:
    """Parse JSON with integers of any size and fractions as Decimal, never float."""
    return json.loads(text, parse_float=Decimal)


def dump_exact(value: Any) -> str:
    """Write a value as JSON that PostgreSQL's jsonb can hold; raises ValueError when it cannot.

    Decimals, instants, dates and UUIDs become strings, models their members. NaN, Infinity, a
    NUL or half a surrogate pair in a string, and types without a JSON form are refused.
    """
    try:
        written = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be stored as JSON: {error}") from error
    if NUL.search(written):
        raise ValueError("cannot be stored as JSON: a string holds a NUL character")
    return written


def _plain(value: Any) -> Any:
    match value:
        case Decimal() if value.is_finite():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case Enum():
            return value.value
        case BaseModel():
            return value.model_dump()
    raise TypeError(f"{type(value).__name__} {value!r:.80} has no JSON form")
