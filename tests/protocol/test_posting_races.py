"""Posters beside posters, beside who edits documents, and beside who closes periods."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.types import JobId
from tests.costing_books import Books
from tests.costing_crew import Crew
from tests.factories import fetch, job_row, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import attempt, close, items, numbers, outcomes, post, sale, submit
from tests.protocol.sessions import until_waiting
from tests.services import Database
from worker.handlers import posting
from worker.records import posting_list

MANY = """
    WITH made AS (
        INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
               party, total, vat_total, content_hash)
        SELECT 'ACME', 'sale', 'S' || n, '2026-01-05', '2026-01-05', 'RED', 'R1', 'C1', 110, 10, ''
          FROM generate_series(1, :many) n RETURNING id)
    INSERT INTO books.document_lines (document_id, line_no, item, net)
    SELECT id, 1, 'A', 100 FROM made RETURNING document_id"""
# The chain of each series, link by link.
LINKED = """
    SELECT bool_and(e.prev_hash = coalesce(e.before, '')) FROM (
        SELECT prev_hash, lag(hash) OVER (ORDER BY entry_no) AS before FROM books.gl_entries) e"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


@pytest.fixture
def crew(books: Books, database: Database) -> Crew:
    """Workers that run whatever may be claimed."""
    return Crew(books=books, database=database)


async def _many(books: Books, many: int) -> list[int]:
    async with books.app.begin() as conn:
        return sorted((await conn.scalars(text(MANY), {"many": many})).all())


@asynccontextmanager
async def _holding(books: Books, *documents: int) -> AsyncIterator[AsyncConnection]:
    """A transaction that has changed these documents, and has not ended."""
    async with books.app.connect() as conn:
        await conn.execute(
            text("UPDATE books.documents SET version = version + 1 WHERE id = ANY (:ids)"),
            {"ids": list(documents)},
        )
        yield conn


async def _all_ended_well(books: Books) -> None:
    rows = await fetch(books.app, "SELECT DISTINCT state FROM chot.jobs")
    assert [row.state for row in rows] == ["succeeded"], "no job failed"
    charged = "SELECT count(*) FROM chot.attempts WHERE outcome NOT IN ('succeeded', 'released')"
    assert await scalar(books.app, charged) == 0, "nor was any attempt charged"


@pytest.mark.parametrize("each", [100, pytest.param(1_000, marks=pytest.mark.long)])
async def test_eight_posters_on_one_series_leave_no_gap(
    books: Books, crew: Crew, each: int
) -> None:
    """Odoo #91873: numbering by a lock on the last entry failed jobs, and charged them twice."""
    documents = await _many(books, 8 * each)
    jobs = [
        await submit(books, documents=documents[n::8], chunk_documents=max(25, each // 4))
        for n in range(8)
    ]
    await crew.work(8)
    await _all_ended_well(books)
    for job_id in jobs:
        assert (await books.result(job_id))["outcomes"] == {"POSTED": each}
    assert await numbers(books) == list(range(1, 8 * each + 1))
    assert await scalar(books.app, LINKED)


async def test_two_jobs_with_the_same_documents_post_each_once(books: Books, crew: Crew) -> None:
    """ADempiere PR 3336: what another processor has at that moment is no error."""
    documents = await _many(books, 60)
    jobs = [
        await submit(books, documents=documents, chunk_documents=7),
        await submit(books, documents=documents, chunk_documents=11),
        await submit(books, types=["sale"], chunk_documents=13),
    ]
    await crew.work(3)
    await _all_ended_well(books)
    told = Counter[str | None]()
    for job_id in jobs:
        told.update((await outcomes(books, job_id)).values())
    assert told["POSTED"] == 60
    assert set(told) <= {"POSTED", "ALREADY_POSTED"}
    assert await numbers(books) == list(range(1, 61))


async def test_what_somebody_holds_is_busy_and_tried_again(books: Books, crew: Crew) -> None:
    """The others are posted at once; nobody is waited for, and what was edited is told."""
    free, edited, touched = [await sale(books, f"S{n}") for n in range(3)]
    job_id = await submit(books, documents=[free, edited, touched])
    async with _holding(books, edited) as editor, _holding(books, touched) as toucher:
        await crew.step()
        assert await outcomes(books, job_id) == {free: "POSTED", edited: None, touched: None}
        job = await job_row(books.app, job_id)
        assert (job.state, job.interruptions) == ("pending", 1)
        await editor.commit()
        await toucher.rollback()
    await crew.work()
    assert await outcomes(books, job_id) == {
        free: "POSTED",
        edited: "VERSION_CHANGED",
        touched: "POSTED",
    }
    await _all_ended_well(books)


async def test_what_stays_busy_is_told_in_the_end(books: Books, crew: Crew) -> None:
    free, held = await sale(books, "S1"), await sale(books, "S2")
    job_id = await submit(books, documents=[free, held])
    async with _holding(books, held):
        await crew.work()
    (failure,) = (await books.result(job_id))["failures"]
    assert (failure["document_id"], failure["outcome"], failure["codes"]) == (
        held,
        "BUSY",
        ["BUSY"],
    )
    attempts = await fetch(
        books.app,
        "SELECT outcome FROM chot.attempts WHERE job_id = :id ORDER BY fence",
        id=job_id,
    )
    passes = ["released"] * (posting.MOST_PASSES - 1)
    assert [row.outcome for row in attempts] == [*passes, "succeeded"]
    assert (await post(books, documents=[held]))["outcomes"] == {"POSTED": 1}


async def _gate(conn: AsyncConnection) -> None:
    await conn.execute(
        text("SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-01'))")
    )


async def test_a_period_that_closes_while_a_poster_waits_at_its_gate(books: Books) -> None:
    """It saw the period open, and looks again once it is let in: nothing is written."""
    january = await sale(books, "S1")
    job_id = await submit(books, documents=[january])
    async with books.app.connect() as closer:
        await _gate(closer)
        posting_it = asyncio.create_task(attempt(books, job_id))
        await until_waiting(books.app)
        await closer.execute(text("UPDATE books.periods SET status = 'closed'"))
        await closer.commit()
        await posting_it
    (row,) = await items(books, job_id)
    assert (row.outcome, row.codes) == ("PERIOD_CLOSED", ["PERIOD_CLOSED"])
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_lines") == 0


async def test_a_period_closed_between_submit_and_claim(books: Books) -> None:
    """ERPNext #33002: zero rows are changed."""
    await sale(books, "S1")
    job_id = await submit(books, types=["sale"])
    await close(books)
    await attempt(books, job_id)
    assert (await books.result(job_id))["outcomes"] == {"PERIOD_CLOSED": 1}
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_entries") == 0


async def test_a_deadlock_with_a_stranger_is_made_good_uncharged(books: Books, crew: Crew) -> None:
    """Whoever takes gate and documents the other way round: 40P01 is no failure of the job."""
    one = await sale(books, "S1")
    job_id = await submit(books, documents=[one])
    async with books.app.connect() as stranger:
        await _gate(stranger)
        step = asyncio.create_task(crew.step())
        await until_waiting(books.app)
        touch = text("UPDATE books.documents SET memo = 'late' WHERE id = :id")
        await stranger.execute(touch, {"id": one})  # waits for the poster, which waits for it
        await step
        job = await job_row(books.app, job_id)
        assert (job.state, job.interruptions) == ("pending", 1)
        assert await outcomes(books, job_id) == {one: None}
        await stranger.commit()
    await crew.work()
    assert await outcomes(books, job_id) == {one: "POSTED"}
    await _all_ended_well(books)


async def test_a_list_is_made_once(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the job began is for the next; that one follows if it is asked for."""
    first = await sale(books, "S1")
    job_id = await submit(books, types=["sale"])
    inner, later = posting_list.list_documents, list[Any]()

    async def listed(*arguments: Any, **named: Any) -> Any:
        found = await inner(*arguments, **named)
        later.append(await sale(books, "S2"))
        later.append(await submit(books, types=["sale"]))
        return found

    monkeypatch.setattr(posting, "list_documents", listed)
    await attempt(books, job_id)
    assert await outcomes(books, job_id) == {first: "POSTED"}
    monkeypatch.setattr(posting, "list_documents", inner)
    follows = await scalar(books.app, "SELECT id FROM chot.jobs WHERE state = 'pending'")
    assert follows is not None, "a follow-up"
    await attempt(books, JobId(follows))
    assert await outcomes(books, follows) == {later[0]: "POSTED"}


async def test_the_same_selection_fifty_times_is_one_job(books: Books) -> None:
    """ERPNext PR 34994: the same voucher queued thousands of times. Order means nothing."""
    one, two = await sale(books, "S1"), await sale(books, "S2")
    lists = [[one, two], [two, one], [two, one, two]]
    asked: list[dict[str, Any]] = [{"documents": lists[n % 3], "types": None} for n in range(50)]
    jobs = await asyncio.gather(*(submit(books, **each) for each in asked))
    assert len(set(jobs)) == 1
    others = [
        await submit(books, documents=[one]),
        await submit(books, documents=[one, two], mode="atomic"),
        await submit(books, documents=[one, two], brand="RED"),
    ]
    assert len({*jobs, *others}) == 4
