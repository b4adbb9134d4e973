"""POST of an export: one job, of the brand that it is for, and only of rows that are there."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role, Scope
from tests.cost_run_rows import seed_places, sold, supersede, write_run
from tests.factories import fetch, scalar
from tests.protocol.api.app import post, problem_of, serving
from tests.protocol.api.keys import ACME, RED, bearer, make_key

JSON = {"Content-Type": "application/json"}
RESULTS = {"table": "results", "format": "csv"}
JOBS = """
    SELECT j.kind, j.company, j.brand, j.principal, p.payload
      FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id ORDER BY j.id"""


@pytest.fixture
async def books(owner_engine: AsyncEngine, company: str) -> AsyncEngine:
    """Owner's engine, on the books of ACME."""
    assert company == "ACME"
    await seed_places(owner_engine)
    return owner_engine


async def ask(
    client: httpx.AsyncClient, run: int, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    """Ask for the results as CSV, or what else `body` says."""
    content = json.dumps(RESULTS | body)
    url = f"/v1/cost-runs/{run}/exports"
    return await client.post(url, content=content, headers=JSON | (headers or {}))


async def test_an_export_is_one_job_while_it_is_active(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """202 with it, 200 the second time; another table, format or digits is another one."""
    run = await write_run(books, [sold("RED", "R1")])
    first = await ask(client, run)
    assert first.status_code == 202
    assert first.headers["location"] == first.json()["status_url"]
    again = await ask(client, run)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert (again.json()["created"], again.json()["duplicate"]) == (False, "joined")
    others: list[dict[str, Any]] = [
        {"table": "errors"},
        {"format": "xlsx"},
        {"digits": 6},
        {"bom": True},
        {"brand": "RED"},
    ]
    ids = {(await ask(client, run, **other)).json()["id"] for other in others}
    assert len(ids | {first.json()["id"]}) == len(others) + 1
    rows = await fetch(books, JOBS)
    assert (rows[0].kind, rows[0].company, rows[0].brand) == ("costing.export", "ACME", None)
    assert rows[0].payload == {**RESULTS, "run_id": run, "digits": 2, "bom": False}
    # A mark is of CSV only: with or without it a workbook is the same work.
    marked = await ask(client, run, format="xlsx", bom=True)
    assert marked.status_code == 200


async def test_a_repeat_under_its_key_is_the_same_answer(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Also once the run is gone: the job is there. Another body under it is refused."""
    run = await write_run(books, [sold("RED", "R1")])
    key = {"Idempotency-Key": str(uuid4())}
    first = await ask(client, run, key)
    await supersede(books, run)
    again = await ask(client, run, key)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    problem_of(await ask(client, run, key, digits=3), 422, "idempotency-key-reused")
    problem_of(await ask(client, run), 410, "cost-run-gone")
    assert await scalar(books, "SELECT count(*) FROM chot.jobs") == 1


async def test_only_rows_that_are_there_are_exported(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Each table by the states in which a run has it; what breaks a rule names it."""
    building = await write_run(books, [sold("RED", "R1")], status="building")
    preview = await write_run(books, status="previewed")
    active = await write_run(books, [sold("RED", "R1")])
    problem_of(await ask(client, building), 409, "cost-run-building")
    problem_of(await ask(client, preview), 410, "cost-run-gone")
    problem_of(await ask(client, active, table="differences"), 409, "not-a-preview")
    problem_of(await ask(client, active + 1), 404, "cost-run-not-found")
    for table in ("differences", "errors"):
        assert (await ask(client, preview, table=table)).status_code == 202
    for wrong in (
        {"table": "secrets"},
        {"format": "pdf"},
        {"digits": 7},
        {"digits": "2"},
        {"bom": 1},
        {"colour": "red"},
    ):
        problem_of(await ask(client, active, **wrong), 422, "invalid-request")
    refused = problem_of(await ask(client, active, brand="GREEN"), 422, "unknown-brand")
    assert refused["errors"][0]["field"] == "brand"


async def test_nobody_submits_an_export_another_way(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """A job for a run that is another company's would be one."""
    run = await write_run(books, [sold("RED", "R1")])
    payload = RESULTS | {"run_id": run, "digits": 2, "bom": False}
    body = {"kind": "costing.export", "company": "ACME", "payload": payload}
    refused = problem_of(await post(client, body), 422, "internal-kind")
    assert "/v1/cost-runs/{run_id}/exports" in refused["detail"]


async def test_an_export_is_of_the_brands_of_who_asks(
    settings: ApiSettings, books: AsyncEngine
) -> None:
    """One brand: of that. Several: one is named. All: the whole, or the one that is named."""
    whole = await write_run(books, [sold("RED", "R1"), sold("BLUE", "B1")])
    of_red = await write_run(books, [sold("RED", "R2", "=B")], brand="RED")
    both = Scope(company="ACME", brands=("RED", "BLUE"))
    async with serving(settings.model_copy(update={"api_open": False})) as client:

        async def brand_of(scope: Scope, run: int, **body: Any) -> httpx.Response | str | None:
            key = bearer(await make_key(books, Role.READ, scope=scope))
            answer = await ask(client, run, key, **body)
            if answer.status_code not in {200, 202}:
                return answer
            shown = await client.get(answer.json()["status_url"], headers=key)
            brand: str | None = shown.json()["brand"]
            return brand

        assert await brand_of(ACME, whole) is None
        assert await brand_of(ACME, whole, brand="BLUE") == "BLUE"
        assert await brand_of(RED, whole) == "RED"
        assert await brand_of(both, whole, brand="BLUE") == "BLUE"
        assert await brand_of(ACME, of_red) == "RED"
        assert await brand_of(both, of_red) == "RED"
        for scope, run, body, slug in (
            (RED, whole, {"brand": "BLUE"}, "unknown-brand"),
            (both, whole, {}, "invalid-request"),
            (ACME, of_red, {"brand": "BLUE"}, "invalid-request"),
        ):
            refused = await brand_of(scope, run, **body)
            assert isinstance(refused, httpx.Response)
            problem_of(refused, 422, slug)


async def test_who_has_lost_a_brand_gets_no_stored_answer_either(
    settings: ApiSettings, books: AsyncEngine
) -> None:
    """As with a submit: rights come before the key."""
    run = await write_run(books, [sold("RED", "R1"), sold("BLUE", "B1")])
    both = Scope(company="ACME", brands=("RED", "BLUE"))
    key = {"Idempotency-Key": str(uuid4())}
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        before = bearer(await make_key(books, Role.READ, scope=both))
        assert (await ask(client, run, before | key, brand="BLUE")).status_code == 202
        after = bearer(await make_key(books, Role.READ, scope=RED))
        problem_of(await ask(client, run, after | key, brand="BLUE"), 422, "unknown-brand")
