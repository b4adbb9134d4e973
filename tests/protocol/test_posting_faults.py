"""What keeps a document out of the ledger: each rule by itself, and all of them in their order."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.posting import POSTING_POST
from tests.costing_books import Books
from tests.factories import execute, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import (
    attempt,
    close,
    draft,
    items,
    ledger_of,
    manual,
    post,
    post_one,
    revise,
    sale,
    status,
    submit,
)
from worker.records.verdicts import CODES

LARGEST = 2**63 - 1
LINE = {"item": "A", "qty": 1, "net": 1000}


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _refused(books: Books, document_id: int, **how: Any) -> tuple[list[str], str]:
    """Codes and detail of a document that is not posted; nothing of it is in the ledger."""
    row = await post_one(books, document_id, **how)
    assert row.codes[:1] == [row.outcome]
    assert row.entry_id is None
    assert await ledger_of(books, document_id) == []
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_lines") == 0
    return row.codes, row.detail


async def test_what_is_not_there_or_another_companys(books: Books, owner_engine: Any) -> None:
    assert await _refused(books, 999) == (["NOT_FOUND"], "NOT_FOUND: there is no such document")
    await execute(owner_engine, "INSERT INTO books.companies (code, name) VALUES ('OTHER', 'O')")
    theirs = await draft(
        books, "manual", "M", LINE, company="OTHER", brand=None, store=None, memo="secret"
    )
    codes, detail = await _refused(books, theirs)
    assert codes == ["WRONG_COMPANY"]
    assert "secret" not in detail
    result = await post(books, documents=[theirs, 999])
    assert result["outcomes"] == {"NOT_FOUND": 1, "WRONG_COMPANY": 1}
    assert [each["doc_no"] for each in result["failures"]] == [None, None], "not a word of it"
    assert result["outcome"] == "completed_with_errors"


async def test_a_job_of_a_brand_posts_its_brands_books_only(books: Books) -> None:
    """The border of rights: by the document's brand, and by the store of every line."""
    blue = await sale(books, "S1", store="B1", brand="BLUE")
    whole = await sale(books, "S2", store=None, brand=None)
    mixed = await draft(
        books,
        "manual",
        "M1",
        {"account": "6422", "side": "debit", "net": 5, "store": "B1"},
        {"account": "1111", "side": "credit", "net": 5},
    )
    for document_id in (blue, whole, mixed):
        codes, _ = await _refused(books, document_id, brand="RED")
        assert codes == ["WRONG_BRAND"]
    assert (await post(books, documents=[blue, whole, mixed]))["outcomes"] == {"POSTED": 3}


async def test_a_document_that_is_posted_already_is_a_success(books: Books) -> None:
    """ADempiere PR 3336: of two processors the second marked posted documents as errors."""
    one = await sale(books, "S1")
    assert (await post_one(books, one)).outcome == "POSTED"
    again = await post_one(books, one)
    assert (again.outcome, again.codes) == ("ALREADY_POSTED", ["ALREADY_POSTED"])
    result = await post(books, documents=[one])
    assert (result["outcome"], result["failures"]) == ("succeeded", [])
    assert len(await ledger_of(books, one)) == 3


async def test_what_changed_since_it_was_selected_is_not_posted(books: Books) -> None:
    """ERPNext #51559: rows of the ledger were made for a cancelled voucher."""
    changed, voided = await sale(books, "S1"), await sale(books, "S2")
    job_id = await submit(books, documents=[changed, voided])
    selecting = "worker.handlers.posting.work_through"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, _raise)
        with pytest.raises(_KilledError):
            await attempt(books, job_id)
    await revise(books, changed, total=2200, vat_total=1200)
    await execute(books.app, "UPDATE books.documents SET status = 'void' WHERE id = :id", id=voided)
    await execute(
        books.app,
        "UPDATE chot.jobs SET lease_expires_at = clock_timestamp() WHERE id = :id",
        id=job_id,
    )
    await attempt(books, job_id)
    rows = {row.document_id: row for row in await items(books, job_id)}
    assert rows[changed].codes[:1] == ["VERSION_CHANGED"]
    assert "it is version 2, version 1 was to be posted" in rows[changed].detail
    assert rows[voided].codes == ["VOID"]
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_entries") == 0
    assert (await post_one(books, changed)).outcome == "POSTED", "selected anew"


class _KilledError(Exception):
    """The worker is gone."""


async def _raise(*_: Any) -> None:
    raise _KilledError


async def test_cost_documents_are_posted_by_costs_alone(books: Books, owner_engine: Any) -> None:
    await books.move("receipt", 1, value=10)
    run = (await books.cost())["run_id"]
    await execute(
        owner_engine,
        """INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand,
                  store, cost_run_id, content_hash)
           VALUES ('ACME', 'cost', 'GV', '2026-01-31', '2026-01-31', 'RED', 'R1', :run, '')""",
        run=run,
    )
    one = await scalar(books.app, "SELECT id FROM books.documents")
    codes, _ = await _refused(books, one)
    assert codes[0] == "MADE_BY_COSTS"
    assert (await post(books, date_from="2026-01-01"))["documents"] == 0, "nor are they selected"


async def test_what_says_nothing_is_empty(books: Books) -> None:
    nothing = await draft(books, "manual", "M1")
    bare = await draft(books, "sale", "S1", {"item": "A", "qty": 1}, party="C1")
    assert await _refused(books, nothing) == (["EMPTY"], "EMPTY: it has no line")
    assert (await _refused(books, bare))[0] == ["EMPTY"]
    free = await draft(books, "sale", "S2", {"item": "A", "net": 0}, party="C1", total=0)
    assert (await post_one(books, free)).outcome == "POSTED"
    assert await ledger_of(books, free) == []


@pytest.mark.parametrize(
    ("type_", "lines", "said"),
    [
        ("purchase", ({"net": 10}, {"item": "A"}), "line 2 states no net amount"),
        ("manual", ({"account": "1111", "net": 10},), "line 1 is neither debit nor credit"),
        ("transfer", ({"item": "A", "net": 3, "store": "R9"},), "has no store R9, line 1"),
    ],
)
async def test_lines_that_say_too_little(
    books: Books, type_: str, lines: tuple[Mapping[str, Any], ...], said: str
) -> None:
    to_store = "R2" if type_ == "transfer" else None
    one = await draft(books, type_, "D1", *lines, party="S1", to_store=to_store)
    codes, detail = await _refused(books, one)
    assert codes[0] == "CONTENT"
    assert said in detail


async def test_no_day_of_a_closed_period_is_written_to(books: Books) -> None:
    """ERPNext #33002: the period was looked at when it was asked for, not when it was done."""
    january, march = await sale(books, "S1"), await sale(books, "S3", day=date(2026, 3, 1))
    await close(books, to="closing")
    codes, detail = await _refused(books, january)
    assert (codes, detail) == (
        ["PERIOD_CLOSED"],
        "PERIOD_CLOSED: period 2026-01 is closing (date it in an open one, or reopen it)",
    )
    assert await _refused(books, march) == (
        ["PERIOD_UNKNOWN"],
        "PERIOD_UNKNOWN: no period holds 2026-03-01 (correct the date, or add the period)",
    )
    february = await sale(books, "S2", day=date(2026, 2, 1))
    result = await post(books, documents=[january, february, march])
    assert result["outcomes"] == {"PERIOD_CLOSED": 1, "PERIOD_UNKNOWN": 1, "POSTED": 1}


async def test_a_type_without_a_rule_on_that_day(books: Books, owner_engine: Any) -> None:
    await execute(owner_engine, "DELETE FROM books.posting_rule_lines WHERE doc_type = 'sale'")
    await execute(owner_engine, "DELETE FROM books.posting_rules WHERE doc_type = 'sale'")
    codes, detail = await _refused(books, await sale(books, "S1"))
    assert codes == ["NO_RULE"]
    assert detail == "NO_RULE: no posting rule for sale is valid on 2026-01-05"


async def test_accounts_must_be_there_postable_in_use_and_have_what_they_need(
    books: Books, owner_engine: Any
) -> None:
    change = "UPDATE books.gl_accounts SET {} WHERE code = '6422'"
    journal = (("6422", 700), ("1111", -700))
    for changes, code, said in (
        ("postable = false", "ACCOUNT_NOT_POSTABLE", "is a heading, line 1 (name another one)"),
        ("postable = true, active_to = '2025-12-31'", "ACCOUNT_INACTIVE", "in use on 2026-01-05"),
        ("active_to = NULL, active_from = '2026-01-06'", "ACCOUNT_INACTIVE", "account 6422"),
        ("active_from = NULL, needs_item = true", "DIMENSION_MISSING", "6422 needs an item"),
    ):
        await execute(owner_engine, change.format(changes))
        one = await manual(books, code + said[:9] + changes[:9], *journal)
        codes, detail = await _refused(books, one)
        assert codes == [code]
        assert said in detail
    heading = await manual(books, "M7", ("641", 1), ("1111", -1))
    codes, detail = await _refused(books, heading)
    assert codes == ["ACCOUNT_NOT_POSTABLE"]
    assert "(name one below it: 6411, 6412, 6413, 6414, 6415, 6417)" in detail
    unknown = await manual(books, "M9", ("9999", 1), ("1111", -1))
    codes, detail = await _refused(books, unknown)
    assert (codes, "no account 9999, line 1 (add it to the chart" in detail) == (
        ["ACCOUNT_UNKNOWN"],
        True,
    )
    nameless = await draft(
        books,
        "manual",
        "M8",
        {"side": "debit", "net": 1},
        {"side": "credit", "net": 1, "account": "1111"},
    )
    assert (await _refused(books, nameless))[0] == ["ACCOUNT_UNKNOWN"]
    nobody = await draft(books, "sale", "S1", LINE, total=1000, vat_total=0)
    assert "131 needs a party" in (await _refused(books, nobody))[1]
    assert await status(books, nobody) == "draft"


async def test_a_currency_needs_its_rate(books: Books) -> None:
    line = {"item": "A", "fc_net": 10.5}
    facts = {"party": "S1", "currency": "USD", "fc_total": 10.5}
    codes, detail = await _refused(books, await draft(books, "purchase", "P1", line, **facts))
    assert (codes, detail) == (
        ["RATE_MISSING"],
        "RATE_MISSING: it is in USD and states no rate (put fc_rate)",
    )


async def test_sums_that_no_ledger_holds(books: Books) -> None:
    """Each amount fits, what they add up to does not: the document is refused, not the chunk."""
    half = LARGEST // 2 + 1
    legs = (("6422", half), ("6422", half), ("1111", -half), ("1111", -half))
    one = await manual(books, "M1", *legs)
    line = {"item": "A", "fc_net": 10**9}
    facts = {"party": "S1", "currency": "USD", "fc_rate": 10**12, "fc_total": 10**9}
    other = await draft(books, "purchase", "P1", line, **facts)
    beyond = await draft(books, "purchase", "P2", line, **(facts | {"fc_rate": "NaN"}))
    sound = await sale(books, "S1")
    result = await post(books, documents=[one, other, beyond, sound])
    codes = {each["document_id"]: each["codes"] for each in result["failures"]}
    assert (codes.get(one), codes.get(other)) == (["OVERFLOW"], ["OVERFLOW"])
    assert "OVERFLOW" in codes.get(beyond, [])
    assert result["outcomes"]["POSTED"] == 1


async def test_every_fault_of_a_document_is_told_in_the_fixed_order(
    books: Books, owner_engine: Any
) -> None:
    """TigerBeetle's way: the first is the outcome, and whoever mends it mends all at once."""
    await execute(owner_engine, "UPDATE books.gl_accounts SET postable = false WHERE code = '111'")
    await execute(
        owner_engine, "UPDATE books.gl_accounts SET active_to = '2025-01-01' WHERE code = '6422'"
    )
    one = await draft(
        books,
        "manual",
        "M1",
        {"account": "131", "side": "debit", "net": LARGEST},
        {"account": "111", "side": "debit", "net": LARGEST},
        {"account": "6422", "side": "credit", "net": 1},
        {"account": "9999", "side": "credit", "net": 1},
        {"account": "1111", "net": 1, "store": "R9"},
        currency="USD",
    )
    await close(books)
    codes, detail = await _refused(books, one)
    assert codes == [
        "CONTENT",
        "PERIOD_CLOSED",
        "ACCOUNT_UNKNOWN",
        "ACCOUNT_NOT_POSTABLE",
        "ACCOUNT_INACTIVE",
        "DIMENSION_MISSING",
        "RATE_MISSING",
        "OVERFLOW",
    ]
    assert codes == [code for code in CODES if code in codes]
    assert [part.split(":")[0] for part in detail.split("; ")] == codes
    assert POSTING_POST.name == "posting.post"
