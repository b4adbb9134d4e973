"""On ECS: the task is protected while it works, named after itself, and alive while its loops are."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.agent_stand_in import TASK_ARN, Agent, open_agent
from tests.factories import eventually, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import effects, exited, fenced, reached, said, stamped, working
from worker.liveness import age_of


@pytest.fixture
def agent() -> Iterator[Agent]:
    """A stand-in of the ECS agent."""
    with open_agent() as opened:
        yield opened


def on_ecs(fleet: Fleet, agent: Agent, alive: Path, **changes: str) -> Child:
    """A worker as ECS would start it."""
    return fleet.worker(
        ECS_AGENT_URI=agent.agent_uri,
        ECS_CONTAINER_METADATA_URI_V4=agent.metadata_uri,
        CHOT_LIVENESS_FILE=str(alive),
        **changes,
    )


async def test_a_task_is_protected_while_it_works_and_drains_in_order(
    probes: AsyncEngine, fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    """On while it works, off when idle and at the end; the health check agrees."""
    alive = tmp_path / "alive"
    child = on_ecs(fleet, agent, alive)
    await working(child)
    assert agent.puts == [], "an idle task may go"
    assert await healthy(alive)
    job_id = await make_job(probes, chunks=4, seconds=0.5)
    row = await fenced(probes, job_id, 1)
    tail = TASK_ARN.rpartition("/")[2]
    assert row.worker_id.startswith(f"{tail}-{child.pid}-"), "the task's name, the boot's nonce"

    async def protected() -> bool:
        return agent.protected

    async def free() -> bool:
        return not agent.protected

    await eventually(protected)
    await reached(probes, job_id, "succeeded")
    assert len(await effects(probes, job_id)) == 4
    await eventually(free)
    again = await make_job(probes, chunks=200, seconds=0.1)
    await fenced(probes, again, 1)
    await eventually(protected)
    child.send(signal.SIGTERM)
    assert await exited(child) == 0
    assert not agent.protected, "what leaves in order leaves no protection behind"
    assert agent.malformed == []


FIRST_EFFECT = """
    SELECT min(extract(epoch FROM at))::double precision FROM probe.effects WHERE job_id = :job"""


async def test_a_task_is_protected_before_the_first_effect_of_its_job(
    probes: AsyncEngine, fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    """A job that writes at once waits for the agent's answer, which takes its time."""
    agent.answer_delay = 0.5
    child = on_ecs(fleet, agent, tmp_path / "alive")
    await working(child)
    job_id = await make_job(probes, chunks=1)
    await reached(probes, job_id, "succeeded")
    first_effect = await scalar(probes, FIRST_EFFECT, job=job_id)
    assert agent.protected_at, "it was asked"
    assert agent.protected_at[0] <= first_effect


@pytest.mark.long
async def test_the_heartbeat_arms_again_before_the_protection_runs_out(
    probes: AsyncEngine, fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    """One minute is the least that can be asked for; the stand-in's has 24 seconds.

    Asked again after a third of a real one, the task is protected when the first would be over.
    """
    agent.minute = 24.0
    child = on_ecs(fleet, agent, tmp_path / "alive")
    await working(child)
    job_id = await make_job(probes, chunks=300, seconds=0.2)
    await fenced(probes, job_id, 1)

    async def first_is_over() -> bool:
        armed = [put.at for put in agent.puts if put.enabled]
        gone = bool(armed) and monotonic() > armed[0] + agent.minute + 1
        assert agent.protected or not agent.protected_at, "protected at every look"
        return gone

    await eventually(first_is_over, seconds=60)
    first, second = [put for put in agent.puts if put.enabled]
    assert (first.minutes, second.minutes) == (1, 1)
    assert 18 < second.at - first.at < 23, "at a third of the expiry"
    child.send(signal.SIGTERM)
    assert await exited(child) == 0
    assert not agent.protected


async def test_an_agent_that_fails_or_hangs_stops_no_job(
    probes: AsyncEngine, fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    """Refused: said once. Silent: the first job waits a second at most. No lease is lost by it."""
    agent.how = "deployment blocked"
    child = on_ecs(fleet, agent, tmp_path / "alive")
    await working(child)
    for how in ("deployment blocked", "black hole"):
        agent.how = how
        job_id = await make_job(probes, chunks=3, seconds=0.5 * fleet.lease)
        row = await reached(probes, job_id, "succeeded")
        assert (row.attempt, row.lost_leases) == (1, 0)
    failed = fleet.events(child, "protection.failed")
    assert len([line for line in failed if "DEPLOYMENT_BLOCKED" in line["error"]]) == 1


@pytest.mark.scenario("F52")
async def test_liveness_asks_for_the_loops_and_for_nothing_else(
    probes: AsyncEngine, fleet: Fleet, tmp_path: Path
) -> None:
    """No database, no SQS: alive. A blocking job: alive. A process that stands still: not."""
    lost = tmp_path / "lost"
    away = fleet.worker(
        CHOT_LIVENESS_FILE=str(lost),
        CHOT_DATABASE_URL="postgresql://chot_app@127.0.0.1:1/none",
        CHOT_READ_DATABASE_URL="postgresql://chot_app@127.0.0.1:1/none",
    )
    blocked = tmp_path / "blocked"
    child = fleet.worker(CHOT_LIVENESS_FILE=str(blocked))
    await working(child)
    job_id = await make_job(probes, "probe.misbehave", how="block", seconds=4, only_first=True)
    await stamped(probes, job_id)
    touched = blocked.read_text()

    async def touched_again() -> bool:
        return blocked.read_text() != touched

    await eventually(touched_again)
    await said(away, "startup.waits")
    assert await healthy(lost), "a start that waits for its database"
    assert await healthy(blocked), "a handler that blocks the jobs' loop"
    child.send(signal.SIGSTOP)

    async def old() -> bool:
        return (age_of(blocked) or 0) > 2

    await eventually(old)
    child.send(signal.SIGCONT)
    await reached(probes, job_id, "succeeded")


async def healthy(alive: Path) -> bool:
    """What the task definition's health check says."""
    check = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker.liveness",
        env={**os.environ, "CHOT_LIVENESS_FILE": str(alive)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await check.wait() == 0
