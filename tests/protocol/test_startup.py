"""Start-up against neighbours: many processes begin at once after an outage."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import PROBES, eventually, scalar
from worker.settings import WorkerSettings
from worker.startup import wait_for_database

LOCK_KINDS = text("UPDATE chot.kinds SET updated_at = clock_timestamp()")
WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'"""


async def test_a_worker_waits_for_a_neighbour_that_mirrors_its_kinds(
    probes: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the fault suite: the lock timeout ended the process with exit code 1."""
    monkeypatch.setenv("CHOT_DATABASE_URL", "postgresql://chot_app@127.0.0.1/not_used")
    monkeypatch.setenv("CHOT_LOCK_TIMEOUT_SECONDS", "0.2")
    settings = WorkerSettings()

    async def waits(*, wanted: bool) -> bool:
        return bool(await scalar(probes, WAITING)) is wanted

    async with probes.connect() as neighbour:
        await neighbour.execute(LOCK_KINDS)
        starting = asyncio.create_task(wait_for_database(probes, settings, PROBES))
        await eventually(lambda: waits(wanted=True))
        await eventually(lambda: waits(wanted=False))  # its lock timeout has come
        assert not starting.done(), "it tries again"
        await neighbour.rollback()
    in_force = await asyncio.wait_for(starting, 20)
    assert in_force.deployment_id == await scalar(
        probes, "SELECT deployment_id FROM chot.deployment"
    )
