"""How many jobs may wait: a maximum of pending ones for each kind, company and brand.

Judged only for a submit that would make a job: a duplicate joins and a replay answers however many
there are. Nothing is counted per submit. A process counts once in a while and adds what it has let
in since; how old a count may be hangs on how near the maximum is and on what a count costs, never
more than a twentieth of the time. What other processes let in meanwhile is not known here, and is
how far beyond the maximum it can come (docs/http.md has the bound).
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.problems import Problem
from shared.jobs.enqueue import Submit, listed_jobs

MOST_TALLIES = 10_000
FAR_SECONDS = 1.0
FAR_ROOM = 10_000
LONGEST_SECONDS = 5.0
SHARE_OF_TIME = 20  # a count that takes t is good for 20 t


class Lane(NamedTuple):
    """What a maximum is of."""

    kind: str
    company: str
    brand: str | None


Count = Callable[[Lane, int], Awaitable[int]]

# By an index that holds pending jobs only; never beyond the maximum. Two statements, since an index
# answers `brand = …` and `brand IS NULL`, and no expression that is either.
COUNT_OF_BRAND = text("""
    SELECT count(*) FROM (
        SELECT FROM chot.jobs j
         WHERE j.kind = :kind AND j.company = :company AND j.brand = :brand
           AND j.state = 'pending' LIMIT :most) AS c""")
COUNT_OF_NO_BRAND = text("""
    SELECT count(*) FROM (
        SELECT FROM chot.jobs j
         WHERE j.kind = :kind AND j.company = :company AND j.brand IS NULL
           AND j.state = 'pending' LIMIT :most) AS c""")


async def count_pending(conn: AsyncConnection, lane: Lane, most: int) -> int:
    """How many jobs of the lane are pending now; `most` where there are more."""
    binds = {"kind": lane.kind, "company": lane.company, "most": most}
    if lane.brand is None:
        return int(await conn.scalar(COUNT_OF_NO_BRAND, binds) or 0)
    return int(await conn.scalar(COUNT_OF_BRAND, binds | {"brand": lane.brand}) or 0)


# Only where room is short: which works are active already, and which are the same work.
FIND_ACTIVE = text("""
    WITH asked AS MATERIALIZED (
        SELECT e.n, chot.fingerprint(e.job ->> 'kind', e.job ->> 'company', e.job ->> 'brand',
                                     e.job -> 'payload', k.fingerprint_fields) AS print
          FROM jsonb_array_elements(CAST(:jobs AS jsonb)) WITH ORDINALITY AS e (job, n)
          JOIN chot.kinds k ON k.name = e.job ->> 'kind')
    SELECT a.n - 1 AS number, encode(a.print, 'hex') AS print,
           EXISTS (SELECT FROM chot.jobs j
                    WHERE j.fingerprint = a.print AND j.state IN ('pending', 'running')) AS active
      FROM asked a ORDER BY a.n""")


@dataclass(slots=True)
class _Tally:
    """What is known of one lane: a count, and what was let in since, committed or not."""

    counted: int = 0
    good_until: float = 0.0
    since: int = 0
    held: int = 0  # by requests that have not ended
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def release(self, taken: int, made: int) -> None:
        self.held -= taken
        self.since = max(0, self.since - taken + made)


@dataclass(slots=True)
class Admission:
    """Room that a request has been given; tell made() for each job that it makes of it."""

    jobs: Sequence[Submit]
    room: Mapping[Lane, int]
    limits: Mapping[Lane, int]
    _made: Counter[Lane] = field(default_factory=Counter)

    async def beyond(self, conn: AsyncConnection) -> Mapping[int, Problem]:
        """The jobs, by their number, that have no room; one query, and only where it is short.

        A work that is active is none of them, and a work that is there twice counts once.
        """
        wanted = Counter(map(lane_of, self.jobs))
        if all(self.room[lane] >= number for lane, number in wanted.items()):
            return {}
        left = dict(self.room)
        seen: set[str] = set()
        found: dict[int, Problem] = {}
        for row in await conn.execute(FIND_ACTIVE, {"jobs": listed_jobs(self.jobs)}):
            lane = lane_of(self.jobs[row.number])
            if row.active or row.print in seen:
                continue
            if left[lane] == 0:
                found[row.number] = too_many(lane, self.limits[lane])
                continue
            seen.add(row.print)
            left[lane] -= 1
        return found

    def made(self, job: Submit) -> None:
        """One job more is pending."""
        self._made[lane_of(job)] += 1

    def made_of(self, lane: Lane) -> int:
        """How many were made."""
        return self._made[lane]


@dataclass(slots=True)
class PendingLimits:
    """The tallies of one process. `limit_of` is the maximum of a kind."""

    count: Count
    limit_of: Callable[[str], int]
    _tallies: OrderedDict[Lane, _Tally] = field(default_factory=OrderedDict)

    @asynccontextmanager
    async def admit(self, jobs: Sequence[Submit]) -> AsyncIterator[Admission]:
        """Hold room for as many jobs as there is room for; what was not made of it is given back.

        Enter it before the transaction: a count may need a connection, and whoever holds one
        must not wait for another.
        """
        wanted = Counter(map(lane_of, jobs))
        tallies = {lane: await self._fresh(lane) for lane in wanted}
        limits = {lane: self.limit_of(lane.kind) for lane in wanted}
        room = {
            lane: max(0, limits[lane] - tally.counted - tally.since)
            for lane, tally in tallies.items()
        }
        taken = {lane: min(number, room[lane]) for lane, number in wanted.items()}
        for lane, tally in tallies.items():
            tally.since += taken[lane]
            tally.held += taken[lane]
        admission = Admission(jobs, room, limits)
        try:
            yield admission
        finally:
            for lane, tally in tallies.items():
                tally.release(taken[lane], admission.made_of(lane))

    async def _fresh(self, lane: Lane) -> _Tally:
        """The lane's tally with a count that is young enough; those who ask at once count once."""
        tally = self._tallies.get(lane)
        if tally is None:
            tally = self._tallies[lane] = _Tally()
            self._forget()
        self._tallies.move_to_end(lane)
        if monotonic() < tally.good_until:
            return tally
        async with tally.lock:
            if monotonic() >= tally.good_until:
                await self._recount(lane, tally)
        return tally

    async def _recount(self, lane: Lane, tally: _Tally) -> None:
        most = self.limit_of(lane.kind)
        began, held, since = monotonic(), tally.held, tally.since
        tally.counted = await self.count(lane, most)
        # What is held may or may not be in the count already: it counts until the next one.
        tally.since = max(0, held + tally.since - since)
        took = monotonic() - began
        room = most - tally.counted
        is_far = room >= FAR_ROOM and 2 * tally.counted <= most
        good = max(FAR_SECONDS if is_far else 0.0, min(LONGEST_SECONDS, SHARE_OF_TIME * took))
        tally.good_until = monotonic() + good

    def _forget(self) -> None:
        """Drop the least lately asked tally, unless a request holds room of it."""
        if len(self._tallies) > MOST_TALLIES:
            lane, tally = next(iter(self._tallies.items()))
            if tally.held == 0 and not tally.lock.locked():
                del self._tallies[lane]


def lane_of(job: Submit) -> Lane:
    """Whose maximum the job counts towards."""
    return Lane(job.kind, job.company, job.brand)


def too_many(lane: Lane, limit: int) -> Problem:
    """The 429 that names the maximum; when jobs will have ended nobody knows."""
    whose = lane.company if lane.brand is None else f"{lane.company}, brand {lane.brand}"
    detail = f"{limit} jobs of kind {lane.kind} wait for {whose}; no more may, until some have run"
    return Problem(slug="too-many-pending", detail=detail, more={"limit": limit})
