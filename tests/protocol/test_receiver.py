"""Receiver: of what one poll brings, only this deployment's jobs are looked at."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.messages import JobMessage
from shared.sqs import Delivery
from shared.types import JobId, ReceiptHandle, WorkerId
from tests.factories import autocommit, claimant, execute, job_row, make_job, scalar
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


async def received(engine: AsyncEngine, *deliveries: Delivery) -> tuple[list[HeldLease], list[str]]:
    """What a receiver of this deployment starts of them, and which handles it touches."""
    queue, started = Queue(), list[HeldLease]()
    sqs: Any = queue
    courtesy = Deliveries(sqs)

    async def not_alone(_receiver: Receiver, _job_id: JobId) -> bool:
        return False

    receiver = Receiver(
        queue="default",
        presence=QueuePresence(slots=4, free_slots=4),
        engine=autocommit(engine),
        sqs=sqs,
        deliveries=courtesy,
        claimant=claimant(),
        deployment_id=await scalar(engine, "SELECT deployment_id FROM chot.deployment"),
        poll_seconds=1,
        start=lambda _receiver, held: started.append(held),
        run_alone=not_alone,
        wake_relay=lambda: None,
    )
    await receiver._claim(deliveries, received_at=0.0)
    await courtesy.flush()
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
