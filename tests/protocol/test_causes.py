"""Causes: what differs from job to job makes no cause of its own, and what matters does."""

from time import perf_counter
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Scope
from shared.jobs.causes import LIST_CAUSES, list_causes
from shared.jobs.dead_letters import list_dead_jobs
from tests.factories import claimed_again, execute, make_job
from worker.outcome import Failed, fail_job

MANY = 100_000
MOST_SECONDS = 3.0
# Dead jobs as they die in earnest, many at once: their row, and the error beside it. The payload
# and attempts of so many are no matter of a count.
SEED = """
    WITH dead AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, state, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal,
               deployment_id, created_at, finished_at, attempt, fence)
        SELECT chot.uuid7(), j.kind, j.company, j.brand, j.queue, CAST(:state AS text), 5, 5,
               j.available_at, sha256(convert_to(n::text || CAST(:state AS text), 'UTF8')), 'join', 1, 'seed',
               j.deployment_id, j.created_at, clock_timestamp(), 1, 1
          FROM chot.jobs j, generate_series(1, CAST(:many AS integer)) AS n WHERE j.id = :like
        RETURNING id, fingerprint)
    INSERT INTO chot.job_outputs (job_id, error)
    SELECT id, jsonb_build_object('type', 'ValueError', 'code', 'FAILED',
               'message', 'document ' || id || ' of store "R1" has no line '
                          || encode(fingerprint, 'hex')
                          || repeat(' and none', 20),
               'frames', jsonb_build_array('a.py:1 f', 'b.py:2 g')) FROM dead"""


async def died(engine: AsyncEngine, message: str, code: str = "FAILED", **more: Any) -> str:
    """A job that died of it."""
    held = await claimed_again(engine, await make_job(engine, **more), worker="w")
    async with engine.begin() as conn:
        await fail_job(conn, held, Failed(error=message, code=code, permanent=True))
    return str(held.lease.job_id)


SAME = {
    "numbers": ("line 7 of 12 is empty", "line 12 of 1,500 is empty"),
    "money": ("1.234.567,00 is too much", "99 is too much"),
    "times": ("not before 2026-01-31T18:00:00+07:00", "not before 2026-02-01T09:30:00+07:00"),
    "ids": (
        "job 0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a10 is gone",
        "job 0199C2F4-7D9A-7CC1-A3C8-2F4F1D0F6A11 is gone",
    ),
    "addresses": ("<Pool at 0x7fd2c8e0> is shut", "<Pool at 0x1> is shut"),
    "digests": ("sha256 9f86d081884c7d65 expected", "sha256 abcdef123456deadbeef99 expected"),
    "codes of the books": ("no item GẠO-ST25, unit 7", 'no item "R\'1", unit 12'),
    "what comes late": ("x" * 300 + " one", "x" * 300 + " two"),
}
OTHER = {
    "words": ("the period is closed", "the period is open"),
    "quoted words": ("KeyError: 'brand'", "KeyError: 'store'"),
    "letters of Vietnamese": ("kỳ đã đóng", "kỳ đã mở"),
}


@pytest.mark.parametrize("name", SAME)
async def test_what_differs_from_job_to_job_is_one_cause(probes: AsyncEngine, name: str) -> None:
    """Its list and its redrive know it by the same name."""
    jobs = [await died(probes, message) for message in SAME[name]]
    await died(probes, "something else")
    async with probes.connect() as conn:
        found = await list_causes(conn)
        row = found.rows[0]
        assert (row["jobs"], str(row["example"]), found.causes, found.jobs) == (2, jobs[-1], 2, 3)
        assert row["first_at"] < row["last_at"]
        listed = await list_dead_jobs(conn, kind=None, before=None, limit=9, cause=row["cause"])
    assert [str(each["id"]) for each in listed] == jobs[::-1]


@pytest.mark.parametrize("name", OTHER)
async def test_what_matters_makes_a_cause_of_its_own(probes: AsyncEngine, name: str) -> None:
    """Words do; so do kind and code."""
    for message in OTHER[name]:
        await died(probes, message)
    async with probes.connect() as conn:
        assert [row["jobs"] for row in (await list_causes(conn)).rows] == [1, 1]


async def test_types_tell_causes_apart_and_killers_are_counted(probes: AsyncEngine) -> None:
    """A KeyError and a TypeError of one code and word; of each cause how many lost all leases."""
    jobs = [await died(probes, "the same") for _ in range(4)]
    for job_id, type_ in zip(jobs, ("KeyError", "KeyError", "TypeError", None), strict=True):
        await execute(
            probes,
            """UPDATE chot.job_outputs
                  SET error = jsonb_set(error, '{type}', coalesce(to_jsonb(CAST(:type AS text)), 'null'))
                WHERE job_id = CAST(:id AS uuid)""",
            id=job_id,
            type=type_,
        )
    await execute(
        probes,
        "UPDATE chot.jobs SET fence = 2 * max_attempts, attempt = 2 * max_attempts, lost_leases = 2 * max_attempts WHERE id = CAST(:id AS uuid)",
        id=jobs[1],
    )
    async with probes.connect() as conn:
        found = await list_causes(conn)
        told = {row["type"]: (row["jobs"], row["killers"]) for row in found.rows}
        assert told == {"KeyError": (2, 1), "TypeError": (1, 0), "": (1, 0)}
        assert (found.causes, found.killers, (await list_causes(conn, limit=1)).killers) == (
            3,
            1,
            1,
        )
        (keys,) = [row["cause"] for row in found.rows if row["type"] == "KeyError"]
        listed = await list_dead_jobs(conn, kind=None, before=None, limit=9, cause=keys)
    killers = [(str(row["id"]), row["lost_all_leases"]) for row in listed]
    assert killers == [(jobs[1], True), (jobs[0], False)]


async def test_kind_and_code_tell_causes_apart_and_a_scope_hides_the_rest(
    probes: AsyncEngine,
) -> None:
    """An error without a code goes by its type; one without anything is a cause, too."""
    await died(probes, "the same")
    await died(probes, "the same", code="OTHER")
    await died(probes, "the same", kind="probe.merge")
    bare = await died(probes, "the same")
    await execute(probes, "UPDATE chot.job_outputs SET error = NULL WHERE job_id = :id", id=bare)
    async with probes.connect() as conn:
        found = await list_causes(conn)
        assert (found.causes, found.jobs) == (4, 4)
        assert len({row["cause"] for row in found.rows}) == 4
        assert (await list_causes(conn, kind="probe.merge")).jobs == 1
        limited = await list_causes(conn, limit=1)
        assert (len(limited.rows), limited.causes, limited.jobs) == (1, 4, 4)
        blue = await list_causes(conn, scope=Scope(company="ACME", brands=("BLUE",)))
        assert (list(blue.rows), blue.jobs) == ([], 0)
        (nothing,) = [row for row in found.rows if row["example_error"] is None]
        assert (nothing["code"], nothing["message"], str(nothing["example"])) == ("", "", bare)


@pytest.mark.long
async def test_a_hundred_thousand_dead_jobs_are_counted_by_one_look_at_the_dead(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Each with words of its own, among twice as many that live; by the index of the dead."""
    like = await make_job(probes)
    for state, many in (("dead", MANY), ("succeeded", 2 * MANY)):
        await execute(owner_engine, SEED, state=state, many=many, like=like)
    await execute(owner_engine, "ANALYZE chot.jobs, chot.job_outputs")
    binds = {"kind": None, "limit": 50, "scope_company": None, "scope_brands": None}
    async with probes.connect() as conn:
        lines = (await conn.execute(text(f"EXPLAIN {LIST_CAUSES.text}"), binds)).scalars().all()
        began = perf_counter()
        found = await list_causes(conn)
        took = perf_counter() - began
        began = perf_counter()
        page = await list_dead_jobs(
            conn, kind=None, before=None, limit=200, cause=found.rows[0]["cause"]
        )
        paged = perf_counter() - began
    assert (found.causes, found.jobs, len(page)) == (1, MANY, 200)
    plan = "\n".join(lines)
    assert "jobs_dead_idx" in plan, plan
    assert "Seq Scan on jobs" not in plan, plan
    assert took < MOST_SECONDS, took
    assert paged < MOST_SECONDS, paged
