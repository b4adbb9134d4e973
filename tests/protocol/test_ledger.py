"""The ledger: numbers without gaps, one chain a series, and nets that no writer slips through."""

import hashlib
import json
from collections.abc import Awaitable
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import Books
from tests.factories import claimed_again, execute, expire_lease, fetch, scalar
from tests.ledger_books import (
    DAY,
    Line,
    append,
    cash_sale,
    document,
    entry,
    open_ledger,
    post,
    poster,
    write_lines,
)

REFUSED, STALE, BROKEN, APPEND_ONLY, KEPT = "CH131", "CH132", "CH133", "CH007", "CH134"
FORBIDDEN, DUPLICATE, ORPHAN = "42501", "23505", "23503"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with a chart and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def refusal(doing: Awaitable[Any]) -> tuple[str | None, str]:
    """Which error the database raised: its state, and what it said."""
    with pytest.raises(DBAPIError) as caught:
        await doing
    return sqlstate_of(caught.value), str(caught.value.orig)


async def test_numbers_follow_days_and_documents(books: Books) -> None:
    """Whatever the order in which they are handed in; the next call goes on."""
    held = await poster(books)
    later = await entry(books, cash_sale(), day=date(2026, 1, 9))
    first, second = await entry(books, cash_sale()), await entry(books, cash_sale())
    numbers = await post(books, held, later, second, first)
    assert numbers == {first.entry_id: 1, second.entry_id: 2, later.entry_id: 3}
    more = await entry(books, cash_sale())
    assert await post(books, held, more) == {more.entry_id: 4}


async def test_each_series_and_fiscal_year_counts_from_one(
    books: Books, owner_engine: AsyncEngine
) -> None:
    """A fiscal year has the name of the year it begins in."""
    await execute(
        owner_engine, "UPDATE books.companies SET fiscal_year_start_month = 2 WHERE code = 'ACME'"
    )
    held = await poster(books)
    january = await entry(books, cash_sale())
    february = await entry(books, cash_sale(), day=date(2026, 2, 1))
    other = await entry(books, cash_sale(), series="KHAC")
    numbers = await post(books, held, january, february, other)
    assert set(numbers.values()) == {1}
    rows = await fetch(books.app, "SELECT series, fiscal_year, last_no FROM books.gl_series")
    assert {tuple(row) for row in rows} == {("NKC", 2025, 1), ("NKC", 2026, 1), ("KHAC", 2025, 1)}


LINE_FACTS = """line_no, account, debit, credit, party, store, item, qty_base, currency, fc_amount,
                brand, memo"""


async def test_the_chain_is_what_its_formula_says(books: Books) -> None:
    """Recomputed here from the rows alone, as an auditor without our functions would."""
    held = await poster(books)
    told = Line(account="1121", debit=7, store=None, party="Bà Đỗ Thị “Hạnh”", brand=None)
    for lines in (cash_sale(5), (told, Line(account="711", credit=7)), cash_sale(9)):
        await post(books, held, await entry(books, lines, memo="thu tiền"))
    before = b""
    for row in await fetch(books.app, "SELECT * FROM books.gl_entries ORDER BY entry_no"):
        parts = await fetch(
            books.app,
            f"SELECT {LINE_FACTS} FROM books.gl_lines WHERE entry_id = :i ORDER BY line_no",
            i=row.id,
        )
        digest = hashlib.sha256("\n".join(_json(*part) for part in parts).encode()).hexdigest()
        content = _json(
            *("entry/1", row.company, row.series, row.fiscal_year, row.id, row.document_id),
            *(row.document_version, row.role, row.kind, row.reverses_entry_id),
            *(str(row.posting_date), row.brand, row.rule_version, row.memo, str(row.job_id)),
            digest,
        )
        inner = hashlib.sha256(content.encode()).digest()
        assert row.prev_hash == before
        before = hashlib.sha256(before + row.entry_no.to_bytes(8, "big") + inner).digest()
        assert row.hash == before
    assert before == await scalar(books.app, "SELECT last_hash FROM books.gl_series")


def _json(*facts: Any) -> str:
    return json.dumps(facts, ensure_ascii=False)


BAD: dict[str, tuple[Line, ...]] = {
    "UNBALANCED": (Line(account="1111", debit=100), Line(account="5111", credit=99)),
    "EMPTY": (),
    "EMPTY: fewer": (Line(account="1111", debit=100),),
    "LINE_ELSEWHERE": (*cash_sale(1), Line(account="1111", debit=1, day=date(2026, 1, 6))),
}


@pytest.mark.parametrize("said", BAD)
async def test_an_entry_that_is_none_is_refused(books: Books, said: str) -> None:
    """Fewer than two lines, debits that are not the credits, a line of another day."""
    held = await poster(books)
    lines = BAD[said]
    if said == "LINE_ELSEWHERE":
        lines = (*lines, Line(account="5111", credit=1))
    state, words = await refusal(post(books, held, await entry(books, lines)))
    assert (state, said in words) == (REFUSED, True), words
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_series") == 0


async def test_one_bad_entry_takes_all_of_its_call_along(books: Books) -> None:
    """And gives its numbers back: nothing of the transaction is there."""
    held = await poster(books)
    good, bad = await entry(books, cash_sale()), await entry(books, BAD["UNBALANCED"])
    assert (await refusal(post(books, held, good, bad)))[0] == REFUSED
    assert await post(books, held, good) == {good.entry_id: 1}


async def test_a_document_of_another_company_is_refused(
    books: Books, owner_engine: AsyncEngine
) -> None:
    """The entry's company is the document's."""
    await execute(owner_engine, "INSERT INTO books.companies (code, name) VALUES ('ELSE', 'x')")
    await execute(
        owner_engine,
        """INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date,
                  content_hash)
           VALUES ('ELSE', 'manual', 'X', '2026-01-05', '2026-01-05', '')""",
    )
    found = await scalar(books.app, "SELECT id FROM books.documents WHERE company = 'ELSE'")
    held = await poster(books)
    made = await entry(books, cash_sale(), document_id=found)
    state, words = await refusal(post(books, held, made))
    assert (state, "WRONG_COMPANY" in words) == (REFUSED, True)


async def test_nothing_enters_a_period_that_is_not_open(
    books: Books, owner_engine: AsyncEngine
) -> None:
    """Closed, or no period at all."""
    held = await poster(books)
    await execute(
        owner_engine, "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'"
    )
    january = await entry(books, cash_sale())
    assert (await refusal(post(books, held, january)))[0] == "CH101"
    nowhere = await entry(books, cash_sale(), day=date(2026, 7, 1))
    assert (await refusal(post(books, held, nowhere)))[0] == "CH102"


async def test_books_are_written_at_read_committed_only(books: Books) -> None:
    """Above it a period would look as it was before its close."""
    held = await poster(books)
    made = await entry(books, cash_sale())
    engine = books.app.execution_options(isolation_level="REPEATABLE READ")

    async def at_repeatable_read() -> None:
        async with engine.begin() as conn:
            await write_lines(conn, [made])
            await append(conn, held, [made])

    assert (await refusal(at_repeatable_read()))[0] == "CH104"


async def test_only_the_fence_of_a_running_job_posts(books: Books) -> None:
    """A zombie is refused at once."""
    held = await poster(books)
    await expire_lease(books.app, held.lease.job_id)
    again = await claimed_again(books.app, held.lease.job_id, worker="b")
    made = await entry(books, cash_sale())
    state, words = await refusal(post(books, held, made))
    assert (state, "FENCE_STALE" in words) == (STALE, True)
    assert len(await post(books, again, made)) == 1


async def test_a_fence_lost_in_the_middle_is_met_at_commit(books: Books) -> None:
    """The deferred net, should the transaction's own fence ever be missing."""
    held = await poster(books)
    made = await entry(books, cash_sale())

    async def outlived() -> None:
        async with books.app.begin() as conn:
            await write_lines(conn, [made])
            await append(conn, held, [made])
            await expire_lease(books.app, held.lease.job_id)
            await claimed_again(books.app, held.lease.job_id, worker="b")

    assert (await refusal(outlived()))[0] == STALE
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_entries") == 0


async def test_a_version_of_a_document_is_posted_once(books: Books) -> None:
    """And an entry is reversed once, by its own lines on the other side."""
    held = await poster(books)
    made = await entry(books, cash_sale(80))
    await post(books, held, made)
    twin = await entry(books, cash_sale(80), document_id=made.document_id)
    assert (await refusal(post(books, held, twin)))[0] == DUPLICATE
    beside = await entry(books, cash_sale(80), document_id=made.document_id, version=2)
    state, words = await refusal(post(books, held, beside))
    assert (state, "STILL_POSTED" in words) == (REFUSED, True)
    back = (Line(account="1111", credit=80), Line(account="5111", debit=80))
    facts = {"document_id": made.document_id, "kind": "reversal", "reverses": made.entry_id}
    wrong = await entry(books, cash_sale(80), **facts)
    state, words = await refusal(post(books, held, wrong))
    assert (state, "NO_REVERSAL" in words) == (REFUSED, True)
    other = await entry(books, back, **facts | {"document_id": await document(books, "ELSE")})
    assert (await refusal(post(books, held, other)))[0] == REFUSED
    right = await entry(books, back, **facts)
    assert len(await post(books, held, right)) == 1
    again = await entry(books, back, **facts | {"version": 2})
    assert (await refusal(post(books, held, again)))[0] == DUPLICATE
    assert len(await post(books, held, beside)) == 1


async def test_no_line_comes_after_its_entry(books: Books) -> None:
    """Nor beside it from another transaction: lines and entry are one transaction's."""
    held = await poster(books)
    made = await entry(books, cash_sale())
    late = await entry(books, cash_sale(), document_id=made.document_id)
    late = type(late)(**_facts(late) | {"entry_id": made.entry_id})

    async def after() -> None:
        async with books.app.begin() as conn:
            await write_lines(conn, [made])
            await append(conn, held, [made])
            await execute_late(conn, late.entry_id)

    assert (await refusal(after()))[0] == REFUSED

    async def beside() -> None:
        async with books.app.begin() as conn:
            await execute_late(conn, made.entry_id)
            await post(books, held, made)

    assert (await refusal(beside()))[0] == ORPHAN
    assert await scalar(books.app, "SELECT count(*) FROM books.gl_lines") == 2


def _facts(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}


async def execute_late(conn: Any, entry_id: int) -> None:
    """One more line of that entry, with a number that it does not have."""
    await conn.execute(
        text("""
            INSERT INTO books.gl_lines (entry_id, line_no, company, posting_date, account, debit)
            VALUES (:entry_id, 9, 'ACME', :day, '1111', 5)"""),
        {"entry_id": entry_id, "day": DAY},
    )


async def test_lines_without_an_entry_are_refused_at_commit(books: Books) -> None:
    """What was written first waits for its entry no longer than the transaction."""
    made = await entry(books, cash_sale())

    async def alone() -> None:
        async with books.app.begin() as conn:
            await write_lines(conn, [made])

    assert (await refusal(alone()))[0] == ORPHAN


BY_HAND = """
    INSERT INTO books.gl_entries (id, document_id, entry_no, fence, job_id, document_version,
           rule_version, fiscal_year, posting_date, company, series, role, kind, prev_hash, hash)
    VALUES (:id, :document, :number, :fence, :job, 1, 1, 2026, '2026-01-05', 'ACME', 'NKC', 'main',
            'normal', '', sha256(''))"""
CHANGES = (
    "UPDATE books.gl_entries SET memo = 'x'",
    "DELETE FROM books.gl_entries",
    "TRUNCATE books.gl_entries CASCADE",
    "UPDATE books.gl_lines SET debit = debit + 1",
    "DELETE FROM books.gl_lines",
    "TRUNCATE books.gl_lines",
    "DELETE FROM books.gl_series",
)


async def test_the_ledger_is_only_ever_added_to(books: Books, owner_engine: AsyncEngine) -> None:
    """App has no right to change it, and the owner, who has, meets the trigger."""
    held = await poster(books)
    await post(books, held, await entry(books, cash_sale()))
    for change in CHANGES:
        assert (await refusal(execute(books.app, change)))[0] == FORBIDDEN, change
        assert (await refusal(execute(owner_engine, change)))[0] == APPEND_ONLY, change


async def test_there_is_one_way_in(books: Books, owner_engine: AsyncEngine) -> None:
    """App writes no entry and no number by hand; nor does the owner, past the series."""
    held = await poster(books)
    made = await entry(books, cash_sale())
    binds: dict[str, Any] = {"id": made.entry_id, "document": made.document_id, "number": 1}
    binds |= {"fence": held.lease.fence, "job": held.lease.job_id}
    for engine, state in ((books.app, FORBIDDEN), (owner_engine, REFUSED)):

        async def by_hand(engine: AsyncEngine = engine) -> None:
            async with engine.begin() as conn:
                await write_lines(conn, [made])
                await conn.execute(text(BY_HAND), binds)

        assert (await refusal(by_hand()))[0] == state
    number = "UPDATE books.gl_series SET last_no = last_no + 1"
    await post(books, held, made)
    assert (await refusal(execute(books.app, number)))[0] == FORBIDDEN
    assert (await refusal(execute(owner_engine, number)))[0] == BROKEN


async def test_a_number_that_is_given_is_used(books: Books, owner_engine: AsyncEngine) -> None:
    """And linked to the one before: a series that ran ahead of its entries cannot be committed."""
    held = await poster(books)
    await post(books, held, await entry(books, cash_sale()))
    made = await entry(books, cash_sale())
    binds: dict[str, Any] = {"id": made.entry_id, "document": made.document_id, "number": 2}
    binds |= {"fence": held.lease.fence, "job": held.lease.job_id}

    async def unlinked() -> None:
        async with owner_engine.begin() as conn:
            await write_lines(conn, [made])
            await conn.execute(text("UPDATE books.gl_series SET last_no = last_no + 1"))
            await conn.execute(text(BY_HAND), binds)

    assert (await refusal(unlinked()))[0] == BROKEN


async def test_what_a_posted_document_says_stays(books: Books, owner_engine: AsyncEngine) -> None:
    """It may be a draft again, as the next version; nobody touches the rest, or its lines."""
    line = "INSERT INTO books.document_lines (document_id, line_no, net) VALUES (:i, :n, 5)"
    made = await document(books, "D1")
    await execute(books.app, line, i=made, n=1)
    await execute(books.app, "UPDATE books.documents SET status = 'posted' WHERE id = :i", i=made)
    for change in (
        "UPDATE books.documents SET total = 7 WHERE id = :i",
        "UPDATE books.documents SET status = 'void' WHERE id = :i",
        "UPDATE books.documents SET status = 'draft' WHERE id = :i",
        "UPDATE books.documents SET version = version + 1 WHERE id = :i",
        "UPDATE books.documents SET status = 'draft', posting_date = '2026-01-06' WHERE id = :i",
        "DELETE FROM books.document_lines WHERE document_id = :i",
        "INSERT INTO books.document_lines (document_id, line_no, net) VALUES (:i, 2, 5)",
    ):
        assert (await refusal(execute(books.app, change, i=made)))[0] == KEPT, change
    update = "UPDATE books.document_lines SET net = 6 WHERE document_id = :i"
    assert (await refusal(execute(owner_engine, update, i=made)))[0] == KEPT
    draft = "UPDATE books.documents SET status = 'draft', version = version + 1 WHERE id = :i"
    await execute(books.app, draft, i=made)
    await execute(books.app, line, i=made, n=2)


async def test_a_chart_is_adopted_and_adopted_again(books: Books) -> None:
    """The second time adds what is missing, and leaves what the company has made its own."""
    await execute(books.app, "UPDATE books.gl_accounts SET name = 'Till' WHERE code = '1111'")
    count = "SELECT count(*) FROM books.gl_accounts WHERE company = 'ACME'"
    before = await scalar(books.app, count)
    added = "SELECT books.adopt_chart('ACME', :template)"
    async with books.app.begin() as conn:
        assert await conn.scalar(text(added), {"template": "TT200"}) == 0
        assert await conn.scalar(text(added), {"template": "TT99"}) == 7
    assert await scalar(books.app, count) == before + 7
    name = "SELECT name FROM books.gl_accounts WHERE company = 'ACME' AND code = '1111'"
    assert await scalar(books.app, name) == "Till"
    assert (await refusal(execute(books.app, added, template="TT1")))[0] == "CH135"


async def test_every_role_has_an_account_of_each_template(books: Books) -> None:
    """One that takes entries; the stock account asks for item and store."""
    missing = await fetch(
        books.app,
        """SELECT t.template, d.role, d.account
             FROM books.role_defaults d
            CROSS JOIN (SELECT DISTINCT template FROM books.chart_templates) t
            WHERE NOT EXISTS (SELECT FROM books.chart_templates c WHERE c.template = t.template
                                 AND c.code = d.account AND c.postable
                                 AND (d.role <> 'stock' OR c.is_stock))""",
    )
    assert missing == []


@pytest.mark.parametrize("template", ["TT200", "TT99"])
async def test_what_owners_have_paid_in_has_an_account(
    engine: AsyncEngine, read_engine: AsyncEngine, company: str, template: str
) -> None:
    """41111 and 41112 are shares, which a limited company has none of: 4111 is no heading."""
    assert company == "ACME"
    books = await open_ledger(engine, read_engine, template=template)
    query = """
        SELECT code FROM books.gl_accounts WHERE postable AND starts_with(code, '411')
         ORDER BY code"""
    found = [row.code for row in await fetch(books.app, query)]
    assert found == ["4111", "41111", "41112", "4112", "4113", "4118"]
    heading = """
        SELECT count(*) FROM books.gl_accounts a
         WHERE a.postable AND a.code <> '4111' AND EXISTS (
               SELECT FROM books.gl_accounts b
                WHERE starts_with(b.code, a.code) AND b.code <> a.code)"""
    assert await scalar(books.app, heading) == 0
