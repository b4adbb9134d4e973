"""Attempt: whatever a handler does becomes one stored outcome, and never two."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.errors import Yield
from shared.types import WorkerId
from tests.factories import (
    PROBES,
    TIMING,
    autocommit,
    claimed_job,
    execute,
    fetch,
    job_row,
    scalar,
)
from tests.probes.handlers import HANDLERS
from tests.protocol.sessions import effects_of, lock_job, put_effect
from tests.services import Database
from tests.tcp_proxy import Proxy, open_proxy
from worker.attempt import Runner, _grace, run_attempt
from worker.completions import Completions
from worker.context import Engines, JobContext
from worker.handlers import Handler
from worker.heartbeat import Heart
from worker.lease import HeldLease
from worker.outcome import Completed, Failed, Lost, Outcome, Released, Succeeded
from worker.presence import Presence

QUICK = replace(TIMING, lock_timeout=0.3, margin=0.5)


def runner(engine: AsyncEngine, database: Database, **handlers: Any) -> Runner:
    """A worker's runner without a worker: its heart is there and does not beat."""
    presence = Presence(worker_id=WorkerId("a"), host="h", pid=1, code_version="t", kinds={})
    heart = Heart(
        database_url=database.app_url,
        queue_prefix="none",
        timing=QUICK,
        presence=presence,
        visibility_cap_seconds=60,
        exit_grace_seconds=60,
    )
    known = {each.kind: each for each in HANDLERS}
    for name, run in handlers.items():
        kind = f"probe.{name}"
        known[kind] = Handler(kind=kind, run=run)
    return Runner(
        engines=Engines(app=engine, auto=autocommit(engine), read=engine),
        timing=QUICK,
        kinds=PROBES,
        handlers=known,
        heart=heart,
        draining=asyncio.Event(),
        releasing=asyncio.Event(),
        kill_grace_seconds=1,
        completions=Completions(autocommit(engine)),
    )


async def outcome_of(engine: AsyncEngine, held: HeldLease) -> tuple[str, Any]:
    """What stands in the database: the attempt's outcome and its error."""
    rows = await fetch(
        engine,
        "SELECT outcome, error FROM chot.attempts WHERE job_id = :i AND fence = :f",
        i=held.lease.job_id,
        f=held.lease.fence,
    )
    return rows[0].outcome, rows[0].error


async def test_a_job_runs_to_its_end_with_every_chunk_once(
    probes: AsyncEngine, database: Database
) -> None:
    """Chunks, checkpoints, result: the plain way through."""
    held = await claimed_job(probes, chunks=3)
    assert isinstance(await run_attempt(runner(probes, database), held), Succeeded)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1), (1, 1), (2, 1)]
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.progress_done, row.progress_total) == ("succeeded", 3, 3)
    result = await scalar(probes, "SELECT result FROM chot.job_outputs")
    assert result == {"chunks": 3, "resumed_at": 0}


async def test_a_handler_may_complete_the_job_with_its_last_effects(
    probes: AsyncEngine, database: Database
) -> None:
    """completion(): the outcome is stored already, and not stored again."""
    held = await claimed_job(probes, kind="probe.merge", items=["a"])
    assert isinstance(await run_attempt(runner(probes, database), held), Completed)
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]
    assert (await outcome_of(probes, held))[0] == "succeeded"


MISBEHAVIOUR: dict[str, tuple[str, str, str]] = {
    # how: (state, error's code, a word of its message)
    "raise": ("pending", "FAILED", "told to raise"),
    "raise_permanent": ("dead", "TOLD", "told to be wrong"),
    "raise_odd": ("pending", "FAILED", "could not be made"),
    "return_nan": ("dead", "RESULT_NOT_STORABLE", "cannot be stored"),
    "return_large": ("dead", "RESULT_NOT_STORABLE", "larger than 1 MiB"),
}


@pytest.mark.parametrize("how", MISBEHAVIOUR)
async def test_a_misbehaving_handler_is_recorded_in_words(
    probes: AsyncEngine, database: Database, how: str
) -> None:
    """Charged once or buried at once; the error says what an operator has to know."""
    state, code, word = MISBEHAVIOUR[how]
    held = await claimed_job(probes, kind="probe.misbehave", how=how)
    assert isinstance(await run_attempt(runner(probes, database), held), Failed)
    assert (await job_row(probes, held.lease.job_id)).state == state
    outcome, error = await outcome_of(probes, held)
    assert (outcome, error["code"]) == ("failed", code)
    assert word in error["message"]


def no_such_table(connection: Connection) -> None:
    """What an ERP's own code does, two calls below the handler."""
    connection.execute(text("SELECT 1 FROM books.no_such_table"))


async def test_an_error_of_the_database_names_its_sqlstate_and_the_handlers_own_lines(
    probes: AsyncEngine, database: Database
) -> None:
    """Of its twenty innermost frames none is the handler's; its `code` is SQLAlchemy's page."""

    async def ask(context: JobContext, _payload: Any) -> None:
        async with context.transaction() as tx:
            await tx.connection.run_sync(no_such_table)

    held = await claimed_job(probes)
    assert isinstance(await run_attempt(runner(probes, database, write=ask), held), Failed)
    _, error = await outcome_of(probes, held)
    assert error["code"] == "42P01"
    assert "no_such_table" in error["message"]
    assert "sqlalche.me" not in error["message"]
    names = [place.partition(":")[0] for place in error["where"]]
    functions = [place.rpartition(" ")[2] for place in error["where"]]
    assert names[:2] == ["test_attempt.py"] * 2
    assert functions[:2] == ["ask", "no_such_table"]
    assert "/asyncpg.py" in names[-1], "and the innermost one, with the library's folder"
    assert len(names) == 3


async def test_an_error_at_the_commit_names_the_handlers_line(
    probes: AsyncEngine, database: Database
) -> None:
    """It is raised below context.transaction(), and no other frame of the handler is left."""

    async def twice(context: JobContext, _payload: Any) -> None:
        async with context.transaction() as tx:
            await tx.connection.execute(text("CREATE TEMP TABLE twice (a int)"))
            await tx.connection.execute(
                text("ALTER TABLE twice ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED")
            )
            await tx.connection.execute(text("INSERT INTO twice VALUES (1), (1)"))

    held = await claimed_job(probes)
    assert isinstance(await run_attempt(runner(probes, database, write=twice), held), Failed)
    _, error = await outcome_of(probes, held)
    assert error["code"] == "23505"
    assert error["where"][0].startswith("test_attempt.py:")
    assert len(error["where"]) == 4


@pytest.mark.scenario("F47")
async def test_values_come_back_as_they_were_returned(
    probes: AsyncEngine, database: Database
) -> None:
    """Money as a string, large integers to the last digit."""
    held = await claimed_job(probes, kind="probe.misbehave", how="return_values")
    assert isinstance(await run_attempt(runner(probes, database), held), Succeeded)
    assert await scalar(probes, "SELECT result FROM chot.job_outputs") == {
        "amount": "12345678901234567.8901",
        "day": "2026-01-31",
        "id": 9007199254740993,
    }


class ErrorWithCode(Exception):
    """As libraries have them: a `code` that is a number or a method."""

    def __init__(self, message: str, code: object) -> None:
        super().__init__(message)
        self.code = code


class ErrorWithDetails(Exception):
    """Details that grow, or have no JSON form."""

    def __init__(self, details: object) -> None:
        super().__init__("see the details")
        self.details = details


ODD_ERRORS: list[BaseException] = [
    RuntimeError("x" * 100_000),
    RuntimeError("😀" * 10_000),
    RuntimeError("\x01\x02\x03" * 5_000),
    RuntimeError('"\\' * 5_000),
    RuntimeError("NUL \0 and half a pair \ud800"),
    RuntimeError("unsupported Unicode escape sequence: \\u0000 cannot be converted to text"),
    ErrorWithCode("a number", 404),
    ErrorWithCode("a method", print),
    ErrorWithCode("a long one", "C" * 50_000),
    ErrorWithDetails({"rows": ["y" * 100] * 1_000}),
    ErrorWithDetails({"set": {1, 2}}),
    ErrorWithDetails({"nan": float("nan")}),
    ErrorWithDetails("no mapping"),
    type("N" * 30_000, (Exception,), {})("a long name"),
    ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
]


@pytest.mark.scenario("F46")
async def test_no_error_is_too_odd_to_be_stored(probes: AsyncEngine, database: Database) -> None:
    """One that could not be written would come back as a lost lease, and again."""
    errors = iter(ODD_ERRORS)

    async def fail(_context: JobContext, _payload: Any) -> None:
        raise next(errors)

    for error in ODD_ERRORS:
        held = await claimed_job(probes)
        assert isinstance(await run_attempt(runner(probes, database, write=fail), held), Failed)
        outcome, kept = await outcome_of(probes, held)
        assert outcome == "failed"
        assert kept["message"], repr(error)[:100]
        assert kept["code"] == "FAILED", "a library's own code is none of ours"
        assert len(json.dumps(kept, ensure_ascii=False).encode()) <= 16_384


async def test_a_lock_that_was_not_had_is_not_charged(
    probes: AsyncEngine, database: Database
) -> None:
    """The fence waited too long for the row: released, and due again in a moment."""
    held = await claimed_job(probes)

    async def chunk(context: JobContext, _payload: Any) -> None:
        async with probes.begin() as other:
            await lock_job(other, context.job.id)
            async with context.transaction() as tx:
                await put_effect(tx.connection, held)

    outcome = await run_attempt(runner(probes, database, write=chunk), held)
    assert isinstance(outcome, Released)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.attempt, row.interruptions) == ("pending", 1, 1)
    assert await effects_of(probes, held.lease.job_id) == []


async def test_a_yield_hands_the_job_back_uncharged(
    probes: AsyncEngine, database: Database
) -> None:
    """Whatever it says of its reason."""

    async def give_back(_context: JobContext, _payload: Any) -> None:
        raise Yield("the worker drains \0" + "x" * 50_000)

    held = await claimed_job(probes)
    assert isinstance(await run_attempt(runner(probes, database, write=give_back), held), Released)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.attempt, row.interruptions) == ("pending", 1, 1)
    assert (
        await scalar(probes, "SELECT count(*) FROM chot.job_outputs WHERE error IS NOT NULL") == 0
    )


async def test_a_payload_of_another_shape_is_buried_with_its_fields(
    probes: AsyncEngine, database: Database
) -> None:
    """SQL callers have no model in front of them; the claim finds out, once."""
    held = await claimed_job(probes)
    await execute(probes, """UPDATE chot.job_payloads SET payload = '{"number": "x", "more": 1}'""")
    outcome = await run_attempt(runner(probes, database), held)
    assert isinstance(outcome, Failed)
    assert outcome.permanent
    _, error = await outcome_of(probes, held)
    assert error["code"] == "PAYLOAD_INVALID"
    assert {each["field"] for each in error["details"]["errors"]} == {"number", "more"}


async def test_a_job_that_was_taken_over_is_lost_without_a_word(
    probes: AsyncEngine, database: Database
) -> None:
    """Its outcome is not written over the new owner's."""

    async def slow(context: JobContext, _payload: Any) -> dict[str, str]:
        await execute(
            probes,
            """UPDATE chot.jobs SET fence = 2, attempt = 2, lease_token = gen_random_uuid(),
                      worker_id = 'b' WHERE id = :i""",
            i=context.job.id,
        )
        return {"by": "the old owner"}

    held = await claimed_job(probes)
    assert isinstance(await run_attempt(runner(probes, database, write=slow), held), Lost)
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.fence, row.worker_id) == ("running", 2, "b")
    assert await fetch(probes, "SELECT 1 FROM chot.job_outputs") == []


async def test_a_kinds_timeout_ends_its_attempt(probes: AsyncEngine, database: Database) -> None:
    """One second for this kind; it is cancelled, charged, and says so."""
    held = await claimed_job(probes, kind="probe.brief", how="sleep", seconds=60)
    outcome = await run_attempt(runner(probes, database), held)
    assert isinstance(outcome, Failed)
    assert (await outcome_of(probes, held))[1]["code"] == "TIMEOUT"


# An exit whose answer is lost


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A proxy in front of this test's database."""
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as opened:
        yield opened


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("how", ["succeed", "fail", "release"])
async def test_an_exit_whose_answer_is_lost_is_taken_once(
    probes: AsyncEngine, database: Database, proxy: Proxy, how: str, *, arrives: bool
) -> None:
    """Asked for, and repeated only when it is not there: one message, one charge, one end."""

    async def end(_context: JobContext, _payload: Any) -> None:
        if how == "fail":
            raise RuntimeError("told to")
        if how == "release":
            raise Yield("told to")

    held = await claimed_job(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    server = urlsplit(database.app_url)
    url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
    engine = open_engine(url.geturl(), pool_size=4)
    watched = proxy.lose_answer_to if arrives else proxy.lose
    watched(held.lease.token.bytes)
    running = asyncio.create_task(run_attempt(runner(engine, database, write=end), held))
    await (proxy.until_held() if arrives else proxy.triggered.wait())
    proxy.reset()
    proxy.heal()
    outcome: Outcome = await running
    await engine.dispose()
    expected = {"succeed": Succeeded, "fail": Failed, "release": Released}[how]
    assert isinstance(outcome, expected)
    row = await job_row(probes, held.lease.job_id)
    assert row.state == ("succeeded" if how == "succeed" else "pending")
    assert (row.attempt, row.fence, row.interruptions) == (1, 1, int(how == "release"))
    staged = await fetch(probes, "SELECT 1 FROM chot.outbox")
    assert len(staged) == (0 if how == "succeed" else 1)


async def test_a_commit_in_doubt_is_given_the_time_that_asking_takes(
    probes: AsyncEngine, database: Database
) -> None:
    """A silent outage of the length of a lease is no handler that hangs."""
    held = await claimed_job(probes)
    mine = runner(probes, database)
    assert _grace(mine, held) == mine.kill_grace_seconds
    held.committing = True
    asked_until = held.deadline - monotonic() + mine.timing.margin
    assert _grace(mine, held) >= asked_until + mine.kill_grace_seconds
