"""Equal work: one active job, and free again with whatever ends it."""

import signal
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import NUMBERS, eventually
from tests.fleet import Fleet
from tests.journeys.looking import checkpointed, effects, outcomes, reached

ENDINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    # how it ends: (kind, what its payload asks for, the state it ends in)
    "succeeded": ("probe.write", {"chunks": 2, "seconds": 0.3}, "succeeded"),
    "failed at its last attempt": ("probe.write", {"fail_first": 99}, "dead"),
    "dead for good": ("probe.misbehave", {"how": "raise_permanent"}, "dead"),
    "cancelled": ("probe.write", {"chunks": 100, "seconds": 0.2}, "cancelled"),
}


async def submit(
    http: httpx.AsyncClient, number: int, kind: str = "probe.write", **payload: Any
) -> tuple[JobId, bool, str | None]:
    """Submit this work; (id, whether it is a new job, what became of a duplicate)."""
    body = {"kind": kind, "company": "ACME", "brand": "RED", "max_attempts": 1}
    answer = await http.post("/v1/jobs", json=body | {"payload": {"number": number} | payload})
    assert answer.status_code in {200, 202}, answer.text
    found = answer.json()
    assert found["created"] is (answer.status_code == 202), "a duplicate is no error"
    return found["id"], found["created"], found["duplicate"]


@pytest.mark.scenario("F42")
async def test_whatever_ends_a_job_frees_its_work_at_once(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """F42: pending, running, then ended each in its way, under one fingerprint a way."""
    numbers = {how: next(NUMBERS) for how in ENDINGS}
    first = {}
    for how, (kind, payload, _) in ENDINGS.items():
        job_id, created, _ = await submit(http, numbers[how], kind, **payload)
        assert created
        again = await submit(http, numbers[how], kind, **payload)
        assert again == (job_id, False, "joined"), "while it is pending"
        first[how] = job_id
    fleet.worker()
    for how in ("succeeded", "cancelled"):
        await checkpointed(probes, first[how], 1)
        kind, payload, _ = ENDINGS[how]
        if how == "cancelled":  # the other one may have ended by now
            again = await submit(http, numbers[how], kind, **payload)
            assert again == (first[how], False, "joined"), "while it is running"
            assert (await http.post(f"/v1/jobs/{first[how]}/cancel")).status_code == 200
    for how, (kind, payload, state) in ENDINGS.items():
        await reached(probes, first[how], state)
        second, created, duplicate = await submit(http, numbers[how], kind, **payload)
        assert (created, duplicate) == (True, None), f"{how}: free in the same transaction"
        assert second != first[how]
        if how == "succeeded":
            await reached(probes, second, "succeeded")


@pytest.mark.scenario("F42")
async def test_work_whose_worker_was_killed_stays_one_job_and_is_reclaimed(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """F42 "after kill -9: same id and it is reclaimed"; and free once it has succeeded."""
    worker, number = fleet.worker(), next(NUMBERS)
    payload: dict[str, Any] = {"chunks": 8, "seconds": 0.2}
    job_id, _, _ = await submit(http, number, **payload)
    await checkpointed(probes, job_id, 2)
    worker.send(signal.SIGKILL)
    for state in ("its lease still runs", "its lease is over"):
        assert await submit(http, number, **payload) == (job_id, False, "joined"), state
        if state == "its lease still runs":
            await eventually(lambda: lease_is_over(probes, job_id))
    fleet.worker()
    await reached(probes, job_id, "succeeded")
    assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(8))
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]
    assert (await submit(http, number, **payload))[1], "free again"


@pytest.mark.scenario("F42")
async def test_work_that_waits_for_its_next_try_is_active(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """F42, failed with attempts left: the same id, whatever happens to it next."""
    number = next(NUMBERS)
    body = {"kind": "probe.write", "company": "ACME", "brand": "RED"}
    payload = {"number": number, "fail_first": 1, "chunks": 3, "seconds": 1.0}
    job_id = (await http.post("/v1/jobs", json=body | {"payload": payload})).json()["id"]
    fleet.worker()

    async def failed_once() -> bool:
        return "failed" in await outcomes(probes, job_id)

    await eventually(failed_once, every=0.02)
    assert await submit(http, number) == (job_id, False, "joined")
    await reached(probes, job_id, "succeeded")
    assert await outcomes(probes, job_id) == ["failed", "succeeded"]


async def lease_is_over(engine: AsyncEngine, job_id: JobId) -> bool:
    """Whether the database's clock has passed the lease (nobody is there to reap it)."""
    async with engine.connect() as conn:
        found = await conn.exec_driver_sql(
            "SELECT lease_expires_at < clock_timestamp() FROM chot.jobs WHERE id = $1", (job_id,)
        )
        return bool(found.scalar_one())
