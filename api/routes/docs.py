"""`/docs`: the description as plain HTML, readable without a script and without internet.

It is written from the same document as /openapi.json, so it cannot say anything else.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastapi import Request, Response

from api.routers import open_router

router = open_router()
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h2{border-top:1px solid #bbb;padding-top:1rem}code,pre{font:14px/1.4 ui-monospace,monospace}
pre{background:#f4f4f4;padding:.7rem;overflow:auto}table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #ddd;padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; frame-ancestors 'none'; base-uri 'none'"
Schema = dict[str, Any]


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The page; it holds no data of any company."""
    page = render_page(request.app.openapi())
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
    return Response(page, headers=headers, media_type="text/html; charset=utf-8")


def render_page(described: Schema) -> str:
    """An OpenAPI document as HTML; every text of it is escaped."""
    title = escape(described["info"]["title"])
    head = f"<title>{title}: HTTP API</title><style>{STYLE}</style>"
    parts = [f"<h1>{title}: HTTP API</h1>", _text(described["info"]["description"])]
    parts.append('<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>')
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parts += _operation(method, path, operation)
    parts.append("<h1>Shapes</h1>")
    for name, schema in described["components"]["schemas"].items():
        parts += _shape(name, schema)
    return f'<!doctype html><html lang="en"><meta charset="utf-8">{head}{"".join(parts)}</html>'


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield _text(operation.get("description", ""))
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [
            (
                each["name"],
                f"{each['in']}{', required' if each.get('required') else ''}",
                _type(each["schema"]),
                each.get("description", ""),
            )
            for each in parameters
        ]
        yield _table(("parameter", "in", "type", "meaning"), rows)
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h3>Body, <code>{escape(media)}</code></h3>"
        yield _members(body["schema"])
        yield _example(body)
    yield "<h3>Answers</h3>"
    answers = operation["responses"].items()
    yield _table(("status", "shape", "meaning"), [_answer(*each) for each in sorted(answers)])
    for status, answer in sorted(answers):
        for content in answer.get("content", {}).values():
            if "example" in content:
                yield f"<h3>Example of a {escape(status)}</h3>{_example(content)}"


def _example(content: Schema) -> str:
    if "example" not in content:
        return ""
    given = content["example"]
    said = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2)
    return f"<pre>{escape(said)}</pre>"


def _answer(status: str, answer: Schema) -> tuple[str, str, str]:
    contents = answer.get("content", {}).values()
    shapes = [_type(each["schema"]) for each in contents if "schema" in each]
    return status, ", ".join(filter(None, shapes)), answer["description"]


def _shape(name: str, schema: Schema) -> Iterator[str]:
    yield f'<h2 id="{escape(name)}"><code>{escape(name)}</code></h2>'
    yield _text(schema.get("description", ""))
    yield _members(schema) if "properties" in schema else _text(_type(schema))


def _members(schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (name, _type(each), "required" if name in required else "", each.get("description", ""))
        for name, each in schema.get("properties", {}).items()
    ]
    return _table(("member", "type", "", "meaning"), rows)


def _type(schema: Schema) -> str:
    """A type in words: string, integer, 1 to 200, a or b, list of JobSummary."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    said = " or ".join(kind) if isinstance(kind, list) else kind
    bounds = [str(schema[name]) for name in ("minimum", "maximum") if name in schema]
    return " ".join(filter(None, (said, " to ".join(bounds))))


def _text(words: str) -> str:
    return "".join(f"<p>{escape(each)}</p>" for each in words.split("\n\n") if each)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
