"""The OpenAPI document of this deployment: what the framework finds, and what it cannot know."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from api.description import FIELD_ERROR, PROBLEM
from api.examples import add_examples
from api.headers import SafeHeaders
from api.idempotency_key import describe_keys
from api.problems import MEDIA_TYPE, RETRY_AFTER_SECONDS
from api.settings import ApiSettings

SECONDS = {"type": "integer", "minimum": 1}
REQUEST_ID = {
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
    "description": "names the request, as the access log does",
}
AGAIN = {"required": True, "schema": SECONDS, "description": "seconds until it is worth asking"}
MAYBE_AGAIN = AGAIN | {"required": False}
PLACE = {
    "required": True,
    "schema": {"type": "string", "format": "uri-reference"},
    "description": "the job's status",
}
FILE_PLACE = PLACE | {"description": "the file"}
TAG = {"required": True, "schema": {"type": "string"}, "description": "for If-None-Match"}
REPLAYED = {
    "required": False,
    "schema": {"type": "string", "enum": ["true"]},
    "description": "this is the stored answer to the key's first request",
}
CHALLENGE = {"required": True, "schema": {"type": "string"}, "description": "asks for a key"}
# No text of a body holds U+0000: PostgreSQL could not keep it (api/strict_json.py refuses it).
TEXT_PATTERN = r"^[^\u0000]*$"
STORABLE: dict[str, Any] = {
    "description": "JSON in which no text holds U+0000, nested at most 32 deep; numbers have at "
    "most 100 digits and an exponent within 308",
    "anyOf": [
        {"type": ["null", "boolean"]},
        {"const": 0},
        {"type": "number", "minimum": 1e-308, "maximum": 1e308},
        {"type": "number", "minimum": -1e308, "maximum": -1e-308},
        {"type": "string", "pattern": TEXT_PATTERN},
        {"type": "array", "items": {"$ref": "#/components/schemas/Storable"}},
        {
            "type": "object",
            "propertyNames": {"pattern": TEXT_PATTERN},
            "additionalProperties": {"$ref": "#/components/schemas/Storable"},
        },
    ],
}
HEADERS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("POST /v1/jobs", "200"): {
        "Location": PLACE,
        "Retry-After": AGAIN,
        "Idempotency-Replayed": REPLAYED,
    },
    ("POST /v1/jobs", "202"): {
        "Location": PLACE,
        "Retry-After": AGAIN,
        "Idempotency-Replayed": REPLAYED,
    },
    ("POST /v1/jobs:batch", "200"): {"Idempotency-Replayed": REPLAYED},
    ("POST /v1/jobs/{job_id}/redrive", "202"): {"Location": PLACE, "Retry-After": AGAIN},
    ("GET /v1/jobs/{job_id}", "200"): {"ETag": TAG, "Retry-After": MAYBE_AGAIN},
    ("GET /v1/jobs/{job_id}", "304"): {"ETag": TAG, "Retry-After": MAYBE_AGAIN},
    ("POST /v1/cost-runs/{run_id}/exports", "200"): {
        "Location": PLACE,
        "Retry-After": AGAIN,
        "Idempotency-Replayed": REPLAYED,
    },
    ("POST /v1/cost-runs/{run_id}/exports", "202"): {
        "Location": PLACE,
        "Retry-After": AGAIN,
        "Idempotency-Replayed": REPLAYED,
    },
    ("POST /v1/files", "201"): {"Location": FILE_PLACE},
    ("POST /v1/files", "200"): {"Location": FILE_PLACE},
    ("GET /v1/files/{file_id}", "200"): {
        "ETag": TAG,
        "Content-Disposition": {
            "required": True,
            "schema": {"type": "string"},
            "description": "the file's name",
        },
    },
    ("GET /v1/files/{file_id}", "304"): {"ETag": TAG},
    ("GET /readyz", "503"): {"Retry-After": AGAIN},
}


class DescribedApi(FastAPI):
    """FastAPI whose description has our errors in it, and this deployment's own rules."""

    def __init__(self, settings: ApiSettings, **options: Any) -> None:
        super().__init__(**options)
        self._settings = settings

    def build_middleware_stack(self) -> ASGIApp:
        """Whatever is answered goes out with safe headers, the framework's own 500 included."""
        return SafeHeaders(super().build_middleware_stack())

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; built once."""
        if self.openapi_schema is None:
            described = super().openapi()
            described["components"]["schemas"] |= {
                "Problem": PROBLEM,
                "FieldError": FIELD_ERROR,
                "Storable": STORABLE,
            }
            describe_keys(described, self._settings)
            _refuse_null(described)
            _refuse_nul(described)
            _tell_headers(described)
            add_examples(described)
            self.openapi_schema = described
        return self.openapi_schema


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """("GET /path", operation) of every route."""
    for path, found in document["paths"].items():
        for method, operation in found.items():
            yield f"{method.upper()} {path}", operation


def _refuse_null(document: dict[str, Any]) -> None:
    """An optional parameter is there or not; null cannot be written in an address."""
    for _, operation in operations(document):
        for each in operation.get("parameters", ()):
            match each["schema"]:
                case {"anyOf": [dict() as one, {"type": "null"}], **others}:
                    each["schema"] = others | one


def _refuse_nul(document: dict[str, Any]) -> None:
    """Texts of bodies, whatever route takes them: what is no JSON of ours is refused before it."""
    for _, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            _narrow(content["schema"])


def _narrow(schema: Any) -> None:
    match schema:
        case {"type": "string"} if not schema.keys() & {"pattern", "format", "enum", "const"}:
            schema["pattern"] = TEXT_PATTERN
        case {"type": "object", "additionalProperties": True}:
            schema["propertyNames"] = {"pattern": TEXT_PATTERN}
            schema["additionalProperties"] = {"$ref": "#/components/schemas/Storable"}
        case dict():
            for member in schema.values():
                _narrow(member)
        case list():
            for each in schema:
                _narrow(each)


def _tell_headers(document: dict[str, Any]) -> None:
    """What a client reads from the head of an answer. Every answer has a request id."""
    for route, operation in operations(document):
        for status, answer in operation["responses"].items():
            told = {"X-Request-Id": REQUEST_ID, **HEADERS.get((route, status), {})}
            if status == "401":
                told["WWW-Authenticate"] = CHALLENGE
            slugs = set(answer.get("content", {}).get(MEDIA_TYPE, {}).get("examples", ()))
            if slugs & RETRY_AFTER_SECONDS.keys():
                always = slugs <= RETRY_AFTER_SECONDS.keys()
                told["Retry-After"] = AGAIN if always else MAYBE_AGAIN
            answer["headers"] = told
