"""Limits and stops under real workers that are killed: never one too many, nothing that was stopped."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.jobs.enqueue import Submit, enqueue_many
from shared.jobs.freeze import Books, freeze_books, thaw_books
from shared.jobs.limiting import Limited, set_limit
from shared.jobs.pause import pause_kind, resume_kind
from tests.factories import NUMBERS, eventually, fetch, scalar
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, working
from tests.protocol.test_running_limits import covers

KILLS = 4
WRITE, SLEEP = "probe.write", "probe.misbehave"
RED = Books(company="ACME", brand="RED")
LIMITS = {
    Limited(kind=WRITE): 3,
    Limited(company="ACME", brand="RED"): 4,
    Limited(kind=SLEEP, company="ACME", brand="RED"): 1,
}
ATTEMPTS = """
    SELECT j.id, j.kind, j.company, j.brand, a.started_at,
           coalesce(a.ended_at, clock_timestamp()) AS ended_at,
           coalesce(lag(a.outcome) OVER w = 'lost_lease'
                    AND a.started_at - lag(a.ended_at) OVER w < interval '50 ms', false) AS taken_over
      FROM chot.attempts a JOIN chot.jobs j ON j.id = a.job_id
    WINDOW w AS (PARTITION BY j.id ORDER BY a.fence)"""


@dataclass
class Stops:
    """When nothing of them may have started: from an answer on, until the end was asked for."""

    engine: AsyncEngine
    kind: list[tuple[Any, Any]] = field(default_factory=list)
    brand: list[tuple[Any, Any]] = field(default_factory=list)

    async def once(self, seconds: float) -> None:
        """Pause the kind, freeze the brand, and end both."""
        for kept, on, off in (
            (self.kind, lambda c: pause_kind(c, WRITE), lambda c: resume_kind(c, WRITE)),
            (self.brand, lambda c: freeze_books(c, RED), lambda c: thaw_books(c, RED)),
        ):
            await self._do(on)
            since = await scalar(self.engine, "SELECT clock_timestamp()")
            await asyncio.sleep(seconds)
            kept.append((since, await scalar(self.engine, "SELECT clock_timestamp()")))
            await self._do(off)

    async def _do(self, act: Callable[[AsyncConnection], Awaitable[object]]) -> None:
        async with self.engine.begin() as conn:
            await act(conn)


async def submit_mixed(engine: AsyncEngine, count: int, rng: random.Random) -> list[UUID]:
    """Jobs of both kinds, of RED, BLUE and the whole company, of up to half a second."""
    jobs = []
    for _ in range(count):
        kind, seconds = rng.choice((WRITE, SLEEP)), round(rng.uniform(0.05, 0.5), 2)
        payload: dict[str, Any] = {"number": next(NUMBERS), "seconds": seconds}
        if kind == SLEEP:
            payload["how"] = "sleep"
        brand = rng.choice(("RED", "RED", "BLUE", None))
        jobs.append(Submit(kind=kind, company="ACME", brand=brand, payload=payload))
    async with engine.begin() as conn:
        return [each.job_id for each in await enqueue_many(conn, jobs)]


def most_at_once(attempts: Sequence[Any]) -> int:
    """The most of these attempts whose times overlap."""
    return max(
        len([b for b in attempts if b.started_at <= a.started_at < b.ended_at]) for a in attempts
    )


@pytest.mark.long
async def test_limits_and_stops_hold_while_workers_are_killed(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Three workers of four slots, four kills, a kind and a brand stopped again and again."""
    rng = random.Random(5)
    async with probes.begin() as conn:
        for limited, most in LIMITS.items():
            assert await set_limit(conn, limited, most) is None
    living = [fleet.worker(CHOT_CONCURRENCY="4") for _ in range(3)]
    await working(*living)
    jobs = await submit_mixed(probes, 120, rng)
    stops = Stops(probes)
    for _ in range(KILLS):
        await stops.once(0.8)
        rng.choice(living).kill()
        living = [each if each.alive else fleet.worker(CHOT_CONCURRENCY="4") for each in living]
        begun = await scalar(probes, "SELECT count(*) FROM chot.attempts")
        await eventually(partial(_more_begun, probes, begun))
    await all_reached(probes, jobs, "succeeded", seconds=120)
    attempts = await fetch(probes, ATTEMPTS)
    for limited, most in LIMITS.items():
        of_it = [each for each in attempts if covers(limited, each)]
        assert most_at_once(of_it) == most, limited
    for kept, stopped in (
        (stops.kind, lambda a: a.kind == WRITE),
        (stops.brand, lambda a: a.brand in {"RED", None}),
    ):
        began = [
            each
            for each in attempts
            if stopped(each)
            and not each.taken_over  # it ran already, and was taken from a dead worker
            and any(since < each.started_at < until for since, until in kept)
        ]
        assert began == []


async def _more_begun(engine: AsyncEngine, than: int) -> bool:
    return bool(await scalar(engine, "SELECT count(*) FROM chot.attempts") > than + 3)
