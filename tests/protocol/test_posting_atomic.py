"""Atomic posting: a batch is posted whole, or not at all; what is in its way is told."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PermanentError, Snooze
from shared.types import JobId
from tests.costing_books import Books
from tests.costing_crew import Crew
from tests.factories import execute, job_row, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import (
    again,
    attempt,
    close,
    draft,
    items,
    ledger_of,
    manual,
    numbers,
    outcomes,
    over,
    post,
    revise,
    sale,
    submit,
)
from tests.services import Database
from tests.unposting_books import unpost
from worker.handlers import posting_atomic
from worker.records import posting_stage

STAGED = "SELECT count(*) FROM books.posting_lines"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _atomic(books: Books, documents: list[int]) -> JobId:
    return await submit(books, documents=documents, mode="atomic", chunk_documents=2)


async def _refused(books: Books, job_id: JobId) -> PermanentError:
    """The job is refused; nothing is in the ledger."""
    with pytest.raises(PermanentError) as error:
        await attempt(books, job_id)
    assert error.value.code == "ATOMIC_REFUSED"
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_lines") == 0
    assert all(row.done for row in await items(books, job_id))
    return error.value


def _meanwhile(
    monkeypatch: pytest.MonkeyPatch, doing: Callable[[], Awaitable[Any]], times: int = 1
) -> None:
    """Something happens right before what is staged is published."""
    inner, came = posting_atomic._publish, list[bool]()

    async def publish(*arguments: Any) -> None:
        if len(came) < times:
            came.append(True)
            await doing()
        await inner(*arguments)

    monkeypatch.setattr(posting_atomic, "_publish", publish)


async def test_all_are_posted_in_one_transaction(books: Books, engine: AsyncEngine) -> None:
    documents = [await sale(books, f"S{n}") for n in range(5)]
    documents.append(await draft(books, "transfer", "T", {"item": "A", "qty": 1}, to_store="R2"))
    assert (await post(books, documents=documents[:1]))["outcomes"] == {"POSTED": 1}
    job_id = await _atomic(books, documents)
    await attempt(books, job_id)
    result = await books.result(job_id)
    assert result["outcomes"] == {"POSTED": 5, "ALREADY_POSTED": 1}
    assert await numbers(books) == [1, 2, 3, 4, 5]
    together = "SELECT count(DISTINCT xid) FROM books.gl_entries WHERE job_id = :job_id"
    assert await scalar(engine, together, job_id=job_id) == 1
    assert await scalar(engine, STAGED) == 0


async def test_a_selection_of_nothing_is_posted_whole(books: Books) -> None:
    result = await post(books, types=["sale"], mode="atomic")
    assert (result["outcome"], result["documents"], result["outcomes"]) == ("succeeded", 0, {})


async def test_one_that_cannot_be_posted_holds_back_all(books: Books) -> None:
    good = [await sale(books, f"S{n}") for n in range(4)]
    bad = await manual(books, "M1", ("6422", 2), ("1111", -1))
    job_id = await _atomic(books, [*good, bad])
    error = await _refused(books, job_id)
    assert str(error).startswith(
        "ATOMIC_REFUSED: none of 5 documents is posted: UNBALANCED (1); put them right"
    )
    assert error.details is not None
    assert [each["doc_no"] for each in error.details["failures"]] == ["M1"]
    assert error.details["outcomes"] == {"NOT_POSTED": 4, "UNBALANCED": 1}
    told = dict.fromkeys(good, "NOT_POSTED") | {bad: "UNBALANCED"}
    assert await outcomes(books, job_id) == told
    await over(books, job_id)
    assert await scalar(books.app, STAGED) == 0, "what was staged goes with the job"
    assert await outcomes(books, job_id) == told, "what became of it stays"


async def test_a_kill_after_the_refusal_refuses_again(books: Books) -> None:
    bad = await manual(books, "M1", ("6422", 2), ("1111", -1))
    job_id = await _atomic(books, [bad])
    for _ in range(2):
        with pytest.raises(PermanentError) as error:
            await again(books, job_id)
        assert error.value.details is not None
        assert error.value.details["outcomes"] == {"UNBALANCED": 1}


async def test_what_changes_before_the_publication_refuses_it(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await sale(books, "S1"), await sale(books, "S2")
    _meanwhile(monkeypatch, lambda: revise(books, two))
    job_id = await _atomic(books, [one, two])
    await _refused(books, job_id)
    assert await outcomes(books, job_id) == {one: "NOT_POSTED", two: "VERSION_CHANGED"}


async def test_what_another_posts_meanwhile_is_posted(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its staged lines are forgotten: they would be in the ledger twice."""
    one, two = await sale(books, "S1"), await sale(books, "S2")
    _meanwhile(monkeypatch, lambda: post(books, documents=[two]))
    job_id = await _atomic(books, [one, two])
    await attempt(books, job_id)
    assert await outcomes(books, job_id) == {one: "POSTED", two: "ALREADY_POSTED"}
    assert len(await ledger_of(books, two)) == 3


@pytest.mark.parametrize("to", ["closing", "closed"])
async def test_a_period_closed_meanwhile(
    books: Books, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    one = await sale(books, "S1")
    _meanwhile(monkeypatch, lambda: close(books, to=to))
    job_id = await _atomic(books, [one])
    await _refused(books, job_id)
    assert await outcomes(books, job_id) == {one: "PERIOD_CLOSED"}


async def test_an_account_closed_meanwhile(
    books: Books, monkeypatch: pytest.MonkeyPatch, owner_engine: AsyncEngine
) -> None:
    one, two = await sale(books, "S1"), await manual(books, "M1", ("6422", 2), ("1111", -2))
    change = "UPDATE books.gl_accounts SET postable = false WHERE code = '6422'"
    _meanwhile(monkeypatch, lambda: execute(owner_engine, change))
    job_id = await _atomic(books, [one, two])
    await _refused(books, job_id)
    assert await outcomes(books, job_id) == {one: "NOT_POSTED", two: "ACCOUNT_NOT_POSTABLE"}


ROLE = """
    INSERT INTO books.account_roles (company, role, account) VALUES ('ACME', 'revenue', '5113')"""
NEXT_RULE = """
    WITH rule AS (
        INSERT INTO books.posting_rules (company, doc_type, version, valid_from, series)
        VALUES ('ACME', 'sale', 2, '2026-01-01', 'BH'))
    INSERT INTO books.posting_rule_lines (company, doc_type, version, line_no, per, side, role,
                                          own_account, amount)
    SELECT 'ACME', 'sale', 2, line_no, per, side, role, false, amount
      FROM books.posting_rule_lines WHERE company = '*' AND doc_type = 'sale'"""


@pytest.mark.parametrize(
    ("change", "revenue", "series"),
    [(ROLE, "5113", "NKC"), (NEXT_RULE, "5111", "BH")],
    ids=["role", "rule"],
)
async def test_a_role_or_a_rule_changed_meanwhile_holds(
    books: Books, monkeypatch: pytest.MonkeyPatch, change: str, revenue: str, series: str
) -> None:
    """What is posted when all of it is posted goes by what holds then, not by what did before."""
    one, two, three = [await sale(books, f"S{n}") for n in range(3)]
    _meanwhile(monkeypatch, lambda: execute(books.app, change))
    job_id = await _atomic(books, [one, two, three])
    await attempt(books, job_id)
    for each in (one, two, three):
        assert [account for account, _ in await ledger_of(books, each)] == ["131", revenue, "33311"]
    assert await numbers(books, series) == [1, 2, 3]


async def test_what_an_account_needs_meanwhile_refuses(
    books: Books, monkeypatch: pytest.MonkeyPatch, owner_engine: AsyncEngine
) -> None:
    one = await manual(books, "M1", ("6422", 2), ("1111", -2))
    change = "UPDATE books.gl_accounts SET needs_party = true WHERE code = '6422'"
    _meanwhile(monkeypatch, lambda: execute(owner_engine, change))
    job_id = await _atomic(books, [one])
    await _refused(books, job_id)
    assert await outcomes(books, job_id) == {one: "DIMENSION_MISSING"}


async def test_documents_that_keep_changing_are_given_up(
    books: Books, monkeypatch: pytest.MonkeyPatch, owner_engine: AsyncEngine
) -> None:
    """An account that is closed and opened again, each time it is looked at."""
    one = await manual(books, "M1", ("6422", 2), ("1111", -2))
    staged = posting_stage.stage_documents
    change = "UPDATE books.gl_accounts SET postable = {} WHERE code = '6422'"

    async def stage(*arguments: Any) -> str:
        await execute(owner_engine, change.format("true"))
        return await staged(*arguments)

    monkeypatch.setattr(posting_atomic, "stage_documents", stage)
    _meanwhile(monkeypatch, lambda: execute(owner_engine, change.format("false")), times=99)
    job_id = await _atomic(books, [one])
    await _refused(books, job_id)
    assert await outcomes(books, job_id) == {one: "BUSY"}


async def test_what_is_held_is_waited_for(books: Books) -> None:
    """Nothing is locked while it waits, and nothing of the batch is posted without it."""
    one, two = await sale(books, "S1"), await sale(books, "S2")
    job_id = await _atomic(books, [one, two])
    async with books.app.connect() as holder:
        lock = text("SELECT FROM books.documents WHERE id = :id FOR UPDATE")
        await holder.execute(lock, {"id": two})
        with pytest.raises(Snooze, match="1 documents are held by other transactions; try 2 of"):
            await attempt(books, job_id)
        await holder.rollback()
    await again(books, job_id)
    assert await outcomes(books, job_id) == {one: "POSTED", two: "POSTED"}


async def test_what_stays_held_refuses_the_batch(books: Books, database: Database) -> None:
    one, two = await sale(books, "S1"), await sale(books, "S2")
    job_id = await _atomic(books, [one, two])
    async with books.app.connect() as holder:
        lock = text("SELECT FROM books.documents WHERE id = :id FOR UPDATE")
        await holder.execute(lock, {"id": two})
        await Crew(books=books, database=database).work()
        await holder.rollback()
    job = await job_row(books.app, job_id)
    assert (job.state, job.interruptions) == ("dead", posting_atomic.MOST_TRIES - 1)
    assert await outcomes(books, job_id) == {one: "NOT_POSTED", two: "BUSY"}


async def test_a_job_run_again_from_nothing_begins_anew(books: Books) -> None:
    """A redrive: what was wrong is put right, and the whole selection is listed again."""
    one, two = await sale(books, "S1"), await sale(books, "S2", total=7)
    job_id = await _atomic(books, [one, two])
    await _refused(books, job_id)
    await revise(books, two, total=1100)
    await execute(
        books.app,
        """UPDATE chot.job_outputs SET checkpoint = NULL WHERE job_id = :id""",
        id=job_id,
    )
    await again(books, job_id)
    assert await outcomes(books, job_id) == {one: "POSTED", two: "POSTED"}
    assert (await job_row(books.app, job_id)).state == "succeeded"


async def test_what_was_posted_before_may_be_a_draft_at_a_redrive(books: Books) -> None:
    """That it was posted by another at the first run says nothing of the next: it is listed anew."""
    one, two = await sale(books, "S1"), await sale(books, "S2", total=7)
    await post(books, documents=[one])
    job_id = await _atomic(books, [one, two])
    with pytest.raises(PermanentError):
        await attempt(books, job_id)
    assert await outcomes(books, job_id) == {one: "ALREADY_POSTED", two: "UNBALANCED"}
    assert (await unpost(books, documents=[one]))["outcomes"] == {"REVERSED": 1}
    await revise(books, two, total=1100)
    await execute(
        books.app,
        """UPDATE chot.job_outputs SET checkpoint = NULL WHERE job_id = :id""",
        id=job_id,
    )
    await again(books, job_id)
    assert await outcomes(books, job_id) == {one: "POSTED", two: "POSTED"}
