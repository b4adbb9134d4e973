"""posting.unpost over HTTP: who may ask for it, with whose approval, and what is written of both."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.errors import ConfigRefused
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds import Kind
from shared.kinds.registry import _refuse_unsound
from tests.factories import execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key
from tests.protocol.api.kinds import KINDS
from tests.protocol.api.test_read_and_act import END, run
from tests.protocol.sessions import driver_session
from tests.services import Database

JSON = {"Content-Type": "application/json"}
REASON = "wrong customer"
JOBS = "SELECT count(*) FROM chot.jobs WHERE kind = 'posting.unpost'"
EXPIRE = "UPDATE chot.approvals SET expires_at = clock_timestamp() WHERE used_at IS NULL"
ACTS = """
    SELECT action, principal, approver, approval_id::text AS approval, job_id::text AS job, target,
           company, brand, facts
      FROM chot.audit WHERE action IN ('approval.give', 'posting.unpost') ORDER BY id"""


def unposting(*documents: int, brand: str | None = "RED", **more: Any) -> dict[str, Any]:
    """A submit of an unposting of ACME."""
    payload = {"documents": list(documents or (1,)), "reason": REASON} | more
    return {"kind": "posting.unpost", "company": "ACME", "brand": brand, "payload": payload}


@pytest.fixture
async def lax(settings: ApiSettings, owner_engine: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api where nothing asks for an approval."""
    await execute(owner_engine, SEED_OTHER)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        yield client


@pytest.fixture
async def strict(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> AsyncIterator[httpx.AsyncClient]:
    """The same, where an unposting does."""
    await execute(owner_engine, SEED_OTHER)
    changed = {"api_open": False, "approvals": "posting.unpost"}
    async with serving(settings.model_copy(update=changed)) as client:
        yield client


@pytest.fixture
async def clerk(owner_engine: AsyncEngine) -> str:
    """Who asks."""
    return await make_key(owner_engine, Role.OPERATE, Role.SUBMIT, Role.READ, principal="clerk")


@pytest.fixture
async def chief(owner_engine: AsyncEngine) -> str:
    """Who approves."""
    return await make_key(owner_engine, Role.OPERATE, principal="chief")


async def approved(client: httpx.AsyncClient, key: str, job: Any, **more: Any) -> httpx.Response:
    """The answer to an approval of that job."""
    body = json.dumps({"action": "posting.unpost", "job": job} | more)
    return await client.post("/v1/approvals", content=body, headers=bearer(key) | JSON)


async def test_an_unposting_waits_for_another_accounts_word(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """403 that says what to do; then 202, and job and audit name both, and what it is about."""
    job = unposting(7, 8)
    problem = problem_of(await post(strict, job, headers=bearer(clerk)), 403, "approval-required")
    assert (problem["action"], problem["reason"]) == ("posting.unpost", "missing")
    assert '"job": {the same kind' in problem["detail"]
    assert await scalar(engine, JOBS) == 0
    # The order of the list, and null members, are the same work.
    same = job | {"payload": job["payload"] | {"documents": [8, 7], "types": None}}
    given = await approved(strict, chief, same, reason="ticket 7")
    assert given.status_code == 201, given.text
    assert given.json()["target"] == problem["target"]
    approval = given.json()["id"]
    made = await post(strict, job | {"approval": approval}, headers=bearer(clerk))
    assert made.status_code == 202, made.text
    job_id = made.json()["id"]
    shown = (await strict.get(f"/v1/jobs/{job_id}", headers=bearer(clerk))).json()
    assert (shown["principal"], shown["approver"]) == ("clerk", "chief")
    listed = (await strict.get("/v1/jobs", headers=bearer(clerk))).json()["jobs"]
    assert [each["approver"] for each in listed] == ["chief"]
    rows = await fetch(engine, ACTS)
    told = {"kind": "posting.unpost", "payload": {"documents": [8, 7], "reason": REASON}}
    at = (problem["target"], "ACME", "RED")
    assert [tuple(row)[:5] for row in rows] == [
        ("approval.give", "chief", None, approval, None),
        ("posting.unpost", "clerk", "chief", approval, job_id),
    ]
    assert tuple(rows[1])[5:8] == at
    assert rows[0].facts == {"reason": "ticket 7", "job": told}
    assert rows[1].facts["payload"]["documents"] == [7, 8]
    assert str(await scalar(engine, "SELECT approval_id FROM chot.jobs")) == approval


async def test_an_approval_that_does_not_count_says_why(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """Unknown, of other documents, own, expired, used: no job is made, nor an act noted."""

    async def why(approval: str | None, job: Any = unposting()) -> str:  # noqa: B008 - constant
        answer = await post(strict, job | {"approval": approval}, headers=bearer(clerk))
        return str(problem_of(answer, 403, "approval-required")["reason"])

    async def one(key: str, job: Any = unposting()) -> str:  # noqa: B008 - constant
        return str((await approved(strict, key, job)).json()["id"])

    assert await why(None) == "missing"
    assert await why(str(uuid4())) == "unknown"
    for other in (
        unposting(2),
        unposting(brand=None),
        unposting(reversal_date="2026-02-01"),
        unposting(dependants="reverse"),
    ):
        assert await why(await one(chief, other)) == "unknown"
    assert await why(await one(clerk)) == "own"
    late = await one(chief)
    await execute(engine, EXPIRE)
    assert await why(late) == "expired"
    assert await scalar(engine, JOBS) == 0
    good = await one(chief)
    made = await post(strict, unposting() | {"approval": good}, headers=bearer(clerk))
    assert made.status_code == 202
    cancelled = await strict.post(f"/v1/jobs/{made.json()['id']}/cancel", headers=bearer(clerk))
    assert cancelled.status_code == 200
    assert await why(good) == "used"
    acts = "SELECT count(*) FROM chot.audit WHERE action = 'posting.unpost'"
    assert await scalar(engine, acts) == 1


async def test_where_nothing_asks_for_one_it_may_still_be_given(
    lax: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """Without: done, and the audit has who asked. With: it counts, or is refused."""
    plain = await post(lax, unposting(1), headers=bearer(clerk))
    assert plain.status_code == 202
    wrong = await post(lax, unposting(2) | {"approval": str(uuid4())}, headers=bearer(clerk))
    assert problem_of(wrong, 403, "approval-required")["reason"] == "unknown"
    given = (await approved(lax, chief, unposting(2))).json()["id"]
    made = await post(lax, unposting(2) | {"approval": given}, headers=bearer(clerk))
    assert made.status_code == 202
    rows = await fetch(engine, ACTS)
    acts = [(row.principal, row.approver) for row in rows if row.action == "posting.unpost"]
    assert acts == [("clerk", None), ("clerk", "chief")]


async def test_a_job_that_is_there_already_uses_none(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """Asked again, with or without a key: the same job, one act, and the approval used once."""
    approval = (await approved(strict, chief, unposting())).json()["id"]
    body = unposting() | {"approval": approval}
    first = await post(strict, body, key="k1", headers=bearer(clerk))
    replay = await post(strict, body, key="k1", headers=bearer(clerk))
    assert (first.status_code, replay.status_code) == (202, 202)
    assert replay.headers["Idempotency-Replayed"] == "true"
    again = await post(strict, unposting(), headers=bearer(clerk))
    assert (again.status_code, again.json().get("duplicate")) == (200, "joined")
    assert {each.json()["id"] for each in (first, replay, again)} == {first.json()["id"]}
    rows = await fetch(engine, ACTS)
    assert [row.action for row in rows] == ["approval.give", "posting.unpost"]


@pytest.mark.parametrize(
    ("job", "slug", "field"),
    [
        ({"kind": "no.such"}, "unknown-kind", "job.kind"),
        ({"kind": "api.inner"}, "internal-kind", "job.kind"),
        ({"payload": {"reason": "x"}}, "invalid-request", "job.payload"),
        ({"payload": {"documents": [1]}}, "invalid-request", "job.payload.reason"),
        ({"strange": 1}, "invalid-request", "job.strange"),
        ({"company": "NONE"}, "unknown-company", "job.company"),
        ({"brand": "NONE"}, "unknown-company", "job.company"),
    ],
)
async def test_what_cannot_be_approved(
    strict: httpx.AsyncClient, chief: str, job: Any, slug: str, field: str
) -> None:
    problem = problem_of(await approved(strict, chief, unposting() | job), 422, slug)
    assert problem["errors"][0]["field"] == field


async def test_a_target_is_no_job_and_a_job_no_target(
    strict: httpx.AsyncClient, chief: str
) -> None:
    """An unposting is approved by what it is about, never by a word that stands for it."""
    for body, field in (
        ({"action": "posting.unpost", "target": "ACME/RED/00"}, "target"),
        ({"action": "posting.unpost"}, "job"),
        ({"action": "job.redrive", "target": str(uuid4()), "job": unposting()}, "job"),
        ({"action": "job.redrive"}, "target"),
    ):
        content = json.dumps(body)
        answer = await strict.post("/v1/approvals", content=content, headers=bearer(chief) | JSON)
        problem = problem_of(answer, 422, "invalid-request")
        assert problem["errors"][0]["field"] == field
    answer = await approved(strict, chief, note())
    assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == "job.kind"


async def test_only_who_may_see_the_books_approves(
    strict: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Of the company by an account of the company; of another's books nobody is told anything."""
    for scope, brand, status in (
        (RED, "RED", 201),
        (ACME, "RED", 201),
        (ACME, None, 201),
        (RED, None, 422),
        (BLUE, "RED", 422),
        (OTHER, "RED", 422),
    ):
        key = await make_key(owner_engine, Role.OPERATE, scope=scope, principal="chief")
        answer = await approved(strict, key, unposting(brand=brand))
        assert answer.status_code == status, answer.text


async def test_an_unposting_asks_for_role_operate(
    lax: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Who may only submit may not; a posting it may."""
    key = await make_key(owner_engine, Role.SUBMIT, Role.READ, principal="shop")
    problem = problem_of(await post(lax, unposting(), headers=bearer(key)), 403, "forbidden")
    assert problem["role"] == "operate"
    posting = {"kind": "posting.post", "company": "ACME", "payload": {"documents": [1]}}
    assert (await post(lax, posting, headers=bearer(key))).status_code == 202
    assert await scalar(engine, JOBS) == 0


async def test_an_approval_of_a_job_that_asks_for_none(lax: httpx.AsyncClient, clerk: str) -> None:
    answer = await post(lax, note() | {"approval": str(uuid4())}, headers=bearer(clerk))
    problem = problem_of(answer, 422, "invalid-request")
    assert problem["errors"][0]["field"] == "approval"
    answer = await post(lax, unposting() | {"approval": "yes"}, headers=bearer(clerk))
    assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == "approval"


async def test_an_unposting_comes_alone(
    lax: httpx.AsyncClient, engine: AsyncEngine, clerk: str
) -> None:
    """Not in a batch, nor in a group, nor as its join; the others are made."""
    headers = bearer(clerk) | JSON
    group = (await lax.post("/v1/groups", json={"company": "ACME"}, headers=headers)).json()["id"]
    for path in ("/v1/jobs:batch", f"/v1/groups/{group}/jobs:batch"):
        answer = await lax.post(path, json={"jobs": [note(), unposting()]}, headers=headers)
        made, refused = answer.json()["jobs"]
        assert (made["outcome"], "error" in refused) == ("created", True)
        assert refused["error"]["errors"][0]["field"] == "jobs[1].kind"
        assert "one by one" in refused["error"]["errors"][0]["rule"]
    join = {name: unposting()[name] for name in ("kind", "payload")}
    answer = await lax.post("/v1/groups", json={"company": "ACME", "join": join}, headers=headers)
    assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == "join.kind"
    assert await scalar(engine, JOBS) == 0


async def test_sql_of_another_service_is_refused_and_the_platform_is_not(
    lax: httpx.AsyncClient, engine: AsyncEngine, database: Database
) -> None:
    assert lax is not None
    job = {"kind": "posting.unpost", "company": "ACME", "payload": unposting()["payload"]}
    async with driver_session(database.enqueue_url) as connection:
        for call, argument in (
            ("chot.enqueue('posting.unpost', 'ACME', NULL, $1)", json.dumps(job["payload"])),
            ("chot.enqueue_many($1)", json.dumps([job])),
        ):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await connection.execute(f"SELECT {call}", argument)
            assert caught.value.sqlstate == "CH001"
            assert "POST /v1/jobs" in str(caught.value)
    async with engine.begin() as conn:
        payload = unposting()["payload"]
        made = await enqueue(conn, Submit(kind="posting.unpost", company="ACME", payload=payload))
    assert made.created


def test_a_kind_is_an_act_that_there_is() -> None:
    plain = KINDS[0]
    for more in ({"approval": "no.such"}, {"approval": "posting.unpost", "internal": True}):
        odd = Kind(name="a.b", payload=plain.payload, timeout=plain.timeout, **more)
        with pytest.raises(ConfigRefused, match="approval="):
            _refuse_unsound("here", odd)


async def test_a_redrive_of_an_unposting_waits_for_another_accounts_word_as_well(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """It was approved for one run; the next one selects anew."""
    approval = (await approved(strict, chief, unposting())).json()["id"]
    made = await post(strict, unposting() | {"approval": approval}, headers=bearer(clerk))
    job_id = made.json()["id"]
    await run(engine, job_id)
    binds = {"state": "dead", "outcome": "failed", "result": None, "error": '{"message": "boom"}'}
    await execute(engine, END, job_id=UUID(job_id), **binds)
    route = f"/v1/jobs/{job_id}/redrive"
    problem = problem_of(await strict.post(route, headers=bearer(clerk)), 403, "approval-required")
    assert (problem["action"], problem["target"]) == ("job.redrive", job_id)
    body = json.dumps({"action": "job.redrive", "target": job_id})
    given = await strict.post("/v1/approvals", content=body, headers=bearer(chief) | JSON)
    again = json.dumps({"approval": given.json()["id"]})
    answer = await strict.post(route, content=again, headers=bearer(clerk) | JSON)
    assert answer.status_code == 202, answer.text
