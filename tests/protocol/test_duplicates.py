"""Duplicates: one active job a fingerprint, whoever submits at the same moment as what."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.errors import Busy
from shared.jobs.enqueue import Accepted, Submit, enqueue, enqueue_many
from shared.types import JobId
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    execute,
    fetch,
    job_row,
    offer_slots,
    scalar,
    submitted,
)
from tests.protocol.exits import TERMINAL_EXITS, claimed_for, leave
from tests.protocol.sessions import driver_session, until_waiting
from tests.protocol.test_publishing import backlog, ids, publish
from tests.services import Database
from worker.claim import claim_jobs, read_input
from worker.fence import fenced_transaction
from worker.lease import HeldLease
from worker.outcome import COMPLETE_JOB

ACTIVE = """
    SELECT count(*) AS jobs, count(DISTINCT fingerprint) AS works FROM chot.jobs
     WHERE state IN ('pending', 'running')"""


async def payload_of(engine: AsyncEngine, job_id: object) -> Any:
    """The payload that a claim would read now."""
    return await scalar(engine, "SELECT payload FROM chot.job_payloads WHERE job_id = :i", i=job_id)


async def test_fifty_equal_submits_at_once_make_one_job(
    probes: AsyncEngine, database: Database
) -> None:
    """Fifty connections, one winner; the others are told which job it is."""
    engine = open_engine(database.app_url, pool_size=50)
    answers = await asyncio.gather(*(submitted(engine, number=1) for _ in range(50)))
    await engine.dispose()
    assert len({each.job_id for each in answers}) == 1
    assert sum(each.created for each in answers) == 1
    assert [each.duplicate for each in answers if not each.created] == ["joined"] * 49
    assert len(await fetch(probes, "SELECT 1 FROM chot.jobs")) == 1
    assert len(await fetch(probes, "SELECT 1 FROM chot.outbox")) == 1


async def test_a_twin_that_rolls_back_leaves_the_work_to_the_next(probes: AsyncEngine) -> None:
    """The second waits for the first; when that is undone it is the one that creates."""
    async with probes.connect() as first:
        await enqueue(first, _write(1))
        second = asyncio.create_task(submitted(probes, number=1))
        await until_waiting(probes)
        await first.rollback()
    assert (await second).created
    assert len(await fetch(probes, "SELECT 1 FROM chot.jobs")) == 1


def _write(number: int, kind: str = "probe.write", **payload: Any) -> Submit:
    return Submit(kind=kind, company="ACME", brand="RED", payload={"number": number} | payload)


@pytest.mark.scenario("F42")
async def test_a_submit_that_races_with_completion_never_fails(
    probes: AsyncEngine, database: Database
) -> None:
    """The twin may end between the INSERT and the look: a job is answered, old or new."""
    submitters = open_engine(database.app_url, pool_size=6)
    created = 0
    for number in range(50):
        held = await claimed_job(probes, number=number)
        completing = asyncio.create_task(_complete(probes, held))
        answers = await asyncio.gather(*(submitted(submitters, number=number) for _ in range(5)))
        await completing
        fresh = {each.job_id for each in answers if each.job_id != held.lease.job_id}
        assert len(fresh) <= 1
        assert sum(each.created for each in answers) == len(fresh)
        created += len(fresh)
    await submitters.dispose()
    (active,) = await fetch(probes, ACTIVE)
    assert active.jobs == active.works == created
    assert created > 0, "not one submit came after the completion: there was no race"


async def _complete(engine: AsyncEngine, held: HeldLease) -> None:
    await asyncio.sleep(random.uniform(0, 0.01))
    async with fenced_transaction(engine, held, TIMING, completes=True):
        pass


async def test_a_twin_that_ends_while_it_is_waited_for_is_replaced(probes: AsyncEngine) -> None:
    """The race, held still: the INSERT waits for the completion and then finds nobody."""
    held = await claimed_job(probes, number=1)
    async with probes.connect() as owner:
        await owner.execute(*_end_of(held))
        submit = asyncio.create_task(submitted(probes, number=1))
        await until_waiting(probes)
        await owner.commit()
    answer = await submit
    assert answer.created
    assert answer.job_id != held.lease.job_id


HOLD_STILL = (
    """CREATE FUNCTION probe.hold_still() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
           IF current_setting('application_name') = 'held still' THEN
               PERFORM pg_advisory_xact_lock_shared(7);
           END IF;
           RETURN NULL;
       END $$""",
    # A statement's trigger fires for an INSERT that inserted nothing, too.
    """CREATE TRIGGER hold_still AFTER INSERT ON chot.jobs
       FOR EACH STATEMENT EXECUTE FUNCTION probe.hold_still()""",
)


@pytest.mark.parametrize("kind", ["probe.write", "probe.follow"])
async def test_a_twin_that_ends_between_insert_and_look_is_replaced(
    probes: AsyncEngine, owner_engine: AsyncEngine, database: Database, kind: str
) -> None:
    """The INSERT has met an active twin; the look that follows finds none. It starts again."""
    for statement in HOLD_STILL:
        await execute(owner_engine, statement)
    held = await claimed_job(probes, kind=kind, number=1)
    still = open_engine(database.app_url, pool_size=1, application_name="held still")
    async with driver_session(database.app_url) as holder:
        await holder.execute("SELECT pg_advisory_lock(7)")
        submit = asyncio.create_task(submitted(still, kind, number=1))
        await until_waiting(probes)
        await leave(probes, held, "complete")
        await holder.execute("SELECT pg_advisory_unlock(7)")
        (answer,) = await asyncio.gather(submit, return_exceptions=True)
    await still.dispose()
    assert isinstance(answer, Accepted), answer
    assert (answer.created, answer.duplicate) == (True, None)
    assert answer.job_id != held.lease.job_id


def _end_of(held: HeldLease) -> Any:
    told = ("done", "total", "unit", "message", "reached", "rate", "age")
    nothing = dict.fromkeys(("result", "error", *told))
    lease = held.lease
    owner = {"job_id": lease.job_id, "fence": lease.fence, "token": lease.token}
    return COMPLETE_JOB, owner | nothing | {"checkpoint_no": held.checkpoint_no}


@pytest.mark.parametrize("kind", ["probe.write", "probe.merge", "probe.follow"])
async def test_a_duplicate_of_pending_work_says_what_became_of_it(
    probes: AsyncEngine, kind: str
) -> None:
    """The job has not read its input: joined, or merged into it."""
    first = await submitted(probes, kind, number=1, **_extra(kind, "a", "one"))
    second = await submitted(probes, kind, number=1, **_extra(kind, "b", "two"))
    assert (second.job_id, second.created, second.input_as_of) == (first.job_id, False, None)
    payload = await payload_of(probes, first.job_id)
    if kind == "probe.merge":
        assert second.duplicate == "merged"
        assert payload == {"number": 1, "items": ["a", "b"], "note": "two"}
    else:
        assert second.duplicate == "joined"
        assert payload == {"number": 1} | _extra(kind, "a", "one")


def _extra(kind: str, item: str, note: str) -> dict[str, Any]:
    return {} if kind == "probe.write" else {"items": [item], "note": note}


@pytest.mark.parametrize("kind", ["probe.write", "probe.merge", "probe.follow"])
async def test_a_duplicate_of_running_work_says_what_became_of_it(
    probes: AsyncEngine, kind: str
) -> None:
    """The job has read its input: joined as it is, or kept for the job that follows it."""
    held = await claimed_job(probes, kind=kind, number=1, **_extra(kind, "a", "one"))
    answers = [
        await submitted(probes, kind, number=1, **_extra(kind, item, note))
        for item, note in (("b", "two"), ("c", "three"))
    ]
    row = await job_row(probes, held.lease.job_id)
    assert {each.job_id for each in answers} == {row.id}
    assert {each.input_as_of for each in answers} == {row.started_at}
    if kind == "probe.write":
        assert {each.duplicate for each in answers} == {"joined"}
        assert row.followup_payload is None
    else:
        assert {each.duplicate for each in answers} == {"follow_up"}
        assert row.followup_payload == {"number": 1, "items": ["b", "c"], "note": "three"}
    assert await payload_of(probes, row.id) == {"number": 1} | _extra(kind, "a", "one")


async def test_work_that_waits_for_its_retry_has_read_its_input(probes: AsyncEngine) -> None:
    """Pending, but claimed before: merging into it would change what is half done."""
    held = await claimed_job(probes, kind="probe.merge", number=1, items=["a"])
    await leave(probes, held, "retry")
    answer = await submitted(probes, "probe.merge", number=1, items=["b"])
    assert (answer.duplicate, answer.state) == ("follow_up", "pending")
    assert await payload_of(probes, answer.job_id) == {"number": 1, "items": ["a"]}


async def test_an_earlier_due_time_is_merged_with_a_message_of_its_own(
    probes: AsyncEngine,
) -> None:
    """The work is wanted sooner; the message that waits for the later time is not enough."""
    later = Submit(
        kind="probe.merge",
        company="ACME",
        brand="RED",
        payload={"number": 1},
        run_at=datetime.now(UTC) + timedelta(hours=1),
    )
    async with probes.begin() as conn:
        first = await enqueue(conn, later)
    sooner = await submitted(probes, "probe.merge", number=1)
    assert (sooner.duplicate, sooner.job_id) == ("merged", first.job_id)
    due = "SELECT count(*) FROM chot.outbox WHERE job_id = :i AND next_send_at <= clock_timestamp()"
    assert await scalar(probes, due, i=first.job_id) == 1
    assert len(await claim_jobs(autocommit(probes), claimant(), [first.job_id])) == 1


async def test_a_merge_that_raises_the_priority_moves_the_message(probes: AsyncEngine) -> None:
    """Else the job would be urgent, and what fetches it wait behind the whole backlog."""

    async def put(priority: int, **due: Any) -> Accepted:
        async with probes.begin() as conn:
            job = Submit(
                kind="probe.merge",
                company="ACME",
                brand="RED",
                priority=priority,
                payload={"number": 987654},
                **due,
            )
            return await enqueue(conn, job)

    await offer_slots(probes, 4)
    first = await put(0)
    await backlog(probes, 100, priority=5)
    later = datetime.now(UTC) + timedelta(hours=1)
    for priority in (9, 9, 3):
        again = await put(priority, run_at=later)
        assert (again.duplicate, again.job_id) == ("merged", first.job_id)
    staged = "SELECT priority FROM chot.outbox WHERE job_id = :i ORDER BY id"
    rows = await fetch(probes, staged, i=first.job_id)
    assert [row.priority for row in rows] == [0, 9], "once for each time that it is raised"
    assert first.job_id in ids(await publish(probes))


async def test_thirty_merges_at_once_all_arrive(probes: AsyncEngine, database: Database) -> None:
    """None of them reads an older payload than the one before it wrote."""
    engine = open_engine(database.app_url, pool_size=30)
    first = await submitted(engine, "probe.merge", number=1, items=[])
    answers = await asyncio.gather(
        *(submitted(engine, "probe.merge", number=1, items=[f"i{n:02}"]) for n in range(30))
    )
    await engine.dispose()
    assert {each.duplicate for each in answers} == {"merged"}
    payload = await payload_of(probes, first.job_id)
    assert payload["items"] == [f"i{n:02}" for n in range(30)]


async def test_thirty_follow_ups_at_once_all_arrive(
    probes: AsyncEngine, database: Database
) -> None:
    """The same for what is kept on the running job's row."""
    engine = open_engine(database.app_url, pool_size=30)
    held = await claimed_job(engine, kind="probe.follow", number=1)
    await asyncio.gather(
        *(submitted(engine, "probe.follow", number=1, items=[f"i{n:02}"]) for n in range(30))
    )
    await engine.dispose()
    row = await job_row(probes, held.lease.job_id)
    assert row.followup_payload["items"] == [f"i{n:02}" for n in range(30)]


async def test_a_merge_that_races_with_the_claim_loses_nothing(
    probes: AsyncEngine, database: Database
) -> None:
    """Every payload is either what the claim reads, or kept for the follow-up. Sixty races."""
    submitters = open_engine(database.app_url, pool_size=4)
    kinds_of_end = set()
    for number in range(60):
        first = await submitted(probes, "probe.merge", number=number, items=["first"])

        async def claim_and_read(job_id: JobId = first.job_id) -> Any:
            await asyncio.sleep(random.uniform(0, 0.006))
            (held,) = await claim_jobs(autocommit(probes), claimant(), [job_id], wait=True)
            return await read_input(autocommit(probes), held)

        (read, _), *answers = await asyncio.gather(
            claim_and_read(),
            *(
                submitted(submitters, "probe.merge", number=number, items=[f"m{n}"])
                for n in range(3)
            ),
        )
        row = await job_row(probes, first.job_id)
        kept = (row.followup_payload or {}).get("items", [])
        for n, answer in enumerate(answers):
            assert answer.job_id == first.job_id
            place = read if answer.duplicate == "merged" else kept
            assert f"m{n}" in place, answer
            kinds_of_end.add(str(answer.duplicate))
    await submitters.dispose()
    assert kinds_of_end == {"merged", "follow_up"}, "the races never went both ways"


async def test_a_follow_up_that_races_with_the_end_is_done_all_the_same(
    probes: AsyncEngine, database: Database
) -> None:
    """Sixty races: kept by the job and born at its end, or a job of its own."""
    submitters = open_engine(database.app_url, pool_size=4)
    for number in range(60):
        held = await claimed_job(probes, kind="probe.follow", number=number, note="first")
        _, answer = await asyncio.gather(
            _complete(probes, held),
            _late(submitters, number),
        )
        works = await fetch(
            probes,
            """SELECT j.state, p.payload ->> 'note' AS note FROM chot.jobs j
                 JOIN chot.job_payloads p ON p.job_id = j.id
                WHERE j.fingerprint = (SELECT fingerprint FROM chot.jobs WHERE id = :i)
                ORDER BY j.id""",
            i=held.lease.job_id,
        )
        assert works == [("succeeded", "first"), ("pending", "second")], answer
    await submitters.dispose()


async def _late(engine: AsyncEngine, number: int) -> Accepted:
    await asyncio.sleep(random.uniform(0, 0.01))
    return await submitted(engine, "probe.follow", number=number, note="second")


@pytest.mark.parametrize("kind", ["probe.write", "probe.merge"])
async def test_batches_in_opposite_orders_do_not_deadlock(probes: AsyncEngine, kind: str) -> None:
    """⚑ Whatever order the callers gave, works are taken in one order."""
    for round_no in range(12):
        jobs = [_write(round_no * 100 + n, kind) for n in range(20)]
        orders = (jobs, jobs[::-1], jobs[10:] + jobs[:10])
        ends = await asyncio.gather(
            *(_submit_many(probes, order) for order in orders), return_exceptions=True
        )
        answers = [end for end in ends if not isinstance(end, BaseException)]
        assert len(answers) == 3, ends
        assert sum(each.created for batch in answers for each in batch) == 20
        found = [
            {str(job.payload): each.job_id for job, each in zip(order, batch, strict=True)}
            for order, batch in zip(orders, answers, strict=True)
        ]
        assert found[0] == found[1] == found[2], "answers come in the order given"


async def _submit_many(engine: AsyncEngine, jobs: list[Submit]) -> list[Accepted]:
    async with engine.begin() as conn:
        return await enqueue_many(conn, jobs)


async def test_single_submits_in_opposite_orders_are_the_deadlock(probes: AsyncEngine) -> None:
    """⚑ Why there is a batch at all: one by one, one of the two callers is sent away as Busy."""
    met = asyncio.Barrier(2)

    async def naive(numbers: tuple[int, int]) -> str:
        async with probes.connect() as conn:
            await enqueue(conn, _write(numbers[0]))
            await met.wait()
            try:
                await enqueue(conn, _write(numbers[1]))
            except Busy:
                return "busy"
            await conn.commit()
        return "committed"

    assert sorted(await asyncio.gather(naive((1, 2)), naive((2, 1)))) == ["busy", "committed"]


async def test_a_batch_with_the_same_work_twice_makes_one_job(probes: AsyncEngine) -> None:
    """The second is a duplicate of the first, and the answers say so in order."""
    answers = await _submit_many(probes, [_write(5), _write(1), _write(5)])
    assert [each.created for each in answers] == [True, True, False]
    assert answers[0].job_id == answers[2].job_id != answers[1].job_id


@pytest.mark.scenario("F42")
@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_work_that_has_ended_may_be_asked_for_again(probes: AsyncEngine, how: str) -> None:
    """Only active work is unique; a dead or finished job keeps nobody from trying again."""
    held = await claimed_for(probes, how, number=1)
    await leave(probes, held, how)
    answer = await submitted(probes, number=1)
    assert answer.created
    await claimed_again(probes, answer.job_id, worker="b")


async def test_the_index_alone_would_refuse_a_second_active_job(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Whoever writes past enqueue() meets the unique index over all active states."""
    held = await claimed_job(probes, number=1)
    twin = """
        INSERT INTO chot.jobs (id, kind, company, queue, max_attempts, available_at, fingerprint,
                               on_duplicate, payload_version, principal, deployment_id)
        SELECT chot.uuid7(), kind, company, queue, max_attempts, available_at, fingerprint,
               on_duplicate, payload_version, principal, deployment_id
          FROM chot.jobs WHERE id = :i"""
    with pytest.raises(Exception, match="jobs_active_fingerprint_key"):
        await execute(owner_engine, twin, i=held.lease.job_id)
