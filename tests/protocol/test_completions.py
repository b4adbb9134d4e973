"""Completions: what has ended is stored together; whoever cannot be is in nobody's way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.factories import (
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
    submitted,
)
from tests.protocol.sessions import lock_job, waiting_for_nobody
from tests.protocol.test_attempt import runner
from tests.services import Database
from tests.tcp_proxy import Proxy, open_proxy
from worker.attempt import run_attempt
from worker.claim import claim_jobs, read_input, share_inputs
from worker.completions import LARGEST_RESULT, Completions
from worker.context import JobContext
from worker.lease import HeldLease
from worker.outcome import Succeeded
from worker.reaper import reap_expired

DONE = '{"ok": true}'
LOCK_ATTEMPT = text("SELECT FROM chot.attempts WHERE job_id = :id FOR UPDATE")


async def claimed(engine: AsyncEngine, count: int, **payload: Any) -> list[HeldLease]:
    """So many jobs, all claimed by one worker."""
    ids = [await make_job(engine, **payload) for _ in range(count)]
    return await claim_jobs(autocommit(engine), claimant(), ids)


async def stored(
    engine: AsyncEngine, held: Sequence[HeldLease], result: str | None = DONE
) -> list[bool]:
    """What each hears that ends at the same moment as the others."""
    together = Completions(autocommit(engine))
    return await asyncio.gather(*(together.complete(each, result) for each in held))


async def states(engine: AsyncEngine, held: Sequence[HeldLease]) -> list[str]:
    """The jobs' states, in this order."""
    return [(await job_row(engine, each.lease.job_id)).state for each in held]


@asynccontextmanager
async def counted(engine: AsyncEngine, words: str) -> AsyncIterator[list[str]]:
    """The statements with these words that are sent meanwhile."""
    sent: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if words in statement:
            sent.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine.sync_engine, "before_cursor_execute", note)


async def test_who_ends_together_is_stored_in_one_statement(probes: AsyncEngine) -> None:
    """Each with its own result, attempt and checkpoint; an error of an earlier attempt is over."""
    held = await claimed(probes, 5)
    await execute(
        probes,
        "INSERT INTO chot.job_outputs (job_id, error) VALUES (:one, '{}'), (:two, '{}')",
        one=held[0].lease.job_id,
        two=held[1].lease.job_id,
    )
    together = Completions(autocommit(probes))
    async with counted(probes, "state = 'succeeded'") as sent:
        answers = await asyncio.gather(
            *(
                together.complete(each, None if n == 1 else f'{{"n": {n}}}')
                for n, each in enumerate(held)
            )
        )
    assert (answers, len(sent)) == ([True] * 5, 1)
    rows = await fetch(
        probes,
        """SELECT j.state, j.checkpoint_no, j.lease_token, a.outcome, a.error AS attempt_error,
                  a.ended_at = j.finished_at OR a.ended_at > a.started_at AS ended,
                  a.checkpoint_no AS reached, o.result ->> 'n' AS n, o.error
             FROM chot.jobs j JOIN chot.attempts a ON a.job_id = j.id
             LEFT JOIN chot.job_outputs o ON o.job_id = j.id ORDER BY j.id""",
    )
    assert [tuple(row) for row in rows] == [
        ("succeeded", 1, None, "succeeded", None, True, 1, None if n == 1 else str(n), None)
        for n in range(5)
    ]


async def test_ends_and_endings_are_counted_as_ever(probes: AsyncEngine) -> None:
    """A row an end and a row an ending: the counts do not know of batches."""
    held = await claimed(probes, 3)
    assert all(await stored(probes, held))
    ends = await fetch(
        probes, "SELECT kind, outcome, queue_seconds >= 0 AS waited FROM chot.attempt_ends"
    )
    assert [tuple(row) for row in ends] == [("probe.write", "succeeded", True)] * 3
    assert len(await fetch(probes, "SELECT 1 FROM chot.endings WHERE state = 'succeeded'")) == 3


async def test_a_member_that_was_taken_over_is_left_out(probes: AsyncEngine) -> None:
    """Its fence is dead; the others are stored, and it is not touched."""
    held = await claimed(probes, 3)
    await expire_lease(probes, held[1].lease.job_id)
    heir = await claimed_again(probes, held[1].lease.job_id, worker="b")
    assert await stored(probes, held) == [True, False, True]
    assert await states(probes, held) == ["succeeded", "running", "succeeded"]
    row = await job_row(probes, heir.lease.job_id)
    assert (row.fence, row.lease_token, row.checkpoint_no) == (2, heir.lease.token, 0)


@pytest.mark.parametrize("what", ["token", "checkpoint"])
async def test_a_member_is_compared_as_a_whole(probes: AsyncEngine, what: str) -> None:
    """Not only the fence: after a failover one of the three might be given twice."""
    held = await claimed(probes, 2)
    change = {
        "token": "lease_token = gen_random_uuid()",
        "checkpoint": "checkpoint_no = checkpoint_no + 1",
    }[what]
    await execute(probes, f"UPDATE chot.jobs SET {change} WHERE id = :id", id=held[0].lease.job_id)
    assert await stored(probes, held) == [False, True]
    assert await states(probes, held) == ["running", "succeeded"]


async def test_a_lease_that_has_only_run_out_is_still_ours(probes: AsyncEngine) -> None:
    """The fence tests no expiry; whom the reaper has had is gone."""
    held = await claimed(probes, 3)
    await expire_lease(probes, held[0].lease.job_id)
    async with autocommit(probes).connect() as conn:
        assert await reap_expired(conn) == 1
    await expire_lease(probes, held[1].lease.job_id)
    assert await stored(probes, held) == [False, True, True]
    assert await states(probes, held) == ["pending", "succeeded", "succeeded"]


async def test_a_frozen_row_keeps_no_other_job(probes: AsyncEngine, database: Database) -> None:
    """Who is in somebody's hands is passed over, and then waits by itself."""
    held = await claimed(probes, 4)

    async def ends(_context: JobContext, _payload: Any) -> None:
        return None

    run = runner(probes, database, write=ends)
    async with probes.connect() as other:
        await lock_job(other, held[2].lease.job_id)
        attempts = [asyncio.create_task(run_attempt(run, each)) for each in held]
        async with waiting_for_nobody():
            await asyncio.wait({task for n, task in enumerate(attempts) if n != 2})
        assert not attempts[2].done()
        await other.rollback()
    assert all(isinstance(each, Succeeded) for each in await asyncio.gather(*attempts))
    assert await states(probes, held) == ["succeeded"] * 4


async def test_a_batch_that_hangs_keeps_the_next_one_for_a_moment_only(
    probes: AsyncEngine,
) -> None:
    """Its connection may be half-open: nobody waits behind it until it is given up."""
    one, *others = await claimed(probes, 3)
    together = Completions(autocommit(probes))
    async with probes.connect() as other:
        # Held by nobody in life: whoever closes an attempt has its job's row.
        await other.execute(LOCK_ATTEMPT, {"id": one.lease.job_id})
        hanging = asyncio.create_task(together.complete(one, None))
        await asyncio.sleep(0)
        async with waiting_for_nobody():
            answers = await asyncio.gather(*(together.complete(each, None) for each in others))
        assert answers == [True, True]
        assert not hanging.done()
        await other.rollback()
    assert await hanging


async def test_a_result_that_cannot_be_stored_fails_alone(
    probes: AsyncEngine, database: Database
) -> None:
    """The statement is rolled back for all; each is stored by itself, but for that one."""
    held = await claimed(probes, 3)
    together = Completions(autocommit(probes))
    answers = await asyncio.gather(
        *(together.complete(each, "no JSON" if n == 1 else DONE) for n, each in enumerate(held))
    )
    assert answers == [False] * 3
    assert await states(probes, held) == ["running"] * 3

    async def returns(_context: JobContext, payload: Any) -> Any:
        return "x" * 2**21 if payload.chunks == 9 else {"ok": True}

    run = runner(probes, database, write=returns)
    large = await claimed_job(probes, chunks=9)
    outcomes = await asyncio.gather(*(run_attempt(run, each) for each in (*held, large)))
    assert [type(each).__name__ for each in outcomes] == [*["Succeeded"] * 3, "Failed"]
    assert await states(probes, [*held, large]) == [*["succeeded"] * 3, "dead"]


async def test_a_large_result_goes_by_itself(probes: AsyncEngine) -> None:
    """It would cost the others more than the statement that they share."""
    (held,) = await claimed(probes, 1)
    async with counted(probes, "chot.jobs") as sent:
        assert await stored(probes, [held], f'"{"x" * LARGEST_RESULT}"') == [False]
    assert sent == []


async def test_work_that_is_to_follow_is_left_to_the_exit_that_knows_it(
    probes: AsyncEngine, database: Database
) -> None:
    """A follow-up that was promised becomes a job, though its predecessor ended in company."""
    follows: dict[str, Any] = {"kind": "probe.follow", "number": 77}
    job_id = (await submitted(probes, **follows)).job_id
    other = await make_job(probes)
    held = await claim_jobs(autocommit(probes), claimant(), [job_id, other])
    assert (await submitted(probes, **follows)).duplicate == "follow_up"

    async def ends(_context: JobContext, _payload: Any) -> None:
        return None

    run = runner(probes, database, write=ends, follow=ends)
    outcomes = await asyncio.gather(*(run_attempt(run, each) for each in held))
    assert all(isinstance(each, Succeeded) for each in outcomes)
    pending = await fetch(probes, "SELECT kind FROM chot.jobs WHERE state = 'pending'")
    assert [row.kind for row in pending] == ["probe.follow"]


async def test_a_zombie_in_company_is_told_that_it_is_one(
    probes: AsyncEngine, database: Database
) -> None:
    """Left out of the batch it is judged by itself: lost, and nothing is written."""
    held = await claimed(probes, 2)

    async def loses(_context: JobContext, _payload: Any) -> None:
        return None

    run = runner(probes, database, write=loses)
    await expire_lease(probes, held[0].lease.job_id)
    await claimed_again(probes, held[0].lease.job_id, worker="b")
    outcomes = await asyncio.gather(*(run_attempt(run, each) for each in held))
    assert [type(each).__name__ for each in outcomes] == ["Lost", "Succeeded"]
    rows = await fetch(
        probes,
        "SELECT outcome FROM chot.attempts WHERE job_id = :id ORDER BY fence",
        id=held[0].lease.job_id,
    )
    assert [row.outcome for row in rows] == ["lost_lease", None]


async def test_who_no_longer_waits_is_not_stored(probes: AsyncEngine) -> None:
    """A cancel while it gathers takes it out; the others are stored."""
    held = await claimed(probes, 3)
    together = Completions(autocommit(probes))
    tasks = [asyncio.create_task(together.complete(each, None)) for each in held]
    await asyncio.sleep(0)  # all of them wait, the batch has not begun
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[2]] == [True, True]
    assert isinstance(answers[1], asyncio.CancelledError)
    assert await states(probes, held) == ["succeeded", "running", "succeeded"]


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_batch_whose_answer_is_lost_is_asked_after(
    probes: AsyncEngine, database: Database, capsys: pytest.CaptureFixture[str], *, arrives: bool
) -> None:
    """Committed or not: each member ends once, with one attempt, none of them charged."""
    held = await claimed(probes, 4)
    all_of_them = asyncio.Barrier(4)

    async def ends(_context: JobContext, _payload: Any) -> None:
        await all_of_them.wait()

    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as proxy:
        url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
        engine = open_engine(url.geturl(), pool_size=6)
        watched = proxy.lose_answer_to if arrives else proxy.lose
        watched(held[3].lease.token.bytes)
        run = runner(engine, database, write=ends)
        running = [asyncio.create_task(run_attempt(run, each)) for each in held]
        await _break(proxy, arrives=arrives)
        outcomes = await asyncio.gather(*running)
        await engine.dispose()
    assert all(isinstance(each, Succeeded) for each in outcomes)
    rows = await fetch(
        probes, "SELECT j.state, j.attempt, j.checkpoint_no FROM chot.jobs j ORDER BY j.id"
    )
    assert [tuple(row) for row in rows] == [("succeeded", 1, 1)] * 4
    assert len(await fetch(probes, "SELECT 1 FROM chot.attempt_ends")) == 4
    assert capsys.readouterr().out.count("outcome.in_doubt") == 4, "they were one batch"


async def _break(proxy: Proxy, *, arrives: bool) -> None:
    await (proxy.until_held() if arrives else proxy.triggered.wait())
    proxy.reset()
    proxy.heal()


async def test_a_claims_inputs_are_read_in_one_statement(probes: AsyncEngine) -> None:
    """Each gets its own; who has been cancelled takes nothing from the others."""
    held = await claimed(probes, 3)
    auto = autocommit(probes)
    async with counted(probes, "job_payloads") as sent:
        share_inputs(auto, held)
        reading = [asyncio.create_task(read_input(auto, each)) for each in held]
        await asyncio.sleep(0)
        reading[0].cancel()
        inputs = await asyncio.gather(*reading, return_exceptions=True)
    assert len(sent) == 1
    assert isinstance(inputs[0], asyncio.CancelledError)
    for each, found in zip(held[1:], inputs[1:], strict=True):
        row = await fetch(
            probes,
            "SELECT payload::text AS payload FROM chot.job_payloads WHERE job_id = :id",
            id=each.lease.job_id,
        )
        assert found == (row[0].payload, None)


async def test_inputs_that_could_not_be_read_together_are_read_one_by_one(
    probes: AsyncEngine,
) -> None:
    """A connection that broke under all of them is no reason to fail any."""
    held = await claimed(probes, 2)
    gone = open_engine("postgresql://nobody@127.0.0.1:1/nothing", pool_size=1)
    share_inputs(autocommit(gone), held)
    found = await asyncio.gather(*(read_input(autocommit(probes), each) for each in held))
    await gone.dispose()
    assert [checkpoint for _, checkpoint in found] == [None, None]


async def test_a_half_open_connection_under_a_shared_read_holds_up_nobody_for_long(
    probes: AsyncEngine, database: Database
) -> None:
    """Each asks for itself after a moment; a kind's timeout would bury them one and all."""
    held = await claimed(probes, 3)
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as proxy:
        url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
        engine = open_engine(url.geturl(), pool_size=4)
        async with engine.connect() as conn:
            await conn.execute(text("SELECT 1"))
        proxy.freeze()
        share_inputs(autocommit(engine), held)
        async with waiting_for_nobody(20):
            found = await asyncio.gather(*(read_input(autocommit(engine), each) for each in held))
        proxy.reset()
        await engine.dispose()
    assert [checkpoint for _, checkpoint in found] == [None] * 3
