"""Control over HTTP: what differs, why, and what an account with some brands sees of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from tests.cost_books import bought, costs_posted
from tests.costing_books import Books
from tests.ledger_books import open_ledger
from tests.posting_books import draft
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, RED, bearer, make_key


@dataclass(frozen=True, slots=True)
class Served:
    """A client of an api, and the books behind it."""

    http: httpx.AsyncClient
    books: Books
    owner: AsyncEngine

    async def get(self, *, scope: Any = ACME, **query: Any) -> httpx.Response:
        """Ask for ACME's January, unless the query says otherwise."""
        key = await make_key(self.owner, Role.READ, scope=scope)
        query = {"company": "ACME", "period": "2026-01"} | query
        return await self.http.get("/v1/ledger/control", params=query, headers=bearer(key))


@pytest.fixture
async def served(
    settings: ApiSettings, engine: AsyncEngine, read_engine: AsyncEngine, owner_engine: AsyncEngine
) -> AsyncIterator[Served]:
    """Goods of both brands were bought; some of RED's were sold."""
    books = await open_ledger(engine, read_engine)
    await bought(books, "P1", 10, 10_000)
    await bought(books, "P2", 10, 5_000, store="B1")
    await books.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    await books.cost(brand=None)
    async with serving(settings) as http:
        yield Served(http, books, owner_engine)


async def test_what_differs_has_its_reasons(served: Served) -> None:
    await draft(served.books, "manual", "M1", {"account": "632", "side": "debit", "net": 1})
    answer = (await served.get()).json()
    assert answer == {
        "company": "ACME",
        "period": "2026-01",
        "chart": True,
        "agrees": False,
        "value": "11000",
        "ledger": "15000",
        "pools": 2,
        "differing": 1,
        "differences": [
            {
                "item": "A",
                "brand": "RED",
                "pool": "RED",
                "value": "6000",
                "ledger": "10000",
                "difference": "4000",
                "stores": ["R1"],
                "reasons": [
                    {"what": "costs", "doc_no": None, "type": None, "expected": "-4000",
                     "booked": "0"}
                ],
            }
        ],
        "drafts": 1,
        "first_drafts": ["manual M1"],
    }  # fmt: skip


async def test_after_the_costs_are_posted_it_agrees(served: Served) -> None:
    await costs_posted(served.books)
    answer = (await served.get()).json()
    assert (answer["agrees"], answer["ledger"], answer["differences"]) == (True, "11000", [])


async def test_a_brand_sees_its_own_pools(served: Served) -> None:
    """Neither another's goods nor its drafts."""
    await draft(served.books, "manual", "M1", {"account": "632", "side": "debit", "net": 1})
    red = (await served.get(scope=RED)).json()
    assert (red["pools"], red["differing"], red["value"], red["drafts"]) == (1, 1, "6000", 1)
    blue = (await served.get(scope=BLUE)).json()
    assert (blue["pools"], blue["differing"], blue["value"], blue["drafts"]) == (1, 0, "5000", 0)


async def test_books_that_are_not_there_are_refused(served: Served) -> None:
    problem_of(await served.get(company="NONE"), 422, "unknown-company")
    problem_of(await served.get(period="2031-01"), 422, "invalid-request")
    problem_of(await served.get(page="2"), 422, "invalid-request")
