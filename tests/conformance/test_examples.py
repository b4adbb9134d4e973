"""Examples of /openapi.json: none is missing, each fits its schema, each request is accepted."""

import copy
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import jsonschema_rs
import pytest

from api.cost_examples import FILE_ID, RUN_ID
from api.document_examples import DOCUMENT_ID
from api.example_bodies import APPROVAL_ID, DEAD_ID, GROUP_ID, JOB_ID
from api.examples import ANSWERS
from api.idempotency_key import HEADER
from api.ledger_examples import ENTRY_ID
from shared.database import open_engine
from tests.conformance.seeded import Seeded, job_in
from tests.factories import execute
from tests.protocol.api.app import note, post
from tests.protocol.api.keys import bearer

Document = dict[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
# A job in this state is what the route is for; any other one is shown a pending job.
REDRIVE = "/v1/jobs/{job_id}/redrive"
REDRIVE_GROUP = "/v1/groups/{group_id}/redrive"
DIFFERENCES = "/v1/cost-runs/{run_id}/differences"
STATE_FOR = {REDRIVE: "dead"}
REOPEN = "/v1/periods/{period}/reopen"
PERIOD = """
    INSERT INTO books.periods AS p (company, period, starts_on, ends_on, status)
    VALUES ('SAMPLE', '2026-01', '2026-01-01', '2026-01-31', :status)
    ON CONFLICT (company, period) DO UPDATE SET status = excluded.status"""


@pytest.fixture(scope="module")
def document(seeded: Seeded) -> Document:
    """As a real api process tells it."""
    headers = {"Authorization": f"Bearer {seeded.key}"}
    described: Document = httpx.get(f"{seeded.url}/openapi.json", headers=headers).json()
    return described


def operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, operation) of every route."""
    for path, found in document["paths"].items():
        for method in METHODS:
            if method in found:
                yield method, path, found[method]


def examples_of(content: dict[str, Any], document: Document) -> list[Any]:
    """Those of a media type, or of the model it refers to."""
    if "example" in content:
        return [content["example"]]
    if "examples" in content:
        return [each["value"] for each in content["examples"].values()]
    schema = content.get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return list(schema.get("examples", ()))


def bodies(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(where, media type, content) of every body that is asked for or answered."""
    for method, path, operation in operations(document):
        where = f"{method.upper()} {path}"
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{where}, request", media, content
        for status, answer in operation["responses"].items():
            for media, content in answer.get("content", {}).items():
                yield f"{where}, {status}", media, content


def strict(document: Document) -> Document:
    """The components as they are, with every member that is not described forbidden."""
    components: Document = copy.deepcopy(document["components"])
    for schema in components["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    # Some problems have members beside those that all have; docs/http.md tells them.
    components["schemas"]["Problem"]["additionalProperties"] = True
    return components


def misfit(value: Any, schema: dict[str, Any], document: Document) -> str | None:
    """Why the value does not fit; None when it does and holds nothing that is not described."""
    whole = {"components": strict(document), **schema}
    error = next(jsonschema_rs.iter_errors(whole, value), None)
    return None if error is None else str(error)


def test_every_route_has_an_example_of_all_it_asks_and_answers(document: Document) -> None:
    """Bodies, parameters that must be there, and every answer that has a body."""
    missing = [
        where for where, _, content in bodies(document) if not examples_of(content, document)
    ]
    missing += [
        f"{method.upper()} {path}, parameter {each['name']}"
        for method, path, operation in operations(document)
        for each in operation.get("parameters", ())
        if each.get("required") and not each.keys() & {"example", "examples"}
    ]
    assert missing == []


def test_every_example_is_of_an_answer_there_is(document: Document) -> None:
    """A route that is renamed takes its examples along."""
    told = {
        (f"{method.upper()} {path}", status)
        for method, path, operation in operations(document)
        for status in operation["responses"]
    }
    assert {(route, status) for route, answers in ANSWERS.items() for status in answers} <= told


def test_every_example_fits_its_schema(document: Document) -> None:
    """With nothing in it that the schema does not tell of."""
    for where, media, content in bodies(document):
        if "json" in media:
            for example in examples_of(content, document):
                assert misfit(example, content["schema"], document) is None, (where, example)


async def test_every_example_of_a_request_is_accepted(seeded: Seeded, document: Document) -> None:
    """By the real api; the answer has the members of its example and none that is not described."""
    engine = open_engine(seeded.database.app_url, pool_size=1, application_name="test app")
    async with seeded.client() as client:
        for method, path, operation in operations(document):
            jobs = {
                JOB_ID: await job_in(client, engine, STATE_FOR.get(path, "pending")),
                DEAD_ID: await job_in(client, engine, "dead"),
            }
            jobs[str(RUN_ID)] = str(seeded.preview if path == DIFFERENCES else seeded.run)
            jobs[FILE_ID] = await sent_file(client) if method == "delete" else seeded.file
            jobs[str(ENTRY_ID)] = str(seeded.entry)
            jobs[str(DOCUMENT_ID)] = str(seeded.document)
            if "/migrations/" in path:
                jobs[JOB_ID] = await migration_in(client, paused=path.endswith("/resume"))
            if path == REDRIVE:
                jobs[APPROVAL_ID] = await approved(client, seeded, jobs[JOB_ID])
            if "group" in path or path == "/v1/jobs":
                jobs[GROUP_ID] = await group_in(client, ended=path == REDRIVE_GROUP)
            if path == REDRIVE_GROUP:
                jobs[APPROVAL_ID] = await approved(
                    client, seeded, jobs[GROUP_ID], action="group.redrive"
                )
            if "{period}" in path:
                await execute(engine, PERIOD, status="closed" if path == REOPEN else "open")
            answer = await send_example(client, method, path, operation, jobs)
            where = f"{method.upper()} {path}: {answer.text}"
            assert answer.is_success, where
            told = operation["responses"][str(answer.status_code)]
            media = answer.headers["content-type"].partition(";")[0]
            content = told["content"][media]
            if media == "application/json":
                assert misfit(answer.json(), content["schema"], document) is None, where
                examples = examples_of(content, document)
                assert answer.json().keys() in [example.keys() for example in examples], where
    await engine.dispose()


async def sent_file(client: httpx.AsyncClient) -> str:
    """A file that a client has sent: only such a one can be taken away."""
    query = {"company": "SAMPLE", "name": "gone.csv"}
    kept = {"Content-Type": "application/octet-stream"}
    sent = await client.post("/v1/files", params=query, content=b"code,name", headers=kept)
    file_id: str = sent.json()["id"]
    return file_id


async def migration_in(client: httpx.AsyncClient, *, paused: bool) -> str:
    """A migration that waits."""
    payload = {
        "task": "movements.backfill",
        "params": {"date_from": "2026-01-01", "date_to": "2026-01-31"},
    }
    made = await post(client, {"kind": "migration.run", "company": "ACME", "payload": payload})
    job_id: str = made.json()["id"]
    if paused:
        await client.post(f"/v1/migrations/{job_id}/pause")
    return job_id


async def group_in(client: httpx.AsyncClient, *, ended: bool) -> str:
    """A new group: open, or ended with a member that was cancelled."""
    opened = await client.post("/v1/groups", json={"company": "SAMPLE"})
    group_id: str = opened.json()["id"]
    if ended:
        url, job = f"/v1/groups/{group_id}", note() | {"company": "SAMPLE", "brand": None}
        appended = await client.post(f"{url}/jobs:batch", json={"jobs": [job]})
        (member,) = appended.json()["jobs"]
        await client.post(f"/v1/jobs/{member['job']['id']}/cancel")
        sealed = await client.post(f"{url}/seal")
        assert sealed.json()["state"] == "ended", sealed.text
    return group_id


async def approved(
    client: httpx.AsyncClient, seeded: Seeded, target: str, *, action: str = "job.redrive"
) -> str:
    """Another account's approval of its redrive."""
    body = {"action": action, "target": target}
    given = await client.post("/v1/approvals", json=body, headers=bearer(seeded.approver))
    return str(given.json()["id"])


async def send_example(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    operation: dict[str, Any],
    jobs: dict[str, str],
) -> httpx.Response:
    """The request as its examples have it, about jobs that are there."""
    query, headers = {}, {}
    for each in operation.get("parameters", ()):
        match each["in"]:
            case "path":
                path = path.replace(f"{{{each['name']}}}", str(each["example"]))
            case "query" if "example" in each:
                query[each["name"]] = each["example"]
            case "header" if each["name"] == HEADER:
                headers[HEADER] = f'"{uuid4()}"'  # two routes with one example would be one key
            case "header" if "example" in each:
                headers[each["name"]] = each["example"]
    content = ""
    if "requestBody" in operation:
        ((media, described),) = operation["requestBody"]["content"].items()
        headers["Content-Type"], example = media, described["example"]
        content = json.dumps(example) if media == "application/json" else example
    for told, real in jobs.items():
        path, content = path.replace(told, real), content.replace(told, real)
        query = {name: real if value == told else value for name, value in query.items()}
    request = client.build_request(method, path, params=query, headers=headers, content=content)
    return await sent(client, request)


async def sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The answer; of one that does not end only the beginning."""
    answer = await client.send(request, stream=True)
    if answer.headers["content-type"].startswith("text/event-stream"):
        answer._content = await anext(answer.aiter_bytes())
    else:
        await answer.aread()
    await answer.aclose()
    return answer
