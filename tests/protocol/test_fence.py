"""Fence: a job's effects are committed by the one worker that owns it, or not at all."""

# ruff: noqa: PT012 - what raises is the end of the transaction's block

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import driver_connection, open_engine, sqlstate_of, transaction
from shared.errors import Conflict, LeaseLost, PermanentError
from shared.jobs.cancel import cancel_job
from shared.types import LeaseToken
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
)
from tests.protocol.sessions import effects_of, lock_job, put_effect, until_waiting
from tests.services import Database
from worker.claim import CLAIM_ONE, claim_jobs
from worker.fence import fenced_transaction
from worker.lease import HeldLease, hold_fence, renew_leases

QUICK = replace(TIMING, lock_timeout=0.2)


async def commit_effect(engine: AsyncEngine, held: HeldLease, *, completes: bool = False) -> None:
    """One fenced transaction with one effect, a checkpoint and a result."""
    async with fenced_transaction(engine, held, TIMING, completes=completes) as tx:
        await put_effect(tx.connection, held)
        tx.checkpoint, tx.result = {"by": held.lease.fence}, {"by": held.lease.fence}


@pytest.mark.parametrize("completes", [False, True])
@pytest.mark.scenario("F03")
async def test_a_zombie_whose_lease_was_taken_commits_nothing(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """Neither a checkpoint nor a completion: its effects are gone with its transaction."""
    zombie = await claimed_job(probes, worker="a")
    job_id = zombie.lease.job_id
    await expire_lease(probes, job_id)
    owner = await claimed_again(probes, job_id, worker="b")
    with pytest.raises(LeaseLost):
        await commit_effect(probes, zombie, completes=completes)
    assert await effects_of(probes, job_id) == []
    row = await job_row(probes, job_id)
    assert (row.state, row.fence, row.checkpoint_no) == ("running", 2, 0)
    assert row.lease_token == owner.lease.token
    await commit_effect(probes, owner, completes=completes)
    assert await effects_of(probes, job_id) == [(0, 2)]


@pytest.mark.parametrize("completes", [False, True])
async def test_a_takeover_during_the_body_undoes_the_body(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """The effect was written while the lease was ours; the fence comes last and says no."""
    zombie = await claimed_job(probes, worker="a")
    job_id = zombie.lease.job_id
    with pytest.raises(LeaseLost):
        async with fenced_transaction(probes, zombie, TIMING, completes=completes) as tx:
            await put_effect(tx.connection, zombie)
            await expire_lease(probes, job_id)
            await claimed_again(probes, job_id, worker="b")
    assert await effects_of(probes, job_id) == []


async def test_a_takeover_waits_for_a_commit_and_starts_behind_it(probes: AsyncEngine) -> None:
    """Whoever is first at the row wins it; nobody reads a checkpoint that was undone."""
    first = await claimed_job(probes, worker="a")
    job_id = first.lease.job_id
    await expire_lease(probes, job_id)
    async with probes.connect() as conn:
        await put_effect(conn, first)
        assert await hold_fence(conn, first, '{"chunks": 1}', None)
        taking = asyncio.create_task(_claim_waiting(probes, first))
        await until_waiting(probes)
        await conn.commit()
    second = await taking
    assert (second.lease.fence, second.checkpoint_no) == (2, 1)
    assert await effects_of(probes, job_id) == [(0, 1)]


async def _claim_waiting(engine: AsyncEngine, held: HeldLease) -> HeldLease:
    (found,) = await claim_jobs(autocommit(engine), claimant("b"), [held.lease.job_id], wait=True)
    return found


@pytest.mark.parametrize("completes", [False, True])
async def test_a_fence_behind_a_takeover_judges_the_row_anew(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """⚑ It began while the lease was ours and waited for the row: what it looked at is history."""
    zombie = await claimed_job(probes, worker="a")
    job_id = zombie.lease.job_id
    await expire_lease(probes, job_id)
    async with probes.connect() as taking:
        binds = claimant("b").binds() | {"ids": [job_id], "tokens": [uuid4()]}
        assert len((await taking.execute(CLAIM_ONE, binds)).all()) == 1
        committing = asyncio.create_task(commit_effect(probes, zombie, completes=completes))
        await until_waiting(probes)
        await taking.commit()
    with pytest.raises(LeaseLost):
        await committing
    assert await effects_of(probes, job_id) == []


@pytest.mark.parametrize("completes", [False, True])
async def test_another_token_under_the_same_fence_is_refused(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """After a failover that lost data a fence may be given twice; the token tells them apart."""
    held = await claimed_job(probes)
    held.lease = replace(held.lease, token=LeaseToken(uuid4()))
    with pytest.raises(LeaseLost):
        await commit_effect(probes, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == []


@pytest.mark.parametrize("completes", [False, True])
async def test_an_older_fence_with_the_right_token_is_refused(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """Fence and token are compared, both."""
    held = await claimed_job(probes)
    await execute(probes, "UPDATE chot.jobs SET fence = 2 WHERE id = :i", i=held.lease.job_id)
    with pytest.raises(LeaseLost):
        await commit_effect(probes, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == []


@pytest.mark.parametrize("completes", [False, True])
async def test_a_second_commit_of_one_checkpoint_is_refused(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """The worker that believes its first commit failed cannot write the same chunk again."""
    held = await claimed_job(probes)
    await commit_effect(probes, held)
    held.checkpoint_no -= 1
    with pytest.raises(LeaseLost):
        await commit_effect(probes, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]
    assert (await job_row(probes, held.lease.job_id)).checkpoint_no == 1


@pytest.mark.parametrize("completes", [False, True])
@pytest.mark.scenario("F10")
async def test_a_job_that_was_cancelled_takes_no_more_effects(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """Not running any more, so nothing commits, even though nobody has claimed it."""
    held = await claimed_job(probes)
    async with probes.begin() as conn:
        assert await cancel_job(conn, held.lease.job_id)
    with pytest.raises(LeaseLost):
        await commit_effect(probes, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == []


@pytest.mark.parametrize("completes", [False, True])
async def test_an_expired_lease_nobody_took_still_commits(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """The fence asks who owns the job, not what time it is: finished work is not thrown away."""
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    await commit_effect(probes, held, completes=completes)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


async def test_chunks_and_completion_count_checkpoints_and_are_noted(probes: AsyncEngine) -> None:
    """Job and attempt agree on how far it came; the last checkpoint is the one that is kept."""
    held = await claimed_job(probes)
    job_id = held.lease.job_id
    for chunk in (1, 2, 3):
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await put_effect(tx.connection, held, chunk)
            tx.checkpoint = {"chunks": chunk}
    async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
        await put_effect(tx.connection, held, 4)
        tx.result = {"done": True}
    assert held.completed
    row = await job_row(probes, job_id)
    assert (row.state, row.checkpoint_no, held.checkpoint_no) == ("succeeded", 4, 4)
    attempts = await fetch(
        probes, "SELECT checkpoint_no, outcome FROM chot.attempts WHERE job_id = :i", i=job_id
    )
    assert attempts == [(4, "succeeded")]
    outputs = await fetch(
        probes, "SELECT checkpoint, result FROM chot.job_outputs WHERE job_id = :i", i=job_id
    )
    assert outputs == [({"chunks": 3}, {"done": True})]


async def test_a_copy_as_first_act_is_inside_the_transaction(
    probes: AsyncEngine, database: Database
) -> None:
    """⚑ SQLAlchemy begins the driver's transaction lazily: a raw COPY would commit beside it."""
    zombie = await claimed_job(probes, worker="a")
    job_id = zombie.lease.job_id
    columns = ["job_id", "number", "chunk", "fence", "attempt", "pid"]
    with pytest.raises((LeaseLost, AssertionError)) as refused:
        async with fenced_transaction(probes, zombie, TIMING, completes=False) as tx:
            raw = await tx.connection.get_raw_connection()
            assert raw.driver_connection is not None
            await raw.driver_connection.copy_records_to_table(
                "effects",
                schema_name="probe",
                records=[(job_id, 0, 0, 1, 1, 0)],
                columns=columns,
            )
            await expire_lease(probes, job_id)
            await claimed_again(probes, job_id, worker="b")
    assert await effects_of(probes, job_id) == [], "the COPY was committed beside the fence"
    assert refused.type is LeaseLost
    # And the trap itself, so that this test is known to look at the right thing.
    bare = open_engine(database.app_url, pool_size=1)
    async with bare.connect() as conn:
        raw = await conn.get_raw_connection()
        assert raw.driver_connection is not None
        assert not raw.driver_connection.is_in_transaction()
        with pytest.raises(AssertionError):
            await driver_connection(conn)
    await bare.dispose()


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
async def test_a_body_that_ends_its_transaction_is_found_out(
    probes: AsyncEngine, ending: str
) -> None:
    """Before the fence the driver must still be in the transaction that was handed out."""
    held = await claimed_job(probes)
    with pytest.raises(AssertionError):
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await (await driver_connection(tx.connection)).execute(ending)
    assert (await job_row(probes, held.lease.job_id)).checkpoint_no == 0


async def test_one_lease_has_one_open_transaction(probes: AsyncEngine) -> None:
    """Two would both expect the same checkpoint; the second is refused before it opens."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=False):
        with pytest.raises(RuntimeError, match="one open fenced transaction"):
            async with fenced_transaction(probes, held, TIMING, completes=False):
                pytest.fail("a second transaction was opened")
    await commit_effect(probes, held, completes=True)
    with pytest.raises(RuntimeError, match="none after completion"):
        await commit_effect(probes, held)


async def test_a_stopped_lease_opens_and_commits_nothing(probes: AsyncEngine) -> None:
    """What the heartbeat has given up is not written, though the database would still take it."""
    held = await claimed_job(probes)
    with pytest.raises(LeaseLost, match="told to"):
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await put_effect(tx.connection, held)
            held.stop("expired", "told to")
    with pytest.raises(LeaseLost, match="told to"):
        await commit_effect(probes, held)
    assert await effects_of(probes, held.lease.job_id) == []


async def test_a_deferred_constraint_undoes_effects_and_checkpoint(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Deferred checks run before the fence, not in a COMMIT that nobody looks at."""
    await execute(
        owner_engine,
        """ALTER TABLE probe.effects ADD CONSTRAINT one_chunk UNIQUE (job_id, chunk)
           DEFERRABLE INITIALLY DEFERRED""",
    )
    held = await claimed_job(probes)
    with pytest.raises(IntegrityError):
        async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
            await put_effect(tx.connection, held)
            await put_effect(tx.connection, held)
    assert await effects_of(probes, held.lease.job_id) == []
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.checkpoint_no, held.completed) == ("running", 0, False)


DEFERRED = (
    """CREATE FUNCTION probe.look() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
           INSERT INTO probe.stamps SELECT id, attempt, 'checkpoint ' || checkpoint_no
             FROM chot.jobs WHERE id = NEW.job_id;
           RETURN NULL;
       END $$""",
    """CREATE CONSTRAINT TRIGGER look AFTER INSERT ON probe.effects DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION probe.look()""",
)


async def test_deferred_checks_run_before_the_fence(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """However long they take, they do not hold the job's row: the fence is the last statement."""
    for statement in DEFERRED:
        await execute(owner_engine, statement)
    held = await claimed_job(probes)
    await commit_effect(probes, held)
    assert await scalar(probes, "SELECT what FROM probe.stamps") == "checkpoint 0"


async def test_a_swallowed_error_cannot_commit_one_half(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """COMMIT of an aborted transaction answers ROLLBACK and raises nothing; the fence does."""
    await execute(owner_engine, "ALTER TABLE probe.effects ADD UNIQUE (job_id, chunk)")
    held = await claimed_job(probes)
    with pytest.raises(DBAPIError) as caught:
        async with fenced_transaction(probes, held, TIMING, completes=True) as tx:
            await put_effect(tx.connection, held)
            try:
                await put_effect(tx.connection, held)
            except IntegrityError:
                tx.result = {"looks": "fine"}
    assert sqlstate_of(caught.value) == "25P02"
    assert await effects_of(probes, held.lease.job_id) == []
    assert (await job_row(probes, held.lease.job_id)).state == "running"


async def test_repeatable_read_would_lose_the_fence_to_a_heartbeat(probes: AsyncEngine) -> None:
    """⚑ One renewal since the snapshot and the fence fails, now and at every repetition."""
    held = await claimed_job(probes)
    for _ in range(2):
        async with probes.connect() as conn:
            await conn.execution_options(isolation_level="REPEATABLE READ")
            await put_effect(conn, held)
            async with autocommit(probes).connect() as heart:
                assert await renew_leases(heart, [held], 30)
            with pytest.raises(DBAPIError) as caught:
                await hold_fence(conn, held, None, None)
            assert sqlstate_of(caught.value) == "40001"
    # Ours is opened at READ COMMITTED, whatever the engine it is given would do.
    other = probes.execution_options(isolation_level="REPEATABLE READ")
    async with fenced_transaction(other, held, TIMING, completes=False) as tx:
        level = await tx.connection.scalar(text("SHOW transaction_isolation"))
        await put_effect(tx.connection, held)
        async with autocommit(probes).connect() as heart:
            assert await renew_leases(heart, [held], 30)
    assert level == "read committed"
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


async def test_a_body_cannot_raise_its_own_isolation(probes: AsyncEngine) -> None:
    """The first statement is already ours, and PostgreSQL allows no change after it."""
    held = await claimed_job(probes)
    with pytest.raises(DBAPIError, match="must be called before any query"):
        async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
            await tx.connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


async def test_a_heartbeat_is_not_held_up_by_an_open_body(probes: AsyncEngine) -> None:
    """The row is locked by the last statement only, however long the body takes."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
        await put_effect(tx.connection, held)
        async with autocommit(probes).connect() as heart:
            assert await renew_leases(heart, [held], 30) == {held.lease.job_id}


async def test_a_fence_that_cannot_lock_is_a_conflict(probes: AsyncEngine) -> None:
    """Somebody sits on the row: nothing is written, and the job has done nothing wrong."""
    held = await claimed_job(probes)
    async with probes.begin() as other:
        await lock_job(other, held.lease.job_id)
        with pytest.raises(Conflict):
            async with fenced_transaction(probes, held, QUICK, completes=False) as tx:
                await put_effect(tx.connection, held)
    assert await effects_of(probes, held.lease.job_id) == []
    await commit_effect(probes, held)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]


async def test_a_deadlock_in_the_body_is_a_conflict(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Two jobs over the same two rows in opposite orders: one is sent back, uncharged."""
    await execute(owner_engine, "CREATE TABLE probe.pair (n integer PRIMARY KEY, v integer)")
    await execute(owner_engine, "INSERT INTO probe.pair VALUES (1, 0), (2, 0)")
    await execute(owner_engine, "GRANT SELECT, UPDATE ON probe.pair TO chot_app")
    first, second = await claimed_job(probes), await claimed_job(probes)
    met = asyncio.Barrier(2)

    async def run(held: HeldLease, rows: tuple[int, int]) -> str:
        try:
            async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
                statement = text("UPDATE probe.pair SET v = v + 1 WHERE n = :n")
                await tx.connection.execute(statement, {"n": rows[0]})
                await met.wait()
                await tx.connection.execute(statement, {"n": rows[1]})
        except Conflict as conflict:
            return "deadlock" if "deadlock" in str(conflict) else str(conflict)
        return "committed"

    ends = await asyncio.gather(run(first, (1, 2)), run(second, (2, 1)))
    assert sorted(ends) == ["committed", "deadlock"]
    assert await scalar(probes, "SELECT sum(v) FROM probe.pair") == 2


async def test_an_idle_open_body_is_cut_by_the_server(probes: AsyncEngine) -> None:
    """A stopped worker's transaction cannot hold ERP rows for longer than it may idle."""
    held = await claimed_job(probes)
    short = replace(TIMING, idle_in_transaction=0.2)
    with pytest.raises(DBAPIError):
        async with fenced_transaction(probes, held, short, completes=False) as tx:
            await put_effect(tx.connection, held)
            async with transaction(probes) as other:
                # Waits for the effect's row lock, which is let go by the server alone.
                await other.execute(text("LOCK TABLE probe.effects IN ACCESS EXCLUSIVE MODE"))
    assert await effects_of(probes, held.lease.job_id) == []


@pytest.mark.parametrize("completes", [False, True])
async def test_progress_of_a_commit_never_goes_backwards(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """The larger done wins, wherever it came from."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=False) as tx:
        tx.progress(7, 10, unit="chunks", message="seven")
    async with fenced_transaction(probes, held, TIMING, completes=completes) as tx:
        tx.progress(3, 10, unit="chunks", message="three")
    row = await job_row(probes, held.lease.job_id)
    assert (row.progress_done, row.progress_total, row.progress_unit) == (7, 10, "chunks")


@pytest.mark.parametrize("completes", [False, True])
async def test_progress_of_a_commit_is_cut_to_its_column(
    probes: AsyncEngine, *, completes: bool
) -> None:
    """A long message, a NUL or a negative number is no reason to lose the work."""
    held = await claimed_job(probes)
    async with fenced_transaction(probes, held, TIMING, completes=completes) as tx:
        tx.progress(-1, -1, unit="ô" * 100, message="\0" + "chốt " * 500)
    row = await job_row(probes, held.lease.job_id)
    assert (row.progress_done, row.progress_total) == (0, 0)
    assert len(row.progress_unit.encode()) <= 64
    assert 900 < len(row.progress_message.encode()) <= 960


@pytest.mark.scenario("F46")
@pytest.mark.parametrize(
    ("completes", "value"),
    [(False, {"x": "y" * 70_000}), (True, {"x": "y" * 1_100_000}), (True, {"x": float("nan")})],
)
async def test_what_cannot_be_stored_is_a_permanent_error(
    probes: AsyncEngine, *, completes: bool, value: dict[str, object]
) -> None:
    """Another attempt would compute the same; it is buried at once, without its effects."""
    held = await claimed_job(probes)
    with pytest.raises(PermanentError) as caught:
        async with fenced_transaction(probes, held, TIMING, completes=completes) as tx:
            await put_effect(tx.connection, held)
            tx.checkpoint = tx.result = value
    expected = "RESULT_NOT_STORABLE" if completes else "CHECKPOINT_NOT_STORABLE"
    assert caught.value.code == expected
    assert await effects_of(probes, held.lease.job_id) == []
