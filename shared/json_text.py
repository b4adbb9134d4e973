"""JSON as it was sent, digit for digit: what came in as a number goes on as the same number.

The standard encoder knows no Decimal and would make a float of it; 12345678901234567.8901 has to
reach jsonb, and come back, as it was written. (`shared.exact_json` writes what handlers return,
where a Decimal is money and becomes a string.)
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

LARGEST_SAFE = 2**53 - 1


class _HasDecimal(Exception):
    pass


def portable(value: Any) -> Any:
    """The value with each integer beyond 2^53 as a string.

    A browser, and whatever else reads JSON numbers as doubles, would round it in silence.
    """
    if isinstance(value, dict):
        return {name: portable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [portable(item) for item in value]
    if isinstance(value, int) and not -LARGEST_SAFE <= value <= LARGEST_SAFE:
        return str(value)
    return value


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """Write compact JSON; Decimals keep every digit and their trailing zeros.

    Raises ValueError for NaN and Infinity, TypeError for what JSON has no form for.
    """
    try:
        return ENCODERS[sort_keys].encode(value)
    except _HasDecimal:
        return "".join(_written(value, sort_keys=sort_keys))


def _refuse_or_leave(value: object) -> NoReturn:
    if isinstance(value, Decimal):
        raise _HasDecimal
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


# Made once: json.dumps() would make one at each call.
ENCODERS = {
    sort_keys: json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=_refuse_or_leave,
    )
    for sort_keys in (False, True)
}


def _written(value: Any, *, sort_keys: bool) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        members = sorted(value.items()) if sort_keys else value.items()
        for index, (name, member) in enumerate(members):
            yield f"{',' if index else ''}{json.dumps(name, ensure_ascii=False)}:"
            yield from _written(member, sort_keys=sort_keys)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, item in enumerate(value):
            if index:
                yield ","
            yield from _written(item, sort_keys=sort_keys)
        yield "]"
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} has no form in JSON")
        yield str(value)
    else:
        yield json.dumps(value, ensure_ascii=False, allow_nan=False, default=_refuse_or_leave)
