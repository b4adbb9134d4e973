"""Settle: what becomes of a delivery whose job could not be claimed, row by row of the table."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.sqs import Delivery
from shared.types import JobId, ReceiptHandle, WorkerId
from tests.factories import (
    autocommit,
    claimant,
    claimed_job,
    execute,
    expire_lease,
    make_job,
)
from tests.protocol.exits import TERMINAL_EXITS, claimed_for, leave
from tests.protocol.sessions import lock_job
from worker.claim import claim_jobs
from worker.presence import Presence, QueuePresence, report_presence
from worker.settle import (
    HANDED_BACK,
    Bury,
    ClaimAgain,
    Delete,
    HandBack,
    PutOff,
    RunAlone,
    Settlement,
    StageAgain,
    put_off_seconds,
    read_missed,
    reason_of,
    settle,
)


def delivery(receives: int = 1) -> Delivery:
    """A message that has been received so often."""
    return Delivery(
        queue="default",
        message_id="m",
        handle=ReceiptHandle("r"),
        body="",
        receive_count=receives,
        attributes={},
    )


async def settled(engine: AsyncEngine, job_id: JobId, receives: int = 1) -> Settlement:
    """What worker b does with a delivery of this job, which it could not claim."""
    async with autocommit(engine).connect() as conn:
        rows = await read_missed(conn, [job_id], WorkerId("b"))
    return settle(delivery(receives), rows.get(job_id), claimant("b"))


@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_a_message_of_a_finished_job_is_deleted(probes: AsyncEngine, how: str) -> None:
    """A duplicate that came late, or the delete that was lost."""
    held = await claimed_for(probes, how)
    await leave(probes, held, how)
    assert isinstance(await settled(probes, held.lease.job_id), Delete)


async def test_a_job_under_a_live_lease_is_put_off_then_left(probes: AsyncEngine) -> None:
    """Longer each time, at the third miss the reconciler is trusted instead."""
    held = await claimed_job(probes, worker="a")
    waits = []
    for receives in (1, 2):
        answer = await settled(probes, held.lease.job_id, receives)
        assert isinstance(answer, PutOff)
        waits.append(answer.seconds)
    assert 60 <= waits[0] <= 66
    assert 120 <= waits[1] <= 132
    assert isinstance(await settled(probes, held.lease.job_id, 3), Delete)


async def test_a_long_lease_is_waited_for(probes: AsyncEngine) -> None:
    """What is left of it, when that is more than the steps."""
    held = await claimed_job(probes, worker="a", lease=400)
    answer = await settled(probes, held.lease.job_id)
    assert isinstance(answer, PutOff)
    assert 390 <= answer.seconds <= 440


async def test_a_job_that_is_not_due_is_deleted(probes: AsyncEngine) -> None:
    """Its own message waits in the outbox for the time."""
    job_id = await make_job(probes)
    await execute(
        probes, "UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 hour'"
    )
    assert isinstance(await settled(probes, job_id), Delete)


async def test_a_message_of_a_paused_queue_is_deleted(probes: AsyncEngine) -> None:
    """The resume stages it again."""
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.queues SET paused = true")
    assert isinstance(await settled(probes, job_id), Delete)


@pytest.mark.scenario("F18")
async def test_a_message_of_an_unknown_job_is_parked_at_last(probes: AsyncEngine) -> None:
    """A few redeliveries, since its transaction may not be visible here yet."""
    for receives in (1, 2, 3):
        answer = await settled(probes, JobId(uuid4()), receives)
        assert isinstance(answer, PutOff)
        assert answer.seconds == 5
    assert isinstance(await settled(probes, JobId(uuid4()), 4), Bury)


CHANGES = pytest.mark.parametrize("change", ["kind = 'team.other'", "payload_version = 9"])


@CHANGES
async def test_what_this_worker_does_not_know_is_left_to_others(
    probes: AsyncEngine, change: str
) -> None:
    """A newer payload or a kind of another team: put off, never failed."""
    job_id = await make_job(probes)
    await execute(probes, f"UPDATE chot.jobs SET {change} WHERE id = :i", i=job_id)
    assert isinstance(await settled(probes, job_id), PutOff)
    assert isinstance(await settled(probes, job_id, 3), Delete)


async def newer_worker(engine: AsyncEngine, *, free: int, state: str = "working") -> None:
    """Another live worker, which knows what worker b does not."""
    async with autocommit(engine).connect() as conn:
        presence = Presence(
            worker_id=WorkerId("newer"),
            host="h",
            pid=1,
            code_version="2",
            kinds={"team.other": 1, "probe.write": 9},
            queues={"default": QueuePresence(slots=4, free_slots=free)},
            state=state,
        )
        await report_presence(conn, presence, 30.0)


@CHANGES
async def test_what_another_worker_knows_is_handed_back_for_a_moment(
    probes: AsyncEngine, change: str
) -> None:
    """Who polls as well gets it in seconds, and SQS's count of receives stays small."""
    job_id = await make_job(probes)
    await execute(probes, f"UPDATE chot.jobs SET {change} WHERE id = :i", i=job_id)
    await newer_worker(probes, free=1)
    waits: dict[int, set[int]] = {}
    for receives in range(1, HANDED_BACK):
        for _ in range(20):
            answer = await settled(probes, job_id, receives)
            assert isinstance(answer, HandBack), receives
            waits.setdefault(receives, set()).add(answer.seconds)
    assert waits[1] == {1, 2}, "never at once: that would be a hot loop; and not all together"
    assert max(max(each) for each in waits.values()) <= 4
    again = await settled(probes, job_id, HANDED_BACK)
    assert again == StageAgain(reason="unknown_kind"), "a new message begins to count anew"
    assert reason_of(again) == "unknown_kind"


async def test_what_others_have_no_slot_for_comes_back_later(probes: AsyncEngine) -> None:
    """A full worker takes none of it, however often it is offered; one that drains never."""
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.jobs SET payload_version = 9")
    for free, state in ((0, "working"), (4, "draining")):
        await newer_worker(probes, free=free, state=state)
        for receives in (1, 2):
            answer = await settled(probes, job_id, receives)
            assert isinstance(answer, PutOff)
            assert 15 * receives <= answer.seconds <= 18 * receives
        assert await settled(probes, job_id, 3) == StageAgain(reason="unknown_kind")


async def test_what_a_dead_worker_knew_is_known_to_nobody(probes: AsyncEngine) -> None:
    """Its message would go from hand to hand for nothing."""
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.jobs SET payload_version = 9")
    await newer_worker(probes, free=4)
    await execute(probes, "UPDATE chot.workers SET live_until = clock_timestamp()")
    answer = await settled(probes, job_id)
    assert isinstance(answer, PutOff)
    assert answer.seconds >= 60


async def test_a_job_whose_row_was_locked_is_claimed_again(probes: AsyncEngine) -> None:
    """It looks claimable, so somebody only held its row: claim it alone, and wait."""
    job_id = await make_job(probes)
    async with probes.begin() as conn:
        await lock_job(conn, job_id)
        assert await claim_jobs(autocommit(probes), claimant("b"), [job_id]) == []
    assert await settled(probes, job_id) == ClaimAgain()
    assert len(await claim_jobs(autocommit(probes), claimant("b"), [job_id], wait=True)) == 1


async def test_an_expired_job_is_claimed_again(probes: AsyncEngine) -> None:
    """The lease ran out between the claim and the look."""
    held = await claimed_job(probes, worker="a")
    await expire_lease(probes, held.lease.job_id)
    assert await settled(probes, held.lease.job_id) == ClaimAgain()


@pytest.mark.parametrize("state", ["pending", "running"])
async def test_a_job_that_lost_two_leases_runs_alone(probes: AsyncEngine, state: str) -> None:
    """The worker that meets it has to reserve the queue first."""
    held = await claimed_job(probes, worker="a")
    job_id = held.lease.job_id
    await execute(
        probes,
        "UPDATE chot.jobs SET lost_leases = :n, attempt = 3, fence = 3 WHERE id = :i",
        i=job_id,
        n=1 if state == "running" else 2,
    )
    if state == "pending":
        await execute(
            probes,
            """UPDATE chot.jobs SET state = 'pending', lease_token = NULL, worker_id = NULL,
                      lease_expires_at = NULL WHERE id = :i""",
            i=job_id,
        )
    else:
        await expire_lease(probes, job_id)
    assert await settled(probes, job_id) == RunAlone(queue="default")


async def test_several_misses_are_read_in_one_look(probes: AsyncEngine) -> None:
    """By job; one that is not there is missing in the answer."""
    ids = [await make_job(probes) for _ in range(3)]
    async with autocommit(probes).connect() as conn:
        rows = await read_missed(conn, [*ids, JobId(uuid4())], WorkerId("b"))
    assert set(rows) == set(ids)


@pytest.mark.parametrize(
    ("receives", "least", "most"), [(0, 30, 33), (1, 60, 66), (4, 480, 528), (6, 900, 990)]
)
def test_the_wait_grows_to_a_quarter_of_an_hour(receives: int, least: int, most: int) -> None:
    """With a tenth of jitter, so that a burst does not come back as one."""
    waits = {put_off_seconds(receives) for _ in range(200)}
    assert least <= min(waits)
    assert max(waits) <= most
    assert len(waits) > 1
    assert put_off_seconds(10**6) <= 990


def test_a_row_of_any_state_is_settled() -> None:
    """No state falls through the table, nor a count of receives."""

    class Row:
        kind, queue, payload_version = "probe.write", "default", 1
        lease_left, claimable, alone, at_limit = 1.0, True, False, False
        has_locks, waits, known, wanted = False, False, False, False
        state = "pending"

    for state in ("pending", "running", "succeeded", "cancelled", "dead"):
        for receives in range(6):
            row: Any = Row()
            row.state = state
            answer = settle(delivery(receives), row, claimant("b"))
            assert isinstance(answer, Delete | PutOff | ClaimAgain), (state, receives)
