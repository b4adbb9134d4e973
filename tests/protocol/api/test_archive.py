"""The archive: what is long over leaves the hot tables, and answers as it did."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId, WorkerId
from tests.factories import autocommit, execute, fetch, scalar
from tests.protocol.api.app import post, problem_of
from tests.protocol.api.test_read_and_act import END, RUN, made
from worker.retention import BATCH, Retention
from worker.settle import read_missed

HOT = ("jobs", "job_payloads", "job_outputs", "attempts", "outbox")
AGE = """
    UPDATE chot.jobs SET created_at = created_at - make_interval(days => CAST(:days AS integer)),
           finished_at = finished_at - make_interval(days => CAST(:days AS integer))
     WHERE id = ANY(CAST(:ids AS uuid[]))"""


async def ended(engine: AsyncEngine, job_id: str, state: str) -> None:
    """The job has run and ended so."""
    await execute(engine, RUN, job_id=UUID(job_id))
    await execute(
        engine,
        END,
        job_id=UUID(job_id),
        state=state,
        outcome="failed" if state == "dead" else state,
        result='{"amount": "1.10", "n": 12345678901234567890}' if state == "succeeded" else None,
        error='{"type": "E"}' if state == "dead" else None,
    )


async def of_every_state(client: httpx.AsyncClient, engine: AsyncEngine) -> dict[str, str]:
    """A job in each state, all of them as old as each other."""
    ids = {
        state: await made(client)
        for state in ("succeeded", "cancelled", "dead", "running", "pending")
    }
    for state in ("succeeded", "cancelled", "dead"):
        await ended(engine, ids[state], state)
    await execute(engine, RUN, job_id=UUID(ids["running"]))
    await age(engine, ids)
    return ids


async def age(engine: AsyncEngine, ids: dict[str, str], days: int = 40) -> None:
    """Set the clock of these jobs back."""
    await execute(engine, AGE, ids=[UUID(each) for each in ids.values()], days=days)


async def archive(engine: AsyncEngine, *, days: float = 30, keep: float = 0) -> None:
    """One step of a worker's retention."""
    retention = Retention(archive_after_days=days, archive_keep_days=keep)
    await retention.step(autocommit(engine))


@pytest.mark.scenario("F37")
async def test_only_what_is_over_for_good_is_archived(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Never pending, running or dead, however old; and nothing of what went stays behind."""
    ids = await of_every_state(client, engine)
    young = await made(client)
    await ended(engine, young, "succeeded")
    await archive(engine)
    left = await fetch(engine, "SELECT id::text, state FROM chot.jobs ORDER BY state")
    stay = {ids[state] for state in ("dead", "running", "pending")}
    assert {row.id for row in left} == stay | {young}
    gone = [UUID(ids[state]) for state in ("succeeded", "cancelled")]
    for table in HOT:
        key = "id" if table == "jobs" else "job_id"
        rest = f"SELECT count(*) FROM chot.{table} WHERE {key} = ANY(:ids)"
        assert await scalar(engine, rest, ids=gone) == 0, table


async def test_a_job_whose_cleanup_is_due_waits_for_it(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """What it left half-built is found by its row."""
    job_id = await made(client)
    await ended(engine, job_id, "cancelled")
    await age(engine, {"one": job_id})
    due = "UPDATE chot.jobs SET cleanup_due = :due WHERE id = :id"
    await execute(engine, due, id=UUID(job_id), due=True)
    await archive(engine)
    assert await scalar(engine, "SELECT count(*) FROM chot.archived_jobs") == 0
    await execute(engine, due, id=UUID(job_id), due=False)
    await archive(engine)
    assert await scalar(engine, "SELECT count(*) FROM chot.archived_jobs") == 1


@pytest.mark.scenario("F37")
async def test_an_archived_job_answers_as_it_did(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The same bytes, result and attempts included; its late message is deleted, not parked."""
    ids = await of_every_state(client, engine)
    before = {state: await client.get(f"/v1/jobs/{ids[state]}") for state in ids}
    await archive(engine)
    for state in ("succeeded", "cancelled"):
        after = await client.get(f"/v1/jobs/{ids[state]}")
        assert after.content == before[state].content
        assert after.headers["etag"] == before[state].headers["etag"]
        job = UUID(ids[state])
        async with autocommit(engine).connect() as conn:
            rows: Any = await read_missed(conn, [JobId(job)], WorkerId("w"))
        assert rows[job].state == state
        for act, slug in (("cancel", "too-late"), ("redrive", "not-dead")):
            answer = await client.post(f"/v1/jobs/{ids[state]}/{act}")
            if (state, act) == ("cancelled", "cancel"):
                assert answer.status_code == 200, "a repeat is safe"
            else:
                problem_of(answer, 409, slug)


async def test_a_key_replays_when_its_job_is_archived(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """The answer is stored with the key, not with the job."""
    body = {
        "kind": "api.note",
        "company": "ACME",
        "brand": "RED",
        "payload": {"number": 987654},
    }
    first = await post(client, body, key="once")
    job_id = first.json()["id"]
    await ended(engine, job_id, "succeeded")
    await age(engine, {"one": job_id})
    await archive(engine)
    again = await post(client, body, key="once")
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.scenario("F37")
async def test_a_walk_goes_on_where_it_stopped_and_passes_what_stays(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Many batches, each a transaction of its own, jobs that stay among them."""
    pattern = await made(client)
    await ended(engine, pattern, "succeeded")
    await execute(
        engine,
        """INSERT INTO chot.jobs (id, kind, company, brand, queue, state, attempt, fence,
                  max_attempts, available_at, fingerprint, on_duplicate, payload_version,
                  principal, deployment_id, created_at, finished_at)
           SELECT chot.uuid7(), kind, company, brand, queue,
                  CASE WHEN n % 3 = 0 THEN 'dead' ELSE 'succeeded' END, attempt, fence,
                  max_attempts, available_at, sha256(int8send(n)), on_duplicate,
                  payload_version, principal, deployment_id, created_at, finished_at
             FROM chot.jobs, generate_series(1, CAST(:jobs AS bigint)) AS n WHERE id = :id""",
        id=UUID(pattern),
        jobs=3 * BATCH,
    )
    every = await fetch(engine, "SELECT id FROM chot.jobs")
    await age(engine, {str(n): str(row.id) for n, row in enumerate(every)})
    await archive(engine)
    left = await fetch(engine, "SELECT state, count(*) AS jobs FROM chot.jobs GROUP BY state")
    assert {row.state: row.jobs for row in left} == {"dead": BATCH}
    count = "SELECT count(*) FROM chot.archived_jobs"
    assert await scalar(engine, count) == 2 * BATCH + 1
    batches = await fetch(
        engine, "SELECT count(*) AS jobs FROM chot.archived_jobs GROUP BY xmin::text"
    )
    assert len(batches) >= 3
    assert max(row.jobs for row in batches) <= BATCH
    await archive(engine, keep=365)
    assert await scalar(engine, count) == 2 * BATCH + 1


async def test_young_ones_at_the_head_do_not_stop_the_removal(
    engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A batch of jobs was submitted first and ended last: all that is old goes before they do.

    Of no month that there is, as what was made before the archive had months.
    """
    await execute(
        owner_engine,
        """INSERT INTO chot.archived_jobs (id, finished_at, job, attempts)
           SELECT CAST(overlay(CAST(chot.uuid7() AS text) PLACING '00dc6acf-ac00' FROM 1 FOR 13)
                       AS uuid), clock_timestamp() - make_interval(
                      days => CASE WHEN n <= :most THEN 1 ELSE 400 END), '{}', '[]'
             FROM generate_series(1, 3 * :most) AS n ORDER BY n""",
        most=BATCH,
    )
    await archive(engine, keep=365)
    left = "SELECT count(*) FILTER (WHERE finished_at > clock_timestamp() - interval '2 days')"
    assert await scalar(engine, f"{left} FROM chot.archived_jobs") == BATCH
    assert await scalar(engine, "SELECT count(*) FROM chot.archived_jobs") == BATCH
