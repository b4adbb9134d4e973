"""Storms over one company's ledger: whatever comes together, the books are right in the end."""

import random

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books
from tests.costing_crew import Crew
from tests.ledger_books import open_ledger
from tests.posting_storm import Storm, broken
from tests.services import Database

# A worker that is cut off in the middle of a statement leaves its connection to the collector.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_comes_together_the_books_are_right(
    books: Books, database: Database, seed: int
) -> None:
    """Six workers that die post, unpost, cost, close and reopen; debit is credit, stock is worth."""
    rng = random.Random(seed)
    storm = Storm(books=books, crew=Crew(books=books, database=database), rng=rng)
    await storm.trade(30)
    await storm.blow(60, 6)
    await storm.calm()
    assert await broken(books) == {}
    assert storm.kills > 0
