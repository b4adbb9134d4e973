"""A submit as one statement: what it answers is to the byte what the steps answer, and it does
in its own transaction all that they do in one of ours.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api import submission
from api.settings import ApiSettings
from shared.at_once import fetch_at_once
from shared.database import is_unreachable, open_engine
from shared.outages import tell_outages
from tests.factories import execute, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.services import Database

RUN = """
    UPDATE chot.jobs
       SET state = 'running', attempt = 1, fence = 1, lease_token = gen_random_uuid(),
           worker_id = 'w', lease_expires_at = clock_timestamp() + interval '1 hour',
           started_at = '{started}'
     WHERE state = 'pending'"""
COUNTS = """
    SELECT (SELECT count(*) FROM chot.jobs), (SELECT count(*) FROM chot.job_payloads),
           (SELECT count(*) FROM chot.outbox) + (SELECT sum(publishes) FROM chot.jobs),
           (SELECT count(*) FROM chot.idempotency_keys),
           (SELECT count(*) FROM chot.audit WHERE action = 'job.submit')"""


async def in_steps(client: httpx.AsyncClient, body: object) -> httpx.Response:
    """The same submit, by the statements one after the other."""

    async def no_way(*_given: object) -> None:
        return None

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(submission, "submit_at_once", no_way)
        return await post(client, body)  # type: ignore[arg-type]


@pytest.fixture
def no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submits that take more than their one statement fail."""

    async def refuse(*_given: object) -> None:
        raise AssertionError("more than one statement")

    monkeypatch.setattr(submission, "_submit_in_steps", refuse)


@pytest.mark.usefixtures("no_steps")
async def test_new_replayed_reused_and_joined_are_one_statement_each(
    client: httpx.AsyncClient,
) -> None:
    """With a key and without one; the stored answer is what was sent."""
    body = note()
    first = await post(client, body, key="k")
    again = await post(client, body, key="k")
    assert (first.status_code, again.status_code) == (202, 202)
    assert (again.content, again.headers["location"]) == (first.content, first.headers["location"])
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["retry-after"] == first.headers["retry-after"]
    problem_of(await post(client, note(), key="k"), 422, "idempotency-key-reused")
    joined = await post(client, body, key="other")
    assert (joined.status_code, joined.json()["duplicate"]) == (200, "joined")
    assert (await post(client, body, key="other")).content == joined.content
    assert (await post(client, body)).json() == joined.json()


async def test_all_rows_are_committed_together(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A job, its payload, its message, its answer and its line of the audit; or none of them."""
    async with engine.connect() as conn:
        assert (await post(client, note(), key="k")).status_code == 202
        problem_of(
            await post(client, note() | {"max_attempts": 900}, key="bad"), 422, "invalid-request"
        )
        problem_of(await post(client, note() | {"brand": "NONE"}, key="b"), 422, "unknown-brand")
        assert tuple((await conn.exec_driver_sql(COUNTS)).one()) == (1, 1, 1, 1, 1)


@pytest.mark.parametrize("kind", ["api.note", "api.merge", "api.follow"])
@pytest.mark.parametrize("started", ["2026-01-02T03:04:05Z", "2026-01-02T10:04:05.0607+07"])
async def test_duplicates_are_answered_to_the_byte_as_by_the_steps(
    client: httpx.AsyncClient, owner_engine: AsyncEngine, kind: str, started: str
) -> None:
    """Pending and running, joined, merged and kept as a follow-up, with whole seconds and parts."""
    body = note(note='"Chốt" \\ sổ') | {"kind": kind}
    new = await in_steps(client, body)
    other = body | {"payload": {"number": body["payload"]["number"] + 10**9}}
    made = await post(client, other)
    assert made.text.replace(made.json()["id"], new.json()["id"]) == new.text
    assert made.headers["location"] == made.json()["status_url"]
    input_as_of = None
    for statement in ("SELECT 1", RUN.format(started=started)):
        await execute(owner_engine, statement)
        steps, once = await in_steps(client, body), await post(client, body)
        assert (once.status_code, once.content) == (200, steps.content)
        assert (once.headers["location"], once.headers["retry-after"]) == (
            steps.headers["location"],
            steps.headers["retry-after"],
        )
        input_as_of = once.json()["input_as_of"]
    assert input_as_of is not None
    assert input_as_of.startswith("2026-01-02T03:04:05")


async def test_a_key_that_is_held_is_in_progress_and_a_finished_one_replays(
    client: httpx.AsyncClient,
) -> None:
    """Ten at once: one creates, the others are told to come again or get its answer."""
    body = note()
    answers = await asyncio.gather(*(post(client, body, key="k") for _ in range(10)))
    created = [each for each in answers if each.status_code == 202]
    assert len({each.content for each in created}) == 1
    for each in answers:
        if each.status_code != 202:
            problem_of(each, 409, "idempotency-key-in-progress")
    assert (await post(client, body, key="k")).content == created[0].content


async def administer(database: Database, statement: str) -> None:
    """As a superuser."""
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def held(engine: AsyncEngine, statement: str) -> AsyncIterator[None]:
    """A transaction that has done this, open meanwhile."""
    async with engine.begin() as conn:
        await conn.exec_driver_sql(statement)
        yield


async def test_a_lock_is_waited_for_no_longer_than_the_api_says(
    settings: ApiSettings, engine: AsyncEngine
) -> None:
    """The limits are the statement's own: an equal job under way is 503 busy, and names no bug."""
    body = note()
    quick = settings.model_copy(update={"api_lock_timeout_seconds": 0.2})
    async with serving(quick) as client:
        fingerprint = (
            "SELECT * FROM chot.enqueue('api.note', 'ACME', 'RED', "
            f"'{{\"number\": {body['payload']['number']}}}')"
        )
        async with held(engine, fingerprint):
            problem_of(await post(client, body, key="k"), 503, "busy")
        assert (await post(client, body, key="k")).status_code == 200


async def test_sessions_of_another_isolation_submit_in_a_transaction_that_says_its_own(
    settings: ApiSettings, database: Database, engine: AsyncEngine
) -> None:
    """A database whose default is none that jobs may be submitted at takes jobs all the same."""
    await administer(
        database,
        f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'repeatable read'",
    )
    async with serving(settings) as client:
        body = note()
        first = await post(client, body, key="k")
        assert first.status_code == 202
        assert (await post(client, body, key="k")).content == first.content
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 1


async def test_what_it_does_is_audited_as_done_by_its_caller(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The audit knows the account and the request, as it does of the steps."""
    answer = await post(client, note(), key="k")
    row = "SELECT principal || ' ' || request_id FROM chot.audit WHERE action = 'job.submit'"
    assert await scalar(engine, row) == f"api {answer.headers['x-request-id']}"


async def test_a_connection_that_died_is_dropped_with_its_elders(
    database: Database,
) -> None:
    """One request fails for it, not one for each connection of the pool."""
    engine = tell_outages(open_engine(database.app_url, pool_size=3, command_timeout=1.0))
    try:
        ask = "SELECT pg_backend_pid(), pg_sleep($1)"
        pids = {
            row[0]["pg_backend_pid"]
            for row in await asyncio.gather(*(fetch_at_once(engine, ask, 0.1) for _ in range(3)))
        }
        assert len(pids) == 3
        await administer(
            database, f"SELECT pg_terminate_backend(p) FROM unnest(ARRAY{sorted(pids)}) p"
        )
        with pytest.raises(Exception) as told:  # noqa: PT011 - the driver has several for it
            await fetch_at_once(engine, ask, 0.0)
        assert is_unreachable(told.value)
        for _ in range(3):
            (row,) = await fetch_at_once(engine, ask, 0.0)
            assert row["pg_backend_pid"] not in pids
    finally:
        await engine.dispose()


async def test_a_statement_that_was_given_up_leaves_no_cancel_behind(database: Database) -> None:
    """Its connection is cut: a cancel on its way must not hit the next statement."""
    engine = tell_outages(open_engine(database.app_url, pool_size=1, command_timeout=0.2))
    try:
        (row,) = await fetch_at_once(engine, "SELECT pg_backend_pid()")
        with pytest.raises(TimeoutError) as told:
            await fetch_at_once(engine, "SELECT pg_sleep(5)")
        assert is_unreachable(told.value)
        task = asyncio.create_task(fetch_at_once(engine, "SELECT pg_sleep(0.1)"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (after,) = await fetch_at_once(engine, "SELECT pg_backend_pid()")
        assert after[0] != row[0]
    finally:
        await engine.dispose()


@pytest.mark.usefixtures("client")
async def test_nothing_of_a_submit_stays_in_its_session(
    settings: ApiSettings, engine: AsyncEngine
) -> None:
    """Behind a pooler the next transaction on that session is somebody else's."""
    said = """
        SELECT current_setting('lock_timeout'), current_setting('jit'),
               current_setting('idle_in_transaction_session_timeout'),
               current_setting('enable_seqscan'), current_setting('search_path'),
               coalesce(nullif(current_setting('chot.actor', true), ''), 'nobody')"""
    one = open_engine(settings.database_url.get_secret_value(), pool_size=1)
    try:
        (before,) = await fetch_at_once(one, said)
        submit = """
            SELECT met FROM chot.submit(
                '7ms', '8ms', '{"principal": "x"}', 'api.note', 'ACME', 'RED', $1::text::jsonb, NULL, NULL, NULL,
                'x', NULL, NULL, '"kind":"api.note"', 'k', 5, sha256(''), 1, 1)"""
        for number in (1, 1):
            await fetch_at_once(one, submit, f'{{"number": {number}}}')
        (after,) = await fetch_at_once(one, said)
    finally:
        await one.dispose()
    assert tuple(before) == tuple(after)
    assert after["coalesce"] == "nobody"
    assert await scalar(engine, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def test_a_statement_outlives_what_a_migration_changes_beneath_it(
    database: Database, owner_engine: AsyncEngine
) -> None:
    """Its plan is made anew: nobody hears of it, and no connection is lost."""
    await execute(owner_engine, "CREATE TABLE chot.changing (a integer)")
    await execute(owner_engine, "GRANT SELECT ON chot.changing TO chot_app")
    await execute(owner_engine, "INSERT INTO chot.changing VALUES (1)")
    one = open_engine(database.app_url, pool_size=1)
    try:
        for column in ("b", "c"):
            assert (await fetch_at_once(one, "SELECT * FROM chot.changing"))[0]["a"] == 1
            await execute(owner_engine, f"ALTER TABLE chot.changing ADD COLUMN {column} text")
        (row,) = await fetch_at_once(one, "SELECT * FROM chot.changing")
        assert list(row.keys()) == ["a", "b", "c"]
    finally:
        await one.dispose()
