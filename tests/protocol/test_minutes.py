"""Minutes: what the overview's charts are drawn of, to the job, for every scope, and bounded."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING, Scope
from shared.jobs.cancel import cancel_job
from shared.jobs.counts import add_up_endings
from shared.jobs.minutes import read_history, read_rates, sample_minute
from tests.factories import autocommit, claimed_again, execute, fetch, make_job, scalar
from tests.protocol.exits import leave

# Whatever was written in this minute happened a minute ago.
AGE = (
    "UPDATE chot.job_minutes SET minute = minute - interval '1 minute'",
    "UPDATE chot.endings SET at = at - interval '1 minute'",
)
RED, BLUE = Scope(company="ACME", brands=("RED",)), Scope(company="ACME", brands=("BLUE",))


async def sample(engine: AsyncEngine) -> bool:
    async with engine.begin() as conn:
        return await sample_minute(conn)


async def history(engine: AsyncEngine, scope: Scope = EVERYTHING) -> dict[str, float | None]:
    """What the last two full minutes hold, by state: a minute may have passed while we wrote."""
    async with engine.begin() as conn:
        found = await read_history(conn, step=60, steps=60, scope=scope)
    told: dict[str, float | None] = {name: sum(each[-2:]) for name, each in found.ended.items()}
    for name, values in found.levels.items():
        told[name] = next((each for each in reversed(values[-2:]) if each is not None), None)
    return told


async def age(owner: AsyncEngine) -> None:
    for statement in AGE:
        await execute(owner, statement)


async def test_a_minute_is_counted_once_whoever_asks(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Of twenty processes one counts; the others find the mark. No minute: not known, not none."""
    assert await history(probes) == {
        "pending": None,
        "running": None,
        "dead": None,
        "succeeded": 0,
        "cancelled": 0,
    }
    await make_job(probes)
    did = await asyncio.gather(*(sample(probes) for _ in range(10)))
    assert sum(did) == 1
    assert not await sample(probes)
    await age(owner_engine)
    assert (await history(probes))["pending"] == 1
    assert await sample(probes)
    await age(owner_engine)


async def test_levels_and_ends_are_those_of_the_jobs(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Each state to the job, before and after maintenance has added the endings up."""
    await make_job(probes)
    held = await claimed_again(probes, await make_job(probes), worker="a")
    await claimed_again(probes, await make_job(probes), worker="b")
    async with probes.begin() as conn:
        await cancel_job(conn, await make_job(probes))
    assert await leave(probes, held, "complete")
    assert await sample(probes)
    await age(owner_engine)
    wanted = {"pending": 1, "running": 1, "dead": 0, "succeeded": 1, "cancelled": 1}
    assert await history(probes) == wanted
    async with autocommit(probes).connect() as conn:
        assert await add_up_endings(conn) == 2
    assert await history(probes) == wanted
    assert await scalar(probes, "SELECT count(*) FROM chot.endings") == 0
    async with probes.begin() as conn:
        assert await read_rates(conn) == {"default": pytest.approx(2 / 5)}


async def test_a_scope_sees_its_own(probes: AsyncEngine, owner_engine: AsyncEngine) -> None:
    """RED's jobs are RED's; that a minute was counted is everybody's to know."""
    await make_job(probes)
    assert await sample(probes)
    await age(owner_engine)
    brands = await fetch(owner_engine, "SELECT DISTINCT brand FROM chot.jobs")
    assert [row.brand for row in brands] == ["RED"]
    assert (await history(probes, RED))["pending"] == 1
    assert (await history(probes, BLUE))["pending"] == 0
    assert (await history(probes, Scope(company="OTHER")))["pending"] == 0


async def test_steps_are_means_of_what_was_counted(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A quarter of an hour with two counted minutes of 4 and 0 jobs waiting had 2 on average."""
    for minutes, jobs in ((16, 4), (17, 0)):
        await execute(
            owner_engine,
            """INSERT INTO chot.job_minutes (minute, queue, company, brand, state, jobs)
               SELECT to_timestamp(floor(extract(epoch FROM clock_timestamp()) / 900) * 900
                                   - 900 + 60 * (CAST(:m AS integer) - 15)), v.q, v.c, '', v.s, v.n
                 FROM (VALUES ('', '', 'sampled', 1),
                              ('default', 'ACME', 'pending', CAST(:n AS integer)))
                      AS v (q, c, s, n)""",
            m=minutes,
            n=jobs,
        )
    async with probes.begin() as conn:
        found = await read_history(conn, step=900, steps=96)
    assert found.levels["pending"][-1] == 2
    assert found.levels["pending"][-2] is None
    assert len(found.ended["succeeded"]) == 96


async def test_a_day_is_kept_and_no_more(probes: AsyncEngine, owner_engine: AsyncEngine) -> None:
    """What is older than 25 hours goes with the next count."""
    for hours in (24, 26):
        await execute(
            owner_engine,
            """INSERT INTO chot.job_minutes (minute, queue, company, brand, state, jobs)
               VALUES (date_trunc('minute', clock_timestamp()) - make_interval(hours => :h),
                       'default', 'ACME', 'RED', 'dead', 1)""",
            h=hours,
        )
    assert await sample(probes)
    left = "SELECT count(*) FROM chot.job_minutes WHERE state = 'dead'"
    assert await scalar(probes, left) == 1


async def test_an_ending_of_the_version_before_is_counted_and_not_drawn(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Its row says no minute: the totals hold to the job, the charts lack it."""
    await execute(
        owner_engine, "INSERT INTO chot.endings (kind, state) VALUES ('probe.write', 'succeeded')"
    )
    async with autocommit(probes).connect() as conn:
        assert await add_up_endings(conn) == 1
    assert await scalar(probes, "SELECT sum(jobs) FROM chot.ending_totals") == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.job_minutes") == 0
