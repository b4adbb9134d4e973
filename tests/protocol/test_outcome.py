"""Outcome: each exit from running is one statement, taken once, and everything hangs on it."""

import asyncio
import random
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import LeaseLost
from shared.jobs.cancel import cancel_job
from shared.jobs.redrive import redrive_job
from shared.types import JobId
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    execute,
    expire_lease,
    fetch,
    job_row,
    scalar,
    submitted,
)
from tests.probes.handlers import HANDLERS
from tests.protocol.exits import (
    ACTIVE_EXITS,
    EXITS,
    TERMINAL_EXITS,
    claimed_for,
    leave,
    leave_over,
    outbox_of,
    prepare,
    released_before,
)
from tests.protocol.sessions import effects_of, lock_job, put_effect, until_waiting
from worker.claim import claim_jobs
from worker.cleanup import clean_up_one
from worker.fence import fenced_transaction
from worker.lease import HeldLease, Progress, hold_fence, renew_leases
from worker.outcome import FREE_RELEASES, Failed, Released, complete_job, fail_job, release_job
from worker.reaper import reap_expired
from worker.reconciler import restage_lost


@pytest.mark.parametrize("how", EXITS)
async def test_an_exit_closes_its_attempt_and_stages_what_is_due(
    probes: AsyncEngine, how: str
) -> None:
    """One closed attempt; one message when the job is pending again, none when it is over."""
    state, outcome = EXITS[how]
    held = await claimed_for(probes, how)
    assert await leave(probes, held, how)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.fence) == (state, held.lease.fence)
    assert (row.lease_token, row.lease_expires_at, row.worker_id) == (None, None, None)
    assert (row.finished_at is not None) == (state != "pending")
    assert row.cleanup_due == (state in {"dead", "cancelled"})
    attempts = await fetch(
        probes,
        "SELECT outcome, ended_at IS NOT NULL FROM chot.attempts WHERE job_id = :i AND fence = :f",
        i=row.id,
        f=row.fence,
    )
    assert attempts == [(outcome, True)]
    waiting = [(row.id, "probe.write", "RED")] if state == "pending" else []
    assert await outbox_of(probes) == waiting


@pytest.mark.parametrize("how", EXITS)
async def test_an_exit_is_taken_once(probes: AsyncEngine, how: str) -> None:
    """The second time there is nothing to leave, whoever asks, and nothing more is staged."""
    held = await claimed_for(probes, how)
    assert await leave(probes, held, how)
    row, waiting = await job_row(probes, held.lease.job_id), await outbox_of(probes)
    for again in EXITS:
        if not (again == "cancel" and row.state == "pending"):
            assert not await leave(probes, held, again)
    assert await job_row(probes, held.lease.job_id) == row
    assert await outbox_of(probes) == waiting


@pytest.mark.parametrize("old", ["taken", "token", "fence"])
async def test_an_exit_of_the_old_owner_changes_nothing(probes: AsyncEngine, old: str) -> None:
    """Fence and token stand in every write a worker makes."""
    for how in ("complete", "retry", "fail_permanently", "release"):
        held = await claimed_job(probes, worker="a")
        await _disown(probes, held.lease.job_id, old)
        before = await job_row(probes, held.lease.job_id)
        assert not await leave(probes, held, how), how
        assert await job_row(probes, held.lease.job_id) == before, how


async def _disown(engine: AsyncEngine, job_id: JobId, old: str) -> None:
    """Make the worker an old owner: by a takeover, or with one half of its lease still right."""
    if old == "taken":
        await expire_lease(engine, job_id)
        await claimed_again(engine, job_id, worker="b")
        return
    change = "lease_token = gen_random_uuid()" if old == "token" else "fence = 2"
    await execute(engine, f"UPDATE chot.jobs SET {change} WHERE id = :i", i=job_id)


async def test_an_exit_and_a_takeover_never_deadlock(probes: AsyncEngine) -> None:
    """⚑ Both take the job before its attempt; whoever is first wins, nobody is sent away."""
    for how in ("complete", "retry", "release") * 12:
        held = await claimed_job(probes, worker="a")
        await expire_lease(probes, held.lease.job_id)
        async with autocommit(probes).connect() as conn, asyncio.timeout(30):
            left, taken = await asyncio.gather(
                leave_over(conn, held, how),
                claim_jobs(autocommit(probes), claimant("b"), [held.lease.job_id], wait=True),
            )
        fences = await fetch(
            probes,
            "SELECT fence, outcome FROM chot.attempts WHERE job_id = :i ORDER BY fence",
            i=held.lease.job_id,
        )
        assert bool(left) or fences == [(1, "lost_lease"), (2, None)]
        assert left != bool(taken) or how != "complete"


async def test_an_exit_behind_a_takeover_is_refused_at_once(probes: AsyncEngine) -> None:
    """⚑ The same, held still: had the exit begun with its attempt, each would wait for the other."""
    held = await claimed_job(probes, worker="a")
    await expire_lease(probes, held.lease.job_id)
    async with probes.connect() as other, autocommit(probes).connect() as leaving:
        await lock_job(other, held.lease.job_id)
        only = [held.lease.job_id]
        first = claim_jobs(autocommit(probes), claimant("b"), only, wait=True)
        taking = asyncio.create_task(first)
        await until_waiting(probes)
        exiting = asyncio.create_task(leave_over(leaving, held, "retry"))
        await until_waiting(probes, 2)
        await other.commit()
        taken, left = await asyncio.gather(taking, exiting, return_exceptions=True)
    assert not isinstance(taken, BaseException), taken
    assert (len(taken), left) == (1, False)


# Follow-ups


async def running_with_follow_up(engine: AsyncEngine, how: str) -> HeldLease:
    """A job that runs, and whose work has been asked for once more since it began."""
    held = await claimed_for(engine, how, kind="probe.follow", number=7, note="first")
    answer = await submitted(engine, "probe.follow", number=7, note="second")
    assert (answer.duplicate, answer.job_id) == ("follow_up", held.lease.job_id)
    return held


FOLLOW_UPS = """
    SELECT j.id, j.state, j.fence, p.payload FROM chot.jobs j
      JOIN chot.job_payloads p ON p.job_id = j.id
     WHERE j.id <> :i AND j.kind = 'probe.follow' ORDER BY j.id"""


@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_any_end_turns_the_follow_up_into_a_job(probes: AsyncEngine, how: str) -> None:
    """⚑ In the same commit as the end, with its message: the work that was asked for is done."""
    held = await running_with_follow_up(probes, how)
    assert await leave(probes, held, how)
    follow_ups = await fetch(probes, FOLLOW_UPS, i=held.lease.job_id)
    assert len(follow_ups) == 1
    (born,) = follow_ups
    assert (born.state, born.fence) == ("pending", 0)
    assert born.payload == {"number": 7, "note": "second"}
    assert await outbox_of(probes) == [(born.id, "probe.follow", "RED")]
    (claimed,) = await claim_jobs(autocommit(probes), claimant(), [JobId(born.id)])
    assert claimed.job.attempt == 1


@pytest.mark.parametrize("completes", [False, True])
async def test_a_follow_up_is_born_with_the_effects_or_not(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """⚑ A completion that is rolled back leaves neither; the fence is ONE statement."""
    held = await running_with_follow_up(probes, "complete")
    if completes:
        async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
            await put_effect(tx.connection, held)
    else:
        held.checkpoint_no += 1
        with pytest.raises(LeaseLost):
            async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
                await put_effect(tx.connection, held)
    born = await fetch(probes, FOLLOW_UPS, i=held.lease.job_id)
    assert len(born) == len(await effects_of(probes, held.lease.job_id)) == int(completes)


@pytest.mark.parametrize("how", ACTIVE_EXITS)
async def test_a_follow_up_waits_while_the_job_goes_on(probes: AsyncEngine, how: str) -> None:
    """Pending again is not over: the payload stays on the row until the job ends."""
    held = await running_with_follow_up(probes, how)
    assert await leave(probes, held, how)
    assert await fetch(probes, FOLLOW_UPS, i=held.lease.job_id) == []
    row = await job_row(probes, held.lease.job_id)
    assert row.followup_payload == {"number": 7, "note": "second"}
    async with probes.begin() as conn:
        assert await cancel_job(conn, held.lease.job_id)
    assert len(await fetch(probes, FOLLOW_UPS, i=held.lease.job_id)) == 1


async def test_a_redriven_job_does_not_bear_its_follow_up_twice(probes: AsyncEngine) -> None:
    """It became a job of its own at the first death."""
    held = await running_with_follow_up(probes, "fail_permanently")
    await leave(probes, held, "fail_permanently")
    (born,) = await fetch(probes, FOLLOW_UPS, i=held.lease.job_id)
    async with probes.begin() as conn:
        assert await cancel_job(conn, JobId(born.id))
    assert await clean_up_one(probes, {each.kind: each for each in HANDLERS}, TIMING)
    async with probes.begin() as conn:
        assert "Redriven" in repr(await redrive_job(conn, held.lease.job_id))
    again = await claimed_again(probes, held.lease.job_id, worker="b")
    assert await leave(probes, again, "fail_permanently")
    assert len(await fetch(probes, FOLLOW_UPS, i=held.lease.job_id)) == 1


# Counters


async def counters(engine: AsyncEngine, job_id: object) -> tuple[int, int, int, int]:
    """(attempt, lost_leases, interruptions, fence)."""
    rows = await fetch(
        engine,
        "SELECT attempt, lost_leases, interruptions, fence FROM chot.jobs WHERE id = :i",
        i=job_id,
    )
    return tuple(rows[0])


async def test_each_counter_counts_its_own_kind_of_exit(probes: AsyncEngine) -> None:
    """A failure is charged; a lost lease and a release are counted apart and are not."""
    held = await claimed_job(probes)
    job_id = held.lease.job_id
    expected = {"retry": (1, 0, 0, 1), "release": (2, 0, 1, 2), "reap": (3, 1, 1, 3)}
    for how, counted in expected.items():
        await leave(probes, held, how)
        assert await counters(probes, job_id) == counted
        await execute(
            probes, "UPDATE chot.jobs SET available_at = clock_timestamp() WHERE id = :i", i=job_id
        )
        held = await claimed_again(probes, job_id, worker="b")
    assert held.charged_attempts == 2


async def test_outages_and_deploys_do_not_use_the_budget_up(probes: AsyncEngine) -> None:
    """Five attempts are left for failures after three releases and one lost lease."""
    held = await claimed_job(probes)
    job_id = held.lease.job_id
    for how in ["release", "reap", "release", "release"] + ["retry"] * 5:
        assert (await job_row(probes, job_id)).state == "running"
        await leave(probes, held, how)
        await execute(
            probes, "UPDATE chot.jobs SET available_at = clock_timestamp() WHERE id = :i", i=job_id
        )
        if (await job_row(probes, job_id)).state == "pending":
            held = await claimed_again(probes, job_id, worker="b")
    assert (await job_row(probes, job_id)).state == "dead"
    assert await counters(probes, job_id) == (9, 1, 3, 9)


@pytest.mark.scenario("F50")
async def test_the_twenty_first_release_in_place_is_charged(probes: AsyncEngine) -> None:
    """A handler that only ever hands its job back is not free for ever."""
    held = await claimed_job(probes)
    await released_before(probes, held, FREE_RELEASES - 1)
    assert await leave(probes, held, "release")
    assert await counters(probes, held.lease.job_id) == (1, 0, 1, 1)
    again = await claimed_again(probes, held.lease.job_id, worker="b")
    assert await leave(probes, again, "release")
    assert await counters(probes, held.lease.job_id) == (2, 0, 1, 2)


@pytest.mark.scenario("F50")
async def test_a_release_after_progress_stays_free(probes: AsyncEngine) -> None:
    """Whoever reached another checkpoint may be interrupted again, twenty times and more."""
    held = await claimed_job(probes)
    await released_before(probes, held, FREE_RELEASES + 5)
    async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
        tx.checkpoint = {"chunks": 1}
    assert await leave(probes, held, "release")
    assert await counters(probes, held.lease.job_id) == (1, 0, 1, 1)


async def test_a_failed_attempt_waits_and_a_success_forgets_its_error(probes: AsyncEngine) -> None:
    """The wait is in the database; an error that was overcome is history, not the job's result."""
    held = await claimed_job(probes)
    job_id = held.lease.job_id
    await leave(probes, held, "retry")
    due = await scalar(
        probes,
        """SELECT extract(epoch FROM next_send_at - clock_timestamp()) FROM chot.outbox
            WHERE job_id = :i ORDER BY id DESC LIMIT 1""",
        i=job_id,
    )
    assert 55 < due <= 60
    assert await claim_jobs(autocommit(probes), claimant(), [job_id]) == []
    await execute(
        probes, "UPDATE chot.jobs SET available_at = clock_timestamp() WHERE id = :i", i=job_id
    )
    again = await claimed_again(probes, job_id, worker="b")
    async with autocommit(probes).connect() as conn:
        assert await complete_job(conn, again, None)
    assert (
        await scalar(probes, "SELECT error FROM chot.job_outputs WHERE job_id = :i", i=job_id)
        is None
    )
    kept = await fetch(
        probes, "SELECT error FROM chot.attempts WHERE job_id = :i ORDER BY fence", i=job_id
    )
    assert kept[0].error["message"] == "broke"
    assert kept[1].error is None


# Cancel


@pytest.mark.scenario("F10")
async def test_a_cancel_waits_for_a_commit_and_is_too_late(probes: AsyncEngine) -> None:
    """The completion was first at the row: 'too late' is the truth, the effect stays."""
    held = await claimed_job(probes)
    async with probes.connect() as conn, probes.connect() as other:
        await put_effect(conn, held)
        assert await complete_job(conn, held, None)
        cancelling = asyncio.create_task(cancel_job(other, held.lease.job_id))
        await until_waiting(probes)
        await conn.commit()
        assert not await cancelling
        await other.commit()
    assert (await job_row(probes, held.lease.job_id)).state == "succeeded"
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


@pytest.mark.scenario("F10")
async def test_cancel_and_completion_race_and_one_wins(probes: AsyncEngine) -> None:
    """Sixty races over real connections: cancelled and no effect, or succeeded and the effect."""
    ends = set()
    for round_no in range(60):
        held = await claimed_job(probes)

        async def complete(held: HeldLease = held) -> bool:
            await asyncio.sleep(random.uniform(0, 0.003))
            try:
                async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
                    await put_effect(tx.connection, held)
            except LeaseLost:
                return False
            return True

        async def cancel(held: HeldLease = held, round_no: int = round_no) -> bool:
            await asyncio.sleep(random.uniform(0, 0.008) if round_no % 2 else 0)
            async with probes.begin() as conn:
                return await cancel_job(conn, held.lease.job_id)

        completed, cancelled = await asyncio.gather(complete(), cancel())
        assert completed != cancelled
        state = (await job_row(probes, held.lease.job_id)).state
        assert state == ("succeeded" if completed else "cancelled")
        assert len(await effects_of(probes, held.lease.job_id)) == int(completed)
        ends.add(state)
    assert ends == {"succeeded", "cancelled"}, "the races never went both ways"


@pytest.mark.scenario("F10")
async def test_after_a_cancels_answer_no_effect_commits(probes: AsyncEngine) -> None:
    """A job that commits chunk after chunk is cut between two of them, thirty times."""
    for _ in range(30):
        held = await claimed_job(probes)
        writing = asyncio.create_task(_write_for_ever(probes, held))
        await asyncio.sleep(random.uniform(0, 0.02))
        async with probes.begin() as conn:
            assert await cancel_job(conn, held.lease.job_id)
        at_the_answer = await effects_of(probes, held.lease.job_id)
        with pytest.raises(LeaseLost):
            await writing
        assert await effects_of(probes, held.lease.job_id) == at_the_answer


async def _write_for_ever(engine: AsyncEngine, held: HeldLease) -> None:
    while True:
        async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
            await put_effect(tx.connection, held, held.checkpoint_no)


# Terminal


@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_a_terminal_row_is_left_alone_by_everybody(probes: AsyncEngine, how: str) -> None:
    """Not one transition touches it, not even without changing a value."""
    held = await claimed_for(probes, how)
    assert await leave(probes, held, how)
    handlers = {each.kind: each for each in HANDLERS}
    while await clean_up_one(probes, handlers, TIMING):
        pass
    version = "SELECT xmin, ctid, j.* FROM chot.jobs j WHERE id = :i"
    before = await fetch(probes, version, i=held.lease.job_id)
    await _try_everything(probes, held)
    assert await fetch(probes, version, i=held.lease.job_id) == before
    assert await outbox_of(probes) == []


async def _try_everything(engine: AsyncEngine, held: HeldLease) -> None:
    ids, auto = [held.lease.job_id], autocommit(engine)
    held.progress = Progress(done=1)
    failed: Any = Failed(error="late", code="FAILED", permanent=False)
    for wait in (False, True):
        assert await claim_jobs(auto, claimant("b"), ids, wait=wait) == []
    async with auto.connect() as conn:
        assert await renew_leases(conn, [held], 30) == set()
        assert not await hold_fence(conn, held, "{}", held.progress)
        assert not await complete_job(conn, held, "{}")
        assert await fail_job(conn, held, failed) is None
        assert await release_job(conn, held, Released(reason="late")) is None
        assert not await cancel_job(conn, held.lease.job_id)
        assert await reap_expired(conn) == 0
        assert await restage_lost(conn, 0.0) == 0
    if (await job_row(engine, held.lease.job_id)).state != "dead":
        async with engine.begin() as conn:
            assert "NotDead" in repr(await redrive_job(conn, held.lease.job_id))


async def test_a_budget_used_up_by_prepare_is_what_the_exits_say(probes: AsyncEngine) -> None:
    """The table of exits itself: with its budget left, the same exit leads back to pending."""
    for how in ("fail_last", "release_last", "reap_last"):
        fresh = await claimed_job(probes)
        assert await leave(probes, fresh, how)
        assert (await job_row(probes, fresh.lease.job_id)).state == "pending"
        spent = await prepare(probes, await claimed_job(probes), how)
        assert await leave(probes, spent, how)
        assert (await job_row(probes, spent.lease.job_id)).state == "dead"


async def test_attempts_without_end_are_refused_by_the_schema(probes: AsyncEngine) -> None:
    """An outcome and its time come together, whoever writes them."""
    held = await claimed_job(probes)
    with pytest.raises(Exception, match="attempts_ended_check"):
        async with probes.begin() as conn:
            await conn.execute(
                text("UPDATE chot.attempts SET outcome = 'failed' WHERE job_id = :i"),
                {"i": held.lease.job_id},
            )
