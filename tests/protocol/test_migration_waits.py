"""A migration that waits, is paused, cancelled, drained: always resumed behind its cursor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING, Scope
from shared.jobs.cancel import cancel_job
from shared.jobs.reasons import explain
from shared.jobs.states import CHARGED
from shared.jobs.why import explain_job
from shared.migrations.pausing import pause_run, resume_run
from shared.types import JobId, JobState
from tests.factories import eventually, execute, fetch, job_row, scalar
from tests.migrating import Migrating
from tests.protocol.reasons import why
from tests.protocol.test_attempt import runner
from tests.services import Database
from worker.attempt import run_attempt
from worker.migrations import running
from worker.outcome import FREE_RELEASES, Lost, Released
from worker.records.migration_runs import advance

ROWS, BATCH = 500, 100


async def charged(app: AsyncEngine, job_id: JobId) -> int:
    """How many of its attempts the job was charged."""
    return int(await scalar(app, f"SELECT {CHARGED} FROM chot.jobs j WHERE id = :i", i=job_id))


@pytest.fixture
async def started(migrating: Migrating, monkeypatch: pytest.MonkeyPatch) -> JobId:
    """A run that hands itself back after each of its five batches."""
    monkeypatch.setenv("CHOT_MIGRATION_INTERRUPT_SECONDS", "0.000001")
    await migrating.rows(ROWS)
    return await migrating.submit(batch_size=BATCH)


async def test_a_run_hands_itself_back_and_goes_on_uncharged(
    migrating: Migrating, started: JobId
) -> None:
    """No delivery is kept for hours; each release has a batch behind it."""
    outcomes = 0
    while (await job_row(migrating.app, started)).state != "succeeded":
        await migrating.attempt(started)
        outcomes += 1
    assert outcomes == 1 + ROWS // BATCH
    row = await job_row(migrating.app, started)
    assert (row.attempt, row.interruptions) == (6, 5)
    reason = "a run interrupts itself"
    rows = await fetch(migrating.app, "SELECT error FROM chot.attempts WHERE outcome = 'released'")
    assert all(reason in each.error["message"] for each in rows)
    assert await migrating.counts() == {1: ROWS}


async def test_a_pause_of_a_pending_run_keeps_it_from_being_claimed(
    migrating: Migrating, started: JobId
) -> None:
    """It is pending, says why, and stages a message when it is resumed."""
    async with migrating.app.begin() as conn:
        paused = await pause_run(conn, started, EVERYTHING)
    assert paused is not None
    assert (paused.state, paused.paused) == (JobState.PENDING, True)
    assert await migrating.claim(started) is None
    async with migrating.app.connect() as conn:
        why = await explain_job(conn, started, EVERYTHING)
    assert why is not None
    assert not why["resumed"]
    await execute(migrating.owner, "DELETE FROM chot.outbox")
    async with migrating.app.begin() as conn:
        resumed = await resume_run(conn, started, EVERYTHING)
    assert resumed is not None
    assert not resumed.paused
    assert await scalar(migrating.app, "SELECT count(*) FROM chot.outbox") == 1
    assert (await migrating.finish(started)).state == "succeeded"
    acts = await fetch(migrating.app, "SELECT action, job_id FROM chot.audit ORDER BY id")
    acted = [act.action for act in acts if act.action.startswith("migration.")]
    assert acted == ["migration.pause", "migration.resume"]


async def test_a_pause_of_a_running_run_takes_hold_between_two_batches(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that it comes in is committed, the next one is not begun; never charged."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    moved = advance

    async def paused_meanwhile(*args: object, **named: object) -> None:
        await moved(*args, **named)  # type: ignore[arg-type]
        async with migrating.app.begin() as conn:
            answer = await pause_run(conn, job_id, EVERYTHING)
        assert answer is not None
        assert answer.state == JobState.RUNNING

    monkeypatch.setattr(running, "advance", paused_meanwhile)
    for round_ in range(1, 4):
        outcome = await migrating.attempt(job_id)
        assert outcome == Released(reason="paused")
        row = await job_row(migrating.app, job_id)
        assert (row.state, row.progress_message) == ("pending", "waits: paused")
        assert (await migrating.run_row(job_id)).rows_done == BATCH * round_
        assert await migrating.claim(job_id) is None
        async with migrating.app.begin() as conn:
            await resume_run(conn, job_id, EVERYTHING)
    monkeypatch.setattr(running, "advance", moved)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await charged(migrating.app, job_id) == 1
    assert await migrating.counts() == {1: ROWS}


async def test_only_a_migration_that_is_active_and_in_scope_is_paused(
    migrating: Migrating, started: JobId
) -> None:
    """Neither another account's, nor one that has ended; a pause twice is one act."""
    others = Scope(company="OTHER", brands=None)
    async with migrating.app.begin() as conn:
        assert await pause_run(conn, started, others) is None
        assert await resume_run(conn, started, others) is None
        for _ in range(2):
            await pause_run(conn, started, EVERYTHING)
        await resume_run(conn, started, EVERYTHING)
    await migrating.finish(started)
    async with migrating.app.begin() as conn:
        late = await pause_run(conn, started, EVERYTHING)
    assert late is not None
    assert (late.is_over, late.paused) == (True, False)
    count = "SELECT count(*) FROM chot.audit WHERE action = 'migration.pause'"
    assert await scalar(migrating.app, count) == 1


async def test_a_cancelled_run_stops_and_keeps_what_it_has_done(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the answer no batch commits."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    looked = running.Batches._next
    batches: list[int] = []

    async def cancelled(self: running.Batches, *args: object) -> object:
        batches.append(1)
        if len(batches) == 3:
            async with migrating.app.begin() as conn:
                assert await cancel_job(conn, job_id)
        return await looked(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(running.Batches, "_next", cancelled)
    assert isinstance(await migrating.attempt(job_id), Lost)
    done = (await migrating.run_row(job_id)).rows_done
    assert len(await migrating.tries(job_id)) == 2
    assert await migrating.counts() == {0: ROWS - done, 1: done}
    assert await migrating.clean_up()
    assert (await migrating.run_row(job_id)).rows_done == done


async def test_a_drain_hands_the_run_back_behind_its_batch(
    migrating: Migrating, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM finishes the batch that is running, and no more."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    moved = advance

    async def drains(*args: object, **named: object) -> None:
        await moved(*args, **named)  # type: ignore[arg-type]
        migrating.runner.draining.set()

    monkeypatch.setattr(running, "advance", drains)
    held = await migrating.claim(job_id)
    assert held is not None
    assert runner(migrating.app, database).draining is not migrating.runner.draining
    outcome = await run_attempt(migrating.runner, held)
    assert outcome == Released(reason="the worker drains")
    assert (await migrating.run_row(job_id)).rows_done == BATCH


async def replace_load(migrating: Migrating, column: str, value: str) -> None:
    """The view tells that, as an operator's own would."""
    names = {
        "replica_lag_seconds": "double precision",
        "wal_kept_bytes": "bigint",
        "wal_archive_failed_at": "timestamptz",
        "connections": "integer",
        "max_connections": "integer",
    }
    given = dict.fromkeys(names, "NULL") | {column: value}
    if column == "connections":
        given["max_connections"] = "100"
    columns = ", ".join(f"CAST({given[n]} AS {kind}) AS {n}" for n, kind in names.items())
    await execute(migrating.owner, f"CREATE OR REPLACE VIEW chot.server_load AS SELECT {columns}")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("replica_lag_seconds", "31.5", "a replica is 32 s behind"),
        ("wal_kept_bytes", "9 * 2::bigint ^ 30", "a replication slot keeps 9,663,676,416 bytes"),
        ("wal_archive_failed_at", "clock_timestamp()", "cannot archive its WAL"),
        ("connections", "86", "86 of 100 connections are in use"),
    ],
)
async def test_a_busy_server_is_waited_for_and_told_and_never_charged(
    migrating: Migrating, column: str, value: str, words: str
) -> None:
    """Far more often than uncharged releases are free at one checkpoint."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    await replace_load(migrating, column, value)
    for _ in range(FREE_RELEASES + 5):
        outcome = await migrating.attempt(job_id)
        assert isinstance(outcome, Released)
        assert words in outcome.reason
    row = await job_row(migrating.app, job_id)
    assert row.state == "pending"
    assert words in row.progress_message
    run = await migrating.run_row(job_id)
    assert words in run.throttle_reason
    assert run.throttles == FREE_RELEASES + 5
    async with migrating.app.connect() as conn:
        why = await explain_job(conn, job_id, EVERYTHING)
    assert why is not None
    assert why["snoozed"]
    assert words in why["last_words"]
    assert await charged(migrating.app, job_id) == 0
    await replace_load(migrating, column, "NULL")
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert (await migrating.run_row(job_id)).throttle_reason is None


async def test_outside_its_window_a_run_waits_for_it(migrating: Migrating) -> None:
    """Until the window's next beginning, in the company's day."""
    await migrating.rows(ROWS)
    local = "(clock_timestamp() AT TIME ZONE 'Asia/Ho_Chi_Minh')"
    clock = f"SELECT to_char({local} + make_interval(hours => :h), 'HH24:MI')"
    hours = [await scalar(migrating.app, clock, h=h) for h in (2, 3, -1)]
    job_id = await migrating.submit(window=f"{hours[0]}-{hours[1]}")
    outcome = await migrating.attempt(job_id)
    assert isinstance(outcome, Released)
    assert f"outside its window {hours[0]}-{hours[1]}" in outcome.reason
    wait = "SELECT extract(epoch FROM available_at - clock_timestamp()) FROM chot.jobs"
    assert 3600 < await scalar(migrating.app, wait) <= 7200
    assert "nothing needs to be done" in explain(await why(migrating.app, job_id)).sentence
    async with migrating.app.begin() as conn:
        await pause_run(conn, job_id, EVERYTHING)
    said = explain(await why(migrating.app, job_id)).sentence
    assert f"it is paused as well: POST /v1/migrations/{job_id}/resume lets it go on" in said
    async with migrating.app.begin() as conn:
        await resume_run(conn, job_id, EVERYTHING)
    open_now = await migrating.submit(window=f"{hours[2]}-{hours[0]}", params={"by": 2})
    assert (await migrating.finish(open_now)).state == "succeeded"
    assert (await migrating.run_row(open_now)).throttles == 0


@asynccontextmanager
async def vacuuming(database: Database, table: str) -> AsyncIterator[None]:
    """A VACUUM of that table that takes its time, as an autovacuum does."""
    connection = await asyncpg.connect(database.superuser_url)
    await connection.execute("SET vacuum_cost_delay = 100")
    await connection.execute("SET vacuum_cost_limit = 1")
    vacuum = asyncio.create_task(connection.execute(f"VACUUM (INDEX_CLEANUP ON) {table}"))
    looking = await asyncpg.connect(database.superuser_url)

    async def under_way() -> bool:
        query = "SELECT count(*) FROM pg_stat_progress_vacuum"
        return bool(await looking.fetchval(query))

    await eventually(under_way)
    yield
    await looking.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum")
    await asyncio.gather(vacuum, return_exceptions=True)
    await looking.close()
    await connection.close()


async def test_a_vacuum_of_its_table_is_waited_for(
    migrating: Migrating, database: Database
) -> None:
    """By role app, which may look at what other roles' sessions do."""
    await migrating.rows(50_000)
    await execute(migrating.owner, "UPDATE probe.rows SET count = 0")
    job_id = await migrating.submit(batch_size=50_000)
    async with vacuuming(database, "probe.rows"):
        outcome = await migrating.attempt(job_id)
        assert isinstance(outcome, Released)
        assert "probe.rows is being vacuumed" in outcome.reason
    assert (await migrating.finish(job_id)).state == "succeeded"


TABLES = """
    SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
     WHERE schemaname IN ('books', 'probe') ORDER BY 1"""


async def checksums(migrating: Migrating) -> dict[str, str]:
    """Of every table of the books, and of the rows of these tests."""
    sums = {}
    for table in await fetch(migrating.owner, TABLES):
        lines = f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table.name} t"
        sums[table.name] = await scalar(migrating.owner, lines)
    return sums


async def test_a_dry_run_counts_and_writes_nothing(migrating: Migrating) -> None:
    """The checksum of every table of the books and of the rows stays; rejects are found."""
    await migrating.rows(1000, bad=77)
    before = await checksums(migrating)
    result = await migrating.succeed(dry_run=True, batch_size=200)
    assert result["dry_run"] is True
    assert (result["rows_done"], result["rows_failed"]) == (1000, 1)
    assert result["counts"] == {"raised": 999}
    assert result["check_before"]["facts"] == result["check_after"]["facts"]
    assert await checksums(migrating) == before
    assert len(before) > 20
    assert await migrating.counts() == {0: 1000}
