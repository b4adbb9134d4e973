"""Parts: a run that is shared by several jobs has the very rows that one job makes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.groups.fill import append_jobs, open_group, seal_group
from shared.groups.redrive import Again
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit
from shared.types import JobId
from tests.costing_books import Books, open_books
from tests.costing_crew import HANDLERS, KINDS, Crew, rows_of
from tests.factories import execute, expire_lease, fetch, job_row, scalar
from tests.protocol.sessions import until_waiting
from tests.protocol.test_group_redrive import again
from tests.services import Database
from worker.handlers import costing_chunks
from worker.handlers.costing_part import MOST_UNASKED, parts_of
from worker.outcome import Failed, Lost, Succeeded, Waits
from worker.records.cost_results import write_results
from worker.records.parts import hold_run

OTHER = {"run_id": 10**6, "part": 0}
ITEMS = [f"I{n:02}" for n in range(12)]


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with a dozen items of several methods, some of which fail."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    methods = ("periodic_avg", "moving_avg", "fifo")
    for n, item in enumerate(ITEMS):
        await execute(
            engine,
            "INSERT INTO books.items (company, code, name, base_uom, costing_method)"
            " VALUES ('ACME', :i, :i, 'cái', :m)",
            i=item,
            m=methods[n % 3],
        )
        await books.move("opening", 10 + n, item=item, value=1000 + n, day=date(2026, 1, 1))
        for day in range(2, 2 + n % 5):
            await books.move("receipt", day, item=item, value=77 * day, day=date(2026, 1, day))
        await books.move("issue", 500 if n == 7 else 3, item=item, day=date(2026, 1, 20))
        await books.move("transfer", 2, item=item, to_store="R2", day=date(2026, 1, 10))
    return books


@pytest.fixture
def crew(books: Books, database: Database) -> Crew:
    """Workers that know every handler of ours."""
    return Crew(books=books, database=database)


async def costed(crew: Crew, **asked: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The result of a costing, and the rows of its run."""
    result = await crew.cost(**asked)
    return result, await rows_of(crew.books, result["run_id"])


async def test_no_number_of_parts_chunks_or_workers_changes_a_byte(crew: Crew) -> None:
    """One job, two parts, five, more than there are families; small chunks and large ones."""
    whole, rows = await costed(crew, parts=1)
    assert len(rows["item_errors"]) > 0
    assert len(rows["movement_costs"]) > 20
    for parts, chunk, workers in ((1, 1, 1), (2, 10_000, 2), (5, 1, 3), (5, 7, 1), (40, 3, 3)):
        again, same_rows = await costed(crew, parts=parts, chunk_movements=chunk, workers=workers)
        assert again["checksum"] == whole["checksum"], (parts, chunk, workers)
        assert again["values"] == whole["values"]
        assert same_rows == rows, (parts, chunk, workers)
        told = await scalar(
            crew.books.app,
            "SELECT count(DISTINCT part) FROM books.cost_run_items WHERE run_id = :r",
            r=again["run_id"],
        )
        assert told == (0 if parts == 1 else min(parts, len(ITEMS)))


async def test_the_run_waits_for_its_parts_without_a_slot_and_activates_once(crew: Crew) -> None:
    """One worker is enough: the run's own job holds none while they work."""
    books = crew.books
    job_id = await books.submit(parts=3)
    assert await crew.step()
    row = await job_row(books.app, job_id)
    assert (row.state, row.interruptions) == ("pending", 1)
    assert await books.costs() == {}
    parts = await fetch(
        books.app,
        "SELECT id, priority, queue FROM chot.jobs WHERE kind = 'costing.part'",
    )
    assert [(part.priority, part.queue) for part in parts] == [(row.priority, "costing")] * 3
    held = await crew.claim(parts[0].id)
    assert held is not None
    assert isinstance(await crew.run(held), Succeeded)
    row = await job_row(books.app, job_id)
    assert 0 < row.progress_done < row.progress_total
    assert row.progress_message.endswith(f"of {len(ITEMS)})")
    assert await books.costs() == {}
    await crew.work()
    assert (await job_row(books.app, job_id)).state == "succeeded"
    assert len(await books.costs()) > 20
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 1
    activated = "SELECT count(*) FROM books.cost_runs WHERE activated_at IS NOT NULL"
    assert await scalar(books.app, activated) == 1


Place = Callable[[AsyncConnection, Any, Any], Awaitable[None]]


@pytest.mark.parametrize("moment", ["before the chunk", "in mid-chunk", "after the chunk"])
@pytest.mark.parametrize("nth", [1, 2, 4])
async def test_a_part_whose_worker_is_killed_goes_on_elsewhere(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, moment: str, nth: int
) -> None:
    """At a chunk's boundary or in the middle of its rows: each chunk is there once, or not yet."""
    whole, rows = await costed(crew, parts=1)
    count = 0
    write = costing_chunks._write

    async def dies(*arguments: Any, **named: Any) -> None:
        nonlocal count
        count += 1
        is_it = count == nth
        if is_it and moment == "before the chunk":
            await crew.die()
        await write(*arguments, **named)
        if is_it and moment == "after the chunk":
            await crew.die()

    async def dies_in_it(conn: AsyncConnection, run: Any, results: Any) -> None:
        nonlocal count
        await write_results(conn, run, results)
        count += 1
        if count == nth:
            await crew.die()

    if moment == "in mid-chunk":
        monkeypatch.setattr(costing_chunks, "write_results", dies_in_it)
    else:
        monkeypatch.setattr(costing_chunks, "_write", dies)
    again, same_rows = await costed(crew, parts=2, chunk_movements=6, workers=2)
    assert count > nth
    assert again["checksum"] == whole["checksum"]
    assert same_rows == rows
    lost = "SELECT count(*) FROM chot.attempts WHERE outcome = 'lost_lease'"
    assert await scalar(crew.books.app, lost) == 1


async def split(crew: Crew, **asked: Any) -> tuple[JobId, list[JobId]]:
    """A run that waits for its parts: its job, and theirs."""
    job_id = await crew.books.submit(**({"parts": 2, "chunk_movements": 1} | asked))
    held = await crew.claim(job_id)
    assert held is not None
    assert isinstance(await crew.run(held), Waits)
    rows = await fetch(
        crew.books.app, "SELECT id FROM chot.jobs WHERE kind = 'costing.part' ORDER BY id"
    )
    return job_id, [JobId(row.id) for row in rows]


async def test_a_zombie_part_writes_nothing_more(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is somebody else's: its next chunk goes nowhere, and the rows are one set."""
    whole, rows = await costed(crew, parts=1)
    _, (one, _) = await split(crew)
    zombie = await crew.claim(one, "a")
    assert zombie is not None
    write = costing_chunks._write
    taken: list[Any] = []

    async def taken_over(*arguments: Any, **named: Any) -> None:
        await write(*arguments, **named)
        if not taken:
            await expire_lease(crew.books.app, one)
            taken.append(await crew.claim(one, "b"))

    monkeypatch.setattr(costing_chunks, "_write", taken_over)
    assert isinstance(await crew.run(zombie), Lost)
    done = await scalar(crew.books.app, "SELECT count(*) FROM books.cost_run_items WHERE done")
    assert done == len(ITEMS) + 1, "one chunk of it, beside the run before"
    monkeypatch.undo()
    assert isinstance(await crew.run(taken[0]), Succeeded)
    await crew.work()
    run_id = await scalar(crew.books.app, "SELECT max(id) FROM books.cost_runs")
    assert await rows_of(crew.books, run_id) == rows
    checksum = await scalar(
        crew.books.app,
        "SELECT encode(checksum, 'hex') FROM books.cost_runs WHERE id = :r",
        r=run_id,
    )
    assert checksum == whole["checksum"]


async def test_a_part_of_a_cancelled_run_writes_nothing_more(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ Cancelled while a part computes its second chunk: the chunk is refused, and all goes."""
    job_id, (one, two) = await split(crew)
    held = await crew.claim(one)
    assert held is not None
    write = costing_chunks._write
    chunks = 0

    async def cancel_first(*arguments: Any, **named: Any) -> None:
        nonlocal chunks
        chunks += 1
        if chunks == 2:
            async with crew.books.app.begin() as conn:
                assert await cancel_job(conn, job_id)
        await write(*arguments, **named)

    monkeypatch.setattr(costing_chunks, "_write", cancel_first)
    await crew.run(held)
    done = "SELECT count(*) FROM books.cost_run_items WHERE done"
    assert await scalar(crew.books.app, done) == 1, "the chunk from before the cancel"
    assert await crew.claim(two) is None
    monkeypatch.undo()
    await crew.work()
    states = await fetch(crew.books.app, "SELECT DISTINCT state FROM chot.jobs")
    assert "cancelled" in {row.state for row in states}
    assert await scalar(crew.books.app, "SELECT status FROM books.cost_runs") == "failed"
    assert await scalar(crew.books.app, "SELECT count(*) FROM books.movement_costs") == 0
    assert await scalar(crew.books.app, "SELECT count(*) FROM books.cost_run_items") == 0


async def test_only_jobs_of_the_runs_own_group_write_into_it(crew: Crew) -> None:
    """A part of an earlier sharing, say, that was redriven: its group is another."""
    job_id, _ = await split(crew)
    run_id = await scalar(crew.books.app, "SELECT id FROM books.cost_runs")
    async with crew.books.app.begin() as conn:
        other = await open_group(conn, company="ACME", principal="alice")
        await append_jobs(conn, other, [Submit(kind="costing.part", company="ACME", payload=OTHER)])
        await seal_group(conn, other)
    own = (await job_row(crew.books.app, job_id)).joins
    async with crew.books.app.begin() as conn:
        assert await hold_run(conn, run_id, own)
        assert not await hold_run(conn, run_id, other)
        assert not await hold_run(conn, run_id + 1, own)


async def test_who_ends_a_run_waits_for_the_chunk_that_a_part_is_writing(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ Else rows would come into a run that is being dropped."""
    _, (one, _) = await split(crew)
    held = await crew.claim(one)
    assert held is not None
    ending: list[asyncio.Task[None]] = []

    async def end_it(conn: AsyncConnection, run: Any, results: Any) -> None:
        if not ending:
            fail = "UPDATE books.cost_runs SET status = 'failed' WHERE status = 'building'"
            ending.append(asyncio.create_task(execute(crew.books.app, fail)))
            await until_waiting(crew.books.app)
        await write_results(conn, run, results)

    monkeypatch.setattr(costing_chunks, "write_results", end_it)
    outcome = await crew.run(held)
    await ending[0]
    assert isinstance(outcome, Succeeded)
    assert outcome.result is not None
    assert "run_over" in outcome.result
    assert await scalar(crew.books.app, "SELECT count(*) FROM books.cost_run_items WHERE done") == 1


async def test_a_part_that_dies_ends_the_run_and_a_redrive_costs_it_anew(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The half-built run goes; the parts of it that run again have nothing left to do."""
    whole, rows = await costed(crew, parts=1)
    before = await crew.books.costs()
    job_id, (one, _) = await split(crew)

    async def broken(*_: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(costing_chunks, "write_results", broken)
    await execute(crew.books.app, "UPDATE chot.jobs SET max_attempts = 1 WHERE id = :i", i=one)
    held = await crew.claim(one)
    assert held is not None
    assert isinstance(await crew.run(held), Failed)
    monkeypatch.undo()
    await crew.work()
    row = await job_row(crew.books.app, job_id)
    assert (row.state, row.cleanup_due) == ("dead", False)
    assert await crew.books.costs() == before, "the run before speaks on"
    assert isinstance(await again(crew.books.app, row.joins), Again)
    await crew.work()
    assert (await job_row(crew.books.app, job_id)).state == "succeeded"
    result = await crew.books.result(job_id)
    assert result["checksum"] == whole["checksum"]
    assert await rows_of(crew.books, result["run_id"]) == rows
    told = await fetch(
        crew.books.app,
        """SELECT o.result ->> 'outcome' AS outcome FROM chot.jobs j
             JOIN chot.job_outputs o ON o.job_id = j.id
            WHERE j.kind = 'costing.part' AND j.state = 'succeeded'""",
    )
    assert {row.outcome for row in told} == {"run_over", "completed"}


async def test_what_changed_while_the_parts_worked_is_costed_by_the_run_itself(
    crew: Crew,
) -> None:
    """A movement that comes behind the snapshot is neither lost nor halved."""
    job_id, _ = await split(crew)
    assert await crew.step()
    late = await crew.books.move("receipt", 5, item="I03", value=500)
    await crew.work(2)
    result = await crew.books.result(job_id)
    assert result["recompute_rounds"] == 1
    assert late in await crew.books.costs()
    assert (await crew.cost(parts=1))["checksum"] == result["checksum"]


async def test_a_run_is_shared_once_however_often_its_own_job_begins_again(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left when its worker dies after the parts is its own work."""
    job_id, _ = await split(crew)
    assert await crew.step()
    for item in ("I03", "I04"):
        await crew.books.move("receipt", 5, item=item, value=500)
    write = costing_chunks._write
    died: list[bool] = []

    async def dies(*arguments: Any, **named: Any) -> None:
        await write(*arguments, **named)
        if named["share"] is None and not died:
            died.append(True)
            await crew.die()

    monkeypatch.setattr(costing_chunks, "_write", dies)
    await crew.work()
    assert died
    result = await crew.books.result(job_id)
    assert await scalar(crew.books.app, "SELECT count(*) FROM chot.groups") == 1
    monkeypatch.undo()
    assert (await crew.cost(parts=1))["checksum"] == result["checksum"]


async def test_a_preview_is_shared_as_a_run_is(crew: Crew) -> None:
    """And publishes nothing."""
    plain = await crew.cost(kind="costing.preview", parts=1)
    shared = await crew.cost(kind="costing.preview", parts=3, workers=2)
    assert shared["checksum"] == plain["checksum"]
    assert shared["differences"] == plain["differences"]
    assert await crew.books.costs() == {}


async def test_a_member_of_a_group_costs_alone(crew: Crew) -> None:
    """It cannot wait for a group of its own: the job that it is in would wait for two."""
    books = crew.books
    job_id = await books.submit(parts=3)
    await execute(
        books.app,
        """WITH g AS (INSERT INTO chot.groups (company, policy, principal, state, total, remaining,
                                             sealed_at)
                    VALUES ('ACME', 'finish', 'alice', 'sealed', 1, 1, clock_timestamp())
                    RETURNING id)
           UPDATE chot.jobs SET group_id = (SELECT id FROM g) WHERE id = :i""",
        i=job_id,
    )
    await crew.work()
    assert (await job_row(books.app, job_id)).state == "succeeded"
    assert await scalar(books.app, "SELECT count(*) FROM chot.jobs") == 1


def test_a_run_is_shared_by_as_many_as_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the setting says; whoever asks for a number gets it."""
    assert [parts_of(None, n) for n in (0, 999_999, 1_000_000, 2_500_000)] == [1, 1, 2, 5]
    assert parts_of(None, 10**12) == MOST_UNASKED
    assert parts_of(3, 1) == 3
    monkeypatch.setenv("CHOT_COSTING_PART_MOVEMENTS", "10")
    assert parts_of(None, 40) == 4
    monkeypatch.setenv("CHOT_COSTING_PART_MOVEMENTS", "0")
    assert parts_of(None, 10**12) == 1


def test_a_part_is_not_submitted() -> None:
    """It makes sense within its run alone."""
    kind = KINDS["costing.part"]
    assert (kind.internal, kind.made_by, kind.locks) == (True, "costing.run", ())
    assert "costing.part" in HANDLERS
