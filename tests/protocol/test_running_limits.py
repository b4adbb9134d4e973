"""Running limits: of a kind, of a brand, of both at once; exact, and no place left free."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Scope
from shared.jobs.enqueue import Submit, enqueue_many
from shared.jobs.limiting import Limited, Unknown, list_limits, remove_limit, set_limit
from shared.jobs.limits import LOCK_LIMITS
from shared.jobs.reasons import Reason, explain
from shared.publishing import take
from shared.sqs import Delivery
from shared.types import JobId, ReceiptHandle, WorkerId
from tests.factories import (
    NUMBERS,
    autocommit,
    claimant,
    eventually,
    execute,
    expire_lease,
    fetch,
    offer_slots,
    scalar,
)
from tests.protocol.reasons import crew, why
from tests.protocol.test_publishing import ids, publish
from worker.alone import free_alone, reserve_alone
from worker.claim import CLAIM_LIMITED, claim_jobs
from worker.lease import HeldLease
from worker.outcome import complete_job
from worker.reaper import reap_expired
from worker.settle import ClaimAgain, Delete, StageAgain, read_missed, settle, stage_again

CLAIMERS = 12
WRITE, SLEEP = "probe.write", "probe.misbehave"
OF_KIND = Limited(kind=WRITE)
OF_BRAND = Limited(company="ACME", brand="RED")
OF_BOTH = Limited(kind=WRITE, company="ACME", brand="RED")
OF_COMPANY = Limited(company="ACME")
# What is set, by the name of the case.
CASES: dict[str, dict[Limited, int]] = {
    "a kind": {OF_KIND: 3},
    "a brand": {OF_BRAND: 4},
    "both at once": {OF_KIND: 3, OF_BRAND: 4},
    "a kind in a brand": {OF_BOTH: 2, OF_KIND: 4},
    "all there are": {OF_KIND: 3, OF_BRAND: 3, OF_BOTH: 1, OF_COMPANY: 6},
}


async def limit(engine: AsyncEngine, limits: dict[Limited, int]) -> None:
    """Set them."""
    async with engine.begin() as conn:
        for limited, most in limits.items():
            assert await set_limit(conn, limited, most) is None


async def mixed(engine: AsyncEngine, count: int, seed: int = 0) -> list[JobId]:
    """So many jobs of both kinds, of RED, BLUE and the whole company, RED's the most."""
    rng = random.Random(seed)
    jobs = []
    for _ in range(count):
        kind = rng.choice((WRITE, WRITE, SLEEP))
        payload = {"number": next(NUMBERS)} | ({"how": "sleep"} if kind == SLEEP else {})
        brand = rng.choice(("RED", "RED", "RED", "BLUE", None))
        priority = rng.choice((3, 5, 5, 7))
        jobs.append(
            Submit(kind=kind, company="ACME", brand=brand, payload=payload, priority=priority)
        )
    async with engine.begin() as conn:
        return [each.job_id for each in await enqueue_many(conn, jobs)]


def covers(limited: Limited, job: Any) -> bool:
    """Slowly, and said once more: each thing that the limit names is the job's."""
    return all(
        wanted is None or wanted == getattr(job, name) for name, wanted in limited.binds().items()
    )


async def judge(engine: AsyncEngine, limits: dict[Limited, int]) -> tuple[int, list[UUID]]:
    """No limit is passed; how many run, and which pending jobs no limit keeps from running."""
    jobs = await fetch(engine, "SELECT id, kind, company, brand, state FROM chot.jobs")
    running = [job for job in jobs if job.state == "running"]
    counts = {limited: sum(covers(limited, job) for job in running) for limited in limits}
    assert all(counts[limited] <= most for limited, most in limits.items()), counts
    full = [limited for limited, most in limits.items() if counts[limited] == most]
    free = [
        job.id
        for job in jobs
        if job.state == "pending" and not any(covers(limited, job) for limited in full)
    ]
    return len(running), free


@pytest.mark.parametrize("case", CASES)
async def test_the_limits_are_exact_among_twelve_claimers(probes: AsyncEngine, case: str) -> None:
    """All at the same moment, each its own four jobs: none too many, and nobody left out."""
    limits = CASES[case]
    await limit(probes, limits)
    jobs = await mixed(probes, 4 * CLAIMERS)

    async def claimer(mine: Sequence[JobId]) -> int:
        who = claimant(str(uuid4()))
        return sum([len(await claim_jobs(autocommit(probes), who, [j], wait=True)) for j in mine])

    won = await asyncio.gather(*(claimer(jobs[n::CLAIMERS]) for n in range(CLAIMERS)))
    assert (sum(won), []) == await judge(probes, limits)
    assert 0 < sum(won) < len(jobs)


async def test_a_claim_waits_for_another_one_of_its_limit(probes: AsyncEngine) -> None:
    """And counts in a new statement what that one has won: the second of two is refused."""
    await limit(probes, {OF_BRAND: 1})
    first, second = await of(probes, "RED", 2)
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    binds = claimant("a").binds() | {"ids": [first], "tokens": [uuid4()]}
    async with probes.connect() as conn:
        assert await conn.scalar(LOCK_LIMITS, {"ids": [first]}) == 1
        assert len((await conn.execute(CLAIM_LIMITED, binds)).all()) == 1
        claiming = asyncio.create_task(
            claim_jobs(autocommit(probes), claimant("b"), [second], wait=True)
        )

        async def decided() -> bool:
            return claiming.done() or bool(await scalar(probes, blocked))

        await eventually(decided)
        await conn.commit()
    assert await claiming == []


@dataclass
class Storm:
    """Relays and claimers as workers have them, in memory: what SQS brings is a list."""

    engine: AsyncEngine
    limits: dict[Limited, int]
    held: list[HeldLease] = field(default_factory=list)
    misses: int = 0
    lost: set[UUID] = field(default_factory=set)

    async def settled(self) -> None:
        """Two relays and twelve claimers at once, until nothing more is published."""
        while True:
            sent = await asyncio.gather(publish(self.engine), publish(self.engine))
            messages = [row.job_id for rows in sent for row in rows]
            if not messages:
                return
            for start in range(0, len(messages), CLAIMERS):
                batch = messages[start : start + CLAIMERS]
                await asyncio.gather(*(self.deliver(JobId(each)) for each in batch))
                await judge(self.engine, self.limits)

    async def deliver(self, job_id: JobId) -> None:
        """What a receiver does with a message."""
        who = claimant(str(uuid4()))
        won = await claim_jobs(autocommit(self.engine), who, [job_id])
        if not won:
            async with autocommit(self.engine).connect() as conn:
                row = (await read_missed(conn, [job_id], who.worker_id))[job_id]
                settled = settle(delivery(), row, who)
                if settled == StageAgain():
                    self.misses += 1
                    await stage_again(conn, job_id)
            if settled == ClaimAgain():
                won = await claim_jobs(autocommit(self.engine), who, [job_id], wait=True)
                if not won:  # another one took the place: its message comes back
                    await self.deliver(job_id)
            else:
                assert isinstance(settled, StageAgain | Delete), settled
        self.held.extend(won)

    async def end_some(self, rng: random.Random) -> None:
        """Half of the holders: they complete, or are killed and reaped (each job once at most)."""
        rng.shuffle(self.held)
        leaving, self.held = self.held[::2], self.held[1::2]
        killed = [
            each for each in leaving if each.lease.job_id not in self.lost and rng.random() < 0.4
        ]
        self.lost |= {each.lease.job_id for each in killed}
        for each in killed:
            await expire_lease(self.engine, each.lease.job_id)
        async with autocommit(self.engine).connect() as conn:
            for each in leaving:
                if each not in killed:
                    assert await complete_job(conn, each, None)
            assert await reap_expired(conn) == len(killed)


def delivery() -> Delivery:
    """A message that was received for the first time."""
    return Delivery(
        queue="default",
        message_id="m",
        handle=ReceiptHandle("r"),
        body="{}",
        receive_count=1,
        attributes={},
    )


@pytest.mark.parametrize("case", CASES)
async def test_a_storm_with_killed_holders_leaves_no_place_free(
    probes: AsyncEngine, case: str
) -> None:
    """Two dozen jobs, one after the other; at rest each one that waits waits for a full limit."""
    limits = CASES[case]
    await limit(probes, limits)
    await crew(probes, slots=CLAIMERS, free=0)
    jobs = await mixed(probes, 24, seed=len(case))
    storm, rng = Storm(probes, limits), random.Random(case)
    for _ in range(200):
        await storm.settled()
        running, free = await judge(probes, limits)
        assert free == [], "a place is free, and a job that may have it waits"
        assert running == len(storm.held)
        await told_truly(probes, limits, rng)
        if not storm.held:
            break
        await storm.end_some(rng)
    ended = "SELECT count(*) FROM chot.jobs WHERE state = 'succeeded'"
    assert await scalar(probes, ended) == len(jobs)
    assert len(storm.lost) > 0
    assert storm.misses <= len(jobs), "the relay holds back what has no place"


async def told_truly(engine: AsyncEngine, limits: dict[Limited, int], rng: random.Random) -> None:
    """At rest each pending job waits for a limit, and /why names one that covers it and is full."""
    pending = await fetch(
        engine, "SELECT id, kind, company, brand FROM chot.jobs WHERE state = 'pending' ORDER BY id"
    )
    for job in rng.sample(pending, min(1, len(pending))):
        row = await why(engine, job.id)
        assert explain(row).reason == Reason.LIMIT_REACHED, explain(row)
        names = {name: row[f"limit_{name}"] for name in ("kind", "company", "brand")}
        named = Limited(**names)
        assert covers(named, job)
        assert row["limit_taken"] == row["limit_most"] == limits[named]


async def test_what_one_limit_holds_stands_in_no_other_ones_way(probes: AsyncEngine) -> None:
    """RED is full and has a hundred of the kind before BLUE's one: BLUE's has the place."""
    await offer_slots(probes, 4)
    await limit(probes, {OF_KIND: 2, OF_BRAND: 1})
    red = await of(probes, "RED", 100)
    (blue,) = await of(probes, "BLUE", 1)
    assert len(await claim_jobs(autocommit(probes), claimant(), red[:1], wait=True)) == 1
    assert ids(await publish(probes)) == [blue]


async def test_a_place_that_a_round_has_left_is_had_at_once(probes: AsyncEngine) -> None:
    """RED's first three had the kind's turns, two of them held by RED's own limit then.

    The relay is told that there is more, and takes again without waiting for its poll.
    """
    await offer_slots(probes, 4)
    await limit(probes, {OF_KIND: 3, OF_BRAND: 1})
    red = await of(probes, "RED", 10, priority=9)
    blue = await of(probes, "BLUE", 10)
    sent, more = [], True
    async with autocommit(probes).connect() as conn:
        while more:
            taken = await take(conn, uuid4())
            sent += ids(taken.rows)
            more = taken.more
    assert sent == [red[0], *blue[:2]]


async def of(
    engine: AsyncEngine, brand: str | None, count: int, *, priority: int = 5
) -> list[JobId]:
    """So many jobs of one brand, in the order in which they are due."""
    found = []
    for _ in range(count):
        job = Submit(
            kind=WRITE,
            company="ACME",
            brand=brand,
            priority=priority,
            payload={"number": next(NUMBERS)},
        )
        async with engine.begin() as conn:
            found += [each.job_id for each in await enqueue_many(conn, [job])]
    return found


async def test_a_lowered_limit_lets_what_runs_go_on(probes: AsyncEngine) -> None:
    """Three run, one may: nothing starts until all three have ended but one below it."""
    await limit(probes, {OF_BRAND: 3})
    *first, last = await of(probes, "RED", 4)
    running: list[HeldLease] = []
    for job_id in first:
        running += await claim_jobs(autocommit(probes), claimant(), [job_id], wait=True)
    assert len(running) == 3
    await limit(probes, {OF_BRAND: 1})
    for each in running:
        assert not await claim_jobs(autocommit(probes), claimant(), [last], wait=True)
        async with autocommit(probes).connect() as conn:
            assert await complete_job(conn, each, None)
    assert len(await claim_jobs(autocommit(probes), claimant(), [last], wait=True)) == 1


async def test_a_removed_limit_holds_nobody(probes: AsyncEngine) -> None:
    """And a batch claims such jobs again."""
    await limit(probes, {OF_BRAND: 1})
    jobs = await of(probes, "RED", 3)
    assert not await claim_jobs(autocommit(probes), claimant(), jobs), "only one by one"
    async with probes.begin() as conn:
        assert await remove_limit(conn, OF_BRAND)
        assert not await remove_limit(conn, OF_BRAND)
    assert len(await claim_jobs(autocommit(probes), claimant(), jobs)) == 3


async def test_a_job_that_runs_alone_holds_its_place_in_every_limit(probes: AsyncEngine) -> None:
    """From its reservation on, in that of its brand too; for another brand it holds none."""
    await limit(probes, {OF_BRAND: 1, Limited(company="ACME", brand="BLUE"): 1})
    alone, other = await of(probes, "RED", 2)
    (blue,) = await of(probes, "BLUE", 1)
    await execute(
        probes,
        "UPDATE chot.jobs SET lost_leases = 2, attempt = 2, fence = 2 WHERE id = :i",
        i=alone,
    )
    async with autocommit(probes).connect() as conn:
        assert await reserve_alone(conn, "default", WorkerId("a"), alone, 30)
    assert not await claim_jobs(autocommit(probes), claimant("b"), [other], wait=True)
    assert await claim_jobs(autocommit(probes), claimant("b"), [blue], wait=True)
    (held,) = await claim_jobs(autocommit(probes), claimant("a"), [alone], wait=True)
    async with autocommit(probes).connect() as conn:
        assert await complete_job(conn, held, None)
        await free_alone(conn, "default", WorkerId("a"), alone)
    assert await claim_jobs(autocommit(probes), claimant("b"), [other], wait=True)


async def test_limits_are_set_listed_and_removed_with_a_trace(probes: AsyncEngine) -> None:
    """Each change is an act, a repeat is none; what is not there is refused by its name."""
    for most in (3, 3, 2):
        await limit(probes, {OF_BRAND: most})
    await limit(probes, {OF_KIND: 5})
    async with probes.begin() as conn:
        for limited, missing in (
            (Limited(kind="none"), "kind"),
            (Limited(company="NONE"), "company"),
            (Limited(company="ACME", brand="NONE"), "brand"),
        ):
            assert await set_limit(conn, limited, 1) == Unknown(missing)
    await claim_jobs(autocommit(probes), claimant(), await of(probes, "RED", 1), wait=True)
    async with probes.connect() as conn:
        rows = await list_limits(conn)
        assert [(r["kind"], r["brand"], r["max_running"], r["running"]) for r in rows] == [
            (None, "RED", 2, 1),
            (WRITE, None, 5, 1),
        ]
        told = await list_limits(conn, scope=Scope(company="ACME", brands=("BLUE",)))
    assert [(r["kind"], r["running"]) for r in told] == [(WRITE, None)], "what runs is of all"
    async with probes.begin() as conn:
        assert await remove_limit(conn, OF_BRAND)
    acts = await fetch(
        probes,
        "SELECT action, target, brand, facts FROM chot.audit WHERE action LIKE 'limit.%' ORDER BY id",
    )
    assert [(a.action, a.target, a.brand, a.facts["max_running"]) for a in acts] == [
        ("limit.set", None, "RED", 3),
        ("limit.set", None, "RED", 2),
        ("limit.set", WRITE, None, 5),
        ("limit.remove", None, "RED", 2),
    ]


@pytest.mark.parametrize(
    "values", ["('probe.write', NULL, NULL, 0)", "(NULL, NULL, NULL, 3)", "('x', NULL, 'RED', 3)"]
)
async def test_a_limit_that_makes_no_sense_is_refused(probes: AsyncEngine, values: str) -> None:
    """None at all would be a pause in disguise; a limit is of something; a brand of a company."""
    with pytest.raises(IntegrityError):
        await execute(
            probes,
            f"""INSERT INTO chot.running_limits (kind, company, brand, max_running, principal)
                SELECT v.*, 'x' FROM (VALUES {values}) AS v""",
        )


async def test_claims_and_changes_of_limits_at_once_do_not_deadlock(probes: AsyncEngine) -> None:
    """Twelve claimers under four limits, while all four are set, changed and removed."""
    limits = CASES["all there are"]
    await limit(probes, limits)
    jobs = await mixed(probes, 8 * CLAIMERS)

    async def claimer(mine: Sequence[JobId]) -> None:
        for each in mine:
            for held in await claim_jobs(autocommit(probes), claimant(), [each], wait=True):
                async with autocommit(probes).connect() as conn:
                    assert await complete_job(conn, held, None)

    async def operator(limited: Limited, most: int) -> None:
        for n in range(8):
            await limit(probes, {limited: most + n % 2})
            async with probes.begin() as conn:
                await remove_limit(conn, limited)

    await asyncio.gather(
        *(claimer(jobs[n::CLAIMERS]) for n in range(CLAIMERS)),
        *(operator(*each) for each in limits.items()),
    )
