"""Ends: what attempts and duplicates come to is counted by whoever ends them, and never lost."""

import asyncio
import random
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.metric_families import BOUNDS, families_of
from shared.jobs.counts import read_counts
from shared.jobs.ends import BUCKETS, HALF_LIFE, add_up_duplicates, add_up_ends
from shared.types import JobId
from tests.factories import (
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    eventually,
    execute,
    expire_lease,
    fetch,
    make_job,
    scalar,
    submitted,
)
from tests.protocol.exits import EXITS, claimed_for, leave
from worker.claim import claim_jobs
from worker.lease import HeldLease

JOBS = 40


async def counted(engine: AsyncEngine) -> dict[tuple[str, tuple[str, ...]], float]:
    """What /metrics says, by name and the labels' values."""
    async with engine.connect() as conn:
        counts = await read_counts(conn)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families_of(counts)
        for sample in family.samples
    }


def exact(found: dict[tuple[str, tuple[str, ...]], float]) -> dict[Any, float]:
    """Those that no time passes for."""
    return {key: value for key, value in found.items() if key[0].endswith(("total", "bucket"))}


async def added_up(engine: AsyncEngine, *, most: int = 5000) -> int:
    """Move what there is into the totals."""
    async with autocommit(engine).connect() as conn:
        return await add_up_ends(conn, most=most) + await add_up_duplicates(conn, most=most)


@pytest.mark.parametrize("how", EXITS)
async def test_every_exit_is_counted_once_with_its_outcome(probes: AsyncEngine, how: str) -> None:
    """Before and after it is added up, and a claim is there from the claim on."""
    held = await claimed_for(probes, how)
    before = await counted(probes)
    assert before["chot_claims_total", ("probe.write",)] >= 1
    assert await leave(probes, held, how)
    _, outcome = EXITS[how]
    series = ("chot_attempts_total", ("probe.write", outcome))
    after = await counted(probes)
    assert after[series] == before[series] + 1
    assert (
        after["chot_claims_total", ("probe.write",)]
        == before["chot_claims_total", ("probe.write",)]
    ), "an end is no claim"
    await added_up(probes)
    assert await scalar(probes, "SELECT count(*) FROM chot.attempt_ends") == 0
    assert exact(await counted(probes)) == exact(after), "a sum is a sum"


async def test_a_lease_that_runs_out_says_who_found_it(probes: AsyncEngine) -> None:
    """Reaped, or taken over by the next claim: a loss both times, a takeover once."""
    reaped = await claimed_job(probes)
    assert await leave(probes, reaped, "reap")
    taken = await claimed_job(probes)
    await expire_lease(probes, taken.lease.job_id)
    again = await claimed_again(probes, taken.lease.job_id, worker="b")
    assert again.taken_over
    assert again.queue_seconds is None, "what was running was not due"
    found = await counted(probes)
    assert found["chot_lease_losses_total", ("probe.write",)] == 2
    assert found["chot_takeovers_total", ("probe.write",)] == 1
    assert found["chot_claims_total", ("probe.write",)] == 3
    assert found["chot_attempts_total", ("probe.write", "lost_lease")] == 2


async def test_queue_and_run_seconds_are_those_of_the_rows(probes: AsyncEngine) -> None:
    """From due to claimed and from claimed to ended, in the buckets they belong to."""
    for waited, ran in ((0, 0), (3, 40), (700, 7000), (100_000, 0.3)):
        job_id = await make_job(probes)
        due = "UPDATE chot.jobs SET available_at = available_at - make_interval(secs => :s)"
        await execute(probes, f"{due} WHERE id = :i", s=waited, i=job_id)
        held = await claimed_again(probes, job_id, worker="a")
        assert held.queue_seconds == pytest.approx(waited, abs=5)
        began = "UPDATE chot.attempts SET started_at = started_at - make_interval(secs => :s)"
        await execute(probes, f"{began} WHERE job_id = :i", s=ran, i=job_id)
        assert await leave(probes, held, "complete")
    rows = await fetch(
        probes,
        """SELECT queue_seconds AS queue,
                  extract(epoch FROM ended_at - started_at)::double precision AS run
             FROM chot.attempts""",
    )
    for add_up in (False, True):
        if add_up:
            assert await added_up(probes) == 4
        found = await counted(probes)
        for name in ("queue", "run"):
            values, series = [getattr(row, name) for row in rows], f"chot_{name}_seconds"
            assert found[f"{series}_count", ("probe.write",)] == 4
            assert found[f"{series}_sum", ("probe.write",)] == pytest.approx(sum(values))
            for bound, label in zip((*BUCKETS, float("inf")), BOUNDS, strict=True):
                at_most = sum(value <= bound for value in values)
                assert found[f"{series}_bucket", ("probe.write", label)] == at_most, (name, bound)


async def test_duplicates_are_counted_by_how_they_met(probes: AsyncEngine) -> None:
    """Whoever submits, and of a new job nothing."""
    first = await submitted(probes, number=-1)
    for _ in range(3):
        assert not (await submitted(probes, number=-1)).created
    await submitted(probes, "probe.merge", number=-2, items=["a"])
    assert (await submitted(probes, "probe.merge", number=-2, items=["b"])).duplicate == "merged"
    for add_up in (False, True):
        if add_up:
            assert await added_up(probes) == 4
        found = await counted(probes)
        assert found["chot_duplicates_total", ("probe.write", "joined")] == 3
        assert found["chot_duplicates_total", ("probe.merge", "merged")] == 1
        assert found["chot_duplicates_total", ("probe.merge", "joined")] == 0
        assert found["chot_jobs_submitted_total", ("probe.write",)] == 1
    assert first.created


async def one_life(engine: AsyncEngine, rng: random.Random) -> int:
    """A job with some claims and ends; how many claims. A second lost lease would make it alone."""
    job_id, claims = await make_job(engine), 0
    ways = ("retry", "release", rng.choice(("reap", "take")))
    for how in rng.sample(ways, k=rng.randint(0, 2)):
        held = await won(engine, job_id)
        claims += 1
        if how == "take":
            await expire_lease(engine, job_id)
        else:
            await leave_one(engine, held, how)
        due = "UPDATE chot.jobs SET available_at = clock_timestamp() - interval '1 minute'"
        await execute(engine, f"{due} WHERE id = :i AND state = 'pending'", i=job_id)
    held = await won(engine, job_id)
    assert await leave(engine, held, rng.choice(("complete", "cancel", "fail_permanently")))
    return claims + 1


async def won(engine: AsyncEngine, job_id: JobId) -> HeldLease:
    """Claim it, though a neighbour's reaper may hold its row at this moment."""

    async def claimed() -> HeldLease | None:
        found = await claim_jobs(autocommit(engine), claimant(f"w{job_id}"), [job_id])
        return found[0] if found else None

    held: HeldLease = await eventually(claimed)
    return held


async def leave_one(engine: AsyncEngine, held: HeldLease, how: str) -> None:
    """As leave(), where a reaper of a neighbour may have come first."""
    left = await leave(engine, held, how)
    assert left or how == "reap"


async def test_sums_hold_while_many_end_and_many_add_up(probes: AsyncEngine) -> None:
    """Two reapers of ends, a batch of three at a time, beside all kinds of exits: none is lost."""
    rng, over = random.Random(84), asyncio.Event()

    async def add_up_for_ever() -> None:
        while not over.is_set():
            await added_up(probes, most=3)
            await asyncio.sleep(0)

    adding = [asyncio.create_task(add_up_for_ever()) for _ in range(2)]
    for _ in range(JOBS // 8):
        lives = await asyncio.gather(*(one_life(probes, rng) for _ in range(8)))
        assert all(lives)
    over.set()
    await asyncio.gather(*adding)
    while await added_up(probes):
        pass
    rows = await fetch(probes, "SELECT outcome, count(*) AS n FROM chot.attempts GROUP BY outcome")
    found = await counted(probes)
    for row in rows:
        assert found["chot_attempts_total", ("probe.write", row.outcome)] == row.n
    assert found["chot_claims_total", ("probe.write",)] == sum(row.n for row in rows)
    assert found["chot_run_seconds_count", ("probe.write",)] == sum(row.n for row in rows)


async def test_a_mean_forgets(probes: AsyncEngine, owner_engine: AsyncEngine) -> None:
    """After two half-lives of quick attempts what was slow before weighs a quarter."""
    mean = "SELECT seconds / weight FROM chot.run_means WHERE kind = 'x'"
    ends = """INSERT INTO chot.attempt_ends (kind, outcome, taken_over, run_seconds)
              SELECT 'x', :o, false, :s FROM generate_series(1, CAST(:n AS integer))"""
    await execute(owner_engine, ends, o="succeeded", s=100.0, n=3000)
    await added_up(probes)
    assert await scalar(probes, mean) == pytest.approx(100)
    await execute(owner_engine, ends, o="lost_lease", s=9999.0, n=50)
    await execute(owner_engine, ends, o="failed", s=0.0, n=2 * HALF_LIFE)
    await added_up(probes)
    assert await scalar(probes, mean) == pytest.approx(25, rel=0.01)
