"""The audit over HTTP: who acted, through which key and from where, and who may read it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.api_keys import key_id_of
from tests.factories import execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, RED, SEED_OTHER, bearer, make_key
from tests.protocol.api.test_rights import dead_red_job

JSON = {"Content-Type": "application/json"}
PROXY = "127.0.0.1"  # whom the test's client comes from


@pytest.fixture
async def guarded(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api that trusts what its peer forwards."""
    await execute(owner_engine, SEED_OTHER)
    changed = {"api_open": False, "trusted_proxies": f"{PROXY}/32, 10.0.0.0/8"}
    async with serving(settings.model_copy(update=changed)) as client:
        yield client


async def audited(client: httpx.AsyncClient, key: str, **query: Any) -> list[dict[str, Any]]:
    """One page of the audit as that key sees it."""
    answer = await client.get("/v1/audit", params=query, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    acts: list[dict[str, Any]] = answer.json()["acts"]
    return acts


async def test_every_act_names_account_key_source_and_request(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Submit, cancel, redrive, pause and resume, each with the id that its answer carried."""
    admin = await make_key(owner_engine, Role.ADMIN, principal="ops")
    mine = bearer(admin) | {"X-Forwarded-For": "198.51.100.9, 10.1.2.3"}
    dead = await dead_red_job(guarded, engine, admin)
    secret = "a secret of the payload"  # noqa: S105 - of a test
    live = await post(guarded, note(note=secret), headers=mine)
    job_id = live.json()["id"]
    answers = [live]
    for path in (
        f"/v1/jobs/{job_id}/cancel",
        f"/v1/jobs/{dead}/redrive",
        "/v1/queues/default/pause",
        "/v1/queues/default/resume",
    ):
        answers.append(await guarded.post(path, headers=mine))
        assert answers[-1].status_code in {200, 202}, answers[-1].text
    acts = (await audited(guarded, admin))[:5]
    assert [act["action"] for act in reversed(acts)] == [
        "job.submit",
        "job.cancel",
        "job.redrive",
        "queue.pause",
        "queue.resume",
    ]
    for act, answer in zip(reversed(acts), answers, strict=True):
        assert (act["principal"], act["key_id"]) == ("ops", key_id_of(admin))
        assert act["request_id"] == answer.headers["x-request-id"]
        assert act["source"] == "198.51.100.9"
    assert [act["job_id"] for act in reversed(acts)] == [job_id, job_id, dead, None, None]
    assert acts[0]["target"] == "default"
    said = await scalar(engine, "SELECT string_agg(CAST(a AS text), ' ') FROM chot.audit a")
    assert secret not in said
    assert admin.split("_", 2)[2] not in said


async def test_what_is_refused_replayed_or_repeated_leaves_no_row(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """One act, one row, whatever a client sends again."""
    admin = await make_key(owner_engine, Role.ADMIN)
    body = note()
    first = await post(guarded, body, key="k", headers=bearer(admin))
    again = await post(guarded, body, key="k", headers=bearer(admin))
    assert again.headers["idempotency-replayed"] == "true"
    other = await post(guarded, note(), key="k", headers=bearer(admin))
    problem_of(other, 422, "idempotency-key-reused")
    for wrong in (note() | {"company": "NONE"}, note() | {"max_attempts": 99}, {"kind": "x"}):
        assert (await post(guarded, wrong, headers=bearer(admin))).status_code == 422
    job_id = first.json()["id"]
    not_dead = await guarded.post(f"/v1/jobs/{job_id}/redrive", headers=bearer(admin))
    problem_of(not_dead, 409, "not-dead")
    for _ in range(2):
        cancelled = await guarded.post(f"/v1/jobs/{job_id}/cancel", headers=bearer(admin))
        assert cancelled.status_code == 200
    problem_of(
        await guarded.post("/v1/queues/none/pause", headers=bearer(admin)), 404, "queue-not-found"
    )
    rows = await fetch(
        engine, "SELECT action FROM chot.audit WHERE action LIKE 'job.%' ORDER BY id"
    )
    assert [row.action for row in rows] == ["job.submit", "job.cancel"]


async def test_a_redrive_of_many_leaves_a_row_for_each(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """And none for those that it refused."""
    admin = await make_key(owner_engine, Role.ADMIN)
    dead = [await dead_red_job(guarded, engine, admin) for _ in range(3)]
    live = (await post(guarded, note(), headers=bearer(admin))).json()["id"]
    body = json.dumps({"ids": [*dead, live]})
    report = await guarded.post(
        "/v1/dead-letters/redrive", content=body, headers=bearer(admin) | JSON
    )
    assert len(report.json()["redriven"]) == 3
    acts = await audited(guarded, admin, action="job.redrive")
    assert {act["job_id"] for act in acts} == set(dead)
    assert {act["request_id"] for act in acts} == {report.headers["x-request-id"]}


async def test_an_admin_sees_what_lies_in_its_scope(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Another brand's acts, and those that no company owns, are not there; others may not look."""
    owner = await make_key(owner_engine, Role.ADMIN)
    for changed in ({}, {"brand": "BLUE"}, {"brand": None}, {"company": "OTHER"}):
        made = await post(guarded, note() | changed, headers=bearer(owner))
        assert made.status_code == 202, made.text
    assert (await guarded.post("/v1/queues/default/pause", headers=bearer(owner))).is_success
    for scope, expected in ((RED, {"RED"}), (BLUE, {"BLUE"}), (ACME, {"RED", "BLUE", None})):
        key = await make_key(owner_engine, Role.ADMIN, scope=scope, principal="local")
        acts = await audited(guarded, key)
        assert {act["brand"] for act in acts if act["action"] == "job.submit"} == expected
        assert {act["company"] for act in acts} == {"ACME"}
    assert {act["company"] for act in await audited(guarded, owner)} == {"ACME", "OTHER", None}
    for role in (Role.SUBMIT, Role.READ, Role.OPERATE):
        key = await make_key(owner_engine, role)
        problem = problem_of(await guarded.get("/v1/audit", headers=bearer(key)), 403, "forbidden")
        assert problem["role"] == "admin"


async def test_filters_narrow_and_strange_ones_are_refused(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """By action, account, job, company, brand and time: `from` is in it, `to` is not."""
    admin = await make_key(owner_engine, Role.ADMIN, principal="ops")
    shop = await make_key(owner_engine, Role.SUBMIT, principal="shop")
    job_ids = []
    for key, brand in ((admin, "RED"), (shop, "BLUE"), (shop, "RED")):
        made = await post(guarded, note() | {"brand": brand}, headers=bearer(key))
        job_ids.append(made.json()["id"])
    submits = await audited(guarded, admin, action="job.submit")
    assert [act["job_id"] for act in submits] == job_ids[::-1]

    async def found(**query: Any) -> list[str]:
        acts = await audited(guarded, admin, **({"action": "job.submit"} | query))
        return [act["job_id"] for act in acts]

    assert await found(principal="shop") == [job_ids[2], job_ids[1]]
    assert await found(job_id=job_ids[0]) == [job_ids[0]]
    assert await found(company="ACME", brand="BLUE") == [job_ids[1]]
    assert await found(company="OTHER") == []
    middle = submits[1]["at"]
    assert await found(**{"from": middle}) == [job_ids[2], job_ids[1]]
    assert await found(to=middle) == [job_ids[0]]
    assert {act["action"] for act in await audited(guarded, admin, action="key.create")} == {
        "key.create"
    }
    for query in (
        {"action": "job.none"},
        {"job_id": "x"},
        {"from": "2026-01-01"},
        {"since": middle},
        {"limit": "0"},
        {"cursor": "x"},
        {"principal": "\x00"},
    ):
        answer = await guarded.get("/v1/audit", params=query, headers=bearer(admin))
        problem = problem_of(answer, 422, "invalid-request")
        assert problem["errors"][0]["field"] == next(iter(query))


async def test_paging_stays_right_while_rows_are_written(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """No row twice, none left out; what comes meanwhile is newer than all pages."""
    admin = await make_key(owner_engine, Role.ADMIN)
    for _ in range(7):
        await post(guarded, note(), headers=bearer(admin))
    before = [act["id"] for act in await audited(guarded, admin, limit=200)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = (await guarded.get("/v1/audit", params=query, headers=bearer(admin))).json()
        seen += [act["id"] for act in page["acts"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        await asyncio.gather(*(post(guarded, note(), headers=bearer(admin)) for _ in range(3)))
    assert seen == before


async def test_a_source_is_what_a_proxy_of_ours_has_seen(
    guarded: httpx.AsyncClient, settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """Believed of named proxies only, and only as far as they reach; what was sent along is not."""
    admin = await make_key(owner_engine, Role.ADMIN)

    async def source_of(client: httpx.AsyncClient, forwarded: str) -> str:
        made = await post(client, note(), headers=bearer(admin) | {"X-Forwarded-For": forwarded})
        (act,) = await audited(client, admin, job_id=made.json()["id"])
        said: str = act["source"]
        return said

    assert await source_of(guarded, "203.0.113.5") == "203.0.113.5"
    assert await source_of(guarded, "1.1.1.1, 203.0.113.5, 10.9.9.9") == "203.0.113.5"
    assert await source_of(guarded, "1.1.1.1, nonsense, 10.9.9.9") == "10.9.9.9"
    assert await source_of(guarded, "") == PROXY
    async with serving(settings.model_copy(update={"api_open": False})) as alone:
        assert await source_of(alone, "203.0.113.5") == PROXY
