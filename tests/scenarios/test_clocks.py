"""Clocks that are wrong: whose lease has run out is the database's to say, and nobody else's."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import eventually, fetch, job_row, make_job
from tests.faults.world import faked_clock, faketime_library
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import (
    all_reached,
    checkpointed,
    effects,
    fenced,
    outcomes,
    reached,
    working,
)
from tests.scenarios.looking import Audit
from tests.sqs_proxy import SqsProxy

LEASE = 6.0
SLACK_SECONDS = 5.0


def library() -> Path:
    """libfaketime; a machine without it shows nothing here, and the report says so."""
    found = faketime_library()
    if found is None:
        pytest.skip("libfaketime is not installed (Debian: apt install faketime)")
    return found


def skewed(*, by: str = "", file: Path | None = None) -> dict[str, str]:
    """The environment of a process whose wall clock is off by so much, or as a file says."""
    ours = faked_clock(library())
    if file is None:
        return ours | {"FAKETIME": by}
    return ours | {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1"}


def off_by(worker: Child) -> timedelta:
    """How far the wall clock of the worker's newest log line is from ours."""
    told = [str(line["timestamp"]) for line in log_lines(worker) if "timestamp" in line]
    return datetime.fromisoformat(told[-1]) - datetime.now(UTC)


# Leases that ended otherwise than by their owner, although the database's clock still had them live.
TAKEN_TOO_EARLY = """
    SELECT t.* FROM audit.transitions t, LATERAL (
        SELECT * FROM audit.transitions b WHERE b.job_id = t.job_id AND b.n < t.n
         ORDER BY b.n DESC LIMIT 1) AS before
     WHERE before.state = 'running' AND t.lost_leases > before.lost_leases
       AND t.at < before.lease_expires_at"""


@pytest.mark.scenario("F58")
@pytest.mark.alone
@pytest.mark.long
async def test_no_wall_clock_takes_or_keeps_a_lease(
    probes: AsyncEngine, fleet: Fleet, audit: Audit, tmp_path: Path
) -> None:
    """F58: W2 ten minutes ahead, W3 ten behind, W1 jumps an hour during a job.

    100 jobs of 30 s are 18 of a second here, and three longer than the lease of 6 s.
    """
    fleet.lease = LEASE
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    w1, w2 = fleet.worker(**skewed(file=clock)), fleet.worker(**skewed(by="+10m"))
    w3 = fleet.worker(**skewed(by="-10m"))
    await working(w1, w2, w3)
    assert abs(off_by(w1)) < timedelta(minutes=1)
    assert off_by(w2) > timedelta(minutes=9)
    assert off_by(w3) < timedelta(minutes=-9)
    long = [await make_job(probes, chunks=14, seconds=0.5) for _ in range(3)]
    short = [await make_job(probes, chunks=4, seconds=0.25) for _ in range(18)]
    for job_id in long:
        await checkpointed(probes, job_id, 2)
    clock.write_text("+3600\n")
    await all_reached(probes, [*long, *short], "succeeded", seconds=60)
    await eventually(lambda: _jumped(w1))
    assert await fetch(audit.engine, TAKEN_TOO_EARLY) == []
    rows = await fetch(
        probes, "SELECT DISTINCT fence, attempt, lost_leases, interruptions FROM chot.jobs"
    )
    assert rows == [(1, 1, 0, 0)], "no second claim, of any job"
    for ids, chunks in ((long, 14), (short, 4)):
        for job_id in ids:
            assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(chunks))
    assert all(worker.alive for worker in (w1, w2, w3))


async def _jumped(worker: Child) -> bool:
    return off_by(worker) > timedelta(minutes=50)


@pytest.mark.scenario("F58")
@pytest.mark.parametrize("by", ["-10m", "+10m"])
async def test_dead_work_is_taken_over_in_time_whatever_the_clock_says(
    probes: AsyncEngine, fleet: Fleet, by: str
) -> None:
    """F58 "one behind kept dead work": lease and reaper run by the database, waits by monotonic."""
    first = fleet.worker()
    await working(first)
    job_id = await make_job(probes, chunks=30, seconds=0.3)
    await checkpointed(probes, job_id, 2)
    heir = fleet.worker(**skewed(by=by))
    await working(heir)
    assert abs(off_by(heir)) > timedelta(minutes=9)
    row = await job_row(probes, job_id)
    assert (row.fence, row.state) == (1, "running"), "live work was left alone"
    first.send(signal.SIGKILL)
    killed = monotonic()
    await fenced(probes, job_id, 2)
    assert monotonic() - killed <= fleet.lease * 4 / 3 + SLACK_SECONDS
    await reached(probes, job_id, "succeeded")
    assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(30))
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]


@pytest.mark.scenario("F58")
async def test_a_signature_that_aws_finds_too_old_is_called_that(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """F58: AWS refuses what a clock far off has signed; the log names it, and nothing is lost.

    The emulators look at no signature: the proxy answers as AWS does.
    """
    worker = fleet.worker()
    await working(worker)
    running = await make_job(probes, chunks=8, seconds=0.25)
    await checkpointed(probes, running, 1)
    sqs_proxy.refuse(status=403, code="InvalidSignatureException")
    waiting = await make_job(probes)
    for event in ("receive.waits", "relay.waits"):
        assert "InvalidSignatureException" in await _error_of(worker, event), event
    await reached(probes, running, "succeeded")
    assert (await job_row(probes, running)).attempt == 1, "its lease does not hang on SQS"
    assert (await job_row(probes, waiting)).state == "pending"
    sqs_proxy.heal()
    await reached(probes, waiting, "succeeded")
    assert worker.alive


async def _error_of(worker: Child, event: str) -> str:
    async def named() -> str | None:
        told = (str(line["error"]) for line in log_lines(worker) if line.get("event") == event)
        return next((each for each in told if "Signature" in each), None)

    return str(await eventually(named))
