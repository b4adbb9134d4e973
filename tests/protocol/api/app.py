"""The api in this process, on the test's own database and queues, behind an httpx client."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from api.app import create_app
from api.settings import ApiSettings
from tests.factories import eventually
from tests.services import Database

KIND_MODULE = "tests.protocol.api.kinds"
NUMBERS = itertools.count(1)
READY_SECONDS = 20.0


def api_settings(database: Database, queue_prefix: str, **changed: Any) -> ApiSettings:
    """Settings of a test's api; whatever is not named has its default."""
    given = {
        "database_url": database.app_url,
        "queue_prefix": queue_prefix,
        "kind_modules": KIND_MODULE,
        "log_format": "json",
        "api_open": "token" not in changed,
    }
    return ApiSettings.model_validate(given | changed)


@asynccontextmanager
async def serving(settings: ApiSettings, *, ready: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    """Run the app's lifespan and talk to it without a socket; waits until it takes jobs."""
    app = create_app(settings)
    async with app.router.lifespan_context(app), client_of(app) as client:
        if ready:
            await until_ready(client)
        yield client


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose unhandled errors are answers, as behind a real server."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api.test") as client:
        yield client


async def until_ready(client: httpx.AsyncClient) -> None:
    """Poll /readyz by deadline."""

    async def ready() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await eventually(ready, seconds=READY_SECONDS, every=0.02)


def note(**payload: Any) -> dict[str, Any]:
    """A submit of a new note for ACME's brand RED."""
    return {
        "kind": "api.note",
        "company": "ACME",
        "brand": "RED",
        "payload": {"number": next(NUMBERS)} | payload,
    }


async def post(
    client: httpx.AsyncClient,
    body: Mapping[str, Any] | bytes | str,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """POST /v1/jobs with a body as JSON, or as the very text given."""
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    sent = {"Content-Type": "application/json"} | dict(headers or {})
    if key is not None:
        sent["Idempotency-Key"] = key
    return await client.post("/v1/jobs", content=text, headers=sent)


def problem_of(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """The problem document of an answer, checked as RFC 9457 wants it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"https://chot.example/problems/{slug}", problem
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("urn:uuid:")
    assert "Traceback" not in answer.text
    return problem
