"""Migrations over HTTP: submitted, shown, paused and resumed, by whom they may be."""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.jobs.enqueue import Submit, enqueue
from tests.factories import execute
from tests.migrating import Migrating, open_migrating
from tests.protocol.api.app import post, problem_of, serving
from tests.protocol.api.keys import ACME, OTHER, SEED_OTHER, bearer, make_key
from tests.protocol.sessions import driver_session
from tests.services import Database


@pytest.fixture
async def migrating(  # noqa: PLR0917 - what a test asks for
    database: Database,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    read_engine: AsyncEngine,
    company: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Migrating:
    """The probe tasks, on a database with company ACME."""
    assert company == "ACME"
    return await open_migrating(database, (engine, owner_engine, read_engine), monkeypatch)


@pytest.fixture
async def guarded(
    settings: ApiSettings, migrating: Migrating, owner_engine: AsyncEngine
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api that knows the tasks and asks everybody for one."""
    assert migrating is not None
    await execute(owner_engine, SEED_OTHER)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        yield client


@pytest.fixture
async def key(owner_engine: AsyncEngine) -> dict[str, str]:
    """The header of an account of ACME that may do everything there."""
    roles = (Role.SUBMIT, Role.READ, Role.OPERATE)
    return bearer(await make_key(owner_engine, *roles, scope=ACME, principal="ops"))


def run(**payload: Any) -> dict[str, Any]:
    """A submit of a migration."""
    return {
        "kind": "migration.run",
        "company": "ACME",
        "payload": {"task": "probe.raise", **payload},
    }


async def submitted(client: httpx.AsyncClient, key: dict[str, str], **payload: Any) -> str:
    """Submit a migration; its id."""
    answer = await post(client, run(**payload), headers=key)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_a_run_is_shown_from_its_submit_to_its_end(
    guarded: httpx.AsyncClient, key: dict[str, str], migrating: Migrating
) -> None:
    """What it will do, how far it is, what it could not take."""
    await migrating.rows(1000, bad=77)
    job_id = await submitted(guarded, key, batch_size=500)
    url = f"/v1/migrations/{job_id}"
    view = (await guarded.get(url, headers=key)).json()
    assert (view["task"], view["state"], view["phase"]) == ("probe.raise", "pending", None)
    assert (view["rows_done"], view["recent_batches"], view["paused"]) == (0, [], False)
    await migrating.finish(UUID(job_id))
    view = (await guarded.get(url, headers=key)).json()
    assert (view["state"], view["phase"], view["principal"]) == ("succeeded", "done", "ops")
    assert (view["rows_total"], view["rows_done"], view["rows_failed"]) == (1000, 1000, 1)
    assert view["counts"] == {"raised": 999}
    assert view["cursor"] == view["upper_bound"] == ["1000"]
    assert view["recent_batches"][0]["outcome"] == "ok"
    assert view["check_after"]["facts"]["sum"] == 999
    page = (await guarded.get(f"{url}/rejects", headers=key)).json()
    assert [(each["key"], each["code"]) for each in page["rejects"]] == [(["77"], "22012")]
    listed = (await guarded.get("/v1/migrations?company=ACME", headers=key)).json()
    assert [each["id"] for each in listed["migrations"]] == [job_id]


async def test_rejects_are_paged_and_sent_as_a_file(
    guarded: httpx.AsyncClient, key: dict[str, str], migrating: Migrating
) -> None:
    """Page by page each of them once; the file has all, and no cell that is a formula."""
    await migrating.rows(100)
    bad = "UPDATE probe.rows SET name = 'bad' WHERE id % 10 = 0"
    await execute(migrating.owner, bad)
    job_id = await submitted(guarded, key, max_reject_percent=50)
    await migrating.finish(UUID(job_id))
    dangerous = "UPDATE chot.migration_rejects SET value = '=1+1', rule = 'a, \"b\"' WHERE seq = 1"
    await execute(migrating.app, dangerous)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        asked = {"limit": "4"} | ({"cursor": cursor} if cursor else {})
        url = f"/v1/migrations/{job_id}/rejects"
        page = (await guarded.get(url, params=asked, headers=key)).json()
        seen += [each["key"][0] for each in page["rejects"]]
        cursor = page["next_cursor"]
    assert seen == [str(n) for n in range(10, 101, 10)]
    file = await guarded.get(f"/v1/migrations/{job_id}/rejects?format=csv", headers=key)
    assert file.headers["content-type"].startswith("text/csv")
    lines = file.text.removeprefix("\ufeff").splitlines()
    assert lines[0] == "seq,line,key,field,value,code,rule"
    assert lines[1] == '1,,10,,\'=1+1,22012,"a, ""b"""'
    assert len(lines) == 11


async def test_a_run_is_paused_and_resumed(
    guarded: httpx.AsyncClient, key: dict[str, str], migrating: Migrating
) -> None:
    """Pending it is not claimed, and /why says what lets it go on; a repeat changes nothing."""
    await migrating.rows(10)
    job_id = await submitted(guarded, key)
    url = f"/v1/migrations/{job_id}"
    for _ in range(2):
        answer = await guarded.post(f"{url}/pause", headers=key)
        assert answer.json() == {"id": job_id, "state": "pending", "paused": True}
    assert await migrating.claim(UUID(job_id)) is None
    why = (await guarded.get(f"/v1/jobs/{job_id}/why", headers=key)).json()
    assert (why["reason"], f"POST {url}/resume" in why["sentence"]) == ("job-paused", True)
    assert (await guarded.get(url, headers=key)).json()["paused"] is True
    answer = await guarded.post(f"{url}/resume", headers=key)
    assert answer.json() == {"id": job_id, "state": "pending", "paused": False}
    await migrating.finish(UUID(job_id))
    for verb in ("pause", "resume"):
        problem = problem_of(await guarded.post(f"{url}/{verb}", headers=key), 409, "too-late")
        assert problem["state"] == "succeeded"
    admin = bearer(await make_key(migrating.owner, Role.ADMIN))
    for act in ("migration.pause", "migration.resume"):
        acts = (await guarded.get(f"/v1/audit?action={act}", headers=admin)).json()["acts"]
        assert [(each["principal"], each["job_id"]) for each in acts] == [("ops", job_id)]


async def test_what_is_cancelled_waits_for_nothing(
    guarded: httpx.AsyncClient, key: dict[str, str], migrating: Migrating
) -> None:
    """It was outside its window; now it has ended, and says so alone."""
    await migrating.rows(10)
    hour = (datetime.now(ZoneInfo("Asia/Ho_Chi_Minh")).hour + 6) % 24
    job_id = await submitted(guarded, key, window=f"{hour:02d}:00-{hour:02d}:30")
    await migrating.attempt(UUID(job_id))
    url = f"/v1/migrations/{job_id}"
    view = (await guarded.get(url, headers=key)).json()
    assert view["waits_for"].startswith("outside its window"), view
    assert (await guarded.post(f"/v1/jobs/{job_id}/cancel", headers=key)).status_code == 200
    view = (await guarded.get(url, headers=key)).json()
    assert (view["state"], view["waits_for"], view["throttles"]) == ("cancelled", None, 1)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"task": "probe.nobody"}, "'probe.nobody' is none of those known here"),
        ({"version": 2}, "task probe.raise is of version 1"),
        ({"params": {"by": "1"}}, "params.by: "),
        ({"params": {"more": 1}}, "params.more: "),
        (
            {"task": "movements.backfill", "params": {"date_from": "1/6/2026"}},
            ', such as 2026-01-01; it is "1/6/2026"',
        ),
        ({"window": "22:00-22:00"}, "leave it out for all day"),
        ({"window": "22-5"}, "window"),
    ],
)
async def test_what_no_task_would_take_is_refused_by_name(
    guarded: httpx.AsyncClient, key: dict[str, str], payload: dict[str, Any], says: str
) -> None:
    """Before there is a job: field, value and rule."""
    problem = problem_of(await post(guarded, run(**payload), headers=key), 422, "invalid-request")
    assert says in str(problem["errors"])


async def test_a_task_that_changes_what_is_there_asks_for_role_operate(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A submitter of ordinary jobs may not ask for it, alone or in a batch."""
    submitter = bearer(await make_key(owner_engine, Role.SUBMIT, scope=ACME))
    problem = problem_of(await post(guarded, run(), headers=submitter), 403, "forbidden")
    assert problem["role"] == "operate"
    headers = submitter | {"Content-Type": "application/json"}
    answer = await guarded.post("/v1/jobs:batch", json={"jobs": [run()]}, headers=headers)
    assert answer.json()["errors"] == 1


async def test_sql_of_another_service_submits_no_migration(
    guarded: httpx.AsyncClient, migrating: Migrating, database: Database
) -> None:
    """It has no roles: the login that may only enqueue would ask for a task that asks for operate.

    The platform's own may, as a handler that spawns does.
    """
    assert guarded is not None
    job = run(task="accounts.remap", params={"accounts": {"1111": "1112"}, "as_of": "2026-01-31"})
    async with driver_session(database.enqueue_url) as connection:
        for call, argument in (
            ("chot.enqueue('migration.run', 'ACME', NULL, $1)", json.dumps(job["payload"])),
            ("chot.enqueue_many($1)", json.dumps([job])),
        ):
            with pytest.raises(asyncpg.PostgresError, match="POST /v1/jobs") as caught:
                await connection.execute(f"SELECT {call}", argument)
            assert caught.value.sqlstate == "CH001"
    async with migrating.app.begin() as conn:
        made = await enqueue(
            conn, Submit(kind="migration.run", company="ACME", payload=job["payload"])
        )
    assert made.created


async def test_a_foreign_migration_is_like_none_at_all(
    guarded: httpx.AsyncClient, key: dict[str, str], owner_engine: AsyncEngine
) -> None:
    """And so is a job that is no migration."""
    other = bearer(await make_key(owner_engine, Role.READ, Role.OPERATE, scope=OTHER))
    job_id = await submitted(guarded, key)
    for method, path in (("GET", ""), ("GET", "/rejects"), ("POST", "/pause"), ("POST", "/resume")):
        for who, wanted in ((other, job_id), (key, str(uuid4()))):
            answer = await guarded.request(method, f"/v1/migrations/{wanted}{path}", headers=who)
            problem_of(answer, 404, "migration-not-found")
    assert (await guarded.get("/v1/migrations", headers=other)).json()["migrations"] == []
