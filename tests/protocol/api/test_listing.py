"""GET /v1/jobs: every filter, and pages that neither repeat nor skip while everything changes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import EVERYTHING, Role
from shared.jobs.listing import LOOKED_AT, first_id_of
from tests.factories import execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, RED, SEED_OTHER, bearer, make_key
from tests.protocol.api.test_read_and_act import END, run


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """The ids of a list, all its pages, two jobs a page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await client.get("/v1/jobs", params={"limit": 2, **query, **more})
        assert answer.status_code == 200, answer.text
        found += [job["id"] for job in answer.json()["jobs"]]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


async def made(client: httpx.AsyncClient, **fields: Any) -> str:
    """A new job's id."""
    answer = await post(client, note() | fields)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def ended(engine: AsyncEngine, job_id: str, state: str) -> None:
    """Have a job run and end so."""
    await run(engine, job_id)
    if state != "running":
        outcome = {"dead": "failed"}.get(state, state)
        binds = {"state": state, "outcome": outcome, "result": None, "error": None}
        await execute(engine, END, job_id=UUID(job_id), **binds)


async def test_every_filter_narrows_the_list(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """States alone and together, kind, brand; newest first, to the last page."""
    jobs = {
        "pending": await made(client),
        "running": await made(client),
        "dead": await made(client, brand="BLUE"),
        "cancelled": await made(client),
        "succeeded": await made(client, kind="api.merge"),
    }
    for state, job_id in jobs.items():
        if state != "pending":
            await ended(engine, job_id, state)
    everything = list(reversed(jobs.values()))
    assert await listed(client) == everything
    for state, job_id in jobs.items():
        assert await listed(client, state=state) == [job_id]
    for states in (("dead", "running"), ("cancelled", "dead", "running"), ("pending", "dead")):
        expected = [job_id for job_id in everything if job_id in {jobs[s] for s in states}]
        assert await listed(client, state=",".join(states)) == expected
        assert await listed(client, state=",".join(reversed(states)), kind="api.merge") == []
    assert await listed(client, kind="api.merge") == [jobs["succeeded"]]
    assert await listed(client, brand="BLUE") == [jobs["dead"]]
    assert await listed(client, company="ACME", brand="BLUE", state="dead") == [jobs["dead"]]


async def test_a_list_by_account(settings: ApiSettings, owner_engine: AsyncEngine) -> None:
    """Who submitted it; nobody's jobs are an empty list."""
    keys = {
        name: bearer(await make_key(owner_engine, Role.SUBMIT, principal=name))
        for name in ("an", "binh")
    }
    reader = bearer(await make_key(owner_engine, Role.READ, principal="reader"))
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        ids = {
            name: (await post(client, note(), headers=headers)).json()["id"]
            for name, headers in keys.items()
        }
        client.headers.update(reader)
        for name, job_id in ids.items():
            assert await listed(client, submitter=name) == [job_id]
        assert await listed(client, submitter="nobody") == []
        assert await listed(client, submitter="an", state="pending", kind="api.note") == [ids["an"]]


async def test_a_list_by_the_time_of_submission(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """From an instant on, before another; the first is in the list, the second is not."""
    ids = [await made(client) for _ in range(3)]
    rows = await fetch(engine, "SELECT id, created_at FROM chot.jobs ORDER BY id")
    when = {str(row.id): row.created_at for row in rows}
    middle = when[ids[1]]
    newer, older = [ids[2], ids[1]], [ids[0]]
    for offset in (UTC, datetime.now().astimezone().tzinfo):
        said = middle.astimezone(offset).isoformat()
        assert await listed(client, created_from=said) == newer
        assert await listed(client, created_to=said) == older
        after = (middle + timedelta(microseconds=1)).isoformat()
        assert await listed(client, created_from=said, created_to=after) == [ids[1]]
    assert await listed(client, created_to="2020-01-01T00:00:00Z") == []
    assert await listed(client, created_from="2190-01-01T00:00:00Z") == []


async def test_an_id_tells_its_millisecond(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    """What bounds the ids to look at is what chot.uuid7() makes them of."""
    await made(client)
    (row,) = await fetch(engine, "SELECT id, created_at FROM chot.jobs")
    near = timedelta(seconds=1)
    assert first_id_of(row.created_at - near) < row.id < first_id_of(row.created_at + near)


REFUSED = {
    "a state that is none": ({"state": "done"}, "state"),
    "a state among others": ({"state": "dead,done"}, "state"),
    "no state at all": ({"state": ""}, "state"),
    "an instant without an offset": ({"created_from": "2026-01-31T00:00:00"}, "created_from"),
    "a date": ({"created_to": "2026-01-31"}, "created_to"),
    "NUL": ({"submitter": "a\x00b"}, "submitter"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_filter_that_says_nothing_is_refused(client: httpx.AsyncClient, case: str) -> None:
    """A typing error would list what nobody asked for."""
    query, field = REFUSED[case]
    problem = problem_of(await client.get("/v1/jobs", params=query), 422, "invalid-request")
    assert problem["errors"][0]["field"] == field


async def test_from_lies_before_to(client: httpx.AsyncClient) -> None:
    """Else nothing could ever be in the list."""
    query = {"created_from": "2026-02-01T00:00:00Z", "created_to": "2026-02-01T07:00:00%2B07:00"}
    answer = await client.get("/v1/jobs?" + "&".join(f"{k}={v}" for k, v in query.items()))
    problem_of(answer, 422, "invalid-request")


async def test_a_kind_that_nobody_declared_is_no_empty_list(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Of an older deployment's kind there may be jobs: it is in the database."""
    problem = problem_of(await client.get("/v1/jobs?kind=api.noet"), 422, "unknown-kind")
    assert "api.note" in problem["detail"]
    await execute(
        owner_engine,
        """INSERT INTO chot.kinds (name, queue, payload_version, fingerprint_fields, on_duplicate,
                  max_attempts, max_attempts_cap, timeout_seconds)
           VALUES ('api.old', 'default', 1, '{}', 'join', 5, 25, 60)""",
    )
    assert await listed(client, kind="api.old") == []


Change = Callable[[int], Awaitable[None]]


async def test_pages_stay_correct_while_everything_changes(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Jobs come, run, die and are cancelled between any two pages and during them.

    Whatever matched throughout is there once; nothing is there twice.
    """
    steady = [await made(client) for _ in range(30)]
    moving = [await made(client) for _ in range(30)]
    stop = asyncio.Event()

    async def change() -> None:
        states = ("running", "dead", "cancelled", "succeeded")
        for number, job_id in enumerate(moving):
            await made(client)
            await ended(engine, job_id, states[number % 4])
            if stop.is_set():
                return

    for query in ({}, {"state": "pending"}, {"state": "pending", "brand": "RED"}):
        stop.clear()
        changing = asyncio.create_task(change())
        found = await listed(client, **query)
        stop.set()
        await changing
        assert len(found) == len(set(found)), "nothing twice"
        assert set(steady) <= set(found), "nothing left out"
        assert found == sorted(found, reverse=True), "newest first"
        moving = [await made(client) for _ in range(30)]


async def test_a_page_of_several_states_goes_by_their_indexes(
    owner_engine: AsyncEngine, client: httpx.AsyncClient
) -> None:
    """What is rare among many that succeeded is found without looking at those."""
    await made(client)
    await execute(
        owner_engine,
        """INSERT INTO chot.jobs (id, kind, company, queue, state, attempt, fence, max_attempts,
                  available_at, fingerprint, on_duplicate, payload_version, principal,
                  deployment_id, finished_at)
           SELECT chot.uuid7(), 'api.note', 'ACME', 'default',
                  CASE WHEN n <= 3 THEN 'dead' WHEN n <= 5 THEN 'cancelled' ELSE 'succeeded' END,
                  1, 1, 5, clock_timestamp(), sha256(int4send(n)), 'join', 1, 'api',
                  gen_random_uuid(), clock_timestamp()
             FROM generate_series(1, :jobs) AS n ORDER BY n""",
        jobs=LOOKED_AT + 1000,
    )
    rare = await fetch(
        owner_engine,
        "SELECT id FROM chot.jobs WHERE state IN ('dead', 'cancelled') ORDER BY id DESC",
    )
    page = await client.get("/v1/jobs", params={"state": "dead,cancelled", "limit": 200})
    assert [job["id"] for job in page.json()["jobs"]] == [str(row.id) for row in rare]
    assert page.json()["next_cursor"] is None, "no look ended before the oldest"
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.jobs") > LOOKED_AT


async def test_a_name_that_is_none_is_refused_where_the_list_would_be_empty(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """What lies outside an account's scope gets the words of what is not there."""
    await execute(owner_engine, SEED_OTHER)
    scopes = {"all": EVERYTHING, "acme": ACME, "red": RED}
    keys = {
        name: bearer(await make_key(owner_engine, Role.READ, Role.SUBMIT, scope=scope))
        for name, scope in scopes.items()
    }
    refused = {
        "all": [{"company": "NONE"}, {"brand": "NONE"}, {"company": "OTHER", "brand": "BLUE"}],
        "acme": [{"company": "NONE"}, {"company": "OTHER"}, {"brand": "NONE"}],
        "red": [{"brand": "NONE"}, {"brand": "BLUE"}, {"company": "OTHER", "brand": "RED"}],
    }
    empty = {
        "all": [{"company": "OTHER"}, {"brand": "BLUE"}, {"company": "OTHER", "brand": "RED"}],
        "acme": [{"company": "ACME", "brand": "BLUE"}, {"brand": "BLUE"}],
        "red": [{"company": "ACME"}, {"brand": "RED"}, {"company": "ACME", "brand": "RED"}],
    }
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        for name, headers in keys.items():
            client.headers.update(headers)
            for query in refused[name]:
                answer = await client.get("/v1/jobs", params=query)
                of = "brand" if query.get("company") in {None, "ACME"} else "company"
                if name == "all" and "brand" in query:
                    of = "brand"
                problem = problem_of(answer, 422, f"unknown-{of}")
                said = f"is no {of} whose jobs this account may see"
                assert [each["rule"] for each in problem["errors"]] == [said]
            for query in empty[name]:
                assert await listed(client, **query) == []


async def test_jobs_of_a_brand_that_is_gone_are_listed(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A name is looked up only where there is nothing to show."""
    job_id = await made(client, brand="BLUE")
    await execute(owner_engine, "DELETE FROM books.stores WHERE brand = 'BLUE'")
    await execute(owner_engine, "DELETE FROM books.brands WHERE code = 'BLUE'")
    assert await listed(client, brand="BLUE") == [job_id]
