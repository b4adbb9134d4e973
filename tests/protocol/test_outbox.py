"""Outbox and relay: published after the commit only, and as often as it takes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared import outbox
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from shared.jobs.pause import pause_queue, resume_queue
from shared.messages import parse_message
from shared.outbox import SECONDS_TO_NEXT, Relay
from shared.publishing import take_due
from shared.sqs import EntryFailure, Outgoing, SendResult
from tests.factories import (
    autocommit,
    claimed_job,
    eventually,
    execute,
    fetch,
    job_row,
    make_job,
    offer_slots,
    scalar,
    submitted,
)

Answer = Callable[[Sequence[Outgoing]], SendResult]


def all_taken(messages: Sequence[Outgoing]) -> SendResult:
    """SQS on a good day."""
    return SendResult(sent=frozenset(each.entry_id for each in messages), failed={})


@dataclass
class Channel:
    """In the place of SqsClient: keeps what it was sent, answers as it is told."""

    answer: Answer = all_taken
    batches: list[tuple[str, list[Outgoing]]] = field(default_factory=list)

    async def send(self, queue: str, messages: Sequence[Outgoing]) -> SendResult:
        self.batches.append((queue, list(messages)))
        return self.answer(messages)

    @property
    def jobs(self) -> list[UUID]:
        """The job of every message it was sent, in order."""
        return [parse_message(each.body).job_id for _, batch in self.batches for each in batch]


def relay(engine: AsyncEngine, channel: Channel) -> Relay:
    """A relay over that channel, flushed by hand."""
    sqs: Any = channel  # the same send(), without a network
    return Relay(autocommit(engine), sqs, poll_seconds=1)


async def waiting(engine: AsyncEngine) -> list[Any]:
    """The rows of the outbox, with how long each has still to wait."""
    return await fetch(
        engine,
        """SELECT id, job_id, sends, take_token, last_error, quarantined_at,
                  extract(epoch FROM next_send_at - clock_timestamp())::double precision AS wait
             FROM chot.outbox ORDER BY id""",
    )


async def come_due(engine: AsyncEngine) -> None:
    """Set every row's clock back."""
    await execute(engine, "UPDATE chot.outbox SET next_send_at = clock_timestamp()")


@pytest.fixture
def alerts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Every alert that is raised."""
    raised: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(outbox, "alert", lambda event, **fields: raised.append((event, fields)))
    return raised


async def test_a_message_names_the_job_and_carries_no_payload(probes: AsyncEngine) -> None:
    """Whoever reads the queue learns what is due, and nothing of the books."""
    channel = Channel()
    accepted = await submitted(probes, number=77, chunks=3)
    assert await relay(probes, channel).flush()
    ((queue, (message,)),) = channel.batches
    read = parse_message(message.body)
    assert (queue, read.job_id, read.kind, read.brand) == (
        "default",
        accepted.job_id,
        "probe.write",
        "RED",
    )
    assert read.deployment_id == await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    assert "77" not in message.body.replace(str(read.job_id), "").replace(
        str(read.deployment_id), ""
    )
    assert await waiting(probes) == []
    row = await job_row(probes, accepted.job_id)
    assert row.publishes == 1
    assert row.published_at is not None


@pytest.mark.scenario("F18")
async def test_nothing_is_published_before_the_commit(probes: AsyncEngine) -> None:
    """And after a rollback there is nothing to publish."""
    channel = Channel()
    job = Submit(kind="probe.write", company="ACME", payload={"number": 1})
    async with probes.connect() as conn:
        await enqueue(conn, job)
        assert not await relay(probes, channel).flush()
        await conn.rollback()
    assert not await relay(probes, channel).flush()
    assert channel.batches == []


@pytest.mark.scenario("F20")
async def test_only_ids_that_sqs_took_are_deleted(
    probes: AsyncEngine, alerts: list[tuple[str, dict[str, Any]]]
) -> None:
    """HTTP 200 may hold failures: one throttled, one invalid, one in neither list."""
    ids = [await make_job(probes) for _ in range(10)]

    def partly(messages: Sequence[Outgoing]) -> SendResult:
        entry = [each.entry_id for each in messages]
        throttled = EntryFailure(code="ThrottlingException", message="later", invalid=False)
        invalid = EntryFailure(code="InvalidMessageContents", message="odd", invalid=True)
        return SendResult(
            sent=frozenset(entry) - {entry[2], entry[5], entry[8]},
            failed={entry[2]: throttled, entry[5]: invalid},
        )

    channel = Channel(answer=partly)
    assert await relay(probes, channel).flush()
    left = {row.job_id: row for row in await waiting(probes)}
    assert set(left) == {ids[2], ids[5], ids[8]}
    assert left[ids[2]].last_error == "ThrottlingException: later"
    assert left[ids[5]].quarantined_at is not None
    assert left[ids[2]].quarantined_at is left[ids[8]].quarantined_at is None
    assert all(2 < left[ids[n]].wait <= 5 for n in (2, 8))
    assert [(event, fields["job_id"], fields["quarantined"]) for event, fields in alerts] == [
        ("outbox.entry_refused", str(ids[5]), True)
    ]
    await come_due(probes)
    channel.answer, channel.batches = all_taken, []
    await relay(probes, channel).flush()
    assert sorted(channel.jobs) == sorted([ids[2], ids[8]])
    assert [row.job_id for row in await waiting(probes)] == [ids[5]]


@pytest.mark.parametrize(
    ("code", "ours", "heard"), [("InternalError", False, 6), ("Denied", True, 7)]
)
async def test_a_failed_entry_backs_off_further_each_time(
    probes: AsyncEngine,
    alerts: list[tuple[str, dict[str, Any]]],
    code: str,
    heard: int,
    *,
    ours: bool,
) -> None:
    """Pushed at the take, so that a crash backs off, too.

    From the third time on somebody hears, from the second where SQS says the fault is ours.
    """
    await make_job(probes)

    def refused(messages: Sequence[Outgoing]) -> SendResult:
        failure = EntryFailure(code=code, message="no", invalid=False, ours=ours)
        return SendResult(sent=frozenset(), failed={each.entry_id: failure for each in messages})

    waits = []
    for _ in range(8):
        await relay(probes, Channel(answer=refused)).flush()
        (row,) = await waiting(probes)
        waits.append(row.wait)
        await come_due(probes)
    expected = (5, 10, 20, 40, 80, 160, 300, 300)
    for wait, most in zip(waits, expected, strict=True):
        assert most - 3 < wait <= most  # a slow machine reads it a little later
    assert len(alerts) == heard


async def test_a_transport_failure_puts_rows_back(probes: AsyncEngine) -> None:
    """SQS is down, the entries did nothing wrong: they keep their turn and their count."""
    await offer_slots(probes, 100)
    for _ in range(25):
        await make_job(probes)

    def unreachable(messages: Sequence[Outgoing]) -> SendResult:
        raise TimeoutError(f"{len(messages)} not sent")

    mine = relay(probes, Channel(answer=unreachable))
    with pytest.raises(TimeoutError):
        await mine.flush()
    assert {(row.sends, row.take_token, row.wait <= 0) for row in await waiting(probes)} == {
        (0, None, True)
    }
    channel = Channel()
    await relay(probes, channel).flush()
    assert len(channel.jobs) == 25
    assert [len(batch) for _, batch in channel.batches] == [10, 10, 5]


async def test_a_broken_batch_gives_no_refused_entry_its_turn_back(
    probes: AsyncEngine, alerts: list[tuple[str, dict[str, Any]]]
) -> None:
    """Ten were answered, one of them throttled; ten were not. Only the latter go at once."""
    await offer_slots(probes, 100)
    for _ in range(20):
        await make_job(probes)
    calls = iter([True, False])

    def half(messages: Sequence[Outgoing]) -> SendResult:
        if not next(calls):
            raise TimeoutError("not sent")
        entry = [each.entry_id for each in messages]
        throttled = EntryFailure(code="ThrottlingException", message="later", invalid=False)
        return SendResult(sent=frozenset(entry[1:]), failed={entry[0]: throttled})

    with pytest.raises(TimeoutError):
        await relay(probes, Channel(answer=half)).flush()
    left = await waiting(probes)
    assert len(left) == 11
    assert [(row.sends, row.wait > 2) for row in left if row.last_error] == [(1, True)]
    assert {(row.sends, row.wait <= 0) for row in left if not row.last_error} == {(0, True)}
    assert alerts == []


async def test_two_relays_never_take_one_row(probes: AsyncEngine) -> None:
    """Eight relays over two hundred rows: each message goes out once."""
    await offer_slots(probes, 100)
    for _ in range(200):
        await make_job(probes)
    channel = Channel()

    async def drain() -> None:
        mine = relay(probes, channel)
        while await mine.flush():
            pass

    await asyncio.gather(*(drain() for _ in range(8)))
    assert len(channel.jobs) == len(set(channel.jobs)) == 200
    assert await waiting(probes) == []


async def test_rows_that_are_being_taken_are_passed_over(probes: AsyncEngine) -> None:
    """The other relay's take has not committed: nobody waits for it, nobody takes them again."""
    for _ in range(4):
        await make_job(probes)
    async with autocommit(probes).connect() as other:
        async with probes.begin() as conn:
            first = {row.id for row in await take_due(conn, uuid4(), most=2)}
            async with asyncio.timeout(3):
                assert await take_due(other, uuid4()) == [], "one relay at a time a queue"
        second = {row.id for row in await take_due(other, uuid4())}
    assert len(first) == len(second) == 2
    assert first.isdisjoint(second)


async def test_a_late_answer_of_an_older_take_deletes_nothing(probes: AsyncEngine) -> None:
    """The row has been taken again since: only the newer token may end it."""
    await make_job(probes)
    old, new = uuid4(), uuid4()
    async with autocommit(probes).connect() as conn:
        (taken,) = await take_due(conn, old)
        await come_due(probes)
        assert [row.id for row in await take_due(conn, new)] == [taken.id]
        await conn.execute(outbox.DELETE_SENT, {"ids": [taken.id], "token": old})
        await conn.execute(outbox.PUT_BACK, {"ids": [taken.id], "token": old})
        failure = {"id": taken.id, "token": old, "error": "late", "invalid": True}
        await conn.execute(outbox.NOTE_FAILURE, failure)
        left = [(row.take_token, row.sends, row.last_error) for row in await waiting(probes)]
        assert left == [(new, 2, None)]
        await conn.execute(outbox.DELETE_SENT, {"ids": [taken.id], "token": new})
    assert await waiting(probes) == []


async def test_a_crash_between_take_and_delete_sends_again(probes: AsyncEngine) -> None:
    """Nobody takes the row before its time, somebody does after it: never zero times."""
    job_id = await make_job(probes)
    async with autocommit(probes).connect() as conn:
        assert len(await take_due(conn, uuid4())) == 1
    channel = Channel()
    assert not await relay(probes, channel).flush()
    await come_due(probes)
    assert await relay(probes, channel).flush()
    assert channel.jobs == [job_id]


@pytest.mark.scenario("F19")
async def test_a_lower_id_committed_later_is_still_published(probes: AsyncEngine) -> None:
    """Sequences do not become visible in order; a watermark would have passed it over."""
    channel = Channel()
    mine = relay(probes, channel)
    slow = Submit(kind="probe.write", company="ACME", payload={"number": 1})
    async with probes.connect() as conn:
        first = (await enqueue(conn, slow)).job_id
        second = await make_job(probes, number=2)
        await mine.flush()
        assert channel.jobs == [second]
        await conn.commit()
    await mine.flush()
    assert channel.jobs == [second, first]


async def test_what_has_nothing_left_to_say_is_dropped(probes: AsyncEngine) -> None:
    """A cancelled job's message, and one that somebody already runs."""
    cancelled = await make_job(probes)
    async with probes.begin() as conn:
        assert await cancel_job(conn, cancelled)
    await claimed_job(probes)
    channel = Channel()
    await relay(probes, channel).flush()
    assert (channel.batches, await waiting(probes)) == ([], [])


async def test_a_message_of_an_unknown_job_is_published(probes: AsyncEngine) -> None:
    """The claim will tell; the relay judges nothing it does not know."""
    unknown = uuid4()
    await execute(
        probes,
        """INSERT INTO chot.outbox (job_id, queue, kind, priority, next_send_at)
           VALUES (:i, 'default', 'probe.write', 5, clock_timestamp())""",
        i=unknown,
    )
    channel = Channel()
    await relay(probes, channel).flush()
    assert channel.jobs == [unknown]


async def test_a_paused_queues_messages_wait_for_its_resume(probes: AsyncEngine) -> None:
    """They are neither sent nor dropped, and those that were sent before are staged again."""
    channel = Channel()
    sent, kept = await make_job(probes), None
    await relay(probes, channel).flush()
    async with probes.begin() as conn:
        assert await pause_queue(conn, "default")
    kept = await make_job(probes)
    assert not await relay(probes, channel).flush()
    assert [row.job_id for row in await waiting(probes)] == [kept]
    async with probes.begin() as conn:
        assert await resume_queue(conn, "default") == 1
    await relay(probes, channel).flush()
    assert channel.jobs[0] == sent
    assert sorted(channel.jobs[1:]) == sorted([sent, kept])


@pytest.mark.scenario("F27")
async def test_a_delayed_row_waits_for_its_time(probes: AsyncEngine) -> None:
    """Delays are in the database; SQS gets the message when it is due."""
    job_id = await make_job(probes)
    await execute(
        probes,
        """UPDATE chot.outbox SET next_send_at = clock_timestamp() + interval '1 hour'""",
    )
    channel = Channel()
    assert not await relay(probes, channel).flush()
    await come_due(probes)
    assert await relay(probes, channel).flush()
    assert channel.jobs == [job_id]


async def test_a_higher_priority_is_published_first(probes: AsyncEngine) -> None:
    """Within one round the larger priority goes first into its batches."""
    jobs = {}
    for priority in (1, 9, 5):
        job = Submit(
            kind="probe.write", company="ACME", payload={"number": priority}, priority=priority
        )
        async with probes.begin() as conn:
            jobs[priority] = (await enqueue(conn, job)).job_id
    async with autocommit(probes).connect() as conn:
        (first,) = await take_due(conn, uuid4(), most=1)
        (second,) = await take_due(conn, uuid4(), most=1)
    assert [first.job_id, second.job_id] == [jobs[9], jobs[5]]


async def test_a_job_locked_by_its_claim_does_not_hold_the_relay(probes: AsyncEngine) -> None:
    """Marking it as published is a courtesy; the row of the outbox goes in any case."""
    job_id = await make_job(probes)
    async with probes.begin() as conn:
        await conn.execute(
            text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"), {"i": job_id}
        )
        async with asyncio.timeout(3):
            await relay(probes, Channel()).flush()
    assert await waiting(probes) == []


async def test_a_commit_wakes_the_relay_and_an_outage_does_not_end_it(probes: AsyncEngine) -> None:
    """Woken in-process, long before its poll; a failed round is waited out."""
    answers = iter([OSError("away"), RuntimeError("odd"), None])
    sent = asyncio.Event()

    def shaky(messages: Sequence[Outgoing]) -> SendResult:
        trouble = next(answers)
        if trouble is not None:
            raise trouble
        sent.set()
        return all_taken(messages)

    sqs: Any = Channel(answer=shaky)
    mine, stop = Relay(autocommit(probes), sqs, poll_seconds=60), asyncio.Event()
    running = asyncio.create_task(mine.run(stop))
    await make_job(probes)
    mine.wake()
    async with asyncio.timeout(30):
        await sent.wait()
    stop.set()
    await running
    assert await waiting(probes) == []


@dataclass
class Away(Channel):
    """A channel that can be away, as a whole; counts what it was asked meanwhile."""

    away: bool = True
    asked: int = 0

    async def send(self, queue: str, messages: Sequence[Outgoing]) -> SendResult:
        if self.away:
            raise OSError("away")
        return await super().send(queue, messages)

    async def find(self, _queue: str) -> str:
        self.asked += 1
        if self.away:
            raise OSError("away")
        return "https://sqs.test/default"


async def test_an_outage_of_sqs_ends_when_it_answers_with_nothing_left_to_send(
    probes: AsyncEngine,
) -> None:
    """What failed here went out by another relay; that nothing is due here proves nothing yet."""
    channel, stop = Away(), asyncio.Event()
    sqs: Any = channel
    looks = 0

    async def look(conn: AsyncConnection) -> Row[Any]:
        nonlocal looks
        looks += 1
        return (await conn.execute(SECONDS_TO_NEXT)).one()

    mine = Relay(autocommit(probes), sqs, poll_seconds=0.02, look=look)
    running = asyncio.create_task(mine.run(stop))
    await make_job(probes)
    mine.wake()
    await until(lambda: mine.failures > 0)
    await execute(probes, "DELETE FROM chot.outbox")
    await until(lambda: channel.asked >= 3)
    assert mine.failures > 0, "SQS is away as before"
    channel.away = False
    await until(lambda: mine.failures == 0)
    asked, looked = channel.asked, looks
    await until(lambda: looks >= looked + 3)
    stop.set()
    await running
    assert channel.asked == asked, "a healthy relay asks SQS nothing while it idles"
    assert channel.batches == []


async def until(condition: Callable[[], bool]) -> None:
    """Wait until that holds, asked again and again; fails when the time is over."""

    async def holds() -> bool:
        return condition()

    await eventually(holds)
