"""Unposting: what becomes of each document, and what the ledger has of it before and after."""

from datetime import date

import pytest
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.unposting import UnpostingPayload
from tests.costing_books import Books
from tests.factories import execute, fetch
from tests.ledger_books import open_ledger
from tests.posting_books import claimed as claimed_post
from tests.posting_books import (
    close,
    draft,
    items,
    manual,
    numbers,
    outcomes,
    post,
    revise,
    sale,
    status,
)
from tests.posting_books import submit as submit_post
from tests.unposting_books import (
    REASON,
    astray,
    attempt,
    balances,
    claimed,
    entries_of,
    gapless,
    standing,
    submit,
    unpost,
    unpost_one,
)
from worker.handlers.posting import begin, run_posting
from worker.handlers.unposting import run_unposting

FEBRUARY_2 = date(2026, 2, 2)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _posted(books: Books, *ids: int) -> None:
    result = await post(books, documents=list(ids))
    assert result["outcome"] == "succeeded", result


async def _purchase(books: Books, number: str = "P1") -> int:
    goods = {"item": "A", "qty": 10, "net": 100_000, "vat": 10_000}
    facts = {"party": "S1", "total": 110_000, "vat_total": 10_000}
    return await draft(books, "purchase", number, goods, **facts)


async def test_what_is_unposted_is_mirrored_and_may_be_posted_again(books: Books) -> None:
    """Posted, unposted, put again, posted: each number once, and nothing on 1561 in between."""
    one = await _purchase(books)
    await _posted(books, one)
    assert (await balances(books, one))["1561"] == 100_000
    row = await unpost_one(books, one)
    assert (row.outcome, row.codes, row.detail) == ("REVERSED", [], None)
    assert await standing(books, one) == ("draft", 2)
    assert await balances(books, one) == {}, "nothing on 1561, nor anywhere"
    await revise(books, one, memo="right at last")
    await _posted(books, one)
    assert await standing(books, one) == ("posted", 3)
    assert await entries_of(books, one) == [("normal", 1, 1), ("reversal", 1, 2), ("normal", 3, 3)]
    assert (await unpost_one(books, one)).outcome == "REVERSED"
    assert await standing(books, one) == ("draft", 4)
    assert await numbers(books) == [1, 2, 3, 4]


async def test_a_reversal_names_its_entry_and_has_its_lines_on_the_other_side(
    books: Books,
) -> None:
    one = await _purchase(books)
    await _posted(books, one)
    row = await unpost_one(books, one)
    entries = await fetch(
        books.app, "SELECT * FROM books.gl_entries WHERE document_id = :id ORDER BY id", id=one
    )
    first, second = entries
    assert (second.id, second.reverses_entry_id, second.kind) == (
        row.entry_id,
        first.id,
        "reversal",
    )
    same = ("posting_date", "brand", "series", "role", "rule_version", "document_version")
    assert [getattr(first, each) for each in same] == [getattr(second, each) for each in same]
    assert second.memo == REASON
    lines = await fetch(
        books.app,
        """SELECT line_no, account, party, store, item, qty_base, debit, credit, entry_id
             FROM books.gl_lines ORDER BY entry_id, line_no""",
    )
    half = len(lines) // 2
    assert [(*a[:6], a.debit, a.credit) for a in lines[:half]] == [
        (*b[:6], b.credit, b.debit) for b in lines[half:]
    ]


async def test_a_second_unposting_and_what_was_never_posted(books: Books) -> None:
    """ALREADY_REVERSED is a success; a draft that never was in the ledger is told so."""
    one, two = await sale(books, "S1"), await sale(books, "S2")
    moved = await draft(books, "transfer", "T1", {"item": "A", "qty": 1}, to_store="R2")
    await _posted(books, one, moved)
    for again in (False, True):
        job_id = await submit(books, documents=[one, moved, two, 999_999], reason=f"again: {again}")
        await attempt(books, job_id)
        good = "ALREADY_REVERSED" if again else "REVERSED"
        assert await outcomes(books, job_id) == {
            one: good,
            moved: good,
            two: "NEVER_POSTED",
            999_999: "NOT_FOUND",
        }
    result = await unpost(books, documents=[one], reason="a third time")
    assert (result["outcome"], result["outcomes"]) == ("succeeded", {"ALREADY_REVERSED": 1})
    assert await entries_of(books, one) == [("normal", 1, 1), ("reversal", 1, 2)]
    assert await standing(books, moved) == ("draft", 2)


async def test_what_was_posted_without_an_entry_is_unposted_once(books: Books) -> None:
    """A gift and a transfer; a draft that was put again and never posted is none of these."""
    line = {"item": "A", "qty": 1, "net": 0}
    gift = await draft(books, "sale", "S1", line, party="C1", total=0, vat_total=0)
    moved = await draft(books, "transfer", "T1", {"item": "A", "qty": 1}, to_store="R2")
    again = await draft(books, "transfer", "T2", {"item": "A", "qty": 1}, to_store="R2")
    await revise(books, again)
    await _posted(books, gift)
    assert (await post(books, documents=[moved], mode="atomic"))["outcomes"] == {"POSTED": 1}
    for document_id in (gift, moved):
        first = await unpost_one(books, document_id)
        assert (first.outcome, first.detail) == ("REVERSED", "without an entry: it had none")
        second = await unpost_one(books, document_id, reason="again")
        assert second.outcome == "ALREADY_REVERSED"
    assert (await unpost_one(books, again)).outcome == "NEVER_POSTED"


async def test_the_progress_says_how_many_did_not_come_off(books: Books) -> None:
    one, two = await sale(books, "S1"), await sale(books, "S2")
    await _posted(books, one)
    job_id = await submit(books, documents=[one, two])
    await attempt(books, job_id)
    said = "SELECT progress_message AS said FROM chot.jobs WHERE id = :id"
    (row,) = await fetch(books.app, said, id=job_id)
    assert row.said == "1 unposted, 1 not"


async def test_filters_take_what_is_posted_of_the_jobs_brand_latest_first(books: Books) -> None:
    days = [date(2026, 1, day) for day in (7, 9, 8)]
    wanted = [await sale(books, f"S{day}", day=day) for day in days]
    other = await sale(books, "B", store="B1", brand="BLUE", day=days[0])
    left = await manual(books, "M1", ("6422", 700), ("1111", -700))
    await _posted(books, *wanted, other, left)
    never = await sale(books, "S10", day=days[0])
    job_id = await submit(books, brand="RED", types=["sale"])
    await attempt(books, job_id)
    rows = await items(books, job_id)
    assert [row.document_id for row in rows] == [wanted[1], wanted[2], wanted[0]]
    assert {row.outcome for row in rows} == {"REVERSED"}
    assert {await status(books, each) for each in (other, left)} == {"posted"}
    assert await standing(books, never) == ("draft", 1)


async def test_what_is_not_the_jobs_own(books: Books, owner_engine: AsyncEngine) -> None:
    """A brand's job takes back no entry that has another brand's line."""
    both = await draft(books, "transfer", "T1", {"item": "A", "qty": 1, "net": 900}, to_store="B1")
    blue = await sale(books, "S1", store="B1", brand="BLUE")
    await _posted(books, both, blue)
    for each in (both, blue):
        assert (await unpost_one(books, each, brand="RED")).outcome == "WRONG_BRAND"
    await execute(owner_engine, "INSERT INTO books.companies (code, name) VALUES ('OTHER', 'O')")
    job_id = await submit(books, company="OTHER", documents=[blue])
    await attempt(books, job_id)
    assert await outcomes(books, job_id) == {blue: "WRONG_COMPANY"}
    assert await astray(books) == []
    assert (await unpost_one(books, both)).outcome == "REVERSED"


async def test_a_closed_period_is_left_as_it_is(books: Books) -> None:
    """original_if_open: refused, zero rows changed. By a day: in the open period of that day."""
    one = await _purchase(books)
    await _posted(books, one)
    before = await numbers(books)
    await close(books)
    row = await unpost_one(books, one)
    assert (row.outcome, row.codes) == ("PERIOD_CLOSED", ["PERIOD_CLOSED"])
    assert "reversal_date" in row.detail
    assert (await numbers(books), await standing(books, one)) == (before, ("posted", 1))
    row = await unpost_one(books, one, reversal_date="2026-01-20")
    assert row.outcome == "PERIOD_CLOSED"
    row = await unpost_one(books, one, reversal_date="2026-02-02")
    assert row.outcome == "REVERSED"
    days = await fetch(
        books.app,
        """SELECT e.posting_date AS entry, min(l.posting_date) AS first, max(l.posting_date) AS last
             FROM books.gl_entries e JOIN books.gl_lines l ON l.entry_id = e.id
            GROUP BY e.id ORDER BY e.id""",
    )
    january = date(2026, 1, 5)
    assert [tuple(day) for day in days] == [(january,) * 3, (FEBRUARY_2,) * 3]
    assert await balances(books, one) == {}


async def test_days_that_no_reversal_may_have(books: Books) -> None:
    one = await sale(books, "S1", day=date(2026, 1, 10))
    await _posted(books, one)
    for day, codes in (
        ("2026-01-09", ["REVERSED_TOO_EARLY"]),
        ("2035-01-01", ["PERIOD_UNKNOWN"]),
        ("1999-01-01", ["PERIOD_UNKNOWN", "REVERSED_TOO_EARLY"]),
    ):
        row = await unpost_one(books, one, reversal_date=day)
        assert (row.outcome, row.codes) == (codes[0], codes)
    assert await standing(books, one) == ("posted", 1)
    for wrong in ("2026-02-30", "yesterday", ""):
        with pytest.raises(ValidationError):
            UnpostingPayload.model_validate(
                {"documents": [one], "reason": "x", "reversal_date": wrong}
            )


async def _returned(books: Books, number: str, of: int, **facts: object) -> int:
    """A return of a sale, as a document that refers to it."""
    back = {"item": "A", "qty": 1, "net": 1000}
    made = await draft(
        books, "sale_return", number, back, party="C1", total=1100, vat_total=100, **facts
    )
    await revise(books, made, ref_document_id=of)
    return made


async def test_what_others_refer_to_comes_off_last(books: Books) -> None:
    """A sale whose return is posted is refused, unless both are unposted together."""
    sold = await sale(books, "S1")
    back = await _returned(books, "R1", sold)
    await _posted(books, sold, back)
    row = await unpost_one(books, sold)
    assert (row.outcome, row.codes) == ("HAS_DEPENDANT", ["HAS_DEPENDANT"])
    assert f"sale_return R1 (id {back})" in row.detail
    for chunk in (1, 10):
        result = await unpost(books, documents=[sold, back], chunk_documents=chunk)
        assert result["outcomes"] == {"REVERSED": 2}
        assert await astray(books) == []
        await _posted(books, sold, back)


async def test_what_refers_and_stays_keeps_the_other_one(books: Books) -> None:
    """Both are asked for, but the period of the return is closed: the sale stays, too."""
    sold = await sale(books, "S1", day=date(2026, 2, 5))
    back = await _returned(books, "R1", sold, day=date(2026, 1, 5))
    await _posted(books, sold, back)
    await close(books)
    job_id = await submit(books, documents=[sold, back])
    await attempt(books, job_id)
    assert await outcomes(books, job_id) == {sold: "HAS_DEPENDANT", back: "PERIOD_CLOSED"}
    assert {await status(books, each) for each in (sold, back)} == {"posted"}


async def test_a_document_reversed_between_selection_and_posting(books: Books) -> None:
    """ERPNext #51559: a repost made entries for a voucher that was cancelled meanwhile."""
    one = await sale(books, "S1")
    late = await submit_post(books, types=["sale"])
    context, payload = await claimed_post(books, late)
    await begin(context, payload, status="draft")
    await _posted(books, one)
    await unpost(books, documents=[one])
    before = await numbers(books)
    await run_posting(context, payload)
    await context.close()
    (row,) = await items(books, late)
    assert (row.outcome, row.codes) == ("VERSION_CHANGED", ["VERSION_CHANGED"])
    assert await numbers(books) == before
    assert (await standing(books, one), await balances(books, one)) == (("draft", 2), {})


async def test_a_stale_unposting_leaves_the_next_version_alone(books: Books) -> None:
    """Selected as version 1; by its turn it is unposted, and posted as version 2."""
    one = await sale(books, "S1")
    await _posted(books, one)
    late = await submit(books, documents=[one], reason="late")
    context, payload = await claimed(books, late)
    await begin(context, payload, status="posted", newest_first=True)
    await unpost(books, documents=[one])
    await _posted(books, one)
    await run_unposting(context, payload)
    await context.close()
    (row,) = await items(books, late)
    assert (row.outcome, row.codes) == ("VERSION_CHANGED", ["VERSION_CHANGED"])
    assert await standing(books, one) == ("posted", 2)
    assert await astray(books) == []
    assert await gapless(books)
