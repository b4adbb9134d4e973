"""Snooze: a handler names the time when it wants to go on; uncharged, up to a cap."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import LONGEST_SNOOZE, Snooze
from tests.factories import (
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    execute,
    fetch,
    job_row,
    scalar,
)
from tests.protocol.test_attempt import outcome_of, runner
from tests.services import Database
from worker.attempt import run_attempt
from worker.claim import claim_jobs
from worker.context import JobContext
from worker.outcome import FREE_RELEASES, Released

WAIT = "extract(epoch FROM available_at - clock_timestamp())::double precision"


async def snoozed_for(engine: AsyncEngine) -> float:
    """Seconds until the one job is due, by the database's clock."""
    return float(await scalar(engine, f"SELECT {WAIT} FROM chot.jobs"))


async def test_a_snoozed_job_comes_back_at_its_time_uncharged(
    probes: AsyncEngine, database: Database
) -> None:
    """Pending until then, with the handler's words in its attempt; what was committed stays."""

    async def snooze(context: JobContext, _: Any) -> None:
        async with context.transaction() as tx:
            tx.checkpoint = {"asked": 1}
        context.snooze("the bank opens at nine", after=timedelta(seconds=90))

    held = await claimed_job(probes)
    outcome = await run_attempt(runner(probes, database, write=snooze), held)
    assert isinstance(outcome, Released)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.attempt, row.interruptions) == ("pending", 1, 1)
    assert 80 < await snoozed_for(probes) <= 90
    assert await outcome_of(probes, held) == (
        "released",
        {"type": "Snoozed", "message": "the bank opens at nine"},
    )
    assert await scalar(probes, "SELECT checkpoint FROM chot.job_outputs") == {"asked": 1}
    assert await claim_jobs(autocommit(probes), claimant("b"), [held.lease.job_id]) == []
    due = await scalar(
        probes,
        "SELECT max(next_send_at) = max(available_at) FROM chot.jobs j "
        "JOIN chot.outbox o ON o.job_id = j.id",
    )
    assert due, "its message leaves at that time"


@pytest.mark.parametrize("seconds", [3600, -3600])
async def test_until_is_judged_by_the_databases_clock(
    probes: AsyncEngine, database: Database, seconds: float
) -> None:
    """An instant that has passed means at once, and never a due time in the past."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)

    async def snooze(_: JobContext, __: Any) -> None:
        raise Snooze(until=until)

    held = await claimed_job(probes)
    await run_attempt(runner(probes, database, write=snooze), held)
    row = await job_row(probes, held.lease.job_id)
    if seconds > 0:
        assert row.available_at == until
    else:
        assert -5 < await snoozed_for(probes) <= 0


async def test_a_job_that_only_snoozes_is_charged_in_the_end(
    probes: AsyncEngine, database: Database
) -> None:
    """Twenty times at one checkpoint are free; then each costs an attempt, and the last is dead."""

    async def snooze(_: JobContext, __: Any) -> None:
        raise Snooze("once more", after=timedelta(0))

    held = await claimed_job(probes)
    job_id = held.lease.job_id
    await execute(probes, "UPDATE chot.jobs SET max_attempts = 2 WHERE state = 'running'")
    for _ in range(FREE_RELEASES + 1):
        await run_attempt(runner(probes, database, write=snooze), held)
        assert (await job_row(probes, job_id)).state == "pending"
        held = await claimed_again(probes, job_id, worker="a")
    await run_attempt(runner(probes, database, write=snooze), held)
    row = await job_row(probes, job_id)
    assert (row.state, row.interruptions) == ("dead", FREE_RELEASES)
    error = await fetch(probes, "SELECT error FROM chot.job_outputs")
    assert error[0].error == {"type": "Snoozed", "message": "once more"}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"after": timedelta(1), "until": datetime(2027, 1, 1, tzinfo=UTC)},
        {"after": timedelta(seconds=-1)},
        {"after": LONGEST_SNOOZE + timedelta(1)},
        {"until": datetime(2027, 1, 1)},  # noqa: DTZ001 - that is the point
        {"until": datetime(9999, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_snooze_that_names_no_time_is_refused(asked: dict[str, Any]) -> None:
    """At the place where it is raised, not when its outcome is to be stored."""
    with pytest.raises(ValueError, match="snooze"):
        raise Snooze(**asked)
