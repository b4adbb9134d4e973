"""Stops: a paused kind, frozen books; at once for every claim, and no message lost on the way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.audit import Action
from shared.cli.doctor import READ_SIGNS
from shared.jobs.enqueue import Submit, enqueue
from shared.jobs.freeze import Books, freeze_books, list_freezes, running_on_books, thaw_books
from shared.jobs.pause import pause_kind, pause_queue, resume_kind, resume_queue, running_of_kind
from shared.outbox import DELETE_SENT
from shared.publishing import take
from shared.types import JobId
from shared.watch import DUE
from tests.factories import (
    NUMBERS,
    autocommit,
    claimant,
    claimed_again,
    eventually,
    execute,
    expire_lease,
    fetch,
    make_job,
    offer_slots,
    scalar,
)
from tests.protocol.api.keys import SEED_OTHER
from tests.protocol.test_publishing import backlog, ids, publish, report_empty
from worker.claim import claim_jobs
from worker.outcome import Released, complete_job, release_job
from worker.reconciler import restage_lost

ACME, RED = Books(company="ACME"), Books(company="ACME", brand="RED")
Act = Callable[[AsyncConnection], Awaitable[object]]


@dataclass(frozen=True)
class Stop:
    """One way to stop `probe.write` of ACME's RED, and its end."""

    on: Act
    off: Act


STOPS = {
    "queue": Stop(lambda c: pause_queue(c, "default"), lambda c: resume_queue(c, "default")),
    "kind": Stop(lambda c: pause_kind(c, "probe.write"), lambda c: resume_kind(c, "probe.write")),
    "brand": Stop(lambda c: freeze_books(c, RED), lambda c: thaw_books(c, RED)),
    "company": Stop(lambda c: freeze_books(c, ACME), lambda c: thaw_books(c, ACME)),
}


async def act(engine: AsyncEngine, what: Act) -> object:
    """Do it in a transaction of its own."""
    async with engine.begin() as conn:
        return await what(conn)


async def submitted(engine: AsyncEngine, company: str, brand: str | None) -> JobId:
    """One job of these books."""
    job = Submit(
        kind="probe.write", company=company, brand=brand, payload={"number": next(NUMBERS)}
    )
    async with engine.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def claimable(engine: AsyncEngine, job_id: JobId) -> bool:
    """Whether a worker that has its message starts it; it is put back where it was."""
    found = set()
    for wait in (False, True):
        held = await claim_jobs(autocommit(engine), claimant(), [job_id], wait=wait)
        found.add(bool(held))
        for each in held:
            async with engine.begin() as conn:
                await release_job(conn, each, Released(reason="only looked", delay_seconds=0))
    assert len(found) == 1, "in a batch or alone, the predicate is one"
    return found.pop()


@pytest.mark.parametrize("name", STOPS)
async def test_a_stop_holds_for_every_claim_and_ends_at_once(
    probes: AsyncEngine, name: str
) -> None:
    """And only for what it names: another kind, another brand go on."""
    job_id = await make_job(probes)
    assert await claimable(probes, job_id)
    await act(probes, STOPS[name].on)
    assert not await claimable(probes, job_id)
    if name == "kind":
        assert await claimable(probes, await make_job(probes, "probe.misbehave", how="sleep"))
    if name == "brand":
        assert await claimable(probes, await submitted(probes, "ACME", "BLUE"))
    await act(probes, STOPS[name].off)
    assert await claimable(probes, job_id)


@pytest.mark.parametrize(
    ("frozen", "whose", "brand", "stops"),
    [
        (ACME, "ACME", "RED", True),
        (ACME, "ACME", None, True),
        (ACME, "OTHER", "RED", False),
        (RED, "ACME", "RED", True),
        (RED, "ACME", None, True),
        (RED, "ACME", "BLUE", False),
        (RED, "OTHER", "RED", False),
        (RED, "OTHER", None, False),
    ],
)
async def test_whose_jobs_write_frozen_books(  # noqa: PLR0917 - a table
    probes: AsyncEngine,
    owner_engine: AsyncEngine,
    frozen: Books,
    whose: str,
    brand: str | None,
    stops: bool,  # noqa: FBT001
) -> None:
    """A company's job without a brand writes all its brands' books; the relay judges as the claim."""
    await execute(owner_engine, SEED_OTHER)
    await offer_slots(probes, 4)
    await act(probes, lambda c: freeze_books(c, frozen))
    job_id = await submitted(probes, whose, brand)
    assert bool(ids(await publish(probes))) != stops
    assert await claimable(probes, job_id) != stops


async def test_freezes_of_one_company_stand_side_by_side(probes: AsyncEngine) -> None:
    """Each is ended by itself; a repeat changes nothing, and books that are not there are none."""
    blue = Books(company="ACME", brand="BLUE")
    for books, reason in ((RED, "stocktaking"), (RED, "again"), (ACME, None), (blue, None)):
        assert await act(probes, partial(freeze_books, books=books, reason=reason))
    job_id = await make_job(probes)
    async with probes.connect() as conn:
        listed = [(row.brand, row.reason) for row in await list_freezes(conn)]
    assert listed == [(None, None), ("BLUE", None), ("RED", "stocktaking")]
    assert await act(probes, lambda c: thaw_books(c, ACME)) == 0
    assert not await claimable(probes, job_id), "its brand is frozen still"
    assert await act(probes, lambda c: thaw_books(c, RED)) == 0
    assert await claimable(probes, job_id)
    for books in (Books(company="NONE"), Books(company="ACME", brand="NONE")):
        assert await act(probes, partial(freeze_books, books=books)) is False
        assert await act(probes, partial(thaw_books, books=books)) is None
    acts = await fetch(probes, "SELECT action, brand, facts FROM chot.audit ORDER BY id")
    assert [(row.action, row.brand) for row in acts if row.action.startswith("books")] == [
        (Action.BOOKS_FREEZE, "RED"),
        (Action.BOOKS_FREEZE, None),
        (Action.BOOKS_FREEZE, "BLUE"),
        (Action.BOOKS_THAW, None),
        (Action.BOOKS_THAW, "RED"),
    ]


async def test_what_runs_goes_on_and_is_counted(probes: AsyncEngine) -> None:
    """Its lease is renewed by nobody here: what has lapsed is still taken over, and not killed."""
    job_id = await make_job(probes)
    held = await claimed_again(probes, job_id, worker="a")
    await act(probes, lambda c: pause_kind(c, "probe.write"))
    await act(probes, lambda c: freeze_books(c, RED))
    async with probes.connect() as conn:
        assert await running_of_kind(conn, "probe.write") == 1
        assert await running_of_kind(conn, "probe.misbehave") == 0
        assert await running_on_books(conn, RED) == await running_on_books(conn, ACME) == 1
        assert await running_on_books(conn, Books(company="ACME", brand="BLUE")) == 0
    await expire_lease(probes, job_id)
    (again,) = await claim_jobs(autocommit(probes), claimant("b"), [job_id])
    assert again.lease.fence == held.lease.fence + 1
    async with autocommit(probes).connect() as conn:
        assert await complete_job(conn, again, None)


async def test_a_pause_of_what_is_paused_is_no_act(probes: AsyncEngine) -> None:
    for _ in range(2):
        assert await act(probes, lambda c: pause_kind(c, "probe.write"))
    assert not await act(probes, lambda c: pause_kind(c, "none"))
    assert await act(probes, lambda c: resume_kind(c, "none")) is None
    for _ in range(2):
        assert await act(probes, lambda c: resume_kind(c, "probe.write")) == 0
    acts = await fetch(probes, "SELECT action, target FROM chot.audit WHERE action LIKE 'kind.%'")
    assert [(row.action, row.target) for row in acts] == [
        (Action.KIND_PAUSE, "probe.write"),
        (Action.KIND_RESUME, "probe.write"),
    ]


@pytest.mark.parametrize("name", STOPS)
async def test_the_relay_passes_over_what_is_stopped(probes: AsyncEngine, name: str) -> None:
    """Its rows are neither sent nor touched, however many; others pass them."""
    await offer_slots(probes, 4)
    stopped = await backlog(probes, 60)
    await act(probes, STOPS[name].on)
    before = await fetch(probes, "SELECT id, next_send_at, xmin FROM chot.outbox ORDER BY id")
    assert await publish(probes) == []
    after = await fetch(probes, "SELECT id, next_send_at, xmin FROM chot.outbox ORDER BY id")
    assert after == before
    if name in {"kind", "brand"}:
        other: dict[str, Any] = {"kind": "probe.misbehave"}
        if name == "brand":
            other = {"brand": "BLUE"}
        passes = await backlog(probes, 3, **other)
        assert ids(await publish(probes)) == passes
    await act(probes, STOPS[name].off)
    sent = ids(await publish(probes))
    assert sent == stopped[: len(sent)] != []


@pytest.mark.parametrize("name", STOPS)
async def test_what_met_a_stop_in_sqs_is_staged_when_it_ends(
    probes: AsyncEngine, name: str
) -> None:
    """Its delivery was deleted; a job that has a message waiting gets no second one."""
    await offer_slots(probes, 1)
    jobs = await backlog(probes, 5)
    sent = ids(await publish(probes))
    assert len(sent) == 3
    await act(probes, STOPS[name].on)
    assert await act(probes, STOPS[name].off) == 3
    assert await act(probes, STOPS[name].off) == 0
    waiting = await fetch(probes, "SELECT job_id FROM chot.outbox ORDER BY job_id")
    assert [row.job_id for row in waiting] == sorted(jobs)


async def test_a_message_that_is_just_being_sent_is_not_taken_for_one_that_waits(
    probes: AsyncEngine,
) -> None:
    """Sent, received and deleted while paused, its row not yet gone at the resume: not lost."""
    await offer_slots(probes, 4)
    job_id = await make_job(probes)
    token = uuid4()
    async with autocommit(probes).connect() as conn:
        (row,) = (await take(conn, token)).rows
        await act(probes, lambda c: pause_kind(c, "probe.write"))
        assert not await claim_jobs(autocommit(probes), claimant(), [job_id])
        assert await act(probes, lambda c: resume_kind(c, "probe.write")) == 1
        await conn.execute(DELETE_SENT, {"ids": [row.id], "token": token})
    await report_empty(probes)
    assert ids(await publish(probes)) == [job_id]


async def test_two_stops_that_end_at_once_leave_nobody_between_them(probes: AsyncEngine) -> None:
    """Each stages without asking for the other: else both might leave the job to the other one."""
    await offer_slots(probes, 4)
    jobs = await backlog(probes, 3)
    assert len(await publish(probes)) == 3
    for name in ("kind", "brand"):
        await act(probes, STOPS[name].on)
    async with probes.connect() as kind, probes.connect() as brand:
        assert await resume_kind(kind, "probe.write") == 3
        assert await thaw_books(brand, RED) == 3
        await kind.commit()
        await brand.commit()
    await report_empty(probes)
    assert set(ids(await publish(probes))) == set(jobs)


async def test_a_stopped_job_is_not_taken_for_lost(probes: AsyncEngine) -> None:
    """The reconciler goes by the same predicate."""
    await offer_slots(probes, 4)
    await backlog(probes, 3)
    await publish(probes)
    for column in ("published_at", "available_at"):
        await execute(probes, f"UPDATE chot.jobs SET {column} = {column} - interval '1 hour'")
    await execute(probes, """UPDATE chot.workers SET kinds = '{"probe.write": 1}'""")
    await execute(probes, "UPDATE chot.worker_queues SET free_slots = 2")
    await report_empty(probes)
    for stop in STOPS.values():
        await act(probes, stop.on)
        await execute(probes, "DELETE FROM chot.outbox")
        async with autocommit(probes).connect() as conn:
            assert await restage_lost(conn, 1.0) == 0
        await act(probes, stop.off)
    await execute(probes, "DELETE FROM chot.outbox")
    async with autocommit(probes).connect() as conn:
        assert await restage_lost(conn, 1.0) == 3


@pytest.mark.parametrize("name", STOPS)
async def test_what_is_stopped_calls_nobody_and_is_found_by_the_doctor(
    probes: AsyncEngine, name: str
) -> None:
    """It starves by an operator's will: no alert, no overdue message, but a sign of its own."""
    await backlog(probes, 3)
    for column, table in (("available_at", "jobs"), ("next_send_at", "outbox")):
        await execute(probes, f"UPDATE chot.{table} SET {column} = {column} - interval '1 hour'")
    sign = {"queue": "paused_queues", "kind": "paused_kinds"}.get(name, "frozen_books")

    async def looked() -> tuple[int, int, int]:
        async with probes.connect() as conn:
            starved = (await conn.execute(text(DUE), {"due_seconds": 60})).all()
            signs = (await conn.execute(READ_SIGNS)).mappings().one()
        return len(starved), signs["overdue_messages"], signs[sign]

    assert await looked() == (1, 3, 0)
    await act(probes, STOPS[name].on)
    assert await looked() == (0, 0, 1)
    await act(probes, STOPS[name].off)
    assert await looked() == (1, 3, 0)


@pytest.mark.parametrize("name", ["kind", "brand"])
async def test_no_claim_that_begins_after_the_answer_wins(probes: AsyncEngine, name: str) -> None:
    """Six claimers at work, a stop in the middle: from its answer on nothing starts."""
    jobs = await backlog(probes, 120)
    won: list[tuple[float, int]] = []
    first = asyncio.Event()

    async def claimer(mine: Sequence[UUID]) -> None:
        for job_id in mine:
            began = monotonic()
            held = await claim_jobs(autocommit(probes), claimant(), [JobId(job_id)])
            won.append((began, len(held)))
            first.set()

    claiming = [asyncio.create_task(claimer(jobs[n::6])) for n in range(6)]
    await first.wait()
    await act(probes, STOPS[name].on)
    answered = monotonic()
    await asyncio.gather(*claiming)
    assert sum(n for began, n in won if began < answered) > 0
    assert [n for began, n in won if began >= answered and n] == []
    running = await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE state = 'running'")
    assert running == sum(n for _, n in won) < len(jobs)


@asynccontextmanager
async def _relays_and_workers(
    engine: AsyncEngine, done: asyncio.Event, received: asyncio.Queue[UUID]
) -> AsyncIterator[None]:
    """Relays that publish into `received`, workers that claim from it and run to the end.

    A message whose claim misses is deleted, as settle does it for a stopped job.
    """

    async def relay() -> None:
        while not done.is_set():
            for row in await publish(engine):
                received.put_nowait(row.job_id)
            await asyncio.sleep(0)

    async def worker(name: str) -> None:
        while not done.is_set():
            try:
                job_id = await asyncio.wait_for(received.get(), 0.05)
            except TimeoutError:
                continue
            for held in await claim_jobs(
                autocommit(engine), claimant(name), [JobId(job_id)], wait=True
            ):
                async with autocommit(engine).connect() as conn:
                    assert await complete_job(conn, held, None)

    tasks = [asyncio.create_task(relay()) for _ in range(2)]
    tasks += [asyncio.create_task(worker(f"w{n}")) for n in range(4)]
    try:
        yield
    finally:
        done.set()
        await asyncio.gather(*tasks)


async def test_no_message_is_lost_in_races_of_stops_and_resumes(probes: AsyncEngine) -> None:
    """Kind and brand go on and off while sixty jobs run: all end, and no reconciler helps."""
    await offer_slots(probes, 4)
    jobs = await backlog(probes, 60)
    left = "SELECT count(*) FROM chot.jobs WHERE state <> 'succeeded'"
    done, received = asyncio.Event(), asyncio.Queue[UUID]()

    async def ended() -> bool:
        return not await scalar(probes, left)

    async with asyncio.timeout(60), _relays_and_workers(probes, done, received):
        for n, (first, second) in enumerate(product(("kind", "brand", "company"), repeat=2)):
            await act(probes, STOPS[first].on)
            await act(probes, STOPS[second].on)
            await asyncio.gather(act(probes, STOPS[first].off), act(probes, STOPS[second].off))
            jobs += await backlog(probes, n % 3)
        await eventually(ended, seconds=30)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == len(jobs)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE attempt <> 1") == 0


@pytest.mark.parametrize("how", STOPS)
async def test_what_waits_is_staged_by_its_index_however_much_it_is(
    probes: AsyncEngine, how: str
) -> None:
    """With half a million of five waiting a planner would read all that is over, too."""
    async with probes.begin() as conn:
        await STOPS[how].on(conn)
        await STOPS[how].off(conn)
        assert await conn.scalar(text("SHOW enable_seqscan")) == "off"
    assert await scalar(probes, "SHOW enable_seqscan") == "on", "for that transaction alone"
