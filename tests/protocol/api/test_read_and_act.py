"""Show, list, cancel, redrive, queues and workers, as a client sees them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.bodies import JobSummary, JobView
from shared.jobs.pause import resume_queue
from tests.factories import execute, scalar
from tests.protocol.api.app import note, post, problem_of

RUN = """
    WITH run AS (
        UPDATE chot.jobs SET state = 'running', attempt = attempt + 1, fence = fence + 1,
               lease_token = gen_random_uuid(), worker_id = 'w1', started_at = clock_timestamp(),
               lease_expires_at = clock_timestamp() + interval '30 seconds'
         WHERE id = :job_id AND state = 'pending' RETURNING *)
    INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
                               claimed_checkpoint_no, checkpoint_no)
    SELECT id, fence, attempt, 'w1', lease_token, 'v1', 0, 0 FROM run"""
END = """
    WITH gone AS (
        UPDATE chot.jobs SET state = CAST(:state AS text), finished_at = clock_timestamp(),
               lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
         WHERE id = :job_id AND state = 'running' RETURNING *),
    closed AS (
        UPDATE chot.attempts a SET outcome = CAST(:outcome AS text), ended_at = clock_timestamp(),
               error = CAST(:error AS jsonb)
          FROM gone WHERE a.job_id = gone.id AND a.fence = gone.fence)
    INSERT INTO chot.job_outputs (job_id, result, error)
    SELECT id, CAST(:result AS jsonb), CAST(:error AS jsonb) FROM gone"""


async def made(client: httpx.AsyncClient, **changed: Any) -> str:
    """A pending job; answers its id."""
    answer = await post(client, note() | changed)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def run(engine: AsyncEngine, job_id: str) -> None:
    """Bring the job to running, as a claim leaves it."""
    await execute(engine, RUN, job_id=UUID(job_id))


async def succeed(engine: AsyncEngine, job_id: str, result: str) -> None:
    """Bring a running job to succeeded with this result (JSON)."""
    binds = {"state": "succeeded", "outcome": "succeeded", "result": result, "error": None}
    await execute(engine, END, job_id=UUID(job_id), **binds)


async def bury(client: httpx.AsyncClient, engine: AsyncEngine, **changed: Any) -> str:
    """A job that died of an error."""
    job_id = await made(client, **changed)
    await run(engine, job_id)
    binds = {"state": "dead", "outcome": "failed", "result": None, "error": '{"message": "boom"}'}
    await execute(engine, END, job_id=UUID(job_id), **binds)
    return job_id


async def test_a_job_is_shown_with_the_fields_of_the_contract(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """From pending to succeeded; Retry-After only while it is active."""
    job_id = await made(client)
    pending = await client.get(f"/v1/jobs/{job_id}")
    JobView.model_validate_json(pending.content, extra="forbid")
    job = pending.json()
    assert (job["state"], job["attempt"], job["fence"], job["attempts"]) == ("pending", 0, 0, [])
    assert (job["progress"], job["result"], job["error"]) == (None, None, None)
    assert set(job["links"]) == {"self", "cancel"}
    assert int(pending.headers["retry-after"]) >= 1
    await run(engine, job_id)
    await execute(
        engine,
        """UPDATE chot.jobs SET progress_done = 3, progress_total = 10, progress_unit = 'items'
            WHERE id = :id""",
        id=UUID(job_id),
    )
    running = await client.get(f"/v1/jobs/{job_id}")
    told = {"done": 3, "total": 10, "unit": "items", "message": None}
    unknown = {"rate": None, "moved_at": None, "eta": None}
    assert running.json()["progress"] == told | unknown
    assert running.json()["attempts"][0]["outcome"] is None
    assert "retry-after" in running.headers
    await succeed(engine, job_id, '{"value": 12345678901234567.8901, "text": "sổ"}')
    ended = await client.get(f"/v1/jobs/{job_id}")
    JobView.model_validate_json(ended.content, extra="forbid")
    assert '"value":12345678901234567.8901' in ended.text
    assert "retry-after" not in ended.headers
    assert ended.json()["attempts"][0]["outcome"] == "succeeded"
    assert ended.json()["finished_at"].endswith("Z")


async def test_an_unchanged_job_is_not_sent_again(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """304 for the ETag that the client has; any change makes another one."""
    job_id = await made(client)
    first = await client.get(f"/v1/jobs/{job_id}")
    known = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
    same = await client.get(f"/v1/jobs/{job_id}", headers=known)
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == first.headers["etag"]
    await run(engine, job_id)
    changed = await client.get(f"/v1/jobs/{job_id}", headers=known)
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


async def test_a_waiting_poll_answers_when_the_job_ends(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """And not before; a wait of no time answers at once."""
    job_id = await made(client)
    await run(engine, job_id)
    waiting = asyncio.create_task(client.get(f"/v1/jobs/{job_id}?wait=20"))
    assert (await client.get(f"/v1/jobs/{job_id}?wait=0")).json()["state"] == "running"
    assert not waiting.done()
    await succeed(engine, job_id, "{}")
    assert (await waiting).json()["state"] == "succeeded"
    refused = await client.get(f"/v1/jobs/{job_id}?wait=31")
    assert problem_of(refused, 422, "invalid-request")["errors"][0]["field"] == "wait"


async def test_what_is_not_there_is_a_problem_too(client: httpx.AsyncClient) -> None:
    """404 and 405 in the same form as every other refusal."""
    problem_of(await client.get(f"/v1/jobs/{uuid4()}"), 404, "job-not-found")
    problem_of(await client.get("/v1/jobs/7"), 404, "job-not-found")
    problem_of(await client.post(f"/v1/jobs/{uuid4()}/cancel"), 404, "job-not-found")
    problem_of(await client.post(f"/v1/jobs/{uuid4()}/redrive"), 404, "job-not-found")
    problem_of(await client.post("/v1/queues/nope/pause"), 404, "queue-not-found")
    problem_of(await client.post("/v1/queues/a%00b/resume"), 404, "queue-not-found")
    problem_of(await client.get("/nowhere"), 404, "not-found")
    problem_of(await client.get("/v1/jobs/"), 404, "not-found")
    refused = await client.delete("/v1/jobs")
    problem_of(refused, 405, "method-not-allowed")
    assert set(refused.headers["allow"].replace(" ", "").split(",")) <= {"GET", "POST"}


async def test_unknown_parameters_of_one_job_are_refused_as_of_a_list(
    client: httpx.AsyncClient,
) -> None:
    """`?waits=20` would be answered at once, and its sender believe that it had waited."""
    job_id = await made(client)
    for path, rule in (
        ("", "is not a parameter of this route; known parameters: wait"),
        ("/why", "is not a parameter of this route, which has none"),
        ("/events", "is not a parameter of this route, which has none"),
    ):
        answer = await client.get(f"/v1/jobs/{job_id}{path}?waits=20")
        (error,) = problem_of(answer, 422, "invalid-request")["errors"]
        assert (error["field"], error["rule"], error["value"]) == ("waits", rule, "20")
    assert (await client.get(f"/v1/jobs/{job_id}?wait=0")).status_code == 200


async def test_a_list_pages_without_repeating_or_skipping(client: httpx.AsyncClient) -> None:
    """Newest first, by an opaque cursor."""
    ids = [await made(client) for _ in range(5)]
    seen: list[str] = []
    url = "/v1/jobs?limit=2"
    while True:
        page = (await client.get(url)).json()
        for job in page["jobs"]:
            JobSummary.model_validate(job, extra="forbid")
        seen += [job["id"] for job in page["jobs"]]
        if len(seen) == 2:
            ids.append(await made(client))  # newer than the page: it moves nothing
        if page["next_cursor"] is None:
            break
        url = f"/v1/jobs?limit=2&cursor={page['next_cursor']}"
    assert seen == sorted(ids[:5], reverse=True)


async def test_a_list_is_filtered_and_strange_filters_are_refused(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A mistyped filter must not list everything."""
    red = await made(client)
    blue = await made(client, brand="BLUE", kind="api.merge")
    await run(engine, blue)

    async def listed(query: str) -> list[str]:
        return [job["id"] for job in (await client.get(f"/v1/jobs?{query}")).json()["jobs"]]

    assert await listed("brand=RED") == [red]
    assert await listed("kind=api.merge&company=ACME") == [blue]
    assert await listed("state=running") == [blue]
    assert await listed("state=dead") == []
    for wrong, field in (
        ("sate=dead", "sate"),
        ("state=gone", "state"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%201", "limit"),
        ("limit=%2B1", "limit"),
        ("limit=%EF%BC%91", "limit"),
        ("limit=1&limit=2", "limit"),
        ("state=dead&st%61te=dead", "state"),
        ("company=%ff", "company"),
        ("company=%ed%a0%80", "company"),
        ("company=50%", "company"),
        ("cursor=abc", "cursor"),
        ("cursor=%ff", "cursor"),
        ("kind=%00", "kind"),
    ):
        problem = problem_of(await client.get(f"/v1/jobs?{wrong}"), 422, "invalid-request")
        assert problem["errors"][0]["field"] == field, wrong
    for wrong in ("wait=1_0", "wait=nan", "wait=-0", "wait=1e1", "wait=1&wait=2"):
        problem_of(await client.get(f"/v1/jobs/{red}?{wrong}"), 422, "invalid-request")
    problem_of(await client.get("/v1/dead-letters?limit=1_0"), 422, "invalid-request")
    problem_of(await client.post("/v1/queues/default/pause?a=%ff"), 422, "invalid-request")


@pytest.mark.scenario("F10")
async def test_cancel_answers_with_the_final_state(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """200 for pending and running and for a repeat, 409 once the job has ended otherwise."""
    pending, running = await made(client), await made(client)
    await run(engine, running)
    for job_id in (pending, running, running):
        answer = await client.post(f"/v1/jobs/{job_id}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert (
        await scalar(
            engine, "SELECT outcome FROM chot.attempts WHERE job_id = :id", id=UUID(running)
        )
        == "cancelled"
    )
    done = await made(client)
    await run(engine, done)
    await succeed(engine, done, '{"n": 1}')
    problem = problem_of(await client.post(f"/v1/jobs/{done}/cancel"), 409, "too-late")
    assert (problem["state"], problem["job"]["result"]) == ("succeeded", {"n": 1})


async def test_redrive_puts_a_dead_job_back(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    """With a message, a fresh budget and its history."""
    job_id = await bury(client, engine)
    dead = (await client.get(f"/v1/jobs/{job_id}")).json()
    assert (dead["state"], dead["error"]) == ("dead", {"message": "boom"})
    assert set(dead["links"]) == {"self", "redrive"}
    await execute(engine, "DELETE FROM chot.outbox")
    answer = await client.post(f"/v1/jobs/{job_id}/redrive")
    assert (answer.status_code, answer.json()["state"]) == (202, "pending")
    job = (await client.get(f"/v1/jobs/{job_id}")).json()
    assert (job["state"], job["attempt"], len(job["attempts"])) == ("pending", 1, 1)
    assert job["max_attempts"] == 4
    again = problem_of(await client.post(f"/v1/jobs/{job_id}/redrive"), 409, "not-dead")
    assert again["state"] == "pending"


@pytest.mark.scenario("F10")
async def test_redrive_says_what_stands_against_it(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A twin by its id, a cleanup by a time to come again, an outdated payload by its field."""
    body = note()
    first = (await post(client, body)).json()["id"]
    await run(engine, first)
    binds = {"state": "dead", "outcome": "failed", "result": None, "error": None}
    await execute(engine, END, job_id=UUID(first), **binds)
    twin = (await post(client, body)).json()["id"]
    problem = problem_of(await client.post(f"/v1/jobs/{first}/redrive"), 409, "twin-active")
    assert problem["twin"] == {"id": twin, "status_url": f"/v1/jobs/{twin}"}
    busy = await bury(client, engine)
    await execute(engine, "UPDATE chot.jobs SET cleanup_due = true WHERE id = :id", id=UUID(busy))
    answer = await client.post(f"/v1/jobs/{busy}/redrive")
    problem_of(answer, 409, "cleanup-pending")
    assert int(answer.headers["retry-after"]) >= 1
    old = await bury(client, engine)
    await execute(
        engine,
        """UPDATE chot.job_payloads SET payload = payload || '{"gone": 1}' WHERE job_id = :id""",
        id=UUID(old),
    )
    problem = problem_of(await client.post(f"/v1/jobs/{old}/redrive"), 409, "payload-outdated")
    assert problem["errors"][0]["field"] == "payload.gone"


async def test_a_queue_shows_its_depth_and_can_be_paused(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A resume stages what is due and has no message, once."""
    await made(client, run_at="2199-01-01T00:00:00Z")
    early = (await client.get("/v1/queues")).json()["queues"]
    (queue,) = (each for each in early if each["name"] == "default")
    assert (queue["due"], queue["oldest_due_seconds"]) == (0, None)
    await made(client)
    await run(engine, await made(client))
    await bury(client, engine)
    for _ in range(2):
        paused = await client.post("/v1/queues/default/pause")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
    listed = {each["name"]: each for each in (await client.get("/v1/queues")).json()["queues"]}
    queue = listed["default"]
    counts = {name: queue[name] for name in ("pending", "due", "running", "dead", "paused")}
    assert counts == {"pending": 2, "due": 1, "running": 1, "dead": 1, "paused": True}
    assert queue["oldest_due_seconds"] > 0
    staged = []
    for _ in range(2):
        await execute(engine, "DELETE FROM chot.outbox")
        answer = (await client.post("/v1/queues/default/resume")).json()
        assert (answer["name"], answer["paused"]) == ("default", False)
        staged.append(answer["staged"])
    assert staged == [1, 0]


async def test_a_resume_stages_the_jobs_that_are_due(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Looked at inside the resume's own transaction, before any relay can take them."""
    held, lost = await made(client), await made(client)
    await client.post("/v1/queues/default/pause")
    await execute(engine, "DELETE FROM chot.outbox WHERE job_id <> :held", held=UUID(held))
    rows = "SELECT job_id FROM chot.outbox WHERE job_id = :lost"
    async with engine.begin() as conn:
        assert await resume_queue(conn, "default") is not None
        found = (await conn.execute(text(rows), {"lost": UUID(lost)})).all()
        assert [str(row.job_id) for row in found] == [lost]


async def test_workers_are_shown_with_what_they_run(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Who runs what, and whether it is alive."""
    await execute(
        engine,
        """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
           VALUES ('w1', 'h', 1, 'v1', '{"api.note": 1}', 'working', clock_timestamp())""",
    )
    await execute(
        engine,
        "INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots) "
        "VALUES ('w1', 'default', 4, 3)",
    )
    job_id = await made(client)
    await run(engine, job_id)
    worker = (await client.get("/v1/workers")).json()["workers"][0]
    assert (worker["worker_id"], worker["live"], worker["kinds"]) == ("w1", False, {"api.note": 1})
    assert worker["queues"] == [{"queue": "default", "slots": 4, "free_slots": 3}]
    assert [each["job_id"] for each in worker["running"]] == [job_id]
