"""Reports on the ledger: what they add up to, how they page, and that a million lines are quick."""

import json
from collections.abc import Iterator
from datetime import date
from functools import partial
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.access import Scope
from shared.database import open_engine
from shared.ledger.entries import list_entries
from shared.ledger.reports import (
    TRIAL_BALANCE,
    After,
    OfAccount,
    Span,
    accounts_below,
    general_ledger,
    journal,
    opening_of,
    totals_of,
    trial_balance,
)
from tests.costing_books import Books
from tests.ledger_books import Line, cash_sale, entry, open_ledger, post, poster
from tests.services import Database

JANUARY = Span(company="ACME", since=date(2026, 1, 1), until=date(2026, 1, 31))
FEBRUARY = Span(company="ACME", since=date(2026, 2, 1), until=date(2026, 2, 28))


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME's ledger: sales of RED and BLUE in January and February, and goods bought on credit."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    held = await poster(opened)
    goods = (
        Line(account="1561", debit=700, item="A"),
        Line(account="331", credit=700, party="NCC1"),
    )
    february = date(2026, 2, 3)
    for lines, day in (
        (goods, date(2026, 1, 3)),
        (cash_sale(500), date(2026, 1, 10)),
        (cash_sale(40, store="B1", brand="BLUE"), date(2026, 1, 31)),
        (cash_sale(60), february),
        (
            ((Line(account="331", debit=200, party="NCC1")), Line(account="1111", credit=200)),
            february,
        ),
    ):
        await post(opened, held, await entry(opened, lines, day=day))
    return opened


def _short(rows: Any) -> dict[str, tuple[int, ...]]:
    names = ("opening_debit", "opening_credit", "debit", "credit", "closing_debit")
    return {
        row["account"]: tuple(int(row[name]) for name in (*names, "closing_credit")) for row in rows
    }


async def test_what_one_period_closes_with_the_next_one_opens_with(books: Books) -> None:
    """And debits are credits in every pair of columns."""
    async with books.app.connect() as conn:
        january = await trial_balance(conn, JANUARY)
        february = await trial_balance(conn, FEBRUARY)
    assert _short(january) == {
        "1111": (0, 0, 540, 0, 540, 0),
        "1561": (0, 0, 700, 0, 700, 0),
        "331": (0, 0, 0, 700, 0, 700),
        "5111": (0, 0, 0, 540, 0, 540),
    }
    assert _short(february) == {
        "1111": (540, 0, 60, 200, 400, 0),
        "1561": (700, 0, 0, 0, 700, 0),
        "331": (0, 700, 200, 0, 0, 500),
        "5111": (0, 540, 0, 60, 0, 600),
    }
    assert list(totals_of(february).values()) == [1240, 1240, 260, 260, 1100, 1100]


async def test_accounts_are_summed_up_to_a_level(books: Books) -> None:
    """Level 1 has the shortest codes; a name is that of the account above."""
    async with books.app.connect() as conn:
        rows = await trial_balance(conn, FEBRUARY, level=1)
        assert await trial_balance(conn, FEBRUARY, level=9) == await trial_balance(conn, FEBRUARY)
    assert list(_short(rows)) == ["111", "156", "331", "511"]
    assert {row["account"]: row["name"] for row in rows}["156"] == "Merchandise"


async def test_some_brands_have_sums_of_their_own(books: Books) -> None:
    """Lines of other brands are in no row of theirs."""
    blue = Span(company="ACME", since=JANUARY.since, until=JANUARY.until, brands=["BLUE"])
    async with books.app.connect() as conn:
        rows = await trial_balance(conn, blue)
        lines = await journal(conn, blue, After(), limit=10)
    assert _short(rows) == {"1111": (0, 0, 40, 0, 40, 0), "5111": (0, 0, 0, 40, 0, 40)}
    assert {line["brand"] for line in lines} == {"BLUE"}


async def test_pages_of_a_general_ledger_are_the_whole(books: Books) -> None:
    """Line by line as in one go; the last balance is the trial balance's."""
    async with books.app.connect() as conn:
        codes = await accounts_below(conn, "ACME", "111")
        asked = OfAccount(span=FEBRUARY, accounts=codes)
        whole = await general_ledger(conn, asked, After(), limit=50)
        pages: list[Any] = []
        after = After()
        while page := await general_ledger(conn, asked, after, limit=1):
            pages += page
            last = page[-1]
            after = After(
                day=last["posting_date"], entry_id=last["entry_id"], line_no=last["line_no"]
            )
        opening = await opening_of(conn, asked)
    assert pages == whole
    assert opening + sum(row["debit"] - row["credit"] for row in whole) == 400
    assert [row["contra"] for row in whole] == [["5111"], ["331"]]


async def test_a_journal_page_ends_within_an_entry(books: Books) -> None:
    """Its cursor is a line's, so that the next page begins with the following one."""
    async with books.app.connect() as conn:
        whole = await journal(conn, JANUARY, After(), limit=50)
        first = await journal(conn, JANUARY, After(), limit=3)
        last = first[-1]
        after = After(day=last["posting_date"], entry_id=last["entry_id"], line_no=last["line_no"])
        rest = await journal(conn, JANUARY, after, limit=50)
    assert len(whole) == 6
    assert [*first, *rest] == whole


# Half a million entries of two lines, over ninety accounts and two months. Written past the
# triggers, which have tests of their own: this is about reading.
FILL = (
    "SET session_replication_role = replica",
    """INSERT INTO books.companies (code, name) VALUES ('ACME', 'Acme')
       ON CONFLICT DO NOTHING""",
    "SELECT books.adopt_chart('ACME', 'TT200')",
    """INSERT INTO books.gl_lines (entry_id, line_no, posting_date, company, account, debit, credit,
              store, brand)
       WITH accounts AS (SELECT array_agg(code ORDER BY code) AS codes FROM books.gl_accounts
                          WHERE company = 'ACME' AND postable)
       SELECT n, side, DATE '2026-01-01' + n % 59, 'ACME', a.codes[1 + (n * (side + 6)) % 90],
              CASE WHEN side = 1 THEN 1000 + n % 97 ELSE 0 END,
              CASE WHEN side = 2 THEN 1000 + n % 97 ELSE 0 END, 'R1',
              CASE WHEN n % 4 = 0 THEN 'BLUE' ELSE 'RED' END
         FROM accounts a, generate_series(1, 500000) AS n, generate_series(1, 2) AS side""",
    """INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, status,
              content_hash)
       VALUES ('ACME', 'manual', 'D', '2026-01-01', '2026-01-01', 'posted', '')""",
    """INSERT INTO books.gl_entries (id, document_id, entry_no, fence, job_id, document_version,
              rule_version, fiscal_year, posting_date, company, series, role, kind, prev_hash, hash)
       SELECT n, d.id, n, 1, gen_random_uuid(), n, 1, 2026, DATE '2026-01-01' + n % 59, 'ACME',
              'NKC', 'main', 'normal', '', sha256('')
         FROM books.documents d, generate_series(1, 500000) AS n""",
)
MOST_SECONDS = 2.0
PAGE_SECONDS = 0.5
SOME_ACCOUNT = "SELECT account FROM books.gl_lines WHERE brand = 'BLUE' LIMIT 1"


@pytest.fixture(scope="module")
def million(postgres: Any) -> Iterator[Database]:
    """A database with a million lines in the ledger of ACME."""
    mine = postgres.create()
    yield mine
    postgres.drop(mine)


@pytest.mark.long
async def test_a_trial_balance_of_a_million_lines_is_quick(
    million: Database, record_property: Any
) -> None:
    """One pass without a sort, under a second; a small company beside it reads its lines only."""
    owner = open_engine(million.superuser_url, pool_size=1)
    async with owner.begin() as conn:
        for statement in FILL:
            await conn.execute(text(statement))
    async with owner.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
        await conn.execute(text("VACUUM ANALYZE books.gl_lines, books.gl_entries"))
    await owner.dispose()
    read = open_engine(million.read_url, pool_size=1)
    async with read.connect() as conn:
        took, rows = [], []
        for _ in range(3):
            began = monotonic()
            rows = list(await trial_balance(conn, FEBRUARY))
            took.append(monotonic() - began)
        sums = totals_of(rows)
        plan = await _plan(conn, "ACME")
        beside = await _plan(conn, "SMALL")
        pages = await _pages(conn)
    await read.dispose()
    record_property("seconds", min(took))
    print(f"trial balance of a million lines: {min(took):.2f} s")  # noqa: T201 - told to the reader
    assert len(rows) == 90
    assert sums["debit"] == sums["credit"] > 0
    assert "external" not in plan
    assert "Index Only Scan" in beside
    assert "gl_lines_account_idx" in beside
    assert min(took) < MOST_SECONDS
    print(pages)  # noqa: T201 - told to the reader
    assert max(pages.values()) < PAGE_SECONDS


async def _pages(conn: AsyncConnection) -> dict[str, float]:
    """How long a page of each list takes, somewhere in the middle of its days."""
    middle = After(day=date(2026, 2, 10), entry_id=1000, line_no=1)
    some = await conn.execute(text(SOME_ACCOUNT))
    account = str(some.scalar_one())
    asked = OfAccount(span=FEBRUARY, accounts=[account])
    scope = Scope(company="ACME", brands=("BLUE",))
    found = {}
    for name, page in {
        "journal": partial(journal, conn, FEBRUARY, middle, limit=200),
        "general ledger": partial(general_ledger, conn, asked, middle, limit=200),
        "entries": partial(list_entries, conn, scope, "ACME", {"account": account}, limit=50),
        "entries of a store": partial(
            list_entries, conn, scope, "ACME", {"store": "R1"}, before=(middle.day, 5), limit=50
        ),
    }.items():
        began = monotonic()
        assert await page()
        found[name] = round(monotonic() - began, 3)
    return found


async def _plan(conn: AsyncConnection, company: str) -> str:
    binds = FEBRUARY.binds() | {"level": 20, "company": company}
    found = await conn.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {TRIAL_BALANCE.text}"), binds)
    return json.dumps(found.scalar_one(), default=str)
