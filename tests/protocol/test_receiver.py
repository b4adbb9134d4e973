"""Receiver: of what one poll brings, only this deployment's jobs are looked at."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.messages import JobMessage
from shared.sqs import Delivery
from shared.types import JobId, ReceiptHandle, WorkerId
from tests.factories import (
    autocommit,
    claimant,
    eventually,
    execute,
    job_row,
    make_job,
    scalar,
)
from worker.claim import claim_jobs
from worker.deliveries import Deliveries
from worker.lease import HeldLease
from worker.presence import Presence, QueuePresence, report_presence
from worker.receiver import Receiver


class Queue:
    """In the place of SqsClient: notes every handle that it is asked to delete or to hide."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    async def delete(self, _queue: str, handles: Sequence[str]) -> None:
        self.touched.extend(handles)

    async def extend(self, _queue: str, seconds: dict[str, int]) -> None:
        self.touched.extend(seconds)


def delivery(job_id: JobId, deployment_id: UUID, handle: str) -> Delivery:
    """A message that names this job, as that deployment sent it."""
    message = JobMessage(
        job_id=job_id, kind="probe.write", brand="RED", trace=None, deployment_id=deployment_id
    )
    return Delivery(
        queue="default",
        message_id=handle,
        handle=ReceiptHandle(handle),
        body=message.to_body(),
        receive_count=1,
        attributes={},
    )


async def receiver_of(
    engine: AsyncEngine, sqs: Any, start: Callable[[Receiver, HeldLease], None], *, slots: int = 4
) -> Receiver:
    """A receiver of this deployment, to which no job is given that runs alone."""

    async def not_alone(_receiver: Receiver, _job_id: JobId) -> bool:
        return False

    return Receiver(
        queue="default",
        presence=QueuePresence(slots=slots, free_slots=slots),
        engine=autocommit(engine),
        sqs=sqs,
        deliveries=Deliveries(sqs),
        claimant=claimant(),
        deployment_id=await scalar(engine, "SELECT deployment_id FROM chot.deployment"),
        poll_seconds=1,
        start=start,
        run_alone=not_alone,
        wake_relay=lambda: None,
    )


async def received(engine: AsyncEngine, *deliveries: Delivery) -> tuple[list[HeldLease], list[str]]:
    """What a receiver of this deployment starts of them, and which handles it touches."""
    queue, started = Queue(), list[HeldLease]()
    receiver = await receiver_of(engine, queue, lambda _receiver, held: started.append(held))
    await receiver._claim(deliveries, received_at=0.0)
    await receiver._deliveries.flush()
    return started, queue.touched


async def test_a_message_of_another_deployment_is_left_alone(probes: AsyncEngine) -> None:
    """After a restore the same job ids exist twice: neither run, nor deleted, nor hidden."""
    theirs, ours = await make_job(probes), await make_job(probes)
    mine = await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    started, touched = await received(
        probes, delivery(theirs, uuid4(), "theirs"), delivery(ours, mine, "ours")
    )
    assert [held.lease.job_id for held in started] == [ours]
    assert touched == []
    assert (await job_row(probes, theirs)).state == "pending"


async def test_a_second_delivery_in_the_same_poll_is_deleted(probes: AsyncEngine) -> None:
    """One claim for both; the other message has nothing left to say."""
    job_id = await make_job(probes)
    mine = await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    started, touched = await received(
        probes, delivery(job_id, mine, "first"), delivery(job_id, mine, "twin")
    )
    assert [held.lease.job_id for held in started] == [job_id]
    assert touched == ["twin"]


async def test_what_is_handed_back_goes_on_counting_in_the_window(probes: AsyncEngine) -> None:
    """Or more and more of what others are to run would be sent to go from hand to hand.

    Once they are full it leaves the window: it is in nobody's way then.
    """
    job_id = await make_job(probes)
    mine = await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    await execute(probes, "UPDATE chot.jobs SET payload_version = 9")
    await execute(
        probes,
        """INSERT INTO chot.published (queue, job_id, kind, fence, turn, take_token)
           VALUES ('default', :i, 'probe.write', 0, 1, gen_random_uuid())""",
        i=job_id,
    )
    for free, counts in ((1, 1), (0, 0)):
        presence = Presence(
            worker_id=WorkerId("newer"),
            host="h",
            pid=1,
            code_version="2",
            kinds={"probe.write": 9},
            queues={"default": QueuePresence(slots=4, free_slots=free)},
        )
        async with autocommit(probes).connect() as conn:
            await report_presence(conn, presence, 30.0)
        started, touched = await received(probes, delivery(job_id, mine, "m"))
        assert (started, touched) == ([], ["m"])
        assert await scalar(probes, "SELECT count(*) FROM chot.published") == counts


class Polled(Queue):
    """Brings some of `messages` at each poll, ten at most, and notes what it was asked for."""

    def __init__(self, messages: list[Delivery], chance: Random) -> None:
        super().__init__()
        self.messages, self.chance = messages, chance
        self.brought: list[Delivery] = []
        self.polls = 0

    async def receive(self, _queue: str, *, most: int, **_rest: Any) -> list[Delivery]:
        self.polls += 1
        await asyncio.sleep(self.chance.choice((0, 0, 0.002, 0.01)))
        count = self.chance.randint(0, min(most, 10))
        found, self.messages = self.messages[:count], self.messages[count:]
        self.brought += found
        return found


async def test_receives_beside_claims_fill_the_slots_and_never_more(probes: AsyncEngine) -> None:
    """Twins, ended and unknown jobs, attempts that end at any moment: the places come out even."""
    chance, slots = Random(7), 5
    mine = await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    ids = [await make_job(probes) for _ in range(60)]
    await execute(
        probes,
        "UPDATE chot.jobs SET state = 'cancelled', finished_at = now() WHERE id = :i",
        i=ids[5],
    )
    named = [*ids, *ids[::3], *(JobId(uuid4()) for _ in range(5))]
    chance.shuffle(named)
    sqs: Any = Polled([delivery(each, mine, str(n)) for n, each in enumerate(named)], chance)
    stop, running, most, started = asyncio.Event(), set[asyncio.Task[None]](), [0], list[JobId]()

    async def attempt(receiver: Receiver) -> None:
        await asyncio.sleep(chance.choice((0, 0.001, 0.02)))
        receiver.slot_freed()

    def start(receiver: Receiver, held: HeldLease) -> None:
        started.append(held.lease.job_id)
        task = asyncio.create_task(attempt(receiver))
        running.add(task)
        task.add_done_callback(running.discard)
        most[0] = max(most[0], len(running))

    receiver = await receiver_of(probes, sqs, start, slots=slots)
    receiving = asyncio.create_task(receiver.run(stop))

    async def all_read() -> bool:
        return not sqs.messages and len(started) == 59 and not running

    await eventually(all_read)
    stop.set()
    await receiving
    assert sorted(started) == sorted(set(ids) - {ids[5]}), "each once"
    assert 0 < most[0] <= slots
    assert (receiver._room, receiver._claiming, receiver._received) == (slots, 0, [])


async def test_a_drain_hands_back_what_waits_behind_a_claim_and_what_a_poll_still_brings(
    probes: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being claimed is started; nothing else keeps hidden until its visibility is over."""
    mine = await scalar(probes, "SELECT deployment_id FROM chot.deployment")
    messages = [delivery(await make_job(probes), mine, str(n)) for n in range(3)]
    stop, claims, polls = asyncio.Event(), asyncio.Event(), [asyncio.Event() for _ in range(3)]
    started: list[HeldLease] = []

    class OneByOne(Queue):
        async def receive(self, *_given: Any, **_rest: Any) -> list[Delivery]:
            await polls[0].wait()
            polls.pop(0)
            return [messages.pop(0)]

    async def slowly(*given: Any) -> list[HeldLease]:
        await claims.wait()
        return await claim_jobs(*given)

    monkeypatch.setattr("worker.receiver.claim_jobs", slowly)
    sqs: Any = OneByOne()
    receiver = await receiver_of(probes, sqs, lambda _receiver, held: started.append(held))
    receiving = asyncio.create_task(receiver.run(stop))
    for left in (2, 1):
        polls[0].set()

        async def are_left(left: int = left) -> bool:
            return len(polls) == left

        await eventually(are_left)
    stop.set()
    polls[0].set()
    claims.set()
    await receiving
    assert len(started) == 1
    assert sorted(sqs.touched) == ["1", "2"]
