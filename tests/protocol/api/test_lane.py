"""The lane of submits answers as the router would: status, headers and body, whatever is asked."""

import json
import re
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.lane import SubmitLane
from shared.access import Role
from tests.protocol.api.keys import RED, bearer, make_key

JSON = {"Content-Type": "application/json"}
ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def work(number: int = 1, **more: Any) -> bytes:
    """A note of the brand RED."""
    body = {"kind": "api.note", "company": "ACME", "brand": "RED", "payload": {"number": number}}
    return json.dumps(body | more).encode()


# (method, address, headers, body); `submit`, `read` and `none` say whose key is shown.
REQUESTS = {
    "joined": ("submit", "POST", "/v1/jobs", JSON, work()),
    "with a key": ("submit", "POST", "/v1/jobs", JSON | {"Idempotency-Key": "k"}, work()),
    "another body": ("submit", "POST", "/v1/jobs", JSON | {"Idempotency-Key": "k"}, work(2)),
    "two keys": ("submit", "POST", "/v1/jobs", JSON | {"Idempotency-Key": "k k"}, work()),
    "no JSON": ("submit", "POST", "/v1/jobs", JSON, b"{"),
    "two members": ("submit", "POST", "/v1/jobs", JSON, b'{"kind":"a","kind":"b"}'),
    "another media type": ("submit", "POST", "/v1/jobs", {"Content-Type": "text/plain"}, b"x"),
    "a rule broken": ("submit", "POST", "/v1/jobs", JSON, work(priority=11)),
    "another's brand": ("submit", "POST", "/v1/jobs", JSON, work(brand="BLUE")),
    "unknown kind": ("submit", "POST", "/v1/jobs", JSON, work(kind="nobody.knows")),
    "a role missing": ("submit", "POST", "/v1/jobs", JSON, work(priority=9)),
    "no right": ("read", "POST", "/v1/jobs", JSON, work()),
    "no key": ("none", "POST", "/v1/jobs", JSON, work()),
    "a parameter twice": ("submit", "POST", "/v1/jobs?a=1&a=2", JSON, work()),
    "a parameter": ("submit", "POST", "/v1/jobs?a=1", JSON, work()),
    "right before query": ("read", "POST", "/v1/jobs?a=1&a=2", JSON, work()),
    "another method": ("submit", "PATCH", "/v1/jobs", JSON, work()),
    "another address": ("submit", "POST", "/v1/jobs/", JSON, work()),
    "too large": ("submit", "POST", "/v1/jobs", JSON, b" " * 400_000),
}


@pytest.fixture
async def keys(owner_engine: AsyncEngine) -> dict[str, dict[str, str]]:
    """The headers of those who ask."""
    return {
        "submit": bearer(await make_key(owner_engine, Role.SUBMIT, scope=RED)),
        "read": bearer(await make_key(owner_engine, Role.READ, scope=RED)),
        "none": {},
    }


def told(answer: httpx.Response) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """All of an answer, but for ids that are new each time."""
    headers = [(name, ID.sub(b"ID", value)) for name, value in answer.headers.raw]
    return answer.status_code, headers, ID.sub(b"ID", answer.content)


async def test_lane_and_router_answer_alike(
    guarded: httpx.AsyncClient, keys: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, refusals and their order included, and the log names the same route."""
    monkeypatch.setattr("api.access_log._tell", lambda scope, *_: routes.append(scope.get("route")))
    routes: list[Any] = []

    async def ask() -> dict[str, Any]:
        answers = {}
        for name, (who, method, path, headers, body) in REQUESTS.items():
            shown = headers | keys[who]
            answers[name] = told(await guarded.request(method, path, headers=shown, content=body))
        return answers

    await guarded.post("/v1/jobs", headers=JSON | keys["submit"], content=work())
    await guarded.post(
        "/v1/jobs", headers=JSON | keys["submit"] | {"Idempotency-Key": "k"}, content=work()
    )
    in_lane, seen = await ask(), [getattr(route, "path", None) for route in routes[2:]]
    routes.clear()

    async def past(self: SubmitLane, *given: Any) -> None:
        await self._app(*given)

    monkeypatch.setattr(SubmitLane, "__call__", past)
    assert in_lane == await ask()
    assert seen == [getattr(route, "path", None) for route in routes]
    assert {status for status, *_ in in_lane.values()} >= {200, 400, 401, 403, 404, 405, 413, 422}


async def test_an_error_that_nobody_knows_is_answered_and_logged_once(
    guarded: httpx.AsyncClient, keys: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is the outermost layer's to answer, in the lane, too."""

    async def broken(*_given: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("api.routes.jobs.submit", broken)
    answer = await guarded.post("/v1/jobs", headers=JSON | keys["submit"], content=work())
    assert (answer.status_code, answer.json()["type"][-14:]) == (500, "internal-error")
    assert answer.headers["x-request-id"]
