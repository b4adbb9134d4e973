"""What others see of a job that waits for its children: /why, the watch, locks, its progress."""

from dataclasses import replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING
from shared.jobs.reasons import explain
from shared.jobs.why import explain_job
from shared.watch import DUE
from tests.factories import execute, job_row
from tests.protocol.groups import held_by, messages, show
from tests.protocol.locking import KINDS as LOCKED
from tests.protocol.locking import (
    claimed,
    conflicts,
    is_waiting,
    locked_job,
    locks,
    staged,
    try_claim,
)
from tests.protocol.locking import waiting as waiter
from tests.protocol.sessions import lock_job
from tests.protocol.test_attempt import runner
from tests.protocol.test_group_races import committed, completing
from tests.protocol.test_groups import end
from tests.protocol.test_self_join import group_of, splitting, waiting
from tests.protocol.test_spawn import children
from tests.services import Database
from worker.attempt import run_attempt
from worker.context import JobContext
from worker.handlers import Handler
from worker.outcome import Completed, Waits

__all__ = ["locks"]  # a fixture


async def test_why_tells_what_the_job_waits_for(probes: AsyncEngine, database: Database) -> None:
    """And that it goes on, not that it starts."""
    job_id, group_id, (one, _) = await waiting(probes, database)
    await end(probes, one)
    async with probes.begin() as conn:
        row = await explain_job(conn, job_id, EVERYTHING)
    assert row is not None
    said = explain(row)
    assert said.reason == "group-open"
    assert f"goes on once its group {group_id} has ended (1 of 2 members ended)" in said.sentence


async def test_a_job_that_waits_for_its_children_starves_nowhere(
    probes: AsyncEngine, database: Database
) -> None:
    """However long they take: it is told once it could go on and does not."""
    job_id, _, ids = await waiting(probes, database, 1)
    held = await held_by(probes, ids[0])
    await execute(
        probes,
        "UPDATE chot.jobs SET available_at = clock_timestamp() - interval '1 h' WHERE id = :i",
        i=job_id,
    )
    async with probes.connect() as conn:
        assert (await conn.execute(text(DUE), {"due_seconds": 900.0})).all() == []
        await conn.rollback()
        assert await committed(probes, completing(held))
        (told,) = (await conn.execute(text(DUE), {"due_seconds": 900.0})).all()
    assert told.queue == "default"


async def test_a_job_that_waits_holds_no_locks(locks: AsyncEngine, database: Database) -> None:
    """Who waited for them is woken by the wait; the job asks for them anew when it goes on."""
    job_id = await locked_job(locks)
    held = await claimed(locks, job_id)
    other = await waiter(locks)
    run = replace(
        runner(locks, database),
        kinds=LOCKED,
        handlers={"locked.write": Handler(kind="locked.write", run=splitting(children(1)))},
    )
    assert isinstance(await run_attempt(run, held), Waits)
    group_id, (one,) = await group_of(locks, job_id)
    assert set(await staged(locks)) == {other, one}
    theirs = await claimed(locks, other, worker="b")
    await end(locks, one)
    assert (await show(locks, group_id)).state == "ended"
    assert await try_claim(locks, job_id) is None
    assert await is_waiting(locks, job_id)
    assert await conflicts(locks) == []
    assert await committed(locks, completing(theirs))
    assert await try_claim(locks, job_id) is not None


async def test_members_tell_how_far_they_are_all_together(
    probes: AsyncEngine, database: Database
) -> None:
    """In their own commits, never backwards, and never waiting for each other."""
    job_id, _, (one, two) = await waiting(probes, database)

    def telling(done: int, *, completes: bool = False) -> Any:
        async def tell(context: JobContext, _: Any) -> None:
            async with context.completion() if completes else context.transaction() as tx:
                tx.join_progress(done, 10, unit="parts", message=f"{done} of 10")

        return tell

    held = await held_by(probes, one)
    await run_attempt(runner(probes, database, write=telling(4, completes=True)), held)
    row = await job_row(probes, job_id)
    assert (row.progress_done, row.progress_total, row.progress_message) == (4, 10, "4 of 10")
    other = await held_by(probes, two)
    async with probes.connect() as conn:
        await lock_job(conn, job_id)
        run = runner(probes, database, write=telling(7, completes=True))
        assert isinstance(await run_attempt(run, other), Completed)
        await conn.rollback()
    row = await job_row(probes, job_id)
    assert (row.state, row.progress_done) == ("pending", 4)
    assert await messages(probes, job_id) == 1
