"""Limits over HTTP: how often an account asks, how many jobs may wait, headers on every answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.app import create_app
from api.pending import BY_INDEX, COUNT_LANES, Lane, count_pending
from api.rights import ANYBODY, RULES
from api.settings import ApiSettings
from shared.access import Role
from tests.factories import execute, fetch, scalar
from tests.protocol.api.app import (
    KIND_MODULE,
    client_of,
    note,
    post,
    problem_of,
    serving,
    until_ready,
)
from tests.protocol.api.keys import ACME, RED, bearer, make_key
from tests.protocol.api.kinds import KINDS
from tests.protocol.api.test_read_and_act import bury, made, run, succeed

Serve = Callable[..., Any]


@pytest.fixture
def serve(settings: ApiSettings) -> Serve:
    """Serves the test's api with some settings changed."""
    return lambda **changed: serving(settings.model_copy(update=changed))


async def test_an_account_that_asks_too_often_waits_as_long_as_it_is_told(
    serve: Serve, owner_engine: AsyncEngine
) -> None:
    """429 with a Retry-After that is enough; another account is not touched; all of its keys are."""
    one, same = [await make_key(owner_engine, Role.READ, principal="loop") for _ in range(2)]
    other = await make_key(owner_engine, Role.READ, principal="honest")
    async with serve(api_open=False, rate_per_second=1, rate_burst=5) as client:
        for _ in range(5):
            assert (await client.get("/v1/jobs", headers=bearer(one))).status_code == 200
        refused = await client.get("/v1/jobs", headers=bearer(same))
        problem_of(refused, 429, "rate-limited")
        wait = int(refused.headers["retry-after"])
        assert wait == 1
        assert (await client.get("/v1/jobs", headers=bearer(other))).status_code == 200
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200
        await asyncio.sleep(wait)  # the very promise that is tested
        assert (await client.get("/v1/jobs", headers=bearer(same))).status_code == 200


async def test_a_rate_is_judged_after_the_token_and_before_all_else(
    serve: Serve, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Guesses are 401 for ever; a body that is no JSON, and a key, are not looked at."""
    key = await make_key(owner_engine, Role.SUBMIT)
    async with serve(api_open=False, rate_per_second=0.2, rate_burst=1) as client:
        for _ in range(5):
            wrong = await post(client, note(), headers=bearer(key + "x"))
            problem_of(wrong, 401, "unauthorized")
        body = note()
        assert (await post(client, body, headers=bearer(key))).status_code == 202
        for content in (b"{", json.dumps(note()).encode()):
            refused = await post(client, content, key="k", headers=bearer(key))
            problem_of(refused, 429, "rate-limited")
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1
    assert await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys") == 0
    async with serve(api_open=False) as client:
        fresh = await post(client, note(), key="k", headers=bearer(key))
    assert (fresh.status_code, "idempotency-replayed" in fresh.headers) == (202, False)


async def test_a_looping_script_is_stopped_and_honest_work_is_not(
    serve: Serve, owner_engine: AsyncEngine
) -> None:
    """The defaults: a burst of many users passes; thousands without a pause do not."""
    key = bearer(await make_key(owner_engine, Role.READ))
    async with serve(api_open=False) as client:
        url = f"/v1/jobs/{uuid4()}"
        burst = [(await client.get(url, headers=key)).status_code for _ in range(200)]
        assert set(burst) == {404}
    settings = ApiSettings.model_fields
    assert settings["rate_burst"].default == 2000
    assert settings["rate_per_second"].default == 200


async def test_no_more_than_the_maximum_may_wait(serve: Serve, engine: AsyncEngine) -> None:
    """429 with the limit; a duplicate joins, a replay answers, another lane is free, an end helps."""
    async with serve(max_pending=3) as client:
        bodies = [note() for _ in range(3)]
        jobs = [await post(client, body, key=f"k{n}") for n, body in enumerate(bodies)]
        assert {answer.status_code for answer in jobs} == {202}
        over = note()
        problem = problem_of(await post(client, over, key="over"), 429, "too-many-pending")
        assert problem["limit"] == 3
        assert int((await post(client, over)).headers["retry-after"]) >= 1
        joined = await post(client, bodies[1])
        assert (joined.status_code, joined.json()["duplicate"]) == (200, "joined")
        again = await post(client, bodies[0], key="k0")
        assert (again.content, again.headers["idempotency-replayed"]) == (jobs[0].content, "true")
        for changed in ({"brand": "BLUE"}, {"brand": None}, {"kind": "api.merge"}):
            assert (await post(client, note() | changed)).status_code == 202
        assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 6
        await run(engine, jobs[0].json()["id"])
        accepted = await until_accepted(client, over, key="over")
    assert "idempotency-replayed" not in accepted.headers, "the refusal was not stored"


async def until_accepted(
    client: httpx.AsyncClient, body: Any, *, key: str | None = None
) -> httpx.Response:
    """Repeat as a client does that is told to come again; by deadline."""
    until = monotonic() + 10
    while True:
        answer = await post(client, body, key=key)
        if answer.status_code != 429:
            assert answer.status_code == 202, answer.text
            return answer
        assert monotonic() < until, "the maximum never eased"
        await asyncio.sleep(0.05)


async def test_a_script_that_loops_cannot_pass_the_maximum(
    serve: Serve, engine: AsyncEngine
) -> None:
    """Two hundred at once in one process: as many jobs as there may be, to the job."""
    async with serve(max_pending=20) as client:
        got = await asyncio.gather(*(post(client, note()) for _ in range(200)))
        assert {answer.status_code for answer in got} == {202, 429}
        late = [await post(client, note()) for _ in range(20)]
    pending = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'pending'")
    accepted = sum(answer.status_code == 202 for answer in [*got, *late])
    assert pending == accepted <= 20
    assert accepted >= 18, "what was let in is counted twice for a moment at most"


async def test_a_batch_is_judged_item_by_item(serve: Serve, engine: AsyncEngine) -> None:
    """What has room is made, the rest is refused by itself; duplicates need no room."""
    async with serve(max_pending=4) as client:
        first = note()
        await post(client, first)
        items = [note(), first, note(), note() | {"brand": "BLUE"}, note(), note(), note()]
        items.append(items[0])
        report = await batch(client, items)
        outcomes = [item["outcome"] for item in report.json()["jobs"]]
        assert outcomes == [
            "created",
            "duplicate",
            "created",
            "created",
            "created",
            "error",
            "error",
            "duplicate",
        ]
        (error,) = {item["error"]["type"] for item in report.json()["jobs"] if "error" in item}
        assert error.endswith("/too-many-pending")
        whole = await batch(client, [note(), note()], key="k")
        problem_of(whole, 429, "too-many-pending")
        wrong = await batch(client, [note(), note(number="seven"), {}], key="k")
        problem_of(wrong, 429, "too-many-pending")
        assert await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys") == 0
        met = await batch(client, [note(), first, {}])
        assert [item["outcome"] for item in met.json()["jobs"]] == ["error", "duplicate", "error"]
        await execute(
            engine,
            """UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp()
                WHERE state = 'pending'""",
        )
        until = monotonic() + 10
        while (await batch(client, [note(), note()], key="k")).status_code == 429:
            assert monotonic() < until
            await asyncio.sleep(0.05)
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'pending'") == 2


async def batch(
    client: httpx.AsyncClient, items: list[Any], key: str | None = None
) -> httpx.Response:
    """The answer to a batch."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    body = json.dumps({"jobs": items})
    return await client.post("/v1/jobs:batch", content=body, headers=headers)


async def test_a_kind_may_have_a_maximum_of_its_own(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands above the deployment's."""
    tight = [replace(each, max_pending=1) if each.name == "api.note" else each for each in KINDS]
    monkeypatch.setattr(f"{KIND_MODULE}.KINDS", tight)
    async with serve(max_pending=50) as client:
        assert (await post(client, note())).status_code == 202
        problem = problem_of(await post(client, note()), 429, "too-many-pending")
        assert problem["limit"] == 1
        assert (await post(client, note() | {"kind": "api.merge"})).status_code == 202


# Fifty thousand that wait, of another brand, and as many of another kind that are over.
BACKLOG = """
    INSERT INTO chot.jobs (id, kind, company, brand, queue, state, priority, max_attempts,
           available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id,
           finished_at)
    SELECT chot.uuid7(), 'api.note', 'ACME', CASE WHEN n > 49900 THEN 'RED' WHEN n > 49800 THEN NULL
                                                  ELSE 'BLUE' END,
           'default', CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'succeeded' END, 5, 5,
           clock_timestamp(), sha256(CAST(CAST(n AS text) AS bytea)), 'join', 1, 'test',
           gen_random_uuid(), CASE WHEN n % 2 = 1 THEN clock_timestamp() END
      FROM generate_series(1, 50000) AS n"""
READ = """SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
            FROM pg_stat_xact_user_tables WHERE schemaname = 'chot' AND relname = 'jobs'"""


async def test_a_count_reads_the_lane_that_it_counts_and_no_further_than_the_maximum(
    engine: AsyncEngine, owner_engine: AsyncEngine, company: str
) -> None:
    """By an index of the pending jobs alone, whatever else there is."""
    assert company == "ACME"
    await execute(owner_engine, BACKLOG)
    await execute(owner_engine, "ANALYZE chot.jobs")
    for brand, most, expected in (("RED", 1000, 50), (None, 1000, 50), ("BLUE", 1000, 1000)):
        async with engine.begin() as conn:
            lane = Lane("api.note", "ACME", brand)
            before = await conn.scalar(text(READ))
            assert await count_pending(conn, {lane: most}) == {lane: expected}
            # A bitmap's rows are counted by the index and by the table.
            assert await conn.scalar(text(READ)) - before <= 2 * expected
    known = [Lane("api.note", "ACME", brand) for brand in ("RED", None, "BLUE")]
    strange = [Lane("api.note", "ACME", "NONE"), Lane("api.note", "NONE", None)]
    async with engine.begin() as conn:
        found = await count_pending(conn, dict.fromkeys([*known, *strange], 1000))
        assert found == dict(zip([*known, *strange], (50, 50, 1000, None, None), strict=True))
    asked = {"kinds": ["api.note"], "companies": ["ACME"], "brands": ["RED"], "most": [100_000]}
    async with engine.begin() as conn:
        await conn.execute(BY_INDEX)
        plan = (await conn.execute(text(f"EXPLAIN {COUNT_LANES.text}"), asked)).scalars().all()
    told = " ".join(plan)
    assert told.count("jobs_pending_kind_idx") == 2, plan
    assert "Seq Scan on jobs" not in told, plan


BROKEN = {
    "not a number": b'{"a": NaN}',
    "infinite": b'{"a": -Infinity}',
    "a member twice": b'{"a": 1, "a": 2}',
    "U+0000": b'{"a": "\\u0000"}',
    "U+0000 in a name": b'{"\\u0000": 1}',
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "no UTF-8": b'{"a": "\xff"}',
    "too deep": b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
    "very deep": b"[" * 100_000,
    "a number without end": b'{"a": ' + b"9" * 101 + b"}",
    "an exponent": b'{"a": 1e309}',
    "no object": b'"x"',
    "no JSON": b"{",
    "nothing": b"",
}
WITH_A_BODY = (
    "/v1/jobs",
    "/v1/jobs:batch",
    "/v1/jobs/{job_id}/redrive",
    "/v1/dead-letters/redrive",
    "/v1/approvals",
)


async def test_every_route_with_a_body_refuses_what_is_broken_before_it_writes(
    serve: Serve, engine: AsyncEngine
) -> None:
    """400 and 413 as problems, from one place; nothing of it reaches the database."""
    json_body = {"Content-Type": "application/json"}
    async with serve() as client:
        dead = await bury(client, engine)
        before = await written(engine)
        for path in WITH_A_BODY:
            url = path.replace("{job_id}", dead)
            for what, body in BROKEN.items():
                if what == "nothing" and "{job_id}" in path:
                    continue  # there a body may be left out
                answer = await client.post(url, content=body, headers=json_body)
                assert problem_of(answer, 400, "malformed-json"), (path, what)
            large = b" " * (9 * 1024 * 1024 if path.endswith(":batch") else 310_000)
            problem_of(await client.post(url, content=large, headers=json_body), 413, "too-large")
            for headers in (
                {"Content-Type": "text/plain"},
                json_body | {"Content-Encoding": "gzip"},
                {"Content-Type": "application/json; charset=latin-1"},
            ):
                answer = await client.post(url, content=b"{}", headers=headers)
                problem_of(answer, 415, "unsupported-media-type")
            strange = await client.post(url, content=b'{"zz": 1}', headers=json_body)
            problem = problem_of(strange, 422, "invalid-request")
            assert "zz" in {error["field"] for error in problem["errors"]}, path
        assert await written(engine) == before


async def written(engine: AsyncEngine) -> Any:
    """How much there is of everything that a request could write (the relay empties the outbox)."""
    return await fetch(
        engine,
        """SELECT (SELECT count(*) FROM chot.jobs), (SELECT count(*) FROM chot.audit),
                  (SELECT count(*) FROM chot.approvals),
                  (SELECT count(*) FROM chot.idempotency_keys),
                  (SELECT count(*) FROM chot.jobs WHERE state = 'dead')""",
    )


SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def judge_headers(answer: httpx.Response) -> None:
    """What every answer says to browsers and caches."""
    where = f"{answer.request.method} {answer.request.url} {answer.status_code}"
    for name, value in SAFE.items():
        assert answer.headers.get_list(name) == [value], where
    (policy,) = answer.headers.get_list("content-security-policy")
    assert "default-src 'none'" in policy, where
    assert "frame-ancestors 'none'" in policy, where
    assert str(UUID(answer.headers["x-request-id"])) == answer.headers["x-request-id"], where
    assert "Traceback" not in answer.text, where


@pytest.fixture
async def broken(
    settings: ApiSettings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an api that has a bug at /boom."""
    app = create_app(settings)
    monkeypatch.setattr("api.rights.RULES", {**RULES, ("GET", "/boom"): ANYBODY})

    @app.get("/boom")
    async def boom() -> None:
        raise LookupError("a stack that nobody must see")

    async with app.router.lifespan_context(app), client_of(app) as client:
        await until_ready(client)
        yield client


async def test_every_answer_has_safe_headers(
    broken: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Data, pages, metrics; 304, 400, 404, 405, 409, 413, 415, 422, and a bug of ours."""
    job_id = await made(broken)
    shown = await broken.get(f"/v1/jobs/{job_id}")
    known = {"If-None-Match": shown.headers["etag"]}
    dead = await bury(broken, engine)
    await run(engine, job_id)
    await succeed(engine, job_id, "{}")
    answers = [shown]
    for method, url, status in (
        ("GET", "/v1/jobs", 200),
        ("GET", "/v1/dead-letters", 200),
        ("GET", "/v1/audit", 200),
        ("GET", "/v1/queues", 200),
        ("GET", "/v1/workers", 200),
        ("GET", "/metrics", 200),
        ("GET", "/docs", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/v1/jobs/x", 404),
        ("DELETE", "/v1/jobs", 405),
        ("GET", "/v1/jobs?no=1", 422),
        ("GET", "/boom", 500),
        ("POST", f"/v1/jobs/{job_id}/cancel", 409),
        ("POST", f"/v1/jobs/{dead}/redrive", 202),
        ("POST", "/v1/jobs", 415),
    ):
        answer = await broken.request(method, url)
        assert answer.status_code == status, (method, url, answer.text)
        answers.append(answer)
    for body, status in ((b"{", 400), (b" " * 400_000, 413), (b'{"kind": 1}', 422)):
        answers.append(await post(broken, body))
        assert answers[-1].status_code == status
    other = await made(broken)
    unchanged = await broken.get(f"/v1/jobs/{other}")
    answers.append(
        await broken.get(
            f"/v1/jobs/{other}", headers=known | {"If-None-Match": unchanged.headers["etag"]}
        )
    )
    assert answers[-1].status_code == 304
    for answer in answers:
        judge_headers(answer)


async def test_whoever_is_stopped_at_the_gate_gets_safe_headers_too(serve: Serve) -> None:
    """401, 413 and 429 are answered outside of every route."""
    async with serve(api_open=False, token=None) as client:
        judge_headers(await client.get("/v1/jobs"))
        judge_headers(await post(client, b" " * 400_000))
    async with serve(rate_per_second=0.1, rate_burst=1) as client:
        await client.get("/v1/jobs")
        limited = await client.get("/v1/jobs")
        assert limited.status_code == 429
        judge_headers(limited)


async def test_where_a_worker_is_is_told_to_accounts_of_all_companies(
    serve: Serve, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Others see that it lives and which of their jobs it runs, not its host and process."""
    name = "secret-host-4711-0a1b2c3d"
    await execute(
        engine,
        """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
           VALUES (:name, 'secret-host', 4711, 'v1', '{}', 'alone',
                   clock_timestamp() + interval '1 hour')""",
        name=name,
    )
    async with serve(api_open=False) as client:
        await execute(
            engine,
            """UPDATE chot.queues SET alone_worker = :name,
                      alone_until = clock_timestamp() + interval '1 hour'
                WHERE name = 'default'""",
            name=name,
        )
        for scope in (RED, ACME):
            key = bearer(await make_key(owner_engine, Role.READ, scope=scope))
            told = [await client.get(f"/v1/{each}", headers=key) for each in ("workers", "queues")]
            (worker,) = told[0].json()["workers"]
            assert (worker["worker_id"], worker["host"], worker["pid"]) == ("0a1b2c3d", None, None)
            assert worker["live"]
            assert "secret-host" not in told[0].text + told[1].text
            assert "4711" not in told[0].text + told[1].text
            assert "0a1b2c3d" in told[1].text
        key = bearer(await make_key(owner_engine, Role.READ))
        (worker,) = (await client.get("/v1/workers", headers=key)).json()["workers"]
        assert (worker["worker_id"], worker["host"], worker["pid"]) == (name, "secret-host", 4711)
