"""Gauges are what the database says, whichever process is asked and whatever befell the others."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.counting import SHARE
from dev.processes import Child
from tests.factories import eventually, fetch, scalar
from tests.fleet import Fleet
from tests.journeys.looking import working
from tests.scenarios.looking import api_of, post_job
from tests.scenarios.metrics import FINAL, GAUGES, Scraped, count_all, scrape
from tests.services import Database

INTERVAL_SECONDS = 0.2
SAMPLE_SECONDS = 0.05
RARE = {"CHOT_METRICS_SECONDS": f"{INTERVAL_SECONDS:g}"}
BAD = ("raise_permanent", "exit", "return_nan")
REDRIVES = 10
WORKERS = 2
GIVES_UP_SECONDS = 0.1
LABELS = {
    *("kind", "state", "queue", "outcome", "how", "le"),
    *("operation", "result", "pool", "status"),  # of the process
}
# What a scrape may take beside the counting, on a busy machine.
SCRAPE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What SQL said at a moment between these two."""

    began: float
    ended: float
    counts: dict[str, int]


@dataclass(slots=True)
class Drift:
    """What SQL has said, moment by moment, and what was found too far from it."""

    engine: AsyncEngine
    seen: list[Sample] = field(default_factory=list)

    async def sample_forever(self) -> None:
        """Count every row, again and again."""
        while True:
            async with self.engine.connect() as conn:
                began = monotonic()
                counts = await count_all(conn)
                self.seen.append(Sample(began, monotonic(), counts))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def compare(self, http: httpx.AsyncClient) -> Scraped:
        """One scrape lies within what SQL said about when, as it says itself, it was counted.

        That is as long ago as is promised: an interval, or twenty times what the count took.
        """
        asked = monotonic()
        scraped = await scrape(http)
        answered = monotonic()
        age, took = (scraped.value(f"chot_count_{name}seconds") for name in ("age_", ""))
        assert age - (answered - asked) <= max(INTERVAL_SECONDS, SHARE * took)
        near = await self._around(asked - age, answered - age + took)
        for state, value in scraped.states.items():
            assert value >= 0, scraped.states
            low, high = (f(each[state] for each in near) for f in (min, max))
            # Between two samples a job may come and go: as many as there are slots.
            room = 0 if state in FINAL else 8
            assert low - room <= value <= high + room, (state, value, low, high)
        assert scraped.submitted == sum(scraped.states.values())
        assert scraped.total("chot_queue_due") >= 0
        return scraped

    async def _around(self, began: float, ended: float) -> list[dict[str, int]]:
        """All samples of that time, and one surely made before and one surely made after it."""

        async def seen_after() -> bool:
            return bool(self.seen) and self.seen[-1].began >= ended

        await eventually(seen_after)
        before = [n for n, each in enumerate(self.seen) if each.ended <= began]
        after = [n for n, each in enumerate(self.seen) if each.began >= ended]
        assert before, "SQL was asked before the first scrape was counted"
        return [each.counts for each in self.seen[before[-1] : after[0] + 1]]


@asynccontextmanager
async def watched(engine: AsyncEngine) -> AsyncIterator[Drift]:
    """SQL is asked beside everything else while the block runs."""
    drift = Drift(engine)
    sampling = asyncio.create_task(drift.sample_forever())
    try:
        yield drift
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})


async def submit_mixed(clients: list[httpx.AsyncClient], jobs: int, rng: random.Random) -> None:
    """Good ones, retried ones, and some that cannot but die, by whichever api."""
    for number in range(jobs):
        http = rng.choice(clients)
        if number % 25 == 7:
            how = BAD[number // 25 % len(BAD)]
            await post_job(http, "probe.misbehave", max_attempts=1, how=how)
        else:
            fail_first = int(rng.random() < 0.1)
            await post_job(http, chunks=rng.randint(1, 2), seconds=0.05, fail_first=fail_first)


async def upset(
    fleet: Fleet,
    engine: AsyncEngine,
    http: httpx.AsyncClient,
    rng: random.Random,
    *,
    kill: bool,
    redrive: bool,
) -> None:
    """Cancel some, redrive what is dead, and kill a worker, each where it is wanted."""
    active = await fetch(
        engine, "SELECT id FROM chot.jobs WHERE state IN ('pending', 'running') ORDER BY id"
    )
    for row in rng.sample(active, min(3, len(active))):
        answer = await http.post(f"/v1/jobs/{row.id}/cancel")
        assert answer.status_code in {200, 409}, answer.text
    dead = await fetch(engine, "SELECT id FROM chot.jobs WHERE state = 'dead' LIMIT 1")
    for row in dead if redrive else []:
        answer = await http.post(f"/v1/jobs/{row.id}/redrive")
        assert answer.status_code in {202, 409}, answer.text
    living: list[Child] = [each for each in fleet.workers if each.alive]
    if kill and living:
        rng.choice(living).kill()
    # Jobs that exit take their worker with them, too: two are alive again after every round.
    for _ in range(WORKERS - sum(each.alive for each in fleet.workers)):
        fleet.worker(CHOT_CONCURRENCY="4")


@pytest.mark.scenario("F54")
@pytest.mark.parametrize(
    ("jobs", "every", "kills"),
    [(60, 1.0, 2), pytest.param(500, 2.0, 8, marks=pytest.mark.long)],
    ids=["short", "whole"],
)
async def test_gauges_are_what_sql_says_through_kills_retries_and_cancels(
    probes: AsyncEngine, fleet: Fleet, jobs: int, every: float, kills: int
) -> None:
    """Every step and line; 500 jobs in the long run, 60 every day, compared each 1 to 2 s, not 10.

    Two apis say the same: what one submits and another process ends is in no process's memory.
    After the drain every gauge is 0 but that of the dead, and the counters are SQL's to the job.
    """
    rng = random.Random(54)
    workers = [fleet.worker(CHOT_CONCURRENCY="4") for _ in range(WORKERS)]
    async with api_of(fleet, **RARE) as one, api_of(fleet, **RARE) as other:
        await working(*workers)
        async with watched(probes) as drift:
            submitting = asyncio.create_task(submit_mixed([one, other], jobs, rng))
            rounds = 0
            while not submitting.done() or await active_jobs(probes):
                await asyncio.sleep(every)  # the period between two scrapes
                await asyncio.gather(drift.compare(one), drift.compare(other))
                # A job that cannot but die would be active for ever if it were redriven for ever.
                more = not submitting.done() or rounds < REDRIVES
                await upset(fleet, probes, one, rng, kill=rounds < kills, redrive=more)
                rounds += 1
                assert rounds < 120, "it does not come to rest"
            await submitting
        await asyncio.gather(*(at_rest(probes, each, jobs) for each in (one, other)))


async def active_jobs(engine: AsyncEngine) -> int:
    """How many are neither over nor dead."""
    active = "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
    return int(await scalar(engine, active))


async def at_rest(engine: AsyncEngine, http: httpx.AsyncClient, jobs: int) -> None:
    """Nothing is active, and every number is SQL's."""

    async def same() -> Scraped | None:
        scraped = await scrape(http)
        async with engine.connect() as conn:
            return scraped if scraped.states == await count_all(conn) else None

    scraped = await eventually(same)
    states = scraped.states
    assert scraped.submitted == jobs == sum(states.values())
    assert all(states[state] == 0 for state in GAUGES if state != "dead"), states
    assert scraped.total("chot_queue_due") == 0
    assert scraped.total("chot_queue_oldest_due_seconds") == 0
    assert states["succeeded"] > 0
    assert states["cancelled"] > 0


@pytest.mark.scenario("F37", "F54")
async def test_counting_that_takes_too_long_is_given_up_and_the_last_counts_are_told(
    fleet: Fleet, database: Database, probes: AsyncEngine
) -> None:
    """The table of jobs is locked whole: every scrape is answered, with the age of its numbers.

    The statement ends by CHOT_METRICS_TIMEOUT_SECONDS, not by a limit that is there for all.
    """
    assert probes is not None
    settings = RARE | {"CHOT_METRICS_TIMEOUT_SECONDS": f"{GIVES_UP_SECONDS:g}"}
    async with api_of(fleet, **settings) as http:
        api = fleet.children[-1]
        await post_job(http)
        await eventually(lambda: _counted(http, 1))
        holder = await asyncpg.connect(database.superuser_url)
        await holder.execute("BEGIN; LOCK TABLE chot.jobs IN ACCESS EXCLUSIVE MODE")
        locked = monotonic()
        while len(given_up := fleet.events(api, "metrics.not_counted")) < 2:
            asked = monotonic()
            scraped = await scrape(http)
            assert monotonic() - asked <= GIVES_UP_SECONDS + SCRAPE_SECONDS
            assert scraped.submitted == 1, "what was counted last"
            assert scraped.value("chot_count_age_seconds") >= asked - locked
            assert asked - locked < 30, "it was never given up"
            await asyncio.sleep(SAMPLE_SECONDS)  # the period between two scrapes
        assert all("statement timeout" in event["error"] for event in given_up)
        await holder.execute("ROLLBACK")
        await holder.close()
        await post_job(http)
        await eventually(lambda: _counted(http, 2))


async def _counted(http: httpx.AsyncClient, jobs: int) -> bool:
    return (await scrape(http)).submitted == jobs


async def made_up(http: httpx.AsyncClient) -> None:
    """Ten thousand submits of as many kinds that nobody knows, and paths and methods like that."""
    for start in range(0, 10_000, 1000):
        jobs = [
            {"kind": f"made.up-{start + n}", "company": "ACME", "payload": {}} for n in range(1000)
        ]
        answer = await http.post("/v1/jobs:batch", json={"jobs": jobs})
        assert answer.json()["errors"] == 1000
        await http.request("MADEUP", f"/v1/made-up/{start}", headers={"traceparent": f"x{start}"})


@pytest.mark.scenario("F54", "F52")
async def test_labels_are_kinds_states_and_queues_and_nothing_else(fleet: Fleet) -> None:
    """However many jobs, companies and workers: the number of series stays what it is."""
    async with api_of(fleet, **RARE) as http:
        before = await scrape(http)
        await asyncio.gather(*(post_job(http) for _ in range(20)))
        await made_up(http)

        async def counted() -> Scraped | None:
            scraped = await scrape(http)
            return scraped if scraped.submitted == 20 else None

        after: Scraped = await eventually(counted)
        assert after.samples.keys() == before.samples.keys()
        labels = {name for _, found in after.samples for name, _ in found}
        assert labels == LABELS
        assert after.value("chot_queue_due", queue="default") == 20
        first = after.value("chot_queue_oldest_due_seconds", queue="default")

        async def older() -> bool:
            now = await scrape(http)
            return now.value("chot_queue_oldest_due_seconds", queue="default") > first + 0.5

        await eventually(older)
