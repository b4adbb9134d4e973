"""Long work: half a ledger, a restart from zero and a second posting are all the same promise.

There is no posting or migration kind yet: the probes of tests/probes/data_handlers.py stand for
them. What is shown is the platform's part: a chunk commits with its checkpoint, or not at all.
"""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.types import JobId
from tests.factories import eventually, execute, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import outcomes, reached, working
from tests.scenarios.books import MODULES, control_totals, totals_of, unbalanced
from tests.scenarios.looking import api_of, post_job
from tests.tcp_proxy import Proxy

DOCUMENTS = 10_000
CHUNK = 400
SOURCE = """
    INSERT INTO probe.source SELECT n, md5(n::text)
      FROM generate_series(1, CAST(:rows AS bigint)) AS n"""
CHECKSUM = "SELECT count(*), sum(hashtext(id::text || body)::bigint) FROM probe."
BOTH = """
    SELECT j.progress_done, (SELECT count(*) FROM probe.documents d WHERE d.job_id = j.id) AS posted
      FROM chot.jobs j WHERE j.id = ANY(:ids)"""


@asynccontextmanager
async def watched(engine: AsyncEngine, *ids: JobId) -> AsyncIterator[None]:
    """Progress is the number of committed documents, at every moment that anybody looks."""
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            for row in await fetch(engine, BOTH, ids=list(ids)):
                assert (row.progress_done or 0) == row.posted
            looks += 1
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait({looking})
    assert looking.cancelled(), looking.exception()
    assert looks > 5


async def progressed(engine: AsyncEngine, job_id: UUID, done: int) -> None:
    """Wait until so much of the job is committed."""

    async def there() -> bool:
        return ((await job_row(engine, job_id)).progress_done or 0) >= done

    await eventually(there, seconds=60, every=0.01)


async def posted_whole(engine: AsyncEngine, ids: list[JobId], *, again: str) -> None:
    """Every batch equals its control totals; what broke a run was `again`, never its failure."""
    for job_id in ids:
        await reached(engine, job_id, "succeeded", seconds=60)
        assert await totals_of(engine, job_id) == control_totals(DOCUMENTS)
        ended = await outcomes(engine, job_id)
        assert ended[-1] == "succeeded"
        assert set(ended[:-1]) <= {again}
    assert await unbalanced(engine) == []


async def killed_at_random(fleet: Fleet, engine: AsyncEngine, worker: Child, job_id: JobId) -> None:
    """Kill -9 somewhere in the middle of the batch, and of a chunk."""
    await progressed(engine, job_id, random.randrange(1, DOCUMENTS - 2 * CHUNK))
    await asyncio.sleep(random.uniform(0, 0.1))  # where in the chunk: nobody may choose it
    worker.send(signal.SIGKILL)
    fleet.worker(**MODULES)


def batch(http: httpx.AsyncClient, **payload: Any) -> Any:
    """Submit one batch of 10,000 documents, 40,000 lines."""
    return post_job(http, "data.ledger", documents=DOCUMENTS, chunk=CHUNK, **payload)


@pytest.mark.scenario("F49")
async def test_a_batch_survives_a_kill_a_cut_and_a_duplicate(
    data: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """F49 once over: each of its three steps hits the same run, which is posted once and whole."""
    fleet.lease = 2.0
    worker = fleet.worker(**MODULES)
    await working(worker)
    async with api_of(fleet, **MODULES) as http:
        job_id = await batch(http, number=49, seconds=0.05)
        async with watched(data, job_id):
            await progressed(data, job_id, 2 * CHUNK)
            again = await posted_again(http, 49)
            assert (again["id"], again["created"]) == (str(job_id), False)
            worker.send(signal.SIGKILL)
            fleet.worker(**MODULES, **fleet.proxied)
            await progressed(data, job_id, DOCUMENTS // 2)
            pg_proxy.reset()
            await reached(data, job_id, "succeeded", seconds=40)
        shown = (await http.get(f"/v1/jobs/{job_id}")).json()
    assert (shown["progress"]["done"], shown["result"]["posted"]) == (DOCUMENTS, DOCUMENTS)
    assert await totals_of(data, job_id) == control_totals(DOCUMENTS) == (10_000, 40_000, _sum())
    assert await unbalanced(data) == []
    ended = await outcomes(data, job_id)
    assert (ended[0], ended[-1], "failed" in ended) == ("lost_lease", "succeeded", False)
    fences = await scalar(data, "SELECT count(DISTINCT fence) FROM probe.documents")
    assert fences >= 2, "what was posted before the kill was not posted again"


def _sum() -> Any:
    return control_totals(DOCUMENTS)[2]


async def posted_again(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
    """The answer to a second submit of the same batch."""
    payload = {"number": number, "documents": DOCUMENTS, "chunk": CHUNK, "seconds": 0.05}
    body = {"kind": "data.ledger", "company": "ACME", "brand": "RED", "payload": payload}
    answer = await http.post("/v1/jobs", json=body)
    assert answer.status_code in {200, 202}, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.scenario("F49")
@pytest.mark.long
async def test_twenty_batches_survive_kills(data: AsyncEngine, fleet: Fleet) -> None:
    """F49, 20 runs: four batches run side by side, five times, and one kill -9 hits all four."""
    fleet.lease = 2.0
    fleet.worker(**MODULES)
    ids: list[JobId] = []
    async with api_of(fleet, **MODULES) as http:
        for _ in range(5):
            four = [await batch(http, seconds=0.02) for _ in range(4)]
            async with watched(data, *four):
                worker = fleet.workers[-1]
                await killed_at_random(fleet, data, worker, four[0])
                for job_id in four:
                    await reached(data, job_id, "succeeded", seconds=60)
            ids += four
    await posted_whole(data, ids, again="lost_lease")
    lost = [outcome for each in ids for outcome in await outcomes(data, each)].count("lost_lease")
    assert lost >= 15, "nearly every run was hit"


@pytest.mark.scenario("F49")
@pytest.mark.long
async def test_batches_survive_cuts_and_duplicates(
    data: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """F49, 5 runs with the database cut off for a moment, 5 with duplicate submits all the time."""
    fleet.lease = 2.0
    worker = fleet.worker(**MODULES, **fleet.proxied)
    await working(worker)
    async with api_of(fleet, **MODULES) as http:
        ids = []
        for _ in range(5):
            job_id = await batch(http, seconds=0.02)
            async with watched(data, job_id):
                await progressed(data, job_id, random.randrange(1, DOCUMENTS - 2 * CHUNK))
                pg_proxy.cut()
                await asyncio.sleep(random.uniform(0.1, 1.0))  # how long nobody can be reached
                pg_proxy.heal()
                await reached(data, job_id, "succeeded", seconds=60)
            ids.append(job_id)
        for number in range(4901, 4906):
            job_id = await batch(http, number=number, seconds=0.05)
            answers = []
            while (await job_row(data, job_id)).state != "succeeded":
                answers.append(await posted_again(http, number))
            same = [each for each in answers if each["id"] == str(job_id)]
            assert len(same) >= 5
            assert not any(each["created"] for each in same)
            # One that came after the end is new work: it is told so.
            assert len(answers) - len(same) <= 1
            ids.append(job_id)
    await posted_whole(data, ids, again="released")
    assert worker.alive


# A migration that is longer than any of its runs


async def _copied_whole(engine: AsyncEngine) -> None:
    source = (await fetch(engine, CHECKSUM + "source"))[0]
    assert (await fetch(engine, CHECKSUM + "target"))[0] == source


@pytest.mark.scenario("F50")
@pytest.mark.parametrize(
    ("rows", "kills"),
    [(40_000, 1), pytest.param(1_000_000, 10, marks=pytest.mark.long)],
)
async def test_a_migration_longer_than_its_runs_ends(
    data: AsyncEngine, fleet: Fleet, owner_engine: AsyncEngine, rows: int, kills: int
) -> None:
    """F50: a run may take a fifth of the whole (a 25th in the long test: shorter than the time from
    kill to kill), and is killed on top of that.

    A run that reaches its limit hands the job back behind its last chunk: that is never charged
    while the checkpoint moves (what is, tests/protocol/test_outcome.py shows). Two deviations from
    "counts runs without progress, not runs": kills have a budget of their own, twice the kind's
    attempts (20 here), whatever they had done before; and the hard timeout is charged (see below).
    """
    fleet.lease = 1.5
    await execute(owner_engine, SOURCE, rows=rows)
    chunk = rows // 80
    runs = 5 if kills == 1 else 25
    fleet.worker(**MODULES)
    async with api_of(fleet, **MODULES) as http:
        job_id = await post_job(
            http, "data.copy", chunk=chunk, seconds=0.05, run_seconds=80 * 0.06 / runs
        )
        seen: list[int] = []
        for kill in range(1, kills + 1):
            await progressed(data, job_id, rows * kill // (kills + 2))
            await asyncio.sleep(random.uniform(0, 0.1))  # where in the chunk: nobody may choose it
            seen.append(await shown_done(http, job_id))
            fleet.workers[-1].send(signal.SIGKILL)
            fleet.worker(**MODULES)
        while (await job_row(data, job_id)).state != "succeeded":
            seen.append(await shown_done(http, job_id))
        seen.append(await shown_done(http, job_id))
    assert seen == sorted(seen), "progress only grows, over all runs"
    assert (len(set(seen)) > kills, seen[-1]) == (True, rows)
    await _copied_whole(data)
    await _charged_once(data, job_id, kills)


@pytest.mark.scenario("F50")
async def test_runs_that_are_cut_off_by_the_hard_timeout_go_on_from_their_checkpoints(
    data: AsyncEngine, fleet: Fleet, owner_engine: AsyncEngine
) -> None:
    """F50, "let it time out": two runs or more of a job that is longer than its kind's timeout.

    No chunk is done twice. Otherwise than the scenario says, each of them is charged though its
    checkpoint moved: a timeout is a failure, and the kind's attempts (20 here) bound them.
    """
    await execute(owner_engine, SOURCE, rows=1200)
    fleet.worker(**MODULES)
    async with api_of(fleet, **MODULES) as http:
        job_id = await post_job(http, "data.copy_brief", chunk=40, seconds=0.05)
        seen: list[int] = []
        while (await job_row(data, job_id)).state in {"pending", "running"}:
            seen.append(await shown_done(http, job_id))
        seen.append(await shown_done(http, job_id))
    assert seen == sorted(seen), "progress only grows, over all runs"
    row, ended = await job_row(data, job_id), await outcomes(data, job_id)
    assert (row.state, seen[-1]) == ("succeeded", 1200)
    assert ended == ["failed"] * (len(ended) - 1) + ["succeeded"]
    assert len(ended) >= 2
    assert (row.attempt, row.lost_leases, row.interruptions) == (len(ended), 0, 0), "all charged"
    codes = "SELECT DISTINCT error ->> 'code' AS c FROM chot.attempts WHERE outcome = 'failed'"
    assert [each.c for each in await fetch(data, codes)] == ["TIMEOUT"]
    went_on = """SELECT count(*) FROM chot.attempts
                  WHERE job_id = :id AND claimed_checkpoint_no > 0"""
    assert await scalar(data, went_on, id=job_id) >= 1, "from its checkpoint"
    await _copied_whole(data)


async def shown_done(http: httpx.AsyncClient, job_id: JobId) -> int:
    """How far GET says that the job is."""
    progress = (await http.get(f"/v1/jobs/{job_id}")).json()["progress"]
    return int(progress["done"]) if progress else 0


async def _charged_once(engine: AsyncEngine, job_id: JobId, kills: int) -> None:
    row = await job_row(engine, job_id)
    ended = await outcomes(engine, job_id)
    assert set(ended) == {"lost_lease", "released", "succeeded"}
    assert 1 <= row.lost_leases <= kills
    assert row.interruptions >= 3, "its runs were too short for it"
    assert row.attempt - row.lost_leases - row.interruptions == 1, "only the last run is charged"
    runs = await scalar(
        engine,
        """SELECT count(*) FROM chot.attempts WHERE job_id = :id AND outcome = 'released'
              AND checkpoint_no = claimed_checkpoint_no""",
        id=job_id,
    )
    assert runs == 0, "no run was handed back without progress"
