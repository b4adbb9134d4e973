"""A chart over HTTP: adopted, changed, refused; every change in the audit with who made it."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.cli.problems import sentence_of
from tests.cost_run_rows import seed_places
from tests.factories import execute, fetch
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, RED, SEED_OTHER, bearer, make_key

PATH = "/v1/ledger"
ADVERTS: dict[str, Any] = {
    "company": "ACME",
    "code": "64181",
    "name": "Adverts",
    "kind": "expense",
}
LINES: list[dict[str, Any]] = [
    {"per": "document", "side": "debit", "role": "receivable", "amount": "gross"},
    {"per": "line", "side": "credit", "role": "revenue", "amount": "net"},
    {"per": "document", "side": "credit", "role": "vat_out", "amount": "vat"},
]
RULE: dict[str, Any] = {
    "company": "ACME",
    "type": "sale",
    "valid_from": "2026-02-01",
    "lines": LINES,
}


@pytest.fixture
async def owner(owner_engine: AsyncEngine, company: str) -> AsyncEngine:
    """Owner's engine, on the books of ACME and OTHER."""
    assert company == "ACME"
    await execute(owner_engine, SEED_OTHER)
    await seed_places(owner_engine)
    return owner_engine


@pytest.fixture
async def client(settings: ApiSettings, owner: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the head accountant, who reads and operates ACME, which has adopted TT200."""
    key = await make_key(owner, Role.OPERATE, Role.READ, scope=ACME, principal="head-accountant")
    async with serving(settings.model_copy(update={"api_open": False})) as http:
        http.headers.update(bearer(key))
        chart = {"company": "ACME", "template": "TT200"}
        adopted = await http.post(f"{PATH}/chart", json=chart)
        assert adopted.status_code == 200, adopted.text
        assert adopted.json()["added"] > 200
        yield http


async def _acts(owner: AsyncEngine) -> list[Any]:
    query = """SELECT target, company, principal, facts FROM chot.audit
                WHERE action = 'ledger.chart' ORDER BY id"""
    return await fetch(owner, query)


async def test_a_template_is_adopted_once_and_audited(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    """Again adds nothing and leaves no row; an unknown one is refused with the names there are."""
    again = await client.post(f"{PATH}/chart", json={"company": "ACME", "template": "TT200"})
    assert again.json()["added"] == 0
    (act,) = await _acts(owner)
    assert (act.target, act.company, act.principal) == ("TT200", "ACME", "head-accountant")
    refused = await client.post(f"{PATH}/chart", json={"company": "ACME", "template": "TT1"})
    problem = problem_of(refused, 422, "invalid-request")
    assert problem["errors"][0]["rule"] == "must be one of TT200, TT99"


async def test_an_account_is_added_changed_and_left(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    """Each once in the audit, with what it was before."""
    outcomes = []
    for body in (ADVERTS, ADVERTS, ADVERTS | {"name": "Ads", "needs_store": True}):
        answer = await client.put(f"{PATH}/accounts", json=body)
        outcomes.append(answer.json()["outcome"])
    assert outcomes == ["added", "unchanged", "changed"]
    _, added, changed = await _acts(owner)
    assert added.facts == {"added": "expense"}
    assert changed.facts == {"name": ["Adverts", "Ads"], "needs_store": [False, True]}
    found = await client.get(f"{PATH}/accounts?company=ACME&below=6418")
    assert [each["code"] for each in found.json()["accounts"]] == ["6418", "64181"]


async def test_accounts_page_by_code(client: httpx.AsyncClient) -> None:
    """All of a template in pages of 100."""
    codes, cursor = [], ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = (await client.get(f"{PATH}/accounts?company=ACME&limit=100{more}")).json()
        codes += [each["code"] for each in page["accounts"]]
        cursor = page["next_cursor"]
    assert len(codes) > 200
    assert codes == sorted(set(codes))


BAD_ACCOUNTS: list[tuple[dict[str, Any], int, str]] = [
    ({"code": "1111", "kind": "expense"}, 409, "chart-refused"),
    ({"code": "12 3"}, 422, "invalid-request"),
    ({"is_stock": True}, 422, "invalid-request"),
    ({"active_from": "2026-02-01", "active_to": "2026-01-01"}, 422, "invalid-request"),
    ({"company": "OTHER"}, 422, "unknown-company"),
]


async def test_an_account_that_cannot_be_is_refused(client: httpx.AsyncClient) -> None:
    """Of another kind than it is; stock without the dimensions that it is held to; days reversed."""
    for more, status, slug in BAD_ACCOUNTS:
        answer = await client.put(f"{PATH}/accounts", json=ADVERTS | more)
        problem_of(answer, status, slug)
    answer = await client.put(f"{PATH}/accounts", json=ADVERTS | BAD_ACCOUNTS[0][0])
    kind = problem_of(answer, 409, "chart-refused")
    assert kind["detail"].startswith("kind: is asset and stays so")
    assert sentence_of(409, kind).count("kind: ") == 1


async def test_a_role_moves_to_another_account(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    """One that takes entries; what was posted stays where it is."""
    body = {"company": "ACME", "role": "usage", "account": "6418"}
    moved = (await client.put(f"{PATH}/roles", json=body)).json()
    assert (moved["former"], moved["changed"]) == ("1381", True)
    shown = (await client.get(f"{PATH}/roles?company=ACME")).json()["roles"]
    usage = next(each for each in shown if each["role"] == "usage")
    assert (usage["account"], usage["initial"], usage["own"]) == ("6418", "1381", True)
    assert (await _acts(owner))[-1].facts == {"account": ["1381", "6418"]}
    parent = await client.put(f"{PATH}/roles", json=body | {"account": "641"})
    assert problem_of(parent, 409, "chart-refused")["code"] == "ACCOUNT_NOT_POSTABLE"
    for more in ({"account": "64999"}, {"role": "nobody"}):
        answer = await client.put(f"{PATH}/roles", json=body | more)
        problem_of(answer, 422, "invalid-request")


async def test_a_rule_is_followed_by_its_next_version(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    """Never from an earlier day; the shared one stands behind."""
    first = await client.post(f"{PATH}/rules", json=RULE)
    assert (first.status_code, first.json()["version"]) == (201, 1)
    second = await client.post(f"{PATH}/rules", json=RULE)
    assert second.json()["version"] == 2
    older = await client.post(f"{PATH}/rules", json=RULE | {"valid_from": "2026-01-31"})
    assert problem_of(older, 409, "chart-refused")["code"] == "RULE_OLDER"
    shown = (await client.get(f"{PATH}/rules?company=ACME&type=sale")).json()["rules"]
    assert [(each["version"], each["shared"]) for each in shown] == [
        (2, False),
        (1, False),
        (1, True),
    ]
    assert [line["role"] for line in shown[0]["lines"]] == ["receivable", "revenue", "vat_out"]
    assert [act.target for act in await _acts(owner)][1:] == ["rule sale", "rule sale"]


BAD_RULES: list[dict[str, Any]] = [
    {"lines": LINES[:2]},
    {"lines": [LINES[0] | {"role": "nobody"}, *LINES[1:]]},
    {"lines": [LINES[0] | {"side": None}, *LINES[1:]]},
    {"lines": [{"per": "document", "amount": "stated"}]},
    {"lines": [LINES[0] | {"role": None}, *LINES[1:]]},
    {"lines": []},
    {"type": "invoice"},
    {"series": "nkc"},
]


async def test_a_rule_that_yields_no_entry_is_refused(client: httpx.AsyncClient) -> None:
    """Debits that are not the credits whatever the amounts; lines of no sort; unknown words."""
    for more in BAD_RULES:
        answer = await client.post(f"{PATH}/rules", json=RULE | more)
        problem_of(answer, 422, "invalid-request")
    assert (await client.get(f"{PATH}/rules?company=ACME&type=sale")).json()["rules"][0]["shared"]


async def test_a_chart_is_changed_by_whoever_has_the_whole_company(
    client: httpx.AsyncClient, owner: AsyncEngine
) -> None:
    """An operator of one brand is refused: all of them share it."""
    key = bearer(await make_key(owner, Role.OPERATE, scope=RED))
    for method, path, body in (
        ("POST", "/chart", {"company": "ACME", "template": "TT99"}),
        ("PUT", "/accounts", ADVERTS),
        ("PUT", "/roles", {"company": "ACME", "role": "usage", "account": "6418"}),
        ("POST", "/rules", RULE),
    ):
        answer = await client.request(method, f"{PATH}{path}", json=body, headers=key)
        problem_of(answer, 403, "forbidden")
