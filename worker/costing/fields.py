"""Strict reading of one JSON object: every fault says where it is and which rule it breaks."""

import json
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any

# What people write beside the facts, on whatever level; it changes nothing.
REMARKS = frozenset(
    {"comment", "derived", "description", "licence", "note", "source", "source_ref", "title"}
)


class BadFileError(Exception):
    """The file is not a set of worked examples; the text says where and why."""


class Fields:
    """One JSON object and its place, for errors that say where."""

    def __init__(self, found: Any, place: str) -> None:
        self.place = place
        if not isinstance(found, dict):
            raise BadFileError(f"{place}: found {_shown(found)}, which must be an object")
        self.found: dict[str, Any] = found

    def require(self, holds: bool, field: str, value: Any, rule: str) -> None:  # noqa: FBT001 - the condition itself
        """Raise, naming field, value and rule, unless the condition holds."""
        if not holds:
            raise BadFileError(f"{self.place}: {field} = {_shown(value)}, but it must be: {rule}")

    def without_nulls(self) -> "Fields":
        """The same object without the fields that are null, which is as good as absent."""
        return Fields({k: v for k, v in self.found.items() if v is not None}, self.place)

    def only(self, known: Collection[str], rule: str | None = None) -> None:
        """Refuse a field that is not known, by its name."""
        for field in self.found:
            words = rule or "one of " + ", ".join(sorted(known))
            self.require(field in known, "field", field, words)

    def nothing(self, fields: Collection[str], rule: str) -> None:
        """Refuse fields that mean nothing here."""
        for field in sorted(self.found.keys() & set(fields)):
            self.require(self.found[field] is None, field, self.found[field], rule)

    def text(self, field: str) -> str:
        """A required string that is not empty."""
        value = self.found.get(field)
        self.require(isinstance(value, str) and value != "", field, value, "a string, not empty")
        return str(value)

    def one_of(self, field: str, choices: Collection[str]) -> str | None:
        """A string out of a few; None where the field is absent."""
        value = self.found.get(field)
        good = value is None or (isinstance(value, str) and value in set(choices))
        self.require(good, field, value, "one of " + ", ".join(choices) + ", or absent")
        return value

    def whole(self, field: str, default: int | None, low: int, high: int) -> int | None:
        """An integer in a range, or the default where the field is absent."""
        value = self.found.get(field, default)
        if value is None:
            return None
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        self.require(good, field, value, f"an integer from {low} to {high}")
        return int(value)

    def integer(self, field: str) -> int:
        """A required integer."""
        value = self.whole(field, None, -(2**53), 2**53)
        self.require(value is not None, field, value, "an integer")
        assert value is not None, "required above"
        return value

    def number(self, field: str) -> Decimal | None:
        """An exact decimal, written as a string or an integer; None where the field is absent."""
        return self.exact(field, self.found.get(field))

    def exact(self, field: str, value: Any) -> Decimal | None:
        """The same for a value that stands within the field."""
        if value is None:
            return None
        rule = "a decimal number in a string, below 10^24, at most 24 decimals"
        good = isinstance(value, str | int) and not isinstance(value, bool)
        self.require(good, field, value, rule)
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = Decimal("NaN")
        sane = number.is_finite() and abs(number) < 10**24 and _digits(number) <= 24
        self.require(sane, field, value, rule)
        return number

    def digits(self, field: str) -> int:
        """How many decimals a number has, trailing zeros not counted."""
        number = self.number(field)
        return _digits(number) if number is not None else 0

    def listed(self, field: str) -> list[Any]:
        """A required list."""
        value = self.found.get(field)
        self.require(isinstance(value, list), field, value, "a list")
        return list(value or [])

    def objects(self, field: str) -> "list[Fields]":
        """A required list of objects, each with its place."""
        return [
            Fields(each, f"{self.place}: {field}[{i}]") for i, each in enumerate(self.listed(field))
        ]

    def inner(self, field: str) -> "Fields | None":
        """An object within; None where the field is absent."""
        value = self.found.get(field)
        return None if value is None else Fields(value, f"{self.place}: {field}")


def _digits(number: Decimal) -> int:
    """Decimals that are not trailing zeros; by hand, since Decimal rounds where it computes."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return 0
    kept = len(digits)
    while kept and digits[kept - 1] == 0:
        kept -= 1
    return max(0, -(exponent + len(digits) - kept)) if kept else 0


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
