"""Parse a request body once, strictly: what is ambiguous or cannot be stored is refused here.

Numbers become int or Decimal, never float. Refused: duplicate members, NaN and Infinity, numbers
that no column could hold, U+0000 and lone surrogates, nesting beyond 32, invalid UTF-8.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

DEEPEST_NESTING = 32
LONGEST_NUMBER = 100
LARGEST_EXPONENT = 308
LONGEST_NAME = 100
# A string without an end is taken whole too, or each quote in it would be searched again.
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|([\[{])|([\]}])', re.DOTALL)


class Malformed(Exception):
    """The body is no JSON of ours: `field` (may be empty), the rule it breaks, the value."""

    def __init__(self, field: str, rule: str, value: str | None = None) -> None:
        super().__init__(field, rule, value)
        self.field = field
        self.rule = rule
        self.value = value


def parse_object(body: bytes, *, deepest: int = DEEPEST_NESTING) -> dict[str, Any]:
    """The body as one JSON object with exact numbers; raises Malformed."""
    try:
        source = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed("", f"must be UTF-8; byte {error.start} is not") from None
    _refuse_deep(source, deepest)
    twice: list[_Twice] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        twice.append(_Twice(found))
        twice[-1].name = next(
            name for name, n in Counter(name for name, _ in pairs).items() if n > 1
        )
        return twice[-1]

    try:
        found = json.loads(
            source,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
            object_pairs_hook=members,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        # Some of its messages end so themselves.
        why = error.msg.removesuffix(" at")
        raise Malformed("", f"must be JSON: {why} at {where}") from None
    if twice:
        raise Malformed(_place_of_twice(found), "a member must not be given twice")
    if not isinstance(found, dict):
        raise Malformed("", "must be a JSON object", source[:100])
    # Only an escape can bring these in: raw ones are no JSON and no UTF-8.
    if "\\u" in source:
        for field, said in _strings(found, ""):
            _refuse_unstorable(field, said)
    return found


def _refuse_deep(source: str, deepest: int) -> None:
    if source.count("[") + source.count("{") <= deepest:
        return
    depth = 0
    for found in BRACKETS.finditer(source):
        depth += bool(found[1]) - bool(found[2])
        if depth > deepest:
            raise Malformed("", f"must not be nested deeper than {deepest}")


def _integer(literal: str) -> int:
    if len(literal.lstrip("-")) > LONGEST_NUMBER:
        raise Malformed("", f"numbers have at most {LONGEST_NUMBER} digits", literal[:40])
    return int(literal)


def _decimal(literal: str) -> Decimal:
    mantissa, _, exponent = literal.lower().partition("e")
    digits = len(mantissa.lstrip("-").replace(".", ""))
    # The lengths first: int() of a long exponent would itself be slow.
    is_long = max(digits, len(exponent)) > LONGEST_NUMBER
    if is_long or abs(int(exponent or 0)) > LARGEST_EXPONENT:
        rule = f"numbers have at most {LONGEST_NUMBER} digits and exponents up to"
        raise Malformed("", f"{rule} {LARGEST_EXPONENT}", literal[:40])
    return Decimal(literal)


def _constant(literal: str) -> NoReturn:
    raise Malformed("", "NaN and Infinity are no JSON", literal)


class _Twice(dict[str, Any]):
    """An object that has a member twice: this one."""

    name: str


def _place_of_twice(found: Any) -> str:
    """The path of a member that is there twice; its object is always one that can be reached.

    What one of the two has pushed out lay in an object that has a member twice itself.
    """
    places: list[tuple[Any, str]] = [(found, "")]
    while places:
        value, place = places.pop()
        if isinstance(value, _Twice):
            return printable(f"{place}.{value.name[:LONGEST_NAME]}".lstrip("."))
        inner = enumerate(value) if isinstance(value, list) else ()
        named = value.items() if isinstance(value, dict) else inner
        places.extend(
            (each, f"{place}.{str(name)[:LONGEST_NAME]}".lstrip("."))
            for name, each in reversed(list(named))
        )
    raise AssertionError("no object has a member twice")


def _strings(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{field}.{index}")
    elif isinstance(value, dict):
        for name, member in value.items():
            inner = f"{field}.{name}".lstrip(".")
            yield inner, name
            yield from _strings(member, inner)


def _refuse_unstorable(field: str, said: str) -> None:
    shown = ascii(said[:40])
    if "\x00" in said:
        raise Malformed(printable(field), "U+0000 cannot be stored", shown)
    if any("\ud800" <= character <= "\udfff" for character in said):
        raise Malformed(printable(field), "lone surrogates are no Unicode text", shown)


def printable(said: str) -> str:
    """The text with what UTF-8 cannot carry written as an escape."""
    return said.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\u0000")
