"""Internal kinds: no way to submit makes a job of one, and each refusal says who does."""

import json
from typing import Any

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import ConfigRefused
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds import Kind
from shared.kinds.registry import _refuse_unsound
from tests.factories import execute, scalar
from tests.protocol.api.app import note, problem_of
from tests.protocol.api.kinds import KINDS
from tests.protocol.sessions import driver_session
from tests.services import Database

INNER = {"kind": "api.inner"}
WAYS: dict[str, tuple[str, Any, str]] = {
    "one": ("/v1/jobs", lambda job: job, "kind"),
    "a join": (
        "/v1/groups",
        lambda job: {"company": "ACME", "join": {n: job[n] for n in ("kind", "payload")}},
        "join.kind",
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_submit_of_an_internal_kind_names_the_route_to_use(
    client: httpx.AsyncClient, engine: AsyncEngine, way: str
) -> None:
    path, shape, field = WAYS[way]
    answer = await client.post(path, json=shape(note() | INNER))
    problem = problem_of(answer, 422, "internal-kind")
    (error,) = problem["errors"]
    assert (error["field"], error["value"]) == (field, "api.inner")
    assert "POST /v1/notes/{note}/inner" in error["rule"]
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 0


async def test_items_of_batches_and_groups_are_refused_by_themselves(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The others are made."""
    group = (await client.post("/v1/groups", json={"company": "ACME"})).json()["id"]
    for path in ("/v1/jobs:batch", f"/v1/groups/{group}/jobs:batch"):
        answer = await client.post(path, json={"jobs": [note(), note() | INNER]})
        made, refused = answer.json()["jobs"]
        assert made["outcome"] == "created"
        assert refused["error"]["type"].endswith("/internal-kind")
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE kind = 'api.inner'") == 0


async def test_an_unknown_kind_is_not_told_of_the_internal_ones(client: httpx.AsyncClient) -> None:
    """The list is of what may be submitted."""
    answer = await client.post("/v1/jobs", json=note() | {"kind": "no.such"})
    rule = problem_of(answer, 422, "unknown-kind")["errors"][0]["rule"]
    assert "api.note" in rule
    assert "api.inner" not in rule


async def test_sql_of_another_service_is_refused_and_the_platform_is_not(
    client: httpx.AsyncClient, engine: AsyncEngine, database: Database
) -> None:
    """By each function, in the caller's own login; what it may do besides is as before."""
    assert client is not None
    job = {"kind": "api.inner", "company": "ACME", "payload": {"number": 1}}
    async with driver_session(database.enqueue_url) as connection:
        for call, arguments in (
            ("chot.enqueue('api.inner', 'ACME', NULL, '{\"number\": 1}')", ()),
            ("chot.enqueue_many($1)", (json.dumps([job]),)),
        ):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.execute(f"SELECT {call}", *arguments)
            assert caught.value.sqlstate == "CH001"
            assert "POST /v1/notes/{note}/inner" in str(caught.value)
        other = json.dumps([job | {"kind": "api.note"}])
        assert await connection.fetchval("SELECT created FROM chot.enqueue_many($1)", other)
    async with engine.begin() as conn:
        made = await enqueue(conn, Submit(kind="api.inner", company="ACME", payload={"number": 1}))
    assert made.created


async def test_an_internal_job_is_operated_like_any_other(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Shown, cancelled, and redriven when it is dead."""
    async with engine.begin() as conn:
        job = Submit(kind="api.inner", company="ACME", brand="RED", payload={"number": 1})
        made = await enqueue(conn, job)
    await execute(engine, "UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp()")
    assert (await client.post(f"/v1/jobs/{made.job_id}/redrive")).status_code == 202
    assert (await client.get(f"/v1/jobs/{made.job_id}/why")).status_code == 200
    assert (await client.post(f"/v1/jobs/{made.job_id}/cancel")).json()["state"] == "cancelled"
    listed = {each["name"]: each for each in (await client.get("/v1/kinds")).json()["kinds"]}
    assert (listed["api.inner"]["internal"], listed["api.note"]["internal"]) == (True, False)
    assert listed["api.inner"]["made_by"] == "POST /v1/notes/{note}/inner"


def test_only_an_internal_kind_says_what_makes_it() -> None:
    """Else a reader of the kind would believe that it cannot be submitted."""
    plain = KINDS[0]
    odd = Kind(name="a.b", payload=plain.payload, timeout=plain.timeout, made_by="POST /v1/x")
    with pytest.raises(ConfigRefused, match="only an internal kind"):
        _refuse_unsound("here", odd)
