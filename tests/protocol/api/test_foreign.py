"""What is another's: a foreign job is like none at all, lists and counts have what is in scope."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role, Scope
from tests.factories import execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of
from tests.protocol.api.keys import BLUE, OTHER, RED, bearer, make_key
from tests.protocol.api.test_dead_letters import buried
from tests.protocol.api.test_read_and_act import run
from tests.protocol.api.test_rights import JSON, SCOPES, SEES_RED, dead_red_job


@pytest.mark.scenario("F55")
@pytest.mark.parametrize("scope", [BLUE, OTHER], ids=["brand", "company"])
async def test_a_foreign_job_is_like_none_at_all(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine, scope: Scope
) -> None:
    """Step: tenant 2 GETs, cancels, retries and lists tenant 1's ids. To the byte as unknown ids.

    And nothing of it changes the job.
    """
    admin = await make_key(owner_engine, Role.ADMIN)
    theirs = await dead_red_job(guarded, engine, admin)
    pending = (await post(guarded, note(), headers=bearer(admin))).json()["id"]
    mine = bearer(await make_key(owner_engine, Role.ADMIN, scope=scope))
    for job_id in (theirs, pending):
        for method, path in (
            ("GET", ""),
            ("GET", "?wait=5"),
            ("GET", "/events"),
            ("GET", "/why"),
            ("POST", "/cancel"),
            ("POST", "/redrive"),
        ):
            unknown = str(uuid4())
            told = await guarded.request(method, f"/v1/jobs/{job_id}{path}", headers=mine)
            none = await guarded.request(method, f"/v1/jobs/{unknown}{path}", headers=mine)
            assert _anonymous(told, job_id) == _anonymous(none, unknown)
    report = await redriven(guarded, mine, {"ids": [theirs]})
    assert [item["reason"] for item in report["refused"]] == ["job-not-found"]
    assert await redriven(guarded, mine, {"all": True}) == {
        "redriven": [],
        "refused": [],
        "next_cursor": None,
    }
    states = await fetch(engine, "SELECT state FROM chot.jobs ORDER BY id")
    assert [row.state for row in states] == ["dead", "pending"]


async def redriven(
    client: httpx.AsyncClient, headers: dict[str, str], which: dict[str, Any]
) -> Any:
    """The report of a redrive of several."""
    url = "/v1/dead-letters/redrive"
    return (await client.post(url, content=json.dumps(which), headers=headers | JSON)).json()


def _anonymous(answer: httpx.Response, job_id: str) -> Any:
    problem = problem_of(answer, 404, "job-not-found")
    return {name: str(value).replace(job_id, "ID") for name, value in problem.items()} | {
        "instance": None
    }


@pytest.mark.scenario("F55")
async def test_lists_show_what_is_in_scope_and_count_nothing_else(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Jobs, dead letters, queues and workers of each account; raw messages for an admin of all."""
    admin = await make_key(owner_engine, Role.ADMIN)
    red = await dead_red_job(guarded, engine, admin)
    for body in (note() | {"brand": "BLUE"}, note() | {"brand": None}, note()):
        assert (await post(guarded, body, headers=bearer(admin))).status_code == 202
    running = (await post(guarded, note() | {"company": "OTHER"}, headers=bearer(admin))).json()
    await buried(engine, "raw", b"of nobody")
    await execute(
        engine,
        """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
           VALUES ('w1', 'h', 1, 'v1', '{}', 'working', clock_timestamp())""",
    )
    await run(engine, running["id"])
    expected = {
        "RED": (2, 1, 1, 0),
        "BLUE": (1, 0, 1, 0),
        "ACME": (4, 1, 3, 0),
        "all": (5, 1, 3, 1),
    }
    expected |= {"OTHER": (1, 0, 0, 1)}
    for name, scope in SCOPES.items():
        key = bearer(await make_key(owner_engine, Role.ADMIN, scope=scope))
        assert await counts(guarded, key) == expected[name], name
        dead = (await guarded.get("/v1/dead-letters", headers=key)).json()
        assert [job["id"] for job in dead["jobs"]] == ([red] if name in SEES_RED else [])
        assert len(dead["messages"]) == (name == "all")
    operator = bearer(await make_key(owner_engine, Role.OPERATE))
    assert (await guarded.get("/v1/dead-letters", headers=operator)).json()["messages"] == []


async def counts(client: httpx.AsyncClient, key: dict[str, str]) -> tuple[int, int, int, int]:
    """Jobs in the list; dead and pending in the queue's depth; jobs that workers run."""
    jobs = (await client.get("/v1/jobs", headers=key)).json()["jobs"]
    (queue,) = (
        each
        for each in (await client.get("/v1/queues", headers=key)).json()["queues"]
        if each["name"] == "default"
    )
    (worker,) = (await client.get("/v1/workers", headers=key)).json()["workers"]
    return len(jobs), queue["dead"], queue["pending"], len(worker["running"])


async def test_another_company_cannot_be_told_from_one_that_is_not_there(
    guarded: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A submit for either gets the same words; what is wrong with it anyway comes first."""
    mine = bearer(await make_key(owner_engine, Role.SUBMIT, scope=RED))
    for company, brand, slug in (
        ("{}", "RED", "unknown-company"),
        ("ACME", "{}", "unknown-brand"),
    ):
        there, none = {"unknown-company": ("OTHER", "NONE"), "unknown-brand": ("BLUE", "NONE")}[
            slug
        ]
        told = []
        for code in (there, none):
            body = note() | {"company": company.format(code), "brand": brand.format(code)}
            problem = problem_of(await post(guarded, body, headers=mine), 422, slug)
            told.append(json.dumps(problem["errors"]).replace(code, "CODE"))
            wrong = body | {"payload": {"number": "1"}}
            problem_of(await post(guarded, wrong, headers=mine), 422, "invalid-request")
        assert told[0] == told[1]
    missing = await post(guarded, note() | {"brand": None}, headers=mine)
    problem = problem_of(missing, 422, "invalid-request")
    assert problem["errors"][0]["rule"] == "is missing: this account has some brands only"
    everywhere = bearer(await make_key(owner_engine, Role.SUBMIT))
    body = note() | {"company": "NONE"}
    problem = problem_of(await post(guarded, body, headers=everywhere), 422, "unknown-company")
    assert problem["errors"][0]["rule"] == "is no company that this account may submit for"
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 0


async def test_the_highest_priority_is_an_operators(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Priority 8 is anybody's who may submit."""
    submitter = bearer(await make_key(owner_engine, Role.SUBMIT))
    operator = bearer(await make_key(owner_engine, Role.SUBMIT, Role.OPERATE))
    urgent = note() | {"priority": 9}
    problem = problem_of(await post(guarded, urgent, headers=submitter), 403, "forbidden")
    assert (problem["role"], problem["route"]) == ("operate", "POST /v1/jobs")
    assert (await post(guarded, urgent | {"priority": 8}, headers=submitter)).status_code == 202
    assert (await post(guarded, note() | {"priority": 9}, headers=operator)).status_code == 202
