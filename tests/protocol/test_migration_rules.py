"""How a migration is steered, whose code it is, and how long its rows are kept."""

import asyncio
from types import ModuleType

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from shared.errors import ConfigRefused, PermanentError
from shared.kinds import Payload
from shared.migrations import NoParams, TaskSpec
from shared.migrations.registry import load_tasks, refuse_unsound_task
from tests.factories import autocommit, execute, fetch, job_row, scalar
from tests.migrating import Migrating
from tests.probes import migration_code, migration_tasks
from tests.probes.migration_code import RaiseRows
from worker.migrations import registry
from worker.migrations.registry import load_migrations
from worker.migrations.steering import (
    FEWEST_BY_TIME,
    LONGEST_TIMEOUT_MS,
    MOST_CONFLICTS,
    Steering,
)
from worker.migrations.task import Applied, Batch, Reject, Run, Source
from worker.outcome import Failed, Released
from worker.retention import Retention


def steering(size: int = 1000, target_ms: int = 1000, largest: int = 50_000) -> Steering:
    """A fresh one."""
    return Steering(size=size, target_ms=target_ms, largest=largest)


def test_batches_are_steered_by_the_time_they_take() -> None:
    """A fifth more below half of it, a third less above; never beyond the largest, never below 1."""
    steer = steering()
    steer.went_well(1000, 300)
    assert steer.size == 1200
    steer.went_well(1200, 900)
    assert steer.size == 1200
    steer.went_well(1200, 1300)
    assert steer.size == 840
    steer.went_well(100, 10)
    assert steer.size == 840, "a batch that is not full says nothing"
    small = steering(size=1)
    small.went_well(1, 5000)
    assert small.size == 1
    small.went_well(1, 1)
    assert small.size == 2
    busy = steering(size=25)
    for _ in range(5):
        busy.went_well(busy.size, 5000)
    assert busy.size == FEWEST_BY_TIME, "a server that is slow for any batch gets no single rows"
    large = steering(size=90_000)
    assert large.size == 50_000
    large.went_well(50_000, 1)
    assert large.size == 50_000


@pytest.mark.parametrize("bad", [1, 2, 511, 512, 513, 1000, 1024])
def test_one_bad_row_among_1024_is_found_in_eleven_tries(bad: int) -> None:
    """Each try halves the rows that hold it, and none is done twice."""
    steer, done, tries, found = steering(size=1024), 0, 0, None
    while found is None:
        rows = min(steer.limit, 1024 - done)
        tries += 1
        if done < bad <= done + rows:
            if steer.failed(rows):
                found = done + 1
        else:
            done += rows
            steer.went_well(rows, 1000)
    assert (found, steer.suspect) == (bad, 0)
    assert tries <= 1 + 11


def test_a_row_that_never_fits_is_given_up_in_the_end() -> None:
    """First smaller batches, then more time for one row, and then no more."""
    steer = steering(size=8, target_ms=1000)
    assert [steer.timed_out(None) and steer.size for _ in range(3)] == [4, 2, 1]
    rounds = 0
    while steer.timed_out(1):
        rounds += 1
    assert (steer.timeout_ms, rounds) == (LONGEST_TIMEOUT_MS, 5)


class Outside(Payload):
    """Of a task that another team has written."""

    city: str


OUTSIDE = TaskSpec(name="theirs.tidy", description="Tidies.", params=Outside)


class Tidy(RaiseRows):
    """Another team's code."""

    spec = OUTSIDE


class EntryPoint:
    """What a package declares."""

    name = "theirs"

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def load(self) -> ModuleType:
        """The module that it names."""
        return self._module


def test_an_outside_task_comes_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The api needs its spec alone, the worker its code as well."""
    specs, code = ModuleType("their_tasks"), ModuleType("their_code")
    specs.__dict__["TASKS"], code.__dict__["MIGRATIONS"] = (OUTSIDE,), (Tidy(),)
    points = {"chot.tasks": [EntryPoint(specs)], "chot.migrations": [EntryPoint(code)]}
    load_tasks.cache_clear()
    load_migrations.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("shared.migrations.registry.entry_points", lambda group: points[group])
        patch.setattr(registry, "entry_points", lambda group: points[group])
        assert load_tasks("")["theirs.tidy"] is OUTSIDE
        assert isinstance(load_migrations("")["theirs.tidy"], Tidy)
    load_tasks.cache_clear()
    load_migrations.cache_clear()
    assert "theirs.tidy" not in load_tasks("")


def test_an_outside_task_comes_by_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the probe tasks do; code of a task that nobody declares is refused."""
    monkeypatch.setenv("CHOT_TASK_MODULES", "tests.probes.migration_tasks")
    assert load_tasks("tests.probes.migration_tasks")["probe.raise"] is migration_tasks.RAISE
    found = load_migrations("tests.probes.migration_code")
    assert isinstance(found["probe.raise"], migration_code.RaiseRows)
    load_migrations.cache_clear()
    monkeypatch.setenv("CHOT_TASK_MODULES", "")
    with pytest.raises(ConfigRefused, match="which no task module declares"):
        load_migrations("tests.probes.migration_code")


class Careless(Payload):
    """Takes whatever it is given."""

    model_config = Payload.model_config | {"extra": "allow"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (TaskSpec(name="No Name", description=""), "dotted lower-case words"),
        (TaskSpec(name="a.b", description="", version=0), "version=0"),
        (TaskSpec(name="a.b", description="", params=Careless), "refuse unknown members"),
    ],
)
def test_a_task_that_nobody_could_ask_for_is_refused(spec: TaskSpec, says: str) -> None:
    """When the process starts, with the module that declares it."""
    with pytest.raises(ConfigRefused, match=says):
        refuse_unsound_task("their_tasks", spec)
    refuse_unsound_task("ours", TaskSpec(name="a.b", description="", params=NoParams))


async def test_a_run_of_an_earlier_version_is_not_gone_on_with(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its cursor means may have changed: an operator decides."""
    monkeypatch.setenv("CHOT_MIGRATION_INTERRUPT_SECONDS", "0.000001")
    await migrating.rows(200)
    job_id = await migrating.submit(batch_size=100)
    await migrating.attempt(job_id)
    older = "UPDATE chot.migration_runs SET version = 7"
    await execute(migrating.owner, older)
    assert (await migrating.finish(job_id)).state == "dead"
    error = await migrating.error(job_id)
    assert (error["code"], "version 7" in error["message"]) == ("TASK_CHANGED", True)


async def test_an_error_that_is_no_rows_fault_is_the_attempts(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is missing would fail every row: nothing is set aside, the attempt is charged."""
    await migrating.rows(100)
    job_id = await migrating.submit()

    async def broken(_: RaiseRows, conn: AsyncConnection, batch: Batch) -> Applied:
        await conn.execute(text("SELECT FROM probe.nowhere"))
        raise AssertionError(batch)

    async def on_purpose(*_: object) -> Applied:
        raise PermanentError("the books are sealed", code="SEALED")

    monkeypatch.setattr(RaiseRows, "apply", broken)
    outcome = await migrating.attempt(job_id)
    assert isinstance(outcome, Failed)
    assert (await migrating.error(job_id))["code"] == "42P01"
    assert (await migrating.run_row(job_id)).rows_failed == 0
    monkeypatch.setattr(RaiseRows, "apply", on_purpose)
    assert (await migrating.finish(job_id)).state == "dead"
    assert (await migrating.error(job_id))["code"] == "SEALED"
    assert await migrating.rejects(job_id) == []


async def test_a_fight_for_locks_is_repeated_smaller_and_then_given_up_uncharged(
    migrating: Migrating,
) -> None:
    """Somebody holds a row of the batch: the run makes room, and comes back for it."""
    await migrating.rows(100)
    job_id = await migrating.submit(batch_size=100)
    async with migrating.app.connect() as other:
        await other.execute(text("SELECT FROM probe.rows WHERE id = 77 FOR UPDATE"))
        outcome = await migrating.attempt(job_id)
        await other.rollback()
    assert isinstance(outcome, Released)
    row = await job_row(migrating.app, job_id)
    assert (row.state, row.attempt - row.interruptions - row.lost_leases) == ("pending", 0)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: 100}
    assert (await migrating.run_row(job_id)).rows_failed == 0
    assert MOST_CONFLICTS > 1


async def test_two_runs_of_a_task_take_turns(migrating: Migrating) -> None:
    """Of one company only one runs; another task does not wait for it."""
    await migrating.rows(10)
    first, second = await migrating.submit(), await migrating.submit(params={"by": 2})
    held = await migrating.claim(first)
    assert held is not None
    assert await migrating.claim(second) is None
    assert await migrating.claim(await migrating.submit("probe.by_both")) is not None


async def test_the_same_run_asked_for_twice_is_one_job(migrating: Migrating) -> None:
    """While it is active; with other parameters, or dry, it is another one."""
    jobs = [await migrating.submit(params={"by": 1}) for _ in range(3)]
    assert len(set(jobs)) == 1
    assert await migrating.submit(params={"by": 2}) not in jobs
    assert await migrating.submit(params={"by": 1}, dry_run=True) not in jobs


async def test_what_a_run_has_kept_goes_with_its_job(migrating: Migrating) -> None:
    """Once the job is archived; the result stays with it."""
    await migrating.rows(100, bad=7)
    job_id = await migrating.submit()
    await migrating.finish(job_id)
    auto = autocommit(migrating.app)
    await Retention(archive_after_days=0, archive_keep_days=0).step(auto)
    assert await migrating.rejects(job_id), "its job is there"
    await asyncio.sleep(0)
    await Retention(archive_after_days=1e-9, archive_keep_days=0).step(auto)
    tables = ("migration_runs", "migration_batches", "migration_rejects")
    for table in tables:
        assert await scalar(migrating.app, f"SELECT count(*) FROM chot.{table}") == 0
    (kept,) = await fetch(migrating.app, "SELECT result FROM chot.archived_jobs")
    assert kept.result["first_rejects"][0]["key"] == ["7"]


KEYED = """CREATE TABLE probe.keyed ("Order" text COLLATE "C" PRIMARY KEY, "group" int NOT NULL,
                                     done int NOT NULL DEFAULT 0)"""
KEYS = r"""
    INSERT INTO probe.keyed SELECT k, 7 FROM unnest(ARRAY[
        '', ' ', 'a''b', '{x,y}', '"q"', '\N', 'NULL', 'null', E'l\nm', 'Ấ', 'ấ', U&'A\0302\0301',
        '%', '\', U&'\FFFD', U&'\+01F600', 'Z', 'z']) AS k"""


async def keyed(migrating: Migrating, monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """The probe task raises the rows of a table of its own instead."""
    grants = "GRANT ALL ON probe.keyed TO chot_app, chot_read"
    for statement in (KEYED, *statements, grants):
        async with migrating.owner.begin() as conn:
            await conn.exec_driver_sql(statement)

    def source(_self: object, _run: Run) -> Source:
        return Source(table="probe.keyed", key=("Order",), fixed={"group": 7})

    async def apply(_self: object, conn: AsyncConnection, batch: Batch) -> Applied:
        done = await batch.execute(
            conn,
            """UPDATE probe.keyed t SET done = t.done + 1 FROM {source}
                WHERE {where} AND t."Order" = r."Order" """,
        )
        return Applied(counts={"raised": done.rowcount})

    monkeypatch.setattr(RaiseRows, "source", source)
    monkeypatch.setattr(RaiseRows, "apply", apply)


async def test_a_key_may_be_called_and_hold_whatever_it_likes(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capitals, reserved words; quotes, nothing, line ends, what looks like NULL or an array."""
    await keyed(migrating, monkeypatch, KEYS)
    for size in (1, 4):
        assert (await migrating.succeed(batch_size=size))["rows_done"] == 18
    done = await fetch(migrating.app, "SELECT done, count(*) FROM probe.keyed GROUP BY 1")
    assert [tuple(row) for row in done] == [(2, 18)]


async def test_a_table_that_others_inherit_from_has_no_unique_key(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index knows nothing of their rows."""
    await keyed(migrating, monkeypatch, KEYS, "CREATE TABLE probe.heir () INHERITS (probe.keyed)")
    job_id = await migrating.submit()
    assert (await migrating.finish(job_id)).state == "dead"
    assert (await migrating.error(job_id))["code"] == "KEY_NOT_UNIQUE"


@pytest.mark.parametrize(
    ("rejects", "says"),
    [
        ([Reject(code="A", rule="b")] * 11, "11 rejects of a batch of 10 rows"),
        ([Reject(code="A", rule="b", key=("1", "x"))], "a key has 1 parts"),
    ],
)
async def test_rejects_that_are_not_of_the_batch_end_the_run(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch, rejects: list[Reject], says: str
) -> None:
    """A redrive would look for such a row, not find it, and forget it."""

    async def apply(_self: object, _conn: AsyncConnection, _batch: Batch) -> Applied:
        return Applied(rejects=rejects)

    monkeypatch.setattr(RaiseRows, "apply", apply)
    await migrating.rows(10)
    job_id = await migrating.submit(max_reject_percent=100)
    assert (await migrating.finish(job_id)).attempt == 1
    error = await migrating.error(job_id)
    assert error["code"] == "REJECTS_STRANGE"
    assert says in error["message"]


async def test_a_task_that_ends_its_transaction_ends_its_run(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beneath SQLAlchemy, where nobody could refuse it; the cursor does not move without a fence."""

    async def apply(_self: object, conn: AsyncConnection, batch: Batch) -> Applied:
        await (await driver_connection(conn)).execute("COMMIT")
        return Applied(counts={"raised": batch.rows})

    monkeypatch.setattr(RaiseRows, "apply", apply)
    await migrating.rows(10)
    job_id = await migrating.submit()
    assert (await migrating.finish(job_id)).attempt == 1
    assert (await migrating.error(job_id))["code"] == "TASK_COMMITS"
    assert (await migrating.run_row(job_id)).cursor_key is None


async def test_an_end_of_the_transaction_behind_a_comment_is_refused_too(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that came before it stays."""

    async def apply(_self: object, conn: AsyncConnection, _batch: Batch) -> Applied:
        await conn.execute(text("UPDATE probe.rows SET count = count + 1"))
        await conn.execute(text("/* all\n of it */ -- now\n COMMIT"))
        return Applied()

    monkeypatch.setattr(RaiseRows, "apply", apply)
    await migrating.rows(10)
    job_id = await migrating.submit()
    assert (await migrating.finish(job_id)).state == "dead"
    assert await migrating.counts() == {0: 10}
    assert "begins and ends it" in (await migrating.rejects(job_id))[0].rule
