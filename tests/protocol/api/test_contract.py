"""What holds for every route: the token, the form of errors, the description of it all."""

import json
import re
from typing import Any

import httpx
import pytest
import structlog

from api.app import create_app
from api.bodies import SubmitBody
from api.problems import PROBLEMS
from api.rights import ANYBODY, RULES
from api.routes.docs import render_page
from api.settings import ApiSettings
from tests.protocol.api.app import client_of, note, post, problem_of, serving, until_ready
from tests.services import ROOT

SLUG = re.compile(r"`([a-z-]+)`")
ROUTELESS = {"bad-request", "not-found", "method-not-allowed"}  # no route answers with these
TOKEN = "a-token-for-tests"  # noqa: S105 - of a test


def guarded_by(settings: ApiSettings, **changed: Any) -> ApiSettings:
    """The same settings, no longer open to whoever asks."""
    closed = {"api_open": False} | changed
    return ApiSettings.model_validate(settings.model_dump() | closed)


async def test_a_token_guards_everything_but_health(settings: ApiSettings) -> None:
    """401 with a challenge, also for what is not there; the right token passes."""
    guarded = guarded_by(settings, token=TOKEN)
    async with serving(guarded) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": TOKEN},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": "Bearer"},
            {"Authorization": f"Bearer chot_{'0' * 12}_{'A' * 43}"},
            {"Host": "api.test/healthz?"},
            {"Host": "api.test/healthz#"},
        ):
            for path in ("/v1/jobs", "/docs", "/openapi.json", "/nowhere", "/healthz/"):
                refused = await client.get(path, headers=headers)
                problem_of(refused, 401, "unauthorized")
                assert refused.headers["www-authenticate"].startswith("Bearer")
            problem_of(await post(client, b"{", key='"', headers=headers), 401, "unauthorized")
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200
        known = {"Authorization": f"bearer {TOKEN}"}
        assert (await post(client, note(), headers=known)).status_code == 202
        assert (await client.get("/docs", headers=known)).status_code == 200


async def test_the_description_may_be_open_to_a_browser(settings: ApiSettings) -> None:
    """CHOT_DOCS_PUBLIC opens these two and nothing else; the page loads nothing, runs nothing."""
    opened = guarded_by(settings, token=TOKEN, docs_public=True)
    async with serving(opened) as client:
        page = await client.get("/docs")
        described = (await client.get("/openapi.json")).json()
        for path in ("/v1/jobs", "/docs/", "/redoc"):
            problem_of(await client.get(path), 401, "unauthorized")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for path, operations in described["paths"].items():
        for method in operations:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    assert page.text.count("<h3>Example of a 20") >= len(described["paths"])
    assert "<script" not in page.text
    assert "src=" not in page.text
    assert "http://" not in page.text


def test_a_page_of_hostile_texts_stays_a_page() -> None:
    """Whatever a description holds is text."""
    hostile = "<script>alert(1)</script>\"'"
    described = {
        "info": {"title": hostile, "description": hostile},
        "paths": {
            f"/{hostile}": {
                "get": {
                    "description": hostile,
                    "responses": {
                        "200": {"description": hostile, "content": {"a/b": {"example": [hostile]}}}
                    },
                }
            }
        },
        "components": {"schemas": {hostile: {"type": hostile}}},
    }
    assert "<script" not in render_page(described)


async def test_an_error_of_ours_is_told_without_its_insides(
    settings: ApiSettings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27, C42: 500 as a problem; the log has the traceback, but no local variable of it."""
    app = create_app(settings)
    monkeypatch.setattr("api.rights.RULES", {**RULES, ("GET", "/boom"): ANYBODY})

    @app.get("/boom")
    async def boom() -> None:
        secret = {"note": "a secret local"}
        raise LookupError(len(secret))

    async with app.router.lifespan_context(app), client_of(app) as client:
        await until_ready(client)
        with structlog.testing.capture_logs() as lines:
            problem = problem_of(await client.get("/boom"), 500, "internal-error")
    failed = next(line for line in lines if line["event"] == "request.failed")
    request = next(line for line in lines if line["event"] == "http.request")
    assert problem["instance"] == f"urn:uuid:{failed['request_id']}"
    assert (request["status"], request["problem"]) == (500, "internal-error")
    assert request["request_id"] == failed["request_id"]
    assert "secret local" not in json.dumps(problem) + capsys.readouterr().err


async def test_every_answer_carries_the_id_of_its_log_line(client: httpx.AsyncClient) -> None:
    """So that a client can say which request it means."""
    with structlog.testing.capture_logs() as lines:
        answer = await client.get("/v1/jobs")
    line = next(line for line in lines if line["event"] == "http.request")
    assert answer.headers["x-request-id"] == line["request_id"]
    assert (line["route"], line["status"], line["principal"]) == ("/v1/jobs", 200, "api")


async def test_the_description_names_every_route(client: httpx.AsyncClient) -> None:
    """/openapi.json is complete enough to write a client by."""
    described = (await client.get("/openapi.json")).json()
    paths: dict[str, Any] = described["paths"]
    assert set(paths) == {
        "/metrics",
        "/v1/jobs",
        "/v1/jobs/{job_id}",
        "/v1/jobs/{job_id}/cancel",
        "/v1/jobs/{job_id}/outcomes",
        "/v1/jobs/{job_id}/redrive",
        "/v1/dead-letters",
        "/v1/dead-letters/causes",
        "/v1/dead-letters/redrive",
        "/v1/queues",
        "/v1/queues/{queue}/pause",
        "/v1/queues/{queue}/resume",
        "/v1/queues/{queue}/weights",
        "/v1/kinds",
        "/v1/kinds/{kind}/pause",
        "/v1/kinds/{kind}/resume",
        "/v1/cost-runs",
        "/v1/cost-runs/{run_id}",
        "/v1/cost-runs/{run_id}/results",
        "/v1/cost-runs/{run_id}/errors",
        "/v1/cost-runs/{run_id}/differences",
        "/v1/cost-runs/{run_id}/exports",
        "/v1/costs",
        "/v1/costing-methods",
        "/v1/documents:batch",
        "/v1/documents",
        "/v1/documents/{document_id}",
        "/v1/documents/{document_id}/void",
        "/v1/ledger/chart",
        "/v1/ledger/control",
        "/v1/ledger/accounts",
        "/v1/ledger/roles",
        "/v1/ledger/rules",
        "/v1/ledger/entries",
        "/v1/ledger/entries/{entry_id}",
        "/v1/ledger/entries/{entry_id}/chain",
        "/v1/ledger/trial-balance",
        "/v1/ledger/general-ledger",
        "/v1/ledger/journal",
        "/v1/ledger/exports",
        "/v1/files",
        "/v1/files/{file_id}",
        "/v1/freezes",
        "/v1/books/freeze",
        "/v1/books/thaw",
        "/v1/periods",
        "/v1/periods/{period}",
        "/v1/periods/{period}/close",
        "/v1/periods/{period}/reopen",
        "/v1/migrations",
        "/v1/migrations/{job_id}",
        "/v1/migrations/{job_id}/rejects",
        "/v1/migrations/{job_id}/pause",
        "/v1/migrations/{job_id}/resume",
        "/v1/limits",
        "/v1/workers",
        "/healthz",
        "/readyz",
        "/v1/alerts",
        "/v1/alerts/silence",
        "/v1/approvals",
        "/v1/audit",
        "/v1/jobs:batch",
        "/v1/groups",
        "/v1/groups/{group_id}",
        "/v1/groups/{group_id}/jobs:batch",
        "/v1/groups/{group_id}/seal",
        "/v1/groups/{group_id}/cancel",
        "/v1/groups/{group_id}/redrive",
        "/v1/jobs/{job_id}/events",
        "/v1/jobs/{job_id}/why",
    }
    submit = paths["/v1/jobs"]["post"]
    assert {"200", "202"} <= set(submit["responses"])
    assert submit["parameters"][0]["name"] == "Idempotency-Key"
    assert "72 hours" in submit["parameters"][0]["description"]
    schema = submit["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["required"]) == {"kind", "company", "payload"}
    assert set(paths["/v1/jobs/{job_id}"]["get"]["responses"]) >= {"200", "304"}
    assert paths["/v1/jobs"]["get"]["parameters"][-1]["schema"]["maximum"] == 200


async def test_the_description_tells_how_errors_look(client: httpx.AsyncClient) -> None:
    """A generated client reads problem+json, whose type and status are those of the table."""
    text = (await client.get("/openapi.json")).text
    described = json.loads(text)
    assert "HTTPValidationError" not in text
    told = set()
    for path, operations in described["paths"].items():
        for operation in operations.values() if path.startswith("/v1") else ():
            assert {"401", "422", "500", "503"} <= set(operation["responses"])
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    ((media, content),) = answer["content"].items()
                    assert media == "application/problem+json"
                    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
                    told |= {(slug, int(status)) for slug in SLUG.findall(answer["description"])}
                    assert content["examples"].keys() == set(SLUG.findall(answer["description"]))
    table = {(slug, status) for slug, (status, _) in PROBLEMS.items()}
    assert told == {each for each in table if each[0] not in ROUTELESS}
    example = described["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert SubmitBody.model_validate(example["example"]).company == "SAMPLE"


def test_every_problem_is_documented() -> None:
    """docs/http.md and the table say the same, with the same status."""
    page = (ROOT / "docs" / "http.md").read_text()
    for slug, (status, title) in PROBLEMS.items():
        assert f"| `{slug}` | {status} | {title} |" in page, slug
