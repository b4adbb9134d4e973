"""Order of publishing: a short window, priorities that age, a fair share for each brand."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue_many
from shared.jobs.weights import Weight, set_weights
from shared.outbox import DELETE_SENT
from shared.publishing import PER_SLOT, TAKE_DUE, UNSERVED, leave_window, take
from shared.types import JobId
from tests.factories import (
    NUMBERS,
    autocommit,
    claimant,
    eventually,
    execute,
    fetch,
    offer_slots,
    scalar,
)
from tests.protocol.api.keys import SEED_OTHER
from worker.claim import claim_jobs
from worker.reconciler import restage_lost

SLOTS = 4
WINDOW = PER_SLOT * SLOTS


@pytest.fixture
async def served(probes: AsyncEngine) -> AsyncEngine:
    """The probes' database with one live worker of four slots."""
    await offer_slots(probes, SLOTS)
    return probes


async def backlog(
    engine: AsyncEngine,
    count: int,
    *,
    company: str = "ACME",
    brand: str | None = "RED",
    priority: int = 5,
    kind: str = "probe.write",
) -> list[JobId]:
    """So many jobs of one brand, committed at once; ids in the order submitted."""
    jobs = [
        Submit(
            kind=kind,
            company=company,
            brand=brand,
            priority=priority,
            payload={"number": next(NUMBERS)}
            | ({"how": "sleep"} if kind == "probe.misbehave" else {}),
        )
        for _ in range(count)
    ]
    async with engine.begin() as conn:
        ids = [each.job_id for each in await enqueue_many(conn, jobs)]
    rows = await fetch(
        engine, "SELECT job_id FROM chot.outbox WHERE job_id = ANY(:ids) ORDER BY id", ids=ids
    )
    return [row.job_id for row in rows]


async def publish(engine: AsyncEngine, *, most: int = 100, ageing: float = 3600) -> list[Any]:
    """One round of a relay whose SQS takes everything; the rows in the order sent."""
    token = uuid4()
    async with autocommit(engine).connect() as conn:
        rows = (await take(conn, token, most=most, ageing_seconds=ageing)).rows
        await conn.execute(DELETE_SENT, {"ids": [row.id for row in rows], "token": token})
    return list(rows)


async def claim(engine: AsyncEngine, ids: Sequence[UUID]) -> int:
    """Claim these jobs as a worker that has received their messages; how many were won."""
    won = [await claim_jobs(autocommit(engine), claimant(), [JobId(each)]) for each in ids]
    return sum(map(len, won))


async def report_empty(engine: AsyncEngine, *, ago: float = 0) -> None:
    """The worker says: a receive that began so long ago came back with nothing."""
    await execute(
        engine,
        """UPDATE chot.worker_queues
              SET empty_receive_at = clock_timestamp() - make_interval(secs => :ago)""",
        ago=ago,
    )


def brands(rows: Sequence[Any]) -> list[str]:
    """Whose messages these are, in the order sent."""
    return [row.brand for row in rows]


async def test_a_window_is_a_few_messages_a_slot(served: AsyncEngine) -> None:
    """A long backlog stays in the outbox; each claim makes room for one more message."""
    await backlog(served, 40)
    sent = await publish(served)
    assert len(sent) == WINDOW
    assert await publish(served) == []
    assert await claim(served, [row.job_id for row in sent[:3]]) == 3
    assert len(await publish(served)) == 3
    assert await publish(served) == []


async def test_a_queue_that_nobody_serves_gets_a_few_messages(probes: AsyncEngine) -> None:
    """Whoever comes to serve it finds them at once, and a queue that is short."""
    await backlog(probes, 40)
    assert len(await publish(probes)) == UNSERVED
    assert await publish(probes) == []
    await offer_slots(probes, 10)
    assert len(await publish(probes)) == 10 * PER_SLOT - UNSERVED


async def test_a_cancelled_job_leaves_the_window(served: AsyncEngine) -> None:
    """Whatever ends it: only a pending job's message takes a place."""
    await backlog(served, 40)
    sent = await publish(served)
    async with served.begin() as conn:
        assert await cancel_job(conn, sent[0].job_id)
    assert len(await publish(served)) == 1


async def test_what_an_empty_receive_did_not_find_leaves_the_window_at_once(
    served: AsyncEngine,
) -> None:
    """A window full of lost messages does not stop the queue until they are found lost."""
    await backlog(served, 40)
    lost = await publish(served)
    await report_empty(served, ago=60)
    assert await publish(served) == [], "a receive from before the messages proves nothing"
    await report_empty(served)
    later = await publish(served)
    assert len(later) == len(lost) == WINDOW
    assert {row.job_id for row in later}.isdisjoint({row.job_id for row in lost})


async def test_a_message_that_many_have_passed_no_longer_counts(served: AsyncEngine) -> None:
    """Lost in a queue that never runs empty: the others would have less and less room."""
    await backlog(served, 120)
    lost, room = (await publish(served))[:5], []
    for _ in range(6):
        pending = [row for row in await published(served) if row.job_id not in ids(lost)]
        await claim(served, [row.job_id for row in pending])
        room.append(len(await publish(served)))
    assert room[:2] == [WINDOW - 5] * 2
    assert max(room) == WINDOW, "the five are taken for lost"
    assert await scalar(served, "SELECT count(*) FROM chot.published") <= WINDOW + 5


async def test_a_message_that_was_received_and_not_claimed_is_out_of_the_way(
    served: AsyncEngine,
) -> None:
    """Put off for minutes, it must not keep the others from SQS."""
    await backlog(served, 40)
    sent = await publish(served)
    async with autocommit(served).connect() as conn:
        await leave_window(conn, "default", [row.job_id for row in sent[:4]])
    assert len(await publish(served)) == 4


async def test_a_job_that_came_back_does_not_count_twice(served: AsyncEngine) -> None:
    """Published, claimed, failed, pending again: its old place is not a place any more."""
    await backlog(served, WINDOW)
    sent = await publish(served)
    assert await claim(served, ids(sent)) == WINDOW
    await execute(
        served,
        """WITH back AS (
               UPDATE chot.jobs SET state = 'pending', lease_token = NULL, worker_id = NULL,
                      lease_expires_at = NULL WHERE state = 'running' RETURNING *)
           INSERT INTO chot.outbox (job_id, queue, kind, brand, priority, next_send_at)
           SELECT id, queue, kind, brand, priority, clock_timestamp() FROM back""",
    )
    assert set(ids(await publish(served))) == set(ids(sent)), "every one of them, at once"


async def test_a_place_ends_with_the_fence_it_was_taken_under(served: AsyncEngine) -> None:
    """A job came back, and its new message was quarantined: the old place is free all the same."""
    await backlog(served, 2 * WINDOW)
    assert await claim(served, ids(await publish(served))) == WINDOW
    await execute(
        served,
        """UPDATE chot.jobs SET state = 'pending', lease_token = NULL, worker_id = NULL,
                  lease_expires_at = NULL WHERE state = 'running'""",
    )
    assert len(await publish(served)) == WINDOW


async def test_a_relay_with_an_old_snapshot_takes_nothing(served: AsyncEngine) -> None:
    """It would count the window as it was before another relay filled it."""
    await backlog(served, 40)
    sleeps = "CROSS JOIN (SELECT pg_sleep(2)) AS slow WHERE NOT q.paused"
    slow = text(TAKE_DUE.text.replace("WHERE NOT q.paused", sleeps))
    binds = {"token": uuid4(), "most": 100, "ageing": 30.0}
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    async with autocommit(served).connect() as conn:
        taking = asyncio.create_task(conn.execute(slow, binds))
        await eventually(lambda: scalar(served, asleep))
        await backlog(served, WINDOW, priority=9)
        assert len(await publish(served)) == WINDOW
        assert (await taking).all() == []


async def test_a_lost_job_is_published_before_its_brands_backlog(served: AsyncEngine) -> None:
    """The reconciler stages it where it stood, not behind ten thousand others of its batch."""
    lost = ids(await published_and_lost(served))
    async with autocommit(served).connect() as conn:
        assert await restage_lost(conn, 1.0) == len(lost)
    assert ids(await publish(served))[:2] == lost


async def published_and_lost(engine: AsyncEngine) -> list[Any]:
    """Two messages that SQS has lost, two hundred more that wait behind them."""
    await backlog(engine, 200)
    lost = await publish(engine, most=2)
    # A minute passes for all of them alike.
    for column, table in (
        ("published_at", "jobs"),
        ("available_at", "jobs"),
        ("next_send_at", "outbox"),
    ):
        await execute(engine, f"UPDATE chot.{table} SET {column} = {column} - interval '1 minute'")
    await execute(engine, """UPDATE chot.workers SET kinds = '{"probe.write": 1}'""")
    await execute(engine, "UPDATE chot.worker_queues SET free_slots = 2")
    await report_empty(engine)
    return lost


async def test_a_take_that_crashed_does_not_fill_the_window(served: AsyncEngine) -> None:
    """Taken and never sent: due again after its wait, and no place is kept for it beside."""
    await backlog(served, 40)
    async with autocommit(served).connect() as conn:
        taken = (await take(conn, uuid4())).rows
        assert len(taken) == WINDOW
        assert (await take(conn, uuid4())).rows == []
        await execute(
            served,
            "UPDATE chot.outbox SET next_send_at = clock_timestamp() WHERE take_token IS NOT NULL",
        )
        assert len((await take(conn, uuid4())).rows) == WINDOW


async def test_relays_at_once_keep_to_one_window(served: AsyncEngine) -> None:
    """Eight relays, many rounds: together they never publish more than there is room for."""
    await backlog(served, 60)
    seen: list[UUID] = []

    async def relay() -> None:
        for _ in range(10):
            seen.extend(ids(await publish(served)))

    for _ in range(3):
        await asyncio.gather(*(relay() for _ in range(8)))
        pending = await published(served)
        assert len(pending) == WINDOW
        await claim(served, [row.job_id for row in pending])
    assert len(seen) == len(set(seen)) == 3 * WINDOW


async def test_a_brands_backlog_keeps_no_other_brand_waiting(served: AsyncEngine) -> None:
    """Two hundred of RED, then three of BLUE: these go in turn with RED's, not behind them."""
    await backlog(served, 200)
    await publish(served)
    await backlog(served, 3, brand="BLUE")
    order = await drained(served, rounds=2)
    assert brands(order)[:6].count("BLUE") == 3
    assert Counter(brands(order))["RED"] == 2 * WINDOW - 3, "no room is left unused"


MANY = """
    WITH made AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id)
        SELECT chot.uuid7(), 'probe.write', 'ACME', 'RED', 'default', 5, 5, clock_timestamp(),
               sha256(CAST(CAST(n AS text) AS bytea)), 'join', 1, 'test', gen_random_uuid()
          FROM generate_series(1, CAST(:count AS integer)) AS n
        RETURNING *)
    INSERT INTO chot.outbox (job_id, queue, kind, company, brand, priority, next_send_at)
    SELECT id, queue, kind, company, brand, priority, available_at FROM made"""


@pytest.mark.parametrize("count", [200, 10_000])
async def test_how_long_a_brand_waits_is_no_matter_of_anothers_backlog(
    served: AsyncEngine, count: int
) -> None:
    """RED has so many, then BLUE comes with ten: what passes BLUE's is the same number.

    The window that is out already, and one of RED's for each of BLUE's.
    """
    await execute(served, MANY, count=count)
    await publish(served)
    blue = await backlog(served, 10, brand="BLUE")
    passed, left = WINDOW, set(blue)
    while left:
        order = await drained(served, rounds=1)
        assert order, "there is room, and BLUE waits"
        last = max((n for n, row in enumerate(order) if row.job_id in left), default=len(order))
        passed += sum(row.brand == "RED" for row in order[:last])
        left -= set(ids(order))
    assert passed <= WINDOW + len(blue) + 1


async def test_brands_of_one_code_in_two_companies_take_turns(
    served: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A RED of another company is another brand: it does not wait behind ACME's backlog."""
    await execute(owner_engine, SEED_OTHER)
    await backlog(served, 100)
    await publish(served)
    others = await backlog(served, 3, company="OTHER")
    order = ids(await drained(served, rounds=1))
    assert all(each in order[:7] for each in others)
    assert len(order) == WINDOW


async def test_a_weight_is_of_one_companys_brand(
    served: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """ACME's RED has three times the weight of OTHER's, whatever their codes."""
    await execute(owner_engine, SEED_OTHER)
    async with served.begin() as conn:
        weight = Weight(company="ACME", brand="RED", weight=3)
        assert await set_weights(conn, "default", [weight])
        assert not await set_weights(conn, "none", [weight])
    await backlog(served, 100)
    theirs = set(await backlog(served, 100, company="OTHER"))
    sent: list[UUID] = []
    for _ in range(4):
        sent += ids(await drained(served, rounds=1))
    assert abs(len(theirs.intersection(sent)) - WINDOW) <= 2


async def test_one_place_at_a_time_goes_round_as_well(served: AsyncEngine) -> None:
    """Deficits are kept between takes: the first brand of the alphabet is not always the next."""
    await publish(served)
    for brand in ("RED", "BLUE", None):
        await backlog(served, 20, brand=brand)
    order = []
    for _ in range(9):
        (row,) = await publish(served, most=1)
        order.append(row.brand)
    assert [Counter(order[n : n + 3]) for n in (0, 3, 6)] == [Counter(["RED", "BLUE", None])] * 3


async def test_shares_are_weighted(served: AsyncEngine) -> None:
    """RED has three times the weight of BLUE; the shares hold over many small takes."""
    await execute(served, "UPDATE chot.queues SET weights = CAST(:w AS jsonb)", w='{"RED": 3}')
    await backlog(served, 100)
    await backlog(served, 100, brand="BLUE")
    sent = []
    for most in (1, 2, 5, 1, 3, 4) * 3:
        rows = await publish(served, most=most)
        sent.extend(brands(rows))
        await claim(served, ids(rows))
    count = Counter(sent)
    assert count["RED"] + count["BLUE"] == 48
    assert abs(count["RED"] - 36) <= 3


@pytest.mark.parametrize("weights", ['{"RED": 0}', '{"RED": "3"}', '{"RED": -1}', "[]", "3"])
async def test_a_weight_is_a_positive_number(probes: AsyncEngine, weights: str) -> None:
    """Nothing else comes into the queue's row, where the relay would divide by it."""
    with pytest.raises(IntegrityError, match="queues_weights_check"):
        await execute(probes, "UPDATE chot.queues SET weights = CAST(:w AS jsonb)", w=weights)


async def test_a_brand_that_did_not_wait_saves_nothing_up(served: AsyncEngine) -> None:
    """BLUE was idle while RED was served; it gets its turn now, not all those it did not want."""
    await backlog(served, 200)
    await drained(served, rounds=5)
    await backlog(served, 50, brand="BLUE")
    order = brands(await drained(served, rounds=2))
    assert abs(order.count("BLUE") - order.count("RED")) <= 1


async def test_the_higher_priority_goes_first(served: AsyncEngine) -> None:
    """Of all brands; within a priority they take turns."""
    await backlog(served, 30, priority=3)
    await backlog(served, 4, priority=7)
    await backlog(served, 4, priority=7, brand="BLUE")
    order = await publish(served)
    assert [row.brand for row in order[:8]].count("BLUE") == 4
    assert [row.brand for row in order[8:]] == ["RED"] * (WINDOW - 8)


async def test_a_low_priority_rises_while_it_is_not_served(served: AsyncEngine) -> None:
    """Nine priorities below a stream that never ends: after nine times the ageing it is next."""
    await backlog(served, 100, priority=9)
    (low,) = await backlog(served, 1, priority=0, brand="BLUE")
    await set_due(served, low, ago=850)
    assert low not in ids(await drained(served, rounds=3, ageing=100))
    await set_due(served, low, ago=950)
    assert ids(await drained(served, rounds=1, ageing=100))[0] == low


async def test_a_backlog_does_not_grow_old_together(served: AsyncEngine) -> None:
    """RED's jobs wait for an hour, but RED is being served: a fresh one of BLUE has its turn."""
    old = await backlog(served, 100)
    await drained(served, rounds=1)
    for job_id in old:
        await set_due(served, job_id, ago=3600)
    await claim(served, ids(await published(served)))
    await backlog(served, 1, brand="BLUE")
    one_by_one = [await publish(served, most=1, ageing=30.0) for _ in range(3)]
    assert "BLUE" in brands([row for rows in one_by_one for row in rows])


async def set_due(engine: AsyncEngine, job_id: UUID, *, ago: float) -> None:
    """Set back when a message was due."""
    await execute(
        engine,
        """UPDATE chot.outbox SET next_send_at = clock_timestamp() - make_interval(secs => :ago)
            WHERE job_id = :i""",
        i=job_id,
        ago=ago,
    )


async def test_dead_rows_at_the_head_do_not_hold_a_brand_up(served: AsyncEngine) -> None:
    """Hundreds were cancelled before they were sent: dropped in rounds that do not wait."""
    gone = await backlog(served, 100)
    (last,) = await backlog(served, 1)
    async with served.begin() as conn:
        for job_id in gone:
            assert await cancel_job(conn, job_id)
    rounds = 0
    async with autocommit(served).connect() as conn:
        while not (found := await take(conn, uuid4())).rows:
            assert found.more, "there is more to be had at once"
            rounds += 1
            assert rounds < 20
    assert ids(found.rows) == [last]
    assert await scalar(served, "SELECT count(*) FROM chot.outbox") == 1


async def test_rows_that_are_not_due_do_not_hold_a_brand_up(served: AsyncEngine) -> None:
    """A message that came before its job's time is put off until then; others pass it."""
    early = await backlog(served, 2 * WINDOW)
    await execute(
        served, "UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 hour'"
    )
    (due,) = await backlog(served, 1)
    sent: list[UUID] = []
    for _ in range(5):
        sent.extend(ids(await publish(served)))
    assert sent == [due]
    waits = "SELECT count(*) FROM chot.outbox WHERE next_send_at > clock_timestamp()"
    assert await scalar(served, waits) == len(early)


async def published(engine: AsyncEngine) -> list[Any]:
    """Jobs whose message is on its way to a worker."""
    return await fetch(
        engine,
        """SELECT p.job_id FROM chot.published p JOIN chot.jobs j ON j.id = p.job_id
            WHERE j.state = 'pending' AND j.fence = p.fence ORDER BY p.turn""",
    )


async def drained(engine: AsyncEngine, *, rounds: int, ageing: float = 3600) -> list[Any]:
    """Claim all that is on its way and publish anew, so many times; the rows in the order sent."""
    order: list[Any] = []
    for _ in range(rounds):
        await claim(engine, [row.job_id for row in await published(engine)])
        order.extend(await publish(engine, ageing=ageing))
    return order


def ids(rows: Sequence[Any]) -> list[UUID]:
    """The jobs of these rows, in order."""
    return [row.job_id for row in rows]
