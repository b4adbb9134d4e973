"""The operator's page: what was buried, shown safely, and the way back one by one."""

import base64
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.dead_letters import DeadLetters, RedriveReport
from api.settings import ApiSettings
from shared.jobs.dead_letters import store_dead_message
from tests.factories import fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.test_outages import through
from tests.protocol.api.test_read_and_act import bury, made
from tests.protocol.api.wire import wire_to
from tests.services import Database


async def redrive(client: httpx.AsyncClient, body: Any) -> httpx.Response:
    """POST a redrive of several."""
    headers = {"Content-Type": "application/json"}
    return await client.post("/v1/dead-letters/redrive", content=json.dumps(body), headers=headers)


async def buried(engine: AsyncEngine, name: str, body: bytes) -> None:
    """A dead message with this body."""
    async with engine.begin() as conn:
        assert await store_dead_message(
            conn,
            queue="default",
            message_id=name,
            body=body,
            attributes='{"ApproximateReceiveCount": "3"}',
            reason="body is no JSON",
            receive_count=3,
        )


async def test_dead_jobs_and_dead_messages_stand_on_one_page(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Text is shown as text, everything else as base64, and long bodies are cut."""
    job_id = await bury(client, engine)
    await buried(engine, "text", "không phải của ta\x00".encode())
    await buried(engine, "bytes", b"\xff\xfe\x00")
    await buried(engine, "long", "ố".encode() * 10_000)
    page = (await client.get("/v1/dead-letters")).json()
    DeadLetters.model_validate(page, extra="forbid")
    assert [(job["id"], job["error"]) for job in page["jobs"]] == [(job_id, {"message": "boom"})]
    long, raw, said = page["messages"]
    assert (said["body"], said["body_encoding"]) == ("không phải của ta\x00", "text")
    assert (base64.b64decode(raw["body"]), raw["body_encoding"]) == (b"\xff\xfe\x00", "base64")
    assert (long["body_bytes"], set(long["body"])) == (30_000, {"ố"})
    assert len(long["body"].encode()) <= 4096
    assert page["next_cursor"] is None


async def test_an_error_is_the_same_wherever_it_is_shown(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Integers that a browser would round are texts here, too."""
    job_id = await bury(client, engine)
    error = json.dumps({"message": "boom", "details": {"amount": 2**53 + 1}})
    change = "UPDATE chot.job_outputs SET error = CAST(:error AS jsonb) WHERE job_id = :id"
    async with engine.begin() as conn:
        await conn.execute(text(change), {"error": error, "id": job_id})
    (letter,) = (await client.get("/v1/dead-letters")).json()["jobs"]
    assert letter["error"] == (await client.get(f"/v1/jobs/{job_id}")).json()["error"]
    assert letter["error"]["details"] == {"amount": "9007199254740993"}


async def test_the_page_goes_on_where_it_ended(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """One cursor for both lists, also when one of them has ended."""
    jobs = [await bury(client, engine) for _ in range(3)]
    await buried(engine, "one", b"1")
    first = (await client.get("/v1/dead-letters?limit=2")).json()
    assert [job["id"] for job in first["jobs"]] == [jobs[2], jobs[1]]
    assert len(first["messages"]) == 1
    url = f"/v1/dead-letters?limit=2&cursor={first['next_cursor']}"
    second = (await client.get(url)).json()
    assert [job["id"] for job in second["jobs"]] == [jobs[0]]
    assert (second["messages"], second["next_cursor"]) == ([], None)
    problem_of(await client.get("/v1/dead-letters?cursor=MXxhfGI"), 422, "invalid-request")


async def test_each_job_of_a_redrive_has_its_own_outcome(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """⚑ A twin that is active again blocks only itself, and is named."""
    body = note()
    twin_of = await bury(client, engine, **body)
    twin = (await post(client, body)).json()["id"]
    free, alive, unknown = await bury(client, engine), await made(client), str(uuid4())
    answer = await redrive(client, {"ids": [twin_of, free, alive, unknown, free]})
    report = answer.json()
    RedriveReport.model_validate(report, extra="forbid")
    assert [item["id"] for item in report["redriven"]] == [free]
    reasons = {item["id"]: item["reason"] for item in report["refused"]}
    assert reasons == {twin_of: "twin-active", alive: "not-dead", unknown: "job-not-found"}
    assert report["refused"][0]["twin"]["id"] == twin
    states = await fetch(engine, "SELECT id, state FROM chot.jobs")
    by_id = {str(row.id): row.state for row in states}
    assert (by_id[twin_of], by_id[free]) == ("dead", "pending")


async def test_a_row_that_is_held_stops_no_other_redrive(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Row by row: the held one is refused as busy, the rest is redriven and told."""
    held, free = await bury(client, engine), await bury(client, engine)
    async with engine.begin() as holder:
        await holder.execute(
            text("SELECT FROM chot.jobs WHERE id = :id FOR NO KEY UPDATE"), {"id": held}
        )
        report = (await redrive(client, {"ids": [held, free]})).json()
    assert [(item["id"], item["reason"]) for item in report["refused"]] == [(held, "busy")]
    assert [item["id"] for item in report["redriven"]] == [free]


@pytest.mark.parametrize("by", ["ids", "all"])
async def test_an_outage_half_way_still_tells_what_was_redriven(
    settings: ApiSettings, database: Database, engine: AsyncEngine, by: str
) -> None:
    """Whoever asked learns which are pending again, which is in doubt, and how to go on."""
    async with wire_to(database.app_url) as wire, serving(through(settings, wire.url)) as client:
        jobs = [await bury(client, engine) for _ in range(3)]
        newest, middle, oldest = reversed(jobs)
        wire.lose, wire.spared = "request", 1
        which = {"ids": [newest, middle, oldest]} if by == "ids" else {"all": True}
        report = (await redrive(client, which)).json()
        RedriveReport.model_validate(report, extra="forbid")
        assert [item["id"] for item in report["redriven"]] == [newest]
        refused = [(item["id"], item["reason"]) for item in report["refused"]]
        assert refused[0] == (middle, "database-unavailable")
        assert [each for each, _ in refused[1:]] == ([oldest] if by == "ids" else [])
        if by == "all":
            rest = {"all": True, "cursor": report["next_cursor"]}
            again = (await redrive(client, rest)).json()
            assert [item["id"] for item in again["redriven"]] == [oldest]


async def test_a_redrive_takes_a_kind_or_everything(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Every page of matching jobs, not only the first."""
    merge = await bury(client, engine, kind="api.merge")
    notes = [await bury(client, engine) for _ in range(3)]
    report = (await redrive(client, {"kind": "api.merge"})).json()
    assert [item["id"] for item in report["redriven"]] == [merge]
    report = (await redrive(client, {"all": True})).json()
    assert {item["id"] for item in report["redriven"]} == set(notes)
    assert (report["refused"], report["next_cursor"]) == ([], None)
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'dead'") == 0


async def test_a_redrive_says_exactly_what_it_means(client: httpx.AsyncClient) -> None:
    """None, two, or a cursor beside ids are refused."""
    refused: tuple[dict[str, Any], ...] = (
        {},
        {"all": False},
        {"all": 1},
        {"all": 1.0},
        {"all": "true"},
        {"ids": []},
        {"ids": ["x"]},
        {"ids": [1]},
        {"all": True, "kind": "api.note"},
        {"ids": [str(uuid4())], "cursor": "x"},
        {"everything": True},
        {"kind": "a'b"},
    )
    for wrong in refused:
        problem_of(await redrive(client, wrong), 422, "invalid-request")


async def test_a_locked_job_is_answered_with_a_time_to_come_again(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The wait for a row is bounded; nothing is left half done."""
    job_id = await bury(client, engine)
    async with engine.connect() as holder:
        await holder.execute(text("SELECT id FROM chot.jobs FOR NO KEY UPDATE"))
        answer = await client.post(f"/v1/jobs/{job_id}/redrive")
        problem_of(answer, 503, "busy")
        assert answer.headers["retry-after"] == "1"
        await holder.rollback()
    assert (await client.post(f"/v1/jobs/{job_id}/redrive")).status_code == 202
