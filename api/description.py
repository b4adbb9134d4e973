"""How errors look in /openapi.json: one shape, and for each route the types it may answer with."""

from typing import Any

from api.problems import MEDIA_TYPE, PROBLEMS, TYPE_BASE

# What any route behind the token may answer.
EVERYWHERE = ("unauthorized", "forbidden", "invalid-request", "rate-limited", "internal-error")
UNAVAILABLE = ("overloaded", "busy", "database-unavailable", "starting")
OF_A_BODY = ("malformed-json", "body-too-slow", "too-large", "unsupported-media-type")
TEXT = {"type": "string"}
FIELD_ERROR = {
    "type": "object",
    "required": ["field", "rule", "value"],
    "properties": {
        "field": TEXT | {"description": "its path in the request"},
        "rule": TEXT,
        "value": {"anyOf": [TEXT, {"type": "null"}], "description": "shortened"},
    },
}
PROBLEM = {
    "type": "object",
    "description": "An error (RFC 9457). Programs read `type`; some types have further members.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": TEXT | {"enum": [TYPE_BASE + slug for slug in PROBLEMS]},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT | {"description": "for people"},
        "instance": TEXT | {"description": "urn:uuid: and the request's id, as in the log"},
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}},
    },
}


def problems(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these types, and those of every route."""
    by_status: dict[int | str, list[str]] = {}
    for slug in dict.fromkeys((*slugs, *EVERYWHERE, *UNAVAILABLE)):
        by_status.setdefault(PROBLEMS[slug][0], []).append(slug)
    return {status: _problems_of(named) for status, named in by_status.items()}


def _problems_of(slugs: list[str]) -> dict[str, Any]:
    said = " ".join(f"`{slug}`: {PROBLEMS[slug][1]}." for slug in slugs)
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "examples": {slug: {"value": _example_of(slug)} for slug in slugs},
    }
    return {"description": said, "content": {MEDIA_TYPE: content}}


def _example_of(slug: str) -> dict[str, Any]:
    status, title = PROBLEMS[slug]
    return {
        "type": TYPE_BASE + slug,
        "title": title,
        "status": status,
        "detail": "what was wrong this time, in words",
        "instance": "urn:uuid:5a6b7c8d-9e0f-4a1b-8c2d-3e4f5a6b7c8d",
    }
