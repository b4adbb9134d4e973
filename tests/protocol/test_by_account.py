"""By account: what a posting of costs has changed against what was posted before it."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.costs.by_account import changed_accounts, posted_by
from tests.cost_books import accounts, bought, costs_posted
from tests.costing_books import Books
from tests.factories import fetch
from tests.ledger_books import open_ledger


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME with a chart, and goods that were bought."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await bought(opened, "P1", 10, 10_000)
    return opened


async def told(books: Books) -> list[dict[str, tuple[int, int]]]:
    """Of each posting of January's costs, in their order: account → (before, after)."""
    jobs = await fetch(
        books.app,
        """SELECT job_id FROM books.gl_entries WHERE role = 'cost'
            GROUP BY job_id ORDER BY min(id)""",
    )
    found = []
    async with books.app.connect() as conn:
        for (job_id,) in jobs:
            rows = await changed_accounts(conn, company="ACME", period="2026-01", job_id=job_id)
            found.append({row["account"]: (int(row["before"]), int(row["after"])) for row in rows})
    return found


async def test_each_posting_tells_the_balances_before_and_after_it(books: Books) -> None:
    """The first from nothing, the next from there, reversals included; later ones change nothing."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    assert await told(books) == [{"1561": (0, -4_000), "632": (0, 4_000)}]
    await bought(books, "P4", 10, 30_000)
    await books.cost(brand=None)
    await costs_posted(books)
    assert (await accounts(books))["632"] == 8_000
    first, second = await told(books)
    assert first == {"1561": (0, -4_000), "632": (0, 4_000)}
    assert second == {"1561": (-4_000, -8_000), "632": (4_000, 8_000)}


async def test_a_run_knows_the_postings_of_what_it_found(books: Books) -> None:
    """Not those of another run, and no reversal of its documents by a later posting."""
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    await costs_posted(books)
    await bought(books, "P4", 10, 30_000)
    await books.cost(brand=None)
    await costs_posted(books)
    rows = await fetch(
        books.app,
        """SELECT d.cost_run_id AS run, array_agg(DISTINCT e.job_id) AS jobs
             FROM books.documents d JOIN books.gl_entries e ON e.document_id = d.id
            WHERE d.cost_run_id IS NOT NULL AND e.reverses_entry_id IS NULL
            GROUP BY 1 ORDER BY 1""",
    )
    assert len(rows) == 2
    async with books.app.connect() as conn:
        for row in rows:
            assert await posted_by(conn, row.run, most=5) == list(row.jobs)
        assert await posted_by(conn, 10**9, most=5) == []
