"""Four eyes: an act that asks for another account's approval, and what does not count as one."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import EVERYTHING, Role, Scope
from shared.approvals import Refused, use_approval
from shared.audit import Action
from shared.settings import load
from tests.factories import eventually, execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, RED, bearer, make_key
from tests.protocol.api.test_rights import dead_red_job

JSON = {"Content-Type": "application/json"}
WAITING = """SELECT count(*) FROM pg_stat_activity
              WHERE wait_event_type = 'Lock' AND datname = current_database()"""
EXPIRE = "UPDATE chot.approvals SET expires_at = clock_timestamp() WHERE used_at IS NULL"


@pytest.fixture
async def strict(settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api where a redrive asks for an approval."""
    changed = {"api_open": False, "approvals": "job.redrive"}
    async with serving(settings.model_copy(update=changed)) as client:
        yield client


async def approved(client: httpx.AsyncClient, key: str, job_id: str, **more: Any) -> httpx.Response:
    """The answer to an approval of that job's redrive."""
    body = json.dumps({"action": "job.redrive", "target": job_id} | more)
    return await client.post("/v1/approvals", content=body, headers=bearer(key) | JSON)


async def redriven(
    client: httpx.AsyncClient, key: str, job_id: str, approval: str | None = None
) -> httpx.Response:
    """The answer to a redrive, with an approval or without a body."""
    content = None if approval is None else json.dumps({"approval": approval})
    headers = bearer(key) | (JSON if content else {})
    return await client.post(f"/v1/jobs/{job_id}/redrive", content=content, headers=headers)


@pytest.fixture
async def clerk(owner_engine: AsyncEngine) -> str:
    """Who asks."""
    return await make_key(owner_engine, Role.OPERATE, Role.SUBMIT, Role.READ, principal="clerk")


@pytest.fixture
async def chief(owner_engine: AsyncEngine) -> str:
    """Who approves."""
    return await make_key(owner_engine, Role.OPERATE, principal="chief")


async def test_a_redrive_waits_for_another_accounts_word(
    strict: httpx.AsyncClient,
    engine: AsyncEngine,
    clerk: str,
    chief: str,
) -> None:
    """403 that says what to do; then 202, and job and audit name both accounts."""
    job_id = await dead_red_job(strict, engine, clerk)
    problem = problem_of(await redriven(strict, clerk, job_id), 403, "approval-required")
    assert (problem["action"], problem["target"]) == ("job.redrive", job_id)
    assert problem["reason"] == "missing"
    assert "POST /v1/approvals" in problem["detail"]
    given = await approved(strict, chief, job_id, reason="ticket 7")
    assert given.status_code == 201, given.text
    view = given.json()
    assert (view["approver"], view["target"], view["reason"]) == ("chief", job_id, "ticket 7")
    assert (await redriven(strict, clerk, job_id, view["id"])).status_code == 202
    shown = (await strict.get(f"/v1/jobs/{job_id}", headers=bearer(clerk))).json()
    assert shown["state"] == "pending"
    assert (shown["redriven"]["by"], shown["redriven"]["approver"]) == ("clerk", "chief")
    rows = await fetch(
        engine,
        """SELECT action, principal, approver, approval_id::text AS approval, job_id::text AS job,
                  facts
             FROM chot.audit WHERE action IN ('approval.give', 'job.redrive') ORDER BY id""",
    )
    assert [tuple(row) for row in rows] == [
        ("approval.give", "chief", None, view["id"], job_id, {"reason": "ticket 7"}),
        ("job.redrive", "clerk", "chief", view["id"], job_id, {}),
    ]


async def test_an_approval_that_does_not_count_says_why(
    strict: httpx.AsyncClient,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    clerk: str,
    chief: str,
) -> None:
    """Unknown, of another job, expired, used, one's own through whichever key: nothing changes."""
    job_id, other = [await dead_red_job(strict, engine, clerk) for _ in range(2)]

    async def why(key: str, approval: str, target: str = job_id) -> str:
        answer = await redriven(strict, key, target, approval)
        reason: str = problem_of(answer, 403, "approval-required")["reason"]
        return reason

    assert await why(clerk, str(uuid4())) == "unknown"
    of_other = (await approved(strict, chief, other)).json()["id"]
    assert await why(clerk, of_other) == "unknown"
    own = (await approved(strict, clerk, job_id)).json()["id"]
    assert await why(clerk, own) == "own"
    second = await make_key(owner_engine, Role.OPERATE, principal="clerk")
    assert await why(second, own) == "own"
    late = (await approved(strict, chief, job_id)).json()["id"]
    await execute(engine, EXPIRE)
    assert await why(clerk, late) == "expired"
    renewed = (await approved(strict, chief, job_id)).json()["id"]
    assert (await redriven(strict, clerk, job_id, renewed)).status_code == 202
    await dead_again(engine, job_id)
    assert await why(clerk, renewed) == "used"
    states = await fetch(engine, "SELECT state FROM chot.jobs")
    assert {row.state for row in states} == {"dead"}
    assert await scalar(engine, "SELECT count(*) FROM chot.audit WHERE action = 'job.redrive'") == 1


async def dead_again(engine: AsyncEngine, job_id: str) -> None:
    """The job has failed once more."""
    await execute(
        engine,
        """UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp()
            WHERE id = :i AND state = 'pending'""",
        i=UUID(job_id),
    )


async def test_a_redrive_that_is_refused_uses_no_approval(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """The twin's end makes the same approval good again: it was never used."""
    job_id = await dead_red_job(strict, engine, clerk)
    payload = await scalar(
        engine, "SELECT payload FROM chot.job_payloads WHERE job_id = :i", i=UUID(job_id)
    )
    twin = await post(strict, note() | {"payload": payload}, headers=bearer(clerk))
    approval = (await approved(strict, chief, job_id)).json()["id"]
    problem_of(await redriven(strict, clerk, job_id, approval), 409, "twin-active")
    cancelled = await strict.post(f"/v1/jobs/{twin.json()['id']}/cancel", headers=bearer(clerk))
    assert cancelled.status_code == 200
    assert (await redriven(strict, clerk, job_id, approval)).status_code == 202


async def test_of_two_redrives_at_once_one_gets_the_approval(
    strict: httpx.AsyncClient,
    engine: AsyncEngine,
    clerk: str,
    chief: str,
    owner_engine: AsyncEngine,
) -> None:
    """Real concurrency, many times: one act, one use, one row in the audit."""
    rival = await make_key(owner_engine, Role.OPERATE, principal="rival")
    for _ in range(10):
        job_id = await dead_red_job(strict, engine, clerk)
        approval = (await approved(strict, chief, job_id)).json()["id"]
        got = await asyncio.gather(
            *(redriven(strict, key, job_id, approval) for key in (clerk, rival) * 3)
        )
        statuses = sorted(answer.status_code for answer in got)
        assert statuses.count(202) == 1
        assert set(statuses) <= {202, 403, 409}
    assert (
        await scalar(engine, "SELECT count(*) FROM chot.audit WHERE action = 'job.redrive'") == 10
    )


async def test_one_approval_is_used_once_though_both_see_it_open(
    engine: AsyncEngine, strict: httpx.AsyncClient, clerk: str, chief: str
) -> None:
    """The second waits for the first to commit, and then finds it used; after a rollback, open."""
    job_id = await dead_red_job(strict, engine, clerk)
    approval = UUID((await approved(strict, chief, job_id)).json()["id"])

    async def use(conn: Any, requester: str) -> Any:
        return await use_approval(conn, approval, Action.JOB_REDRIVE, job_id, requester=requester)

    for commits in (False, True):
        async with engine.connect() as first, engine.connect() as second:
            mine = await use(first, "clerk")
            waiting = asyncio.create_task(use(second, "rival"))
            await eventually(lambda: scalar(engine, WAITING), every=0.01)
            await (first.commit() if commits else first.rollback())
            theirs = await waiting
            assert not isinstance(mine, Refused)
            assert (theirs == Refused.USED) is commits
            await second.rollback()


async def test_approving_again_renews_what_is_open(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """A repeat whose answer was lost makes no second approval."""
    job_id = await dead_red_job(strict, engine, clerk)
    first, second = [(await approved(strict, chief, job_id)).json() for _ in range(2)]
    assert first["id"] == second["id"]
    assert first["expires_at"] < second["expires_at"]
    together = await asyncio.gather(*(approved(strict, clerk, job_id) for _ in range(5)))
    assert len({answer.json()["id"] for answer in together}) == 1
    assert await scalar(engine, "SELECT count(*) FROM chot.approvals") == 2


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [
        (Role.OPERATE, RED, 201),
        (Role.OPERATE, ACME, 201),
        (Role.ADMIN, EVERYTHING, 201),
        (Role.OPERATE, BLUE, 404),
        (Role.READ, EVERYTHING, 403),
        (Role.SUBMIT, EVERYTHING, 403),
    ],
)
async def test_who_may_operate_the_job_may_approve(
    strict: httpx.AsyncClient,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    clerk: str,
    *,
    role: Role,
    scope: Scope,
    status: int,
) -> None:
    """And nobody else; another brand's job is like none at all."""
    job_id = await dead_red_job(strict, engine, clerk)
    key = await make_key(owner_engine, role, scope=scope, principal="approver")
    assert (await approved(strict, key, job_id)).status_code == status
    unknown = await approved(strict, key, str(uuid4()))
    assert unknown.status_code == (404 if status != 403 else 403)


async def test_redriving_many_takes_no_approval(
    strict: httpx.AsyncClient, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """Each job is refused with the reason, and stays dead."""
    jobs = [await dead_red_job(strict, engine, clerk) for _ in range(2)]
    await approved(strict, chief, jobs[0])
    answer = await strict.post(
        "/v1/dead-letters/redrive", content='{"all": true}', headers=bearer(clerk) | JSON
    )
    report = answer.json()
    assert report["redriven"] == []
    assert {item["id"]: item["reason"] for item in report["refused"]} == dict.fromkeys(
        jobs, "approval-required"
    )


async def test_where_none_is_asked_for_one_is_still_used_and_recorded(
    settings: ApiSettings, engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """A redrive without a body, with an empty object, and with an approval; strange ones refused."""
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        plain, approved_one = [await dead_red_job(client, engine, clerk) for _ in range(2)]
        url, headers = f"/v1/jobs/{plain}/redrive", bearer(clerk) | JSON
        for body, status in (
            ('{"approval": "x"}', 422),
            ('{"aproval": null}', 422),
            ("[]", 400),
            ("{}", 202),
        ):
            assert (await client.post(url, content=body, headers=headers)).status_code == status
        bare = await client.post(url, content="{}", headers=bearer(clerk))
        problem_of(bare, 415, "unsupported-media-type")
        bad = await redriven(client, clerk, approved_one, str(uuid4()))
        problem_of(bad, 403, "approval-required")
        approval = (await approved(client, chief, approved_one)).json()["id"]
        assert (await redriven(client, clerk, approved_one, approval)).status_code == 202
        jobs = (await client.get("/v1/jobs", headers=bearer(clerk))).json()["jobs"]
    told = {job["id"]: job["redriven"]["approver"] for job in jobs}
    assert told == {plain: None, approved_one: "chief"}


async def test_an_approval_names_an_act_and_a_job(strict: httpx.AsyncClient, chief: str) -> None:
    """Whatever else is sent is refused by field."""
    for body, field in (
        ({"action": "job.cancel", "target": str(uuid4())}, "action"),
        ({"action": "job.redrive", "target": "x"}, "target"),
        ({"action": "job.redrive"}, "target"),
        ({"action": "job.redrive", "target": str(uuid4()), "for": "ever"}, "for"),
        ({"action": "job.redrive", "target": str(uuid4()), "reason": ""}, "reason"),
    ):
        answer = await strict.post(
            "/v1/approvals", content=json.dumps(body), headers=bearer(chief) | JSON
        )
        problem = problem_of(answer, 422, "invalid-request")
        assert problem["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"CHOT_APPROVALS": "job.redrive,job.sing"}, "'job.sing'"),
        ({"CHOT_APPROVALS": "redrive"}, "job.redrive"),
        ({"CHOT_APPROVALS": "job.redrive", "CHOT_API_OPEN": "true"}, "CHOT_API_OPEN=true"),
        ({"CHOT_APPROVAL_MINUTES": "0"}, "CHOT_APPROVAL_MINUTES"),
        ({"CHOT_TRUSTED_PROXIES": "10.0.0.0/8, nonsense"}, "'nonsense'"),
        ({"CHOT_TRUSTED_PROXIES": "10.0.0.1/8"}, "host bits"),
        ({"CHOT_RATE_PER_SECOND": "-1"}, "CHOT_RATE_PER_SECOND"),
        ({"CHOT_MAX_PENDING": "0"}, "CHOT_MAX_PENDING"),
    ],
)
def test_strange_settings_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], said: str
) -> None:
    """At start-up, with what is wrong."""
    monkeypatch.setenv("CHOT_DATABASE_URL", "postgresql://nobody@127.0.0.1/none")
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Exception, match="CHOT_") as caught:
        load(ApiSettings)
    assert not isinstance(caught.value, ValidationError)
    assert said in str(caught.value)


async def test_the_database_itself_knows_four_eyes(engine: AsyncEngine) -> None:
    """Whatever the code forgets: an approval is not used by who gave it, nor a row written so."""
    give = """INSERT INTO chot.approvals (action, target, approver, expires_at, used_at, used_by)
              VALUES ('job.redrive', 'x', 'one', clock_timestamp(), clock_timestamp(), 'one')"""
    row = """INSERT INTO chot.audit (action, principal, approver, approval_id)
             VALUES ('job.redrive', 'one', 'one', gen_random_uuid())"""
    for statement, rule in ((give, "approvals_four_eyes_check"), (row, "audit_approver_check")):
        async with engine.connect() as conn:
            with pytest.raises(Exception, match=rule):
                await conn.execute(text(statement))
