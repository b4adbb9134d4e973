"""How many jobs may wait: a maximum of pending ones for each kind, company and brand.

Judged only for a submit that would make a job: a duplicate joins and a replay answers however many
there are. Nothing is counted per submit. A process counts once in a while and adds what it has let
in since; how old a count may be hangs on how near the maximum is and on what a count costs, never
more than a twentieth of the time. What other processes let in meanwhile is not known here, and is
how far beyond the maximum it can come (docs/http.md has the bound).
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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


# How many of each lane are pending, never beyond the number given; None where there is no such
# company or brand.
Count = Callable[[Mapping[Lane, int]], Awaitable[Mapping[Lane, int | None]]]

# The plan is made for lanes that are not known yet. Of an average one the planner would read the
# whole table, and a bitmap is read to its end, whatever the maximum.
BY_INDEX = text("""
    SELECT set_config('enable_seqscan', 'off', true),
           set_config('enable_bitmapscan', 'off', true)""")
# By an index that holds pending jobs only; never beyond the maximum. Two subqueries, since an index
# answers `brand = …` and `brand IS NULL`, and no expression that is either. What somebody invented
# is not counted: chot.enqueue() refuses it, and a thousand names must not be a thousand counts.
COUNT_LANES = text("""
    SELECT a.n - 1 AS number, CASE
        WHEN NOT EXISTS (SELECT FROM books.companies c WHERE c.code = a.company) THEN NULL
        WHEN a.brand IS NULL THEN (
            SELECT count(*) FROM (
                SELECT FROM chot.jobs j
                 WHERE j.kind = a.kind AND j.company = a.company AND j.brand IS NULL
                   AND j.state = 'pending' LIMIT a.most) AS c)
        WHEN EXISTS (SELECT FROM books.brands b
                      WHERE b.company = a.company AND b.code = a.brand) THEN (
            SELECT count(*) FROM (
                SELECT FROM chot.jobs j
                 WHERE j.kind = a.kind AND j.company = a.company AND j.brand = a.brand
                   AND j.state = 'pending' LIMIT a.most) AS c)
        END AS pending
      FROM unnest(CAST(:kinds AS text[]), CAST(:companies AS text[]), CAST(:brands AS text[]),
                  CAST(:most AS bigint[])) WITH ORDINALITY AS a (kind, company, brand, most, n)""")


async def count_pending(
    conn: AsyncConnection, lanes: Mapping[Lane, int]
) -> Mapping[Lane, int | None]:
    """How many jobs of each lane are pending now, by one statement; its number where more are.

    None for a lane of a company or brand that does not exist. Call it in a transaction.
    """
    await conn.execute(BY_INDEX)
    asked = list(lanes)
    binds = {
        "kinds": [lane.kind for lane in asked],
        "companies": [lane.company for lane in asked],
        "brands": [lane.brand for lane in asked],
        "most": [lanes[lane] for lane in asked],
    }
    return {asked[row.number]: row.pending for row in await conn.execute(COUNT_LANES, binds)}


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
    is_far: bool = False  # from the maximum, when it was counted
    since: int = 0
    held: int = 0  # by requests that have not ended
    unknown: bool = False  # of a company or brand that is none
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

    @property
    def has_room(self) -> bool:
        """Whether all of the jobs have it, and beyond() will say of none that it has not."""
        wanted = Counter(map(lane_of, self.jobs))
        return all(self.room[lane] >= number for lane, number in wanted.items())

    async def beyond(self, conn: AsyncConnection) -> Mapping[int, Problem]:
        """The jobs, by their number, that have no room; one query, and only where it is short.

        A work that is active is none of them, and a work that is there twice counts once.
        """
        if self.has_room:
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
    _renewing: dict[Lane, asyncio.Task[None]] = field(default_factory=dict)

    @asynccontextmanager
    async def admit(self, jobs: Sequence[Submit]) -> AsyncIterator[Admission]:
        """Hold room for as many jobs as there is room for; what was not made of it is given back.

        Enter it before the transaction: a count may need a connection, and whoever holds one
        must not wait for another.
        """
        wanted = Counter(map(lane_of, jobs))
        tallies = await self._fresh(wanted)
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
                if tally.unknown and self._tallies.get(lane) is tally:
                    del self._tallies[lane]

    async def _fresh(self, lanes: Iterable[Lane]) -> Mapping[Lane, _Tally]:
        """Tallies with counts that are young enough; those who ask at once count once.

        All that are too old are counted by one statement. Far from the maximum nobody waits for
        it: the old count serves while the new one is made, for a while.
        """
        tallies = {lane: self._tally(lane) for lane in lanes}
        old = _old(tallies)
        waited = {lane: tallies[lane] for lane in old if not _may_serve(tallies[lane])}
        for lane in old - set(waited) - set(self._renewing):
            self._renew(lane, tallies[lane])
        if waited:
            await self._count_again(waited)
        return tallies

    async def _count_again(self, tallies: Mapping[Lane, _Tally]) -> None:
        async with AsyncExitStack() as locks:
            # In one order for all, so that no two requests wait for each other.
            for lane in sorted(_old(tallies), key=_order):
                await locks.enter_async_context(tallies[lane].lock)
            old = {lane: tally for lane, tally in tallies.items() if lane in _old(tallies)}
            if old:
                await self._recount(old)

    def _renew(self, lane: Lane, tally: _Tally) -> None:
        """Count beside the requests; where that fails the next one counts, and hears of it."""
        task = asyncio.create_task(self._count_again({lane: tally}), name="count pending jobs")
        self._renewing[lane] = task

        def renewed(done: asyncio.Task[None]) -> None:
            del self._renewing[lane]
            if done.cancelled() or done.exception() is not None:
                tally.is_far = False

        task.add_done_callback(renewed)

    def _tally(self, lane: Lane) -> _Tally:
        tally = self._tallies.get(lane)
        if tally is None:
            tally = self._tallies[lane] = _Tally()
            self._forget()
        self._tallies.move_to_end(lane)
        return tally

    async def _recount(self, tallies: Mapping[Lane, _Tally]) -> None:
        most = {lane: self.limit_of(lane.kind) for lane in tallies}
        before = {lane: (tally.held, tally.since) for lane, tally in tallies.items()}
        began = monotonic()
        found = await self.count(most)
        took = monotonic() - began
        for lane, tally in tallies.items():
            held, since = before[lane]
            tally.unknown = found[lane] is None
            tally.counted = found[lane] or 0
            # What is held may or may not be in the count already: it counts until the next one.
            tally.since = max(0, held + tally.since - since)
            tally.is_far = _is_far(most[lane], tally.counted) and not tally.unknown
            tally.good_until = monotonic() + _good_for(is_far=tally.is_far, took=took)

    def _forget(self) -> None:
        """Drop the least lately asked tally, unless a request holds room of it."""
        if len(self._tallies) > MOST_TALLIES:
            lane, tally = next(iter(self._tallies.items()))
            if tally.held == 0 and not tally.lock.locked() and lane not in self._renewing:
                del self._tallies[lane]


def _old(tallies: Mapping[Lane, _Tally]) -> set[Lane]:
    now = monotonic()
    return {lane for lane, tally in tallies.items() if now >= tally.good_until}


def _order(lane: Lane) -> tuple[str, str, str]:
    return lane.kind, lane.company, lane.brand or ""


def _may_serve(tally: _Tally) -> bool:
    """Whether an old count is good enough while it is made anew: what it knew was far away."""
    return tally.is_far and monotonic() < tally.good_until + LONGEST_SECONDS


def _is_far(most: int, counted: int) -> bool:
    return most - counted >= FAR_ROOM and 2 * counted <= most


def _good_for(*, is_far: bool, took: float) -> float:
    return max(FAR_SECONDS if is_far else 0.0, min(LONGEST_SECONDS, SHARE_OF_TIME * took))


def lane_of(job: Submit) -> Lane:
    """Whose maximum the job counts towards."""
    return Lane(job.kind, job.company, job.brand)


def too_many(lane: Lane, limit: int) -> Problem:
    """The 429 that names the maximum; when jobs will have ended nobody knows."""
    whose = lane.company if lane.brand is None else f"{lane.company}, brand {lane.brand}"
    detail = f"{limit} jobs of kind {lane.kind} wait for {whose}; no more may, until some have run"
    return Problem(slug="too-many-pending", detail=detail, more={"limit": limit})
