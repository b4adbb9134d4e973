"""The storm: mixed jobs over HTTP, a worker killed every few seconds, duplicates, some poison."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import eventually, fetch, scalar
from tests.fleet import Fleet
from tests.sqs_proxy import SqsProxy

KILL_EVERY_SECONDS = 4.0
DUPLICATE_EVERY = 10
POSTS_AT_ONCE = 16
LONGEST_JOB_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """How large, and how long it may take until every job has ended.

    Each lost lease beyond a job's second makes it run alone, so that kills without end would make
    a small storm mostly wait: `kills` says after how many there is peace.
    """

    jobs: int
    concurrency: int
    seconds: float
    kills: int
    seed: int = 20261129


@dataclass(slots=True)
class Sent:
    """What was submitted and accepted: chunks that each good job must have written."""

    chunks: dict[UUID, int] = field(default_factory=dict)
    poison: dict[UUID, str] = field(default_factory=dict)


def good_job(rng: random.Random) -> tuple[str, dict[str, Any], int]:
    """Kind, payload and number of effects of a job of 0 to 4 s; short ones are the rule."""
    if rng.random() < 0.2:
        return "probe.follow", {"note": "ngõ 12"}, 1
    chunks = rng.randint(1, 6)
    seconds = LONGEST_JOB_SECONDS * rng.random() ** 2
    payload = {
        "chunks": chunks,
        "seconds": round(seconds / chunks, 3),
        "fail_first": int(rng.random() < 0.05),
        "complete": rng.random() < 0.3,
        "unyielding": rng.random() < 0.5,
    }
    return "probe.write", payload, chunks


POISON = ("raise_permanent", "return_nan", "return_cycle", "exit")


async def submit_all(urls: list[str], storm: Storm) -> Sent:
    """POST all jobs to the apis in turn; every one is accepted with 202 and one id of its own."""
    rng, sent, turn = random.Random(storm.seed), Sent(), asyncio.Semaphore(POSTS_AT_ONCE)
    poison_at = dict(zip(rng.sample(range(storm.jobs), len(POISON)), POISON, strict=True))

    async def post(client: httpx.AsyncClient, number: int) -> None:
        body: dict[str, Any] = {"company": "ACME", "brand": rng.choice(("RED", "BLUE"))}
        kind, payload, chunks = good_job(rng)
        if number in poison_at:
            kind, payload = "probe.misbehave", {"how": poison_at[number]}
            body["max_attempts"] = 1
        body |= {"kind": kind, "payload": {"number": 1_000_000 + number} | payload}
        async with turn:
            answer = await client.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        job_id = UUID(answer.json()["id"])
        if number in poison_at:
            sent.poison[job_id] = poison_at[number]
        else:
            sent.chunks[job_id] = chunks

    async with (
        httpx.AsyncClient(base_url=urls[0], timeout=60) as one,
        httpx.AsyncClient(base_url=urls[1], timeout=60) as two,
    ):
        clients = (one, two)
        await asyncio.gather(*(post(clients[n % 2], n) for n in range(storm.jobs)))
    assert len(sent.chunks) + len(sent.poison) == storm.jobs, "no two submits got one job"
    return sent


@dataclass(slots=True)
class Massacre:
    """Kills one worker every few seconds, and replaces every one that is dead."""

    fleet: Fleet
    living: list[Child]
    changes: dict[str, str]
    kills: int = 0
    deaths: int = 0

    def round(self, rng: random.Random, *, kill: bool) -> None:
        """Kill one, revive all."""
        if kill:
            rng.choice(self.living).kill()
            self.kills += 1
        for place, child in enumerate(self.living):
            if not child.alive:
                self.deaths += 1
                self.living[place] = self.fleet.worker(**self.changes)


@asynccontextmanager
async def massacre(fleet: Fleet, storm: Storm) -> AsyncIterator[Massacre]:
    """Three workers that are killed in turn while the block runs."""
    changes = {"CHOT_CONCURRENCY": str(storm.concurrency)}
    killing = Massacre(fleet, [fleet.worker(**changes) for _ in range(3)], changes)

    async def forever() -> None:
        rng = random.Random(storm.seed)
        while True:
            await asyncio.sleep(KILL_EVERY_SECONDS)
            killing.round(rng, kill=killing.kills < storm.kills)

    task = asyncio.create_task(forever())
    try:
        yield killing
    finally:
        task.cancel()
        await asyncio.wait({task})


async def rage(engine: AsyncEngine, fleet: Fleet, proxy: SqsProxy, storm: Storm) -> None:
    """Submit, kill, wait for the end, then hold what must hold."""
    proxy.duplicate_every = DUPLICATE_EVERY
    apis = [await asyncio.to_thread(fleet.api) for _ in range(2)]
    began = monotonic()
    async with massacre(fleet, storm) as killing:
        sent = await submit_all([url for _, url in apis], storm)
        submitted = monotonic() - began
        await eventually(nothing_active(engine), seconds=storm.seconds, every=0.5)
    took = monotonic() - began
    await eventually(outbox_empty(engine), seconds=20)
    assert {child.alive for child, _ in apis} == {True}
    await hold_states(engine, sent)
    await hold_effects(engine, sent)
    await hold_attempts(engine)
    numbers = await fetch(
        engine,
        """SELECT sum(lost_leases) AS lost, max(attempt) AS most, max(lost_leases) AS worst,
                  count(*) FILTER (WHERE lost_leases >= 2) AS alone FROM chot.jobs""",
    )
    report = (
        f"{storm.jobs} jobs in {took:.0f} s (accepted after {submitted:.0f} s): "
        f"{killing.kills} kills, {killing.deaths} deaths, {numbers[0].lost} lost leases "
        f"(at most {numbers[0].worst} of one job), {numbers[0].alone} jobs ran alone, "
        f"{numbers[0].most} attempts at most, {proxy.duplicated} of {proxy.delivered} "
        "deliveries doubled"
    )
    print(report)  # noqa: T201 - the numbers of a run are its result
    assert proxy.duplicated >= proxy.delivered // DUPLICATE_EVERY - 1
    assert killing.kills >= min(storm.kills, took / KILL_EVERY_SECONDS / 2)


def nothing_active(engine: AsyncEngine) -> Callable[[], Awaitable[bool]]:
    """Hold when no job is pending or running."""

    async def holds() -> bool:
        active = await scalar(
            engine, "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
        )
        return bool(active == 0)

    return holds


def outbox_empty(engine: AsyncEngine) -> Callable[[], Awaitable[bool]]:
    """Hold when the outbox is empty."""

    async def holds() -> bool:
        return bool(await scalar(engine, "SELECT count(*) FROM chot.outbox") == 0)

    return holds


async def hold_states(engine: AsyncEngine, sent: Sent) -> None:
    """Every accepted job exists; all succeeded but the poison, which is dead."""
    rows = await fetch(engine, "SELECT id, state FROM chot.jobs")
    states = {row.id: row.state for row in rows}
    wanted = dict.fromkeys(sent.chunks, "succeeded") | dict.fromkeys(sent.poison, "dead")
    assert states == wanted


async def hold_effects(engine: AsyncEngine, sent: Sent) -> None:
    """Each (job, chunk) once, in order, and no fence ever goes back."""
    rows = await fetch(engine, "SELECT job_id, chunk, fence FROM probe.effects ORDER BY n")
    written: dict[UUID, list[tuple[int, int]]] = {job_id: [] for job_id in sent.chunks}
    for row in rows:
        written[row.job_id].append((row.chunk, row.fence))
    for job_id, effects in written.items():
        assert [chunk for chunk, _ in effects] == list(range(sent.chunks[job_id]))
        fences = [fence for _, fence in effects]
        assert fences == sorted(fences), "an older fence wrote after a newer one"


async def hold_attempts(engine: AsyncEngine) -> None:
    """One closed row a claim, fences without a gap, counters as the rows say."""
    wrong = await fetch(
        engine,
        """SELECT j.id, j.state, j.attempt, j.fence, a.* FROM chot.jobs j
             JOIN LATERAL (
                SELECT count(*) AS claims, max(x.fence) AS newest, min(x.fence) AS oldest,
                       count(*) FILTER (WHERE x.outcome IS NULL) AS open,
                       count(*) FILTER (WHERE x.outcome = 'succeeded') AS successes,
                       count(*) FILTER (WHERE x.outcome = 'lost_lease') AS lost,
                       count(*) FILTER (WHERE x.outcome = 'released') AS released,
                       (array_agg(x.outcome ORDER BY x.fence DESC))[1] AS final
                  FROM chot.attempts x WHERE x.job_id = j.id) a ON true
            WHERE a.claims <> j.attempt OR a.newest <> j.fence OR a.oldest <> 1 OR a.open > 0
               OR a.claims <> j.fence OR a.lost <> j.lost_leases OR a.released <> j.interruptions
               OR a.successes <> (j.state = 'succeeded')::integer
               OR (a.final = 'succeeded') <> (j.state = 'succeeded')""",
    )
    assert wrong == []


async def test_a_storm_of_jobs_and_kills_leaves_every_effect_once(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """200 jobs; the same as the long one, in a size for every day."""
    await rage(probes, fleet, sqs_proxy, Storm(jobs=200, concurrency=8, seconds=120, kills=5))


@pytest.mark.long
async def test_two_thousand_jobs_in_the_storm(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """The issue's own measure: 3 workers, 2 apis, lease 3 s, a kill every 4 s."""
    await rage(probes, fleet, sqs_proxy, Storm(jobs=2000, concurrency=12, seconds=400, kills=1000))
