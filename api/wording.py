"""What pydantic found, in plain English: every rule says what would have been right."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

MOST_NAMES_TOLD = 30
INSTANT = "must be an instant with an offset, such as 2026-01-31T18:00:00+07:00"
DATE = "must be a date such as 2026-01-31"
# pydantic's type of error → our words; braces are filled from its context.
WORDS: Mapping[str, str] = {
    "missing": "is required",
    "none_required": "must be null",
    "string_type": "must be a string",
    "string_sub_type": "must be a string",
    "string_unicode": "must be Unicode text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "decimal_type": "must be a number, or a string that holds one",
    "decimal_parsing": "must be a number, or a string that holds one",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} decimal places",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "too_short": "must have at least {min_length} members",
    "too_long": "must have at most {max_length} members",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
    "date_type": DATE,
    "date_parsing": DATE,
    "date_from_datetime_parsing": DATE,
    "date_from_datetime_inexact": DATE,
    "datetime_type": INSTANT,
    "datetime_parsing": INSTANT,
    "datetime_from_date_parsing": INSTANT,
    "timezone_aware": INSTANT,
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "is required",
}
EMPTY = frozenset({"string_too_short", "too_short"})


def rule_of(
    item: ErrorDetails, model: type[BaseModel] | None = None, *, query: bool = False
) -> str:
    """The rule that a value breaks; `model` is what the whole was checked by, where it is known."""
    found = item["type"]
    context: dict[str, Any] = item.get("ctx", {})
    if found == "extra_forbidden":
        return _not_a_member(model_at(model, item["loc"][:-1]), query=query)
    if found == "string_pattern_mismatch":
        return _pattern(context["pattern"], _field_at(model, item["loc"]))
    if found in EMPTY and context["min_length"] == 1:
        return "must not be empty"
    words = WORDS.get(found)
    if words is None:
        return item["msg"].removeprefix("Value error, ")
    return words.format_map(context)


def _not_a_member(model: type[BaseModel] | None, *, query: bool) -> str:
    what, whole = ("parameter", "route") if query else ("member", "object")
    rule = f"is not a {what} of this {whole}"
    if model is None:
        return rule
    names = [info.alias or name for name, info in model.model_fields.items()]
    if not names:
        return f"{rule}, which has none"
    more = ", …" if len(names) > MOST_NAMES_TOLD else ""
    return f"{rule}; known {what}s: {', '.join(names[:MOST_NAMES_TOLD])}{more}"


def _pattern(pattern: str, info: FieldInfo | None) -> str:
    """An example says more than a pattern, where the field has one."""
    told = next((each for each in _described(info) if each.examples), None)
    if told is None or not told.examples:
        return f"must match the pattern {pattern}"
    about = f"{told.description}; " if told.description else ""
    return f"must be like {told.examples[0]} ({about}pattern {pattern})"


def _described(info: FieldInfo | None) -> Iterator[FieldInfo]:
    """What is said of a field: itself, or the text in its `Text | None`."""
    if info is None:
        return
    yield info
    for part in get_args(info.annotation):
        yield from (
            each for each in getattr(part, "__metadata__", ()) if isinstance(each, FieldInfo)
        )


def model_at(model: type[BaseModel] | None, path: Sequence[int | str]) -> type[BaseModel] | None:
    """The model of the object at this path; None where none is known there."""
    for part in path:
        if model is None or isinstance(part, int):
            continue
        info = model.model_fields.get(part)
        model = None if info is None else next(_models_of(info.annotation), None)
    return model


def _field_at(model: type[BaseModel] | None, path: Sequence[int | str]) -> FieldInfo | None:
    names = [part for part in path if isinstance(part, str)]
    around = model_at(model, names[:-1])
    return around.model_fields.get(names[-1]) if around is not None and names else None


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for each in get_args(annotation):
        yield from _models_of(each)
