"""Backlog: due work ÷ slots, in seconds, with nothing in it that no further worker would help."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.backlog import NEW_KIND_SECONDS
from shared.jobs.counts import read_counts
from tests.factories import claimed_again, execute, make_job, offer_slots
from tests.protocol.exits import leave

SLOW, QUICK = "probe.write", "probe.merge"
KNOWN = """UPDATE chot.workers SET kinds = '{"probe.write": 1, "probe.merge": 1}'"""
MEAN = """INSERT INTO chot.run_means (kind, seconds, weight) VALUES (:kind, 60 * :mean, 60)"""
HALF_AN_HOUR = """UPDATE chot.jobs SET available_at = available_at - interval '30 minutes'
                   WHERE state = 'pending'"""


async def backlog(engine: AsyncEngine, queue: str = "default") -> float:
    """What the signal says of the queue."""
    async with engine.connect() as conn:
        counts = await read_counts(conn)
    found: dict[str, float] = counts["backlog_seconds"]
    assert all(value >= 0 for value in found.values())
    return found[queue]


async def known(engine: AsyncEngine, **means: float) -> None:
    """A worker of 4 slots that knows both kinds, and what their attempts have taken."""
    await offer_slots(engine, 4)
    await execute(engine, KNOWN)
    for kind, mean in means.items():
        await execute(engine, MEAN, kind=f"probe.{kind}", mean=mean)


async def test_due_work_over_slots(probes: AsyncEngine) -> None:
    """Ten jobs of 20 s and five of 2 s on 4 slots: 52.5 s; what is not due is no work yet."""
    await known(probes, write=20, merge=2)
    assert await backlog(probes) == 0
    for _ in range(10):
        await make_job(probes, SLOW)
    for _ in range(5):
        await make_job(probes, QUICK, items=[])
    assert await backlog(probes) == pytest.approx((10 * 20 + 5 * 2) / 4)
    await offer_slots(probes, 8)
    assert await backlog(probes) == pytest.approx((10 * 20 + 5 * 2) / 8)
    late = "UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 hour'"
    await execute(probes, f"{late} WHERE kind = :k", k=SLOW)
    assert await backlog(probes) == pytest.approx(5 * 2 / 8)


async def test_what_runs_is_no_backlog_and_its_end_is_measured(probes: AsyncEngine) -> None:
    """A mean comes from attempts that have really ended, 40 s each."""
    await known(probes)
    for _ in range(3):
        held = await claimed_again(probes, await make_job(probes), worker="a")
        assert await backlog(probes) == 0
        began = "UPDATE chot.attempts SET started_at = started_at - interval '40 seconds'"
        await execute(probes, f"{began} WHERE outcome IS NULL")
        assert await leave(probes, held, "complete")
    await make_job(probes)
    assert await backlog(probes) == pytest.approx(40 / 4, abs=0.5)


async def test_without_a_worker_it_is_that_of_one_slot_and_grows(probes: AsyncEngine) -> None:
    """Never infinite; and a job that waits for half an hour says so, however quick it is."""
    await execute(probes, MEAN, kind=SLOW, mean=20)
    assert await backlog(probes) == 0, "no work needs no worker"
    await make_job(probes)
    assert await backlog(probes) == pytest.approx(20)
    await execute(probes, HALF_AN_HOUR)
    assert await backlog(probes) == pytest.approx(1800, abs=5)
    await known(probes)
    assert await backlog(probes) == pytest.approx(20 / 4)
    await execute(probes, "UPDATE chot.workers SET state = 'draining'")
    assert await backlog(probes) == pytest.approx(1800, abs=5), "who drains takes no more"
    await execute(probes, "UPDATE chot.workers SET state = 'working', live_until = now()")
    assert await backlog(probes) == pytest.approx(1800, abs=5), "nor does the dead"


async def test_a_new_kind_counts_as_half_a_minute_or_as_long_as_it_has_run(
    probes: AsyncEngine,
) -> None:
    """Nothing has ended: the first attempt that still runs says how long it takes at least."""
    await known(probes)
    await make_job(probes)
    assert await backlog(probes) == pytest.approx(NEW_KIND_SECONDS / 4)
    await claimed_again(probes, await make_job(probes), worker="a")
    began = "UPDATE chot.attempts SET started_at = started_at - interval '10 minutes'"
    await execute(probes, began)
    assert await backlog(probes) == pytest.approx(600 / 4, abs=1)


HOLDS = {
    "paused queue": "UPDATE chot.queues SET paused = true WHERE name = 'default'",
    "paused kind": "UPDATE chot.kinds SET paused = true WHERE name = 'probe.write'",
    "frozen books": "INSERT INTO chot.freezes (company, principal) VALUES ('ACME', 'test')",
    "paused jobs": "UPDATE chot.jobs SET paused_at = now() WHERE state = 'pending'",
    "unknown to the workers": """UPDATE chot.workers SET kinds = '{"probe.merge": 1}'""",
    "waits for a lock": """
        WITH made AS (
            INSERT INTO chot.job_locks (job_id, n, root, part, mode, period_from, period_to, lane,
                                        turn, waiting)
            SELECT id, n, 'r', '', 'exclusive', '', '', '', 5, true
              FROM chot.jobs CROSS JOIN generate_series(0, 1) AS n)
        UPDATE chot.jobs SET lock_roots = ARRAY['r']""",
    "joins others": """
        WITH made AS (
            INSERT INTO chot.groups (company, policy, principal) VALUES ('ACME', 'finish', 'test')
            RETURNING id)
        UPDATE chot.jobs SET joins = (SELECT id FROM made)""",
}


@pytest.mark.parametrize("why", HOLDS)
async def test_what_no_worker_would_help_is_no_backlog(
    probes: AsyncEngine, owner_engine: AsyncEngine, why: str
) -> None:
    """Scaling out for it would only cost."""
    await known(probes, write=20)
    await make_job(probes)
    assert await backlog(probes) == pytest.approx(5)
    await execute(owner_engine, HOLDS[why])
    assert await backlog(probes) == 0


async def test_beyond_a_maximum_nothing_is_backlog(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Of ten due jobs two may run: two of 20 s on 4 slots; one that runs leaves room for one."""
    await known(probes, write=20)
    ids = [await make_job(probes) for _ in range(10)]
    limit = """INSERT INTO chot.running_limits (company, brand, max_running, principal)
               VALUES ('ACME', 'RED', 2, 'test')"""
    await execute(probes, limit)
    assert await backlog(probes) == pytest.approx(2 * 20 / 4)
    running = """UPDATE chot.jobs SET state = 'running', fence = 1, attempt = 1,
                 lease_token = gen_random_uuid(), worker_id = 'a',
                 lease_expires_at = now() + interval '1 hour' WHERE id = :i"""
    await execute(owner_engine, running, i=ids[0])
    assert await backlog(probes) == pytest.approx(1 * 20 / 4)
    await execute(probes, "DELETE FROM chot.running_limits")
    assert await backlog(probes) == pytest.approx(9 * 20 / 4)
    await execute(probes, "UPDATE chot.kinds SET max_running = 4 WHERE name = :k", k=SLOW)
    assert await backlog(probes) == pytest.approx(3 * 20 / 4)
