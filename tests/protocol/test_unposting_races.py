"""Unposting beside posting, beside itself, beside a close; and killed at every moment."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.costing_books import Books
from tests.costing_crew import Crew
from tests.factories import fetch, job_row, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import items, numbers, outcomes, post, sale
from tests.posting_books import submit as submit_post
from tests.protocol.sessions import until_waiting
from tests.services import Database
from tests.unposting_books import again, astray, attempt, gapless, standing, submit
from worker.context import JobContext
from worker.handlers import posting, unposting
from worker.records import unposting as records

DOCUMENTS, CHUNK, CHUNKS = 7, 2, 4


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


@pytest.fixture
def crew(books: Books, database: Database) -> Crew:
    """Workers that run whatever may be claimed."""
    return Crew(books=books, database=database)


async def _posted(books: Books, many: int) -> list[int]:
    sold = [await sale(books, f"S{n}") for n in range(many)]
    assert (await post(books, documents=sold))["outcome"] == "succeeded"
    return sold


async def _all_ended_well(books: Books) -> None:
    rows = await fetch(books.app, "SELECT DISTINCT state FROM chot.jobs")
    assert [row.state for row in rows] == ["succeeded"], "no job failed"
    charged = "SELECT count(*) FROM chot.attempts WHERE outcome NOT IN ('succeeded', 'released')"
    assert await scalar(books.app, charged) == 0, "nor was any attempt charged"


async def test_two_unpostings_of_the_same_take_each_back_once(books: Books, crew: Crew) -> None:
    sold = await _posted(books, 20)
    jobs = [
        await submit(books, documents=sold, chunk_documents=3),
        await submit(books, documents=sold, chunk_documents=5, reason="twice"),
        await submit(books, types=["sale"], chunk_documents=7),
    ]
    await crew.work(3)
    await _all_ended_well(books)
    told = Counter[str | None]()
    for job_id in jobs:
        told.update((await outcomes(books, job_id)).values())
    assert told["REVERSED"] == 20
    assert set(told) <= {"REVERSED", "ALREADY_REVERSED"}
    assert {await standing(books, each) for each in sold} == {("draft", 2)}
    assert await numbers(books) == list(range(1, 41))


async def test_posting_and_unposting_of_the_same_meet(books: Books, crew: Crew) -> None:
    """Whatever the order, each document's status is what the ledger says; no number is lost."""
    sold = await _posted(books, 8)
    drafts = [await sale(books, f"D{n}") for n in range(8)]
    every = [*sold, *drafts]
    for n in range(3):
        await submit(books, documents=every, chunk_documents=2 + n, reason=f"{n}")
        await submit_post(books, documents=every, chunk_documents=3 + n)
    await crew.work(4)
    await _all_ended_well(books)
    assert await astray(books) == []
    assert await gapless(books)
    codes = {
        row.outcome
        for row in await fetch(books.app, "SELECT DISTINCT outcome FROM books.posting_items")
    }
    assert codes <= {
        "POSTED",
        "REVERSED",
        "ALREADY_POSTED",
        "ALREADY_REVERSED",
        "NEVER_POSTED",
        "VERSION_CHANGED",
        "BUSY",
    }


async def test_a_period_that_closes_while_an_unposting_waits_at_its_gate(books: Books) -> None:
    """It saw the period open, and looks again once it is let in: nothing is written."""
    (one,) = await _posted(books, 1)
    job_id = await submit(books, documents=[one])
    async with books.app.connect() as closer:
        await closer.execute(
            text("SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-01'))")
        )
        unposting_it = asyncio.create_task(attempt(books, job_id))
        await until_waiting(books.app)
        await closer.execute(
            text("UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'")
        )
        await closer.commit()
        await unposting_it
    (row,) = await items(books, job_id)
    assert (row.outcome, row.codes) == ("PERIOD_CLOSED", ["PERIOD_CLOSED"])
    assert await numbers(books) == [1]
    assert await standing(books, one) == ("posted", 1)


class _KilledError(Exception):
    """The worker is gone: nothing that it holds is released."""


class _Killer:
    """Kills at the n-th time that a moment comes; counts how often it came."""

    def __init__(self, left: int) -> None:
        self.left, self.came = left, 0

    def comes(self) -> None:
        self.came += 1
        if self.came == self.left + 1:
            raise _KilledError


def _dying(step: Callable[..., Awaitable[Any]], killer: _Killer, *, before: bool) -> Any:
    async def dies(*arguments: Any, **named: Any) -> Any:
        if before:
            killer.comes()
        found = await step(*arguments, **named)
        if not before:
            killer.comes()
        return found

    return dies


# Moment → where it is: a module, a step of it, and whether it comes before that step.
MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "selecting": (posting, "list_documents", False),
    "chunk begins": (unposting, "unpost_documents", True),
    "before the ledger": (records, "take_back", True),
    "in the ledger": (records, "take_back", False),
    "outcomes noted": (posting, "note_outcomes", False),
    "completing": (posting, "summarize", True),
    "completed": (posting, "summarize", False),
}
ONCE = {"selecting", "completing", "completed"}


async def _whole(books: Books, job_id: JobId) -> None:
    result = await books.result(job_id)
    assert result["outcomes"] == {"REVERSED": DOCUMENTS}
    assert await numbers(books) == list(range(1, 2 * DOCUMENTS + 1)), "no gap, no number twice"
    assert await astray(books) == []
    entries = {row.entry_id for row in await items(books, job_id)}
    reversals = "SELECT array_agg(id) FROM books.gl_entries WHERE kind = 'reversal'"
    assert entries == set(await scalar(books.app, reversals))


@pytest.mark.parametrize(
    ("moment", "after"),
    [(moment, n) for moment in MOMENTS for n in ((0,) if moment in ONCE else (0, CHUNKS - 1))],
)
async def test_a_kill_at_any_moment_is_made_good(
    books: Books, monkeypatch: pytest.MonkeyPatch, moment: str, after: int
) -> None:
    sold = await _posted(books, DOCUMENTS)
    place, name, before = MOMENTS[moment]
    killer = _Killer(after)
    monkeypatch.setattr(place, name, _dying(getattr(place, name), killer, before=before))
    job_id = await submit(books, documents=sold, chunk_documents=CHUNK)
    with suppress(_KilledError):
        await attempt(books, job_id)
    assert (await job_row(books.app, job_id)).state == "running"
    await again(books, job_id)
    assert killer.came > after, "it was killed"
    await _whole(books, job_id)


@pytest.mark.parametrize("after", range(CHUNKS))
async def test_a_kill_between_two_chunks_loses_none(
    books: Books, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    sold = await _posted(books, DOCUMENTS)
    killer, judged = _Killer(after), _Killer(-1)
    step = records.unpost_documents
    monkeypatch.setattr(unposting, "unpost_documents", _dying(step, judged, before=True))
    monkeypatch.setattr(JobContext, "yield_if_asked", lambda _: killer.comes())
    job_id = await submit(books, documents=sold, chunk_documents=CHUNK)
    with suppress(_KilledError):
        await attempt(books, job_id)
    await again(books, job_id)
    assert judged.came == CHUNKS, "no chunk twice"
    await _whole(books, job_id)
