"""How an item is costed, decided over HTTP: refused within a year, told in the audit."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from tests.cost_run_rows import seed_places
from tests.factories import execute, fetch
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, OTHER, RED, SEED_OTHER, bearer, make_key

PATH = "/v1/costing-methods"
NEW_YEAR: dict[str, Any] = {
    "company": "ACME",
    "item": "A",
    "method": "fifo",
    "valid_from": "2027-01-01",
}


@pytest.fixture
async def owner(owner_engine: AsyncEngine, company: str) -> AsyncEngine:
    """Owner's engine, on the books of ACME and OTHER with two periods of 2026."""
    assert company == "ACME"
    await execute(owner_engine, SEED_OTHER)
    await seed_places(owner_engine)
    return owner_engine


@pytest.fixture
async def client(settings: ApiSettings, owner: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the key of an operator of ACME."""
    key = await make_key(owner, Role.OPERATE, scope=ACME, principal="head-accountant")
    reader = await make_key(owner, Role.READ, scope=ACME, principal="head-accountant")
    async with serving(settings.model_copy(update={"api_open": False})) as http:
        http.headers.update(bearer(key))
        http.headers["x-reader"] = reader
        yield http


async def _decide(client: httpx.AsyncClient, **changed: Any) -> httpx.Response:
    return await client.put(PATH, json=NEW_YEAR | changed)


async def _shown(client: httpx.AsyncClient) -> dict[str, Any]:
    key = client.headers["x-reader"]
    answer = await client.get(f"{PATH}?company=ACME&item=A", headers=bearer(key))
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_a_new_fiscal_year_may_bring_a_new_method(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    answer = await _decide(client)
    assert answer.json() == NEW_YEAR | {"former": "periodic_avg", "changed": True}
    again = await _decide(client)
    assert again.json() == NEW_YEAR | {"former": "fifo", "changed": False}
    shown = await _shown(client)
    assert shown["initial"] == "periodic_avg"
    (decision,) = shown["decisions"]
    assert (decision["method"], decision["decided_by"]) == ("fifo", "head-accountant")
    acts = await fetch(owner, "SELECT * FROM chot.audit WHERE action = 'costing.method'")
    assert [(act.principal, act.company, act.target) for act in acts] == [
        ("head-accountant", "ACME", "A")
    ]
    assert acts[0].facts["former"] == "periodic_avg"


async def test_a_change_within_a_year_is_refused_or_has_its_reason(
    client: httpx.AsyncClient,
) -> None:
    refused = problem_of(
        await _decide(client, valid_from="2026-02-01"), 409, "method-change-refused"
    )
    assert refused["code"] == "METHOD_CHANGE_MID_YEAR"
    problem_of(await _decide(client, mid_year=True), 422, "invalid-request")
    answer = await _decide(
        client, valid_from="2026-02-01", mid_year=True, reason="the auditor asked for it"
    )
    assert answer.json()["changed"]
    assert (await _shown(client))["decisions"][0]["reason"] == "the auditor asked for it"


async def test_a_fiscal_year_starts_where_the_company_says(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    sql = "UPDATE books.companies SET fiscal_year_start_month = 4 WHERE code = 'ACME'"
    await execute(owner, sql)
    problem_of(await _decide(client), 409, "method-change-refused")
    assert (await _decide(client, valid_from="2027-04-01")).json()["changed"]


async def test_a_period_is_costed_by_one_method_and_a_closed_one_stays_as_it_is(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    why = {"mid_year": True, "reason": "a test"}
    refused = problem_of(
        await _decide(client, valid_from="2026-01-15", **why), 409, "method-change-refused"
    )
    assert refused["code"] == "METHOD_NOT_AT_PERIOD_START"
    await execute(owner, "UPDATE books.periods SET status = 'closing' WHERE period = '2026-02'")
    for day in ("2026-01-01", "2026-02-01"):
        refused = problem_of(
            await _decide(client, valid_from=day, **why), 409, "method-change-refused"
        )
        assert refused["code"] == "PERIOD_CLOSED"
    assert (await _decide(client)).json()["changed"], "what comes after it is open"
    assert len((await _shown(client))["decisions"]) == 1


async def test_items_and_companies_of_others_are_not_there(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    problem_of(await _decide(client, item="Z"), 422, "unknown-item")
    problem_of(await _decide(client, company="OTHER"), 422, "unknown-company")
    for scope, status, slug in ((OTHER, 422, "unknown-company"), (RED, 403, "forbidden")):
        key = await make_key(owner, Role.OPERATE, scope=scope)
        answer = await client.put(PATH, json=NEW_YEAR, headers=bearer(key))
        problem_of(answer, status, slug)
    key = await make_key(owner, Role.READ, scope=RED)
    shown = await client.get(f"{PATH}?company=ACME&item=A", headers=bearer(key))
    assert shown.json()["decisions"] == []
