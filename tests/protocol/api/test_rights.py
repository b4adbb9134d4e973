"""Rights: every route × role × brand."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy.ext.asyncio import AsyncEngine

from api.app import create_app
from api.rights import RULES
from api.settings import ApiSettings
from api.ui.paths import is_page
from shared.access import EVERYTHING, Role
from shared.jobs.enqueue import Submit, enqueue
from shared.uploads import begin_upload, finish_upload
from tests.cost_run_rows import sold, write_file, write_run
from tests.document_books import one, sale
from tests.factories import execute
from tests.ledger_books import write_entry
from tests.protocol.api.app import NUMBERS, client_of, note, post, problem_of, until_ready
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, bearer, make_key
from tests.protocol.api.test_read_and_act import END, run

SCOPES = {"RED": RED, "BLUE": BLUE, "ACME": ACME, "OTHER": OTHER, "all": EVERYTHING}
SEES_RED = {"RED", "ACME", "all"}
# (method, path) → the role it needs; said here once more, so that a slip in the table shows.
NEEDS: Mapping[tuple[str, str], Role | None] = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/docs"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/metrics"): Role.READ,
    ("POST", "/v1/jobs"): Role.SUBMIT,
    ("POST", "/v1/jobs:batch"): Role.SUBMIT,
    ("GET", "/v1/jobs"): Role.READ,
    ("GET", "/v1/jobs/{job_id}"): Role.READ,
    ("GET", "/v1/jobs/{job_id}/events"): Role.READ,
    ("GET", "/v1/jobs/{job_id}/why"): Role.READ,
    ("GET", "/v1/jobs/{job_id}/outcomes"): Role.READ,
    ("POST", "/v1/jobs/{job_id}/cancel"): Role.OPERATE,
    ("POST", "/v1/jobs/{job_id}/redrive"): Role.OPERATE,
    ("POST", "/v1/groups"): Role.SUBMIT,
    ("GET", "/v1/groups/{group_id}"): Role.READ,
    ("POST", "/v1/groups/{group_id}/jobs:batch"): Role.SUBMIT,
    ("POST", "/v1/groups/{group_id}/seal"): Role.SUBMIT,
    ("POST", "/v1/groups/{group_id}/cancel"): Role.OPERATE,
    ("POST", "/v1/groups/{group_id}/redrive"): Role.OPERATE,
    ("GET", "/v1/dead-letters"): Role.OPERATE,
    ("GET", "/v1/dead-letters/causes"): Role.OPERATE,
    ("POST", "/v1/dead-letters/redrive"): Role.OPERATE,
    ("GET", "/v1/queues"): Role.READ,
    ("POST", "/v1/queues/{queue}/pause"): Role.OPERATE,
    ("POST", "/v1/queues/{queue}/resume"): Role.OPERATE,
    ("PUT", "/v1/queues/{queue}/weights"): Role.OPERATE,
    ("GET", "/v1/kinds"): Role.READ,
    ("POST", "/v1/kinds/{kind}/pause"): Role.OPERATE,
    ("POST", "/v1/kinds/{kind}/resume"): Role.OPERATE,
    ("GET", "/v1/cost-runs"): Role.READ,
    ("GET", "/v1/cost-runs/{run_id}"): Role.READ,
    ("GET", "/v1/cost-runs/{run_id}/results"): Role.READ,
    ("GET", "/v1/cost-runs/{run_id}/errors"): Role.READ,
    ("GET", "/v1/cost-runs/{run_id}/differences"): Role.READ,
    ("POST", "/v1/cost-runs/{run_id}/exports"): Role.READ,
    ("GET", "/v1/costs"): Role.READ,
    ("GET", "/v1/costing-methods"): Role.READ,
    ("PUT", "/v1/costing-methods"): Role.OPERATE,
    ("POST", "/v1/ledger/chart"): Role.OPERATE,
    ("GET", "/v1/ledger/accounts"): Role.READ,
    ("PUT", "/v1/ledger/accounts"): Role.OPERATE,
    ("GET", "/v1/ledger/roles"): Role.READ,
    ("PUT", "/v1/ledger/roles"): Role.OPERATE,
    ("GET", "/v1/ledger/rules"): Role.READ,
    ("POST", "/v1/ledger/rules"): Role.OPERATE,
    ("GET", "/v1/ledger/entries"): Role.READ,
    ("GET", "/v1/ledger/entries/{entry_id}"): Role.READ,
    ("GET", "/v1/ledger/entries/{entry_id}/chain"): Role.READ,
    ("GET", "/v1/ledger/trial-balance"): Role.READ,
    ("GET", "/v1/ledger/general-ledger"): Role.READ,
    ("GET", "/v1/ledger/journal"): Role.READ,
    ("GET", "/v1/ledger/control"): Role.READ,
    ("POST", "/v1/ledger/exports"): Role.READ,
    ("POST", "/v1/documents:batch"): Role.SUBMIT,
    ("GET", "/v1/documents"): Role.READ,
    ("GET", "/v1/documents/{document_id}"): Role.READ,
    ("POST", "/v1/documents/{document_id}/void"): Role.OPERATE,
    ("POST", "/v1/files"): Role.SUBMIT,
    ("GET", "/v1/files/{file_id}"): Role.READ,
    ("HEAD", "/v1/files/{file_id}"): Role.READ,
    ("DELETE", "/v1/files/{file_id}"): Role.SUBMIT,
    ("GET", "/v1/freezes"): Role.READ,
    ("POST", "/v1/books/freeze"): Role.OPERATE,
    ("POST", "/v1/books/thaw"): Role.OPERATE,
    ("GET", "/v1/periods"): Role.READ,
    ("GET", "/v1/periods/{period}"): Role.READ,
    ("POST", "/v1/periods/{period}/close"): Role.OPERATE,
    ("POST", "/v1/periods/{period}/reopen"): Role.OPERATE,
    ("GET", "/v1/migrations"): Role.READ,
    ("GET", "/v1/migrations/{job_id}"): Role.READ,
    ("GET", "/v1/migrations/{job_id}/rejects"): Role.READ,
    ("POST", "/v1/migrations/{job_id}/pause"): Role.OPERATE,
    ("POST", "/v1/migrations/{job_id}/resume"): Role.OPERATE,
    ("GET", "/v1/limits"): Role.READ,
    ("PUT", "/v1/limits"): Role.OPERATE,
    ("DELETE", "/v1/limits"): Role.OPERATE,
    ("GET", "/v1/workers"): Role.READ,
    ("GET", "/v1/alerts"): Role.READ,
    ("POST", "/v1/alerts/silence"): Role.OPERATE,
    ("POST", "/v1/approvals"): Role.OPERATE,
    ("GET", "/v1/audit"): Role.ADMIN,
}
OF_ALL_COMPANIES = {
    ("GET", "/metrics"),
    ("GET", "/v1/alerts"),
    ("POST", "/v1/alerts/silence"),
    ("POST", "/v1/queues/{queue}/pause"),
    ("POST", "/v1/queues/{queue}/resume"),
    ("PUT", "/v1/queues/{queue}/weights"),
    ("POST", "/v1/kinds/{kind}/pause"),
    ("POST", "/v1/kinds/{kind}/resume"),
    ("PUT", "/v1/limits"),
    ("DELETE", "/v1/limits"),
}
# Books of ACME: of the whole company, or not at all.
OF_A_COMPANY = {
    ("POST", "/v1/books/freeze"),
    ("POST", "/v1/books/thaw"),
    ("PUT", "/v1/costing-methods"),
    ("POST", "/v1/periods/{period}/close"),
    ("POST", "/v1/periods/{period}/reopen"),
    ("POST", "/v1/ledger/chart"),
    ("PUT", "/v1/ledger/accounts"),
    ("PUT", "/v1/ledger/roles"),
    ("POST", "/v1/ledger/rules"),
}
A_PERIOD, PERIODS = ("GET", "/v1/periods/{period}"), ("GET", "/v1/periods")
HAS_ACME = {"ACME", "all"}
# Results of ACME: a part for each of its brands, none for others.
OF_THE_BOOKS = {
    ("GET", "/v1/cost-runs"),
    ("GET", "/v1/costs"),
    ("GET", "/v1/costing-methods"),
    ("GET", "/v1/documents"),
    *(("GET", f"/v1/ledger/{each}") for each in ("accounts", "roles", "rules", "entries")),
    *(
        ("GET", f"/v1/ledger/{each}")
        for each in ("trial-balance", "general-ledger", "journal", "control")
    ),
}
METHODS = "/v1/costing-methods"
A_JANUARY = "period=2026-01"
QUERIES = {
    METHODS: "item=A",
    "/v1/documents": "type=sale",
    "/v1/ledger/general-ledger": f"{A_JANUARY}&account=1111",
    **{f"/v1/ledger/{each}": "" for each in ("accounts", "roles", "rules", "entries")},
}
EXPORTS = ("POST", "/v1/ledger/exports")
DOCUMENTS = ("POST", "/v1/documents:batch")
NOT_FOUND = {
    "/v1/migrations/": "migration-not-found",
    "{group_id}": "group-not-found",
    "{run_id}": "cost-run-not-found",
    "{file_id}": "file-not-found",
    "{entry_id}": "entry-not-found",
    "{document_id}": "document-not-found",
}
# A job's, though its path does not say so.
SEND = ("POST", "/v1/files")
OF_A_JOB = {("POST", "/v1/jobs"), ("POST", "/v1/groups"), ("POST", "/v1/approvals"), SEND}
JSON = {"Content-Type": "application/json"}


def routes_of(settings: ApiSettings) -> list[tuple[str, str]]:
    """Every method and path of the API. Pages have sessions: tests/pages/test_safety.py."""
    return sorted(
        (method, str(route.path))
        for route in iter_route_contexts(create_app(settings).routes)
        for method in route.methods or ()
        if not is_page(str(route.path))
        if method != "HEAD" or ("HEAD", str(route.path)) in RULES
    )


async def dead_red_job(client: httpx.AsyncClient, engine: AsyncEngine, owner: str) -> str:
    """A job of ACME's brand RED that died, as a holder of `owner` submitted it."""
    made = await post(client, note(), headers=bearer(owner))
    job_id: str = made.json()["id"]
    await run(engine, job_id)
    binds = {"state": "dead", "outcome": "failed", "result": None, "error": '{"message": "boom"}'}
    await execute(engine, END, job_id=UUID(job_id), **binds)
    return job_id


async def red_group(client: httpx.AsyncClient, owner: str) -> str:
    """An open group of ACME's brand RED, as a holder of `owner` opened it."""
    body = json.dumps({"company": "ACME", "brand": "RED"})
    made = await client.post("/v1/groups", content=body, headers=JSON | bearer(owner))
    group_id: str = made.json()["id"]
    return group_id


async def red_migration(engine: AsyncEngine) -> str:
    """A migration of ACME's brand RED that nobody has begun."""
    payload = {"task": "none", "params": {"number": next(NUMBERS)}}
    job = Submit(kind="migration.run", company="ACME", brand="RED", payload=payload)
    async with engine.begin() as conn:
        return str((await enqueue(conn, job)).job_id)


async def red_document(engine: AsyncEngine) -> str:
    """A draft of ACME's brand RED."""
    bare: dict[str, Any] = {"lines": [], "total": None, "vat_total": None}
    return str((await one(engine, sale(f"HD-{next(NUMBERS)}", **bare))).document_id)


async def red_results(owner_engine: AsyncEngine) -> dict[str, str]:
    """A run of RED, a preview of it, a file and an entry of RED; by what a path calls them."""
    run = await write_run(owner_engine, [sold("RED", "R1")], brand="RED")
    preview = await write_run(owner_engine, brand="RED", status="previewed")
    file = await write_file(owner_engine, b"a,b\r\n", company="ACME", brand="RED")
    entry = await write_entry(owner_engine)
    return {
        "{run_id}": str(run),
        "{preview}": str(preview),
        "{file_id}": str(file),
        "{entry_id}": str(entry),
        "{upload}": str(await write_upload(owner_engine)),
    }


async def write_upload(owner_engine: AsyncEngine) -> UUID:
    """A file that somebody of RED has sent."""
    async with owner_engine.begin() as conn:
        upload_id, _ = await begin_upload(
            conn, company="ACME", brand="RED", principal="a", name="a", media_type="text/csv"
        )
        await finish_upload(conn, upload_id, size=0, sha256=bytes(32), keep=60)
    return upload_id


async def ask(
    client: httpx.AsyncClient, method: str, path: str, ids: Mapping[str, str], key: str
) -> httpx.Response:
    """A request that would succeed for an admin, on what these ids name."""
    job_id = ids["{job_id}"]
    url = path.replace("{queue}", "default").replace("{kind}", "api.note")
    url = url.replace("{period}", "2026-01")
    if path.endswith("/differences"):
        url = url.replace("{run_id}", ids["{preview}"])
    if path.startswith("/v1/migrations/"):
        url = url.replace("{job_id}", ids["{migration}"])
    for name, known in ids.items():
        url = url.replace(name, known)
    if (method, path) == ("DELETE", "/v1/limits"):
        url += "?kind=api.note"
    elif method == "DELETE":
        url = path.replace("{file_id}", ids["{upload}"])
    if (method, path) == SEND:
        url += "?company=ACME&brand=RED&name=a.csv"
    if (method, path) in OF_THE_BOOKS:
        url += "?company=ACME&" + QUERIES.get(path, A_JANUARY)
    elif (method, path) in {A_PERIOD, PERIODS}:
        url += "?company=ACME"
    body = {
        "/v1/jobs": note(),
        "/v1/jobs:batch": {"jobs": [note()]},
        "/v1/groups": {"company": "ACME", "brand": "RED"},
        "/v1/groups/{group_id}/jobs:batch": {"jobs": [note()]},
        "/v1/dead-letters/redrive": {"ids": [job_id]},
        "/v1/approvals": {"action": "job.redrive", "target": job_id},
        "/v1/queues/{queue}/weights": {
            "weights": [{"company": "ACME", "brand": "RED", "weight": 2}]
        },
        "/v1/cost-runs/{run_id}/exports": {"table": "results", "format": "csv"},
        "/v1/documents:batch": {"company": "ACME", "documents": [sale("HD-0", lines=[])]},
        "/v1/ledger/chart": {"company": "ACME", "template": "TT200"},
        "/v1/ledger/accounts": {
            "company": "ACME",
            "code": "64181",
            "name": "Ads",
            "kind": "expense",
        },
        "/v1/ledger/roles": {"company": "ACME", "role": "usage", "account": "6418"},
        "/v1/ledger/rules": {
            "company": "ACME",
            "type": "manual",
            "valid_from": "2027-01-01",
            "lines": [{"per": "line", "amount": "stated"}],
        },
        "/v1/ledger/exports": {
            "company": "ACME",
            "report": "journal",
            "format": "csv",
            "period": "2026-01",
        },
        "/v1/books/freeze": {"company": "ACME", "brand": "RED"},
        "/v1/books/thaw": {"company": "ACME", "brand": "RED"},
        METHODS: {
            "company": "ACME",
            "item": "A",
            "method": "fifo",
            "valid_from": "2027-01-01",
        },
        "/v1/limits": {"kind": "api.note", "max_running": 1000},
        "/v1/alerts/silence": {"rule": "dead_jobs", "hours": 0},
        "/v1/periods/{period}/close": {"company": "ACME"},
        "/v1/periods/{period}/reopen": {"company": "ACME", "reason": "a test"},
    }.get(path)
    sent = (body is not None and method in {"POST", "PUT"}) or (method, path) == SEND
    content = json.dumps(body) if sent else None
    headers = bearer(key) | (JSON if sent else {})
    return await client.request(method, url, content=content, headers=headers)


def judge(method: str, path: str, answer: httpx.Response, role: Role, scope: str) -> None:
    """Whether this is what such an account may get; the job in question is one of ACME's RED."""
    needs = NEEDS[method, path]
    where = f"{method} {path} as {role} of {scope}"
    lacks = role not in {needs, Role.ADMIN} and needs is not None
    closed = (method, path) in OF_ALL_COMPANIES and scope != "all"
    if method == "HEAD":  # its answers have no body to look into
        status = 403 if lacks else 200 if scope in SEES_RED else 404
        assert answer.status_code == status, where
        return
    of_books = OF_A_COMPANY | OF_THE_BOOKS | {PERIODS, EXPORTS, DOCUMENTS}
    if (method, path) in of_books and not lacks and scope == "OTHER":
        problem_of(answer, 422, "unknown-company")
        return
    if lacks or closed or ((method, path) in OF_A_COMPANY and scope not in HAS_ACME):
        problem = problem_of(answer, 403, "forbidden")
        assert (problem["role"], problem["route"]) == (needs, f"{method} {path}"), where
    elif (method, path) == A_PERIOD and scope == "OTHER":
        problem_of(answer, 404, "period-not-found")
    elif scope in SEES_RED or not ("_id}" in path or (method, path) in OF_A_JOB):
        assert answer.status_code in {200, 201, 202, 409}, (where, answer.text)
    elif (method, path) not in {("POST", "/v1/jobs"), ("POST", "/v1/groups"), SEND}:
        slugs = [slug for name, slug in NOT_FOUND.items() if name in path]
        problem_of(answer, 404, *slugs or ["job-not-found"])
    else:
        slug = "unknown-company" if scope == "OTHER" else "unknown-brand"
        problem_of(answer, 422, slug)


def test_every_route_has_a_rule_and_is_in_the_matrix(settings: ApiSettings) -> None:
    """A new route fails here until somebody says who may use it."""
    routes = routes_of(settings)
    assert len(routes) >= 15
    assert [route for route in routes if route not in RULES] == []
    assert set(routes) <= set(NEEDS)
    assert set(RULES) == set(NEEDS)


@pytest.mark.scenario("F55")
@pytest.mark.parametrize("role", Role)
async def test_every_route_for_every_brand(
    guarded: httpx.AsyncClient,
    settings: ApiSettings,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    role: Role,
) -> None:
    """The matrix, over the application's own route table: foreign jobs are 404, never 403."""
    admin = await make_key(owner_engine, Role.ADMIN)
    for name, scope in SCOPES.items():
        key = await make_key(owner_engine, role, scope=scope)
        ids = {
            "{job_id}": await dead_red_job(guarded, engine, admin),
            "{group_id}": await red_group(guarded, admin),
            "{migration}": await red_migration(engine),
            "{document_id}": await red_document(engine),
            **await red_results(owner_engine),
        }
        for method, path in routes_of(settings):
            judge(method, path, await ask(guarded, method, path, ids, key), role, name)


@pytest.mark.scenario("F55")
async def test_without_a_token_every_route_is_closed(
    guarded: httpx.AsyncClient, settings: ApiSettings
) -> None:
    """401 for every route there is, /docs and /metrics too, and for an address that is none.

    Step: no token, every route of openapi.json plus /docs, /metrics. Health answers a balancer.
    """
    described = create_app(settings).openapi()["paths"]
    listed = {(method.upper(), path) for path, each in described.items() for method in each}
    more = {
        ("HEAD", "/v1/files/{file_id}"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/none"),
    }
    assert listed | more >= set(routes_of(settings))
    for method, path in sorted(listed | more):
        url = path.replace("{job_id}", str(uuid4())).replace("{queue}", "default")
        url = (
            url.replace("{kind}", "api.note").replace("{run_id}", "1").replace("{document_id}", "1")
        )
        url = url.replace("{file_id}", str(uuid4())).replace("{entry_id}", "1")
        url = url.replace("{period}", "2026-01")
        answer = await guarded.request(method, url, content="{}", headers=JSON)
        if path in {"/healthz", "/readyz"}:
            assert answer.status_code == 200
            assert "postgresql" not in answer.text
            continue
        if method == "HEAD":
            assert answer.status_code == 401
            continue
        problem_of(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="chot"'


async def test_a_route_that_nobody_gave_a_rule_is_closed_to_admins_too(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """It fails closed, wherever the route was added."""
    app = create_app(settings.model_copy(update={"api_open": False}))

    @app.get("/v1/new")
    async def new() -> dict[str, str]:
        return {"secret": "told"}

    key = await make_key(owner_engine, Role.ADMIN)
    async with app.router.lifespan_context(app), client_of(app) as client:
        await until_ready(client)
        refused = await client.get("/v1/new", headers=bearer(key))
    assert problem_of(refused, 403, "forbidden")["route"] == "GET /v1/new"
