"""A key of one brand: no route of documents and ledger tells it a word of another brand's books."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.app import create_app
from api.settings import ApiSettings
from shared.access import Role, Scope
from tests.costing_books import Books
from tests.factories import fetch
from tests.ledger_books import open_ledger
from tests.posting_books import attempt, draft, post, submit
from tests.protocol.api.app import serving
from tests.protocol.api.keys import BLUE, RED, bearer, make_key
from tests.unposting_books import unpost_one

# What only BLUE's documents say: a number, a customer, a note, an amount.
NUMBER, PARTY, NOTE, AMOUNT = "HD-SECRET", "KH-SECRET", "note-SECRET", 7_310_001
TOLD = ("SECRET", "7310001", "7,310,001")
ROLES = (Role.READ, Role.SUBMIT, Role.OPERATE)
JANUARY = "company=ACME&period=2026-01"


@dataclass(frozen=True, slots=True)
class Seen:
    """A client, the ids of BLUE's things, and the key of each account."""

    http: httpx.AsyncClient
    document: int
    draft: int
    mixed: int
    entry: int
    mixed_entry: int
    job: str
    keys: dict[str, str]

    async def get(self, path: str, who: str = "RED") -> httpx.Response:
        """What that account is answered."""
        return await self.http.get(path, headers=bearer(self.keys[who]))


async def _entry(books: Books, document_id: int) -> int:
    query = "SELECT min(id) AS id FROM books.gl_entries WHERE document_id = :id"
    (row,) = await fetch(books.app, query, id=document_id)
    return int(row.id)


async def _books(books: Books) -> dict[str, Any]:
    """A sale of BLUE, posted; one taken back; a draft; a journal of both brands; one sale of RED."""
    line = {"item": "A", "qty": 1, "net": AMOUNT}
    facts = {"store": "B1", "brand": "BLUE", "party": PARTY, "memo": NOTE, "total": AMOUNT}
    sold = [
        await draft(books, "sale", f"{NUMBER}-{n}", line, vat_total=0, **facts) for n in range(3)
    ]
    both = await draft(
        books,
        "manual",
        "M-1",
        {"account": "131", "side": "debit", "net": 5, "store": "R1", "party": "KH-1"},
        {"account": "131", "side": "debit", "net": AMOUNT, "store": "B1", "party": PARTY},
        {"account": "1111", "side": "credit", "net": AMOUNT + 5, "store": "B1", "memo": NOTE},
        store=None,
        brand=None,
    )
    mine = await draft(
        books, "sale", "HD-1", {"item": "A", "qty": 1, "net": 100}, party="KH-1", total=100,
        vat_total=0,
    )  # fmt: skip
    job_id = await submit(books, documents=[*sold[:2], both])
    await attempt(books, job_id)
    assert (await post(books, documents=[mine]))["outcome"] == "succeeded"
    assert (await unpost_one(books, sold[1])).outcome == "REVERSED"
    return {
        "document": sold[0],
        "draft": sold[2],
        "mixed": both,
        "entry": await _entry(books, sold[0]),
        "mixed_entry": await _entry(books, both),
        "job": str(job_id),
    }


@pytest.fixture
async def seen(
    settings: ApiSettings,
    engine: AsyncEngine,
    read_engine: AsyncEngine,
    owner_engine: AsyncEngine,
    company: str,
) -> AsyncIterator[Seen]:
    """An api that asks everybody for a key, and the books of two brands."""
    assert company == "ACME"
    ids = await _books(await open_ledger(engine, read_engine))
    scopes: dict[str, Scope] = {"RED": RED, "BLUE": BLUE}
    keys = {
        name: await make_key(owner_engine, *ROLES, scope=scope, principal=name.lower())
        for name, scope in scopes.items()
    }
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        yield Seen(http=client, keys=keys, **ids)


def _queries(seen: Seen) -> dict[str, list[str]]:
    """What may be asked of each route that reads."""
    return {
        "/v1/documents": [
            "company=ACME",
            "company=ACME&brand=BLUE",
            "company=ACME&store=B1",
            f"company=ACME&party={PARTY}",
            f"company=ACME&number={NUMBER}-0",
        ],
        "/v1/ledger/entries": [
            "company=ACME",
            f"company=ACME&document={seen.document}",
            f"company=ACME&document={seen.mixed}",
            f"company=ACME&party={PARTY}",
            "company=ACME&account=131&store=B1",
        ],
        "/v1/ledger/trial-balance": [JANUARY],
        "/v1/ledger/journal": [JANUARY],
        "/v1/ledger/control": [JANUARY],
        "/v1/ledger/general-ledger": [
            f"{JANUARY}&account=131",
            f"{JANUARY}&account=131&store=B1",
            f"{JANUARY}&account=131&party={PARTY}",
            f"{JANUARY}&account=1111",
        ],
        "/v1/ledger/accounts": ["company=ACME"],
        "/v1/ledger/roles": ["company=ACME"],
        "/v1/ledger/rules": ["company=ACME"],
        f"/v1/ledger/entries/{seen.mixed_entry}": [""],
        f"/v1/ledger/entries/{seen.mixed_entry}/chain": [""],
    }


async def test_no_route_tells_a_word_of_another_brand(seen: Seen) -> None:
    """BLUE is told of it by the same question, so that it is one: else nothing would be shown."""
    told = set()
    for path, queries in _queries(seen).items():
        for query in queries:
            url = f"{path}?{query}"
            answer = await seen.get(url)
            assert answer.status_code in {200, 422}, (url, answer.text)
            shown = answer.text.replace(query, "")
            if answer.status_code == 200:
                assert [word for word in TOLD if word in shown] == [], url
            theirs = await seen.get(url, "BLUE")
            if any(word in theirs.text for word in TOLD):
                told.add(path.replace(str(seen.mixed_entry), "{id}"))
    assert told >= {
        "/v1/documents",
        "/v1/ledger/entries",
        "/v1/ledger/trial-balance",
        "/v1/ledger/journal",
        "/v1/ledger/general-ledger",
        "/v1/ledger/entries/{id}",
    }


async def test_what_is_another_brands_is_not_there(seen: Seen) -> None:
    for path in (
        f"/v1/documents/{seen.document}",
        f"/v1/documents/{seen.draft}",
        f"/v1/documents/{seen.mixed}",
        f"/v1/ledger/entries/{seen.entry}",
        f"/v1/ledger/entries/{seen.entry}/chain",
        f"/v1/jobs/{seen.job}/outcomes",
        f"/v1/jobs/{seen.job}",
    ):
        answer = await seen.get(path)
        assert answer.status_code == 404, (path, answer.text)
    void = await seen.http.post(
        f"/v1/documents/{seen.draft}/void", headers=bearer(seen.keys["RED"]), json={}
    )
    assert void.status_code == 404
    assert (await seen.get(f"/v1/documents/{seen.draft}", "BLUE")).json()["status"] == "draft"


WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/jobs", {"kind": "posting.post", "company": "ACME", "payload": {"types": ["sale"]}}),
    ("POST", "/v1/jobs", {"kind": "posting.post", "company": "ACME", "brand": "BLUE",
                          "payload": {"types": ["sale"]}}),
    ("POST", "/v1/jobs", {"kind": "posting.unpost", "company": "ACME", "brand": "BLUE",
                          "payload": {"types": ["sale"], "reason": "x"}}),
    ("POST", "/v1/jobs", {"kind": "posting.costs", "company": "ACME",
                          "payload": {"period": "2026-01"}}),
    ("POST", "/v1/ledger/chart", {"company": "ACME", "template": "TT99"}),
    ("PUT", "/v1/ledger/roles", {"company": "ACME", "role": "usage", "account": "6418"}),
    ("PUT", "/v1/ledger/accounts", {"company": "ACME", "code": "64189", "name": "X",
                                    "kind": "expense"}),
    ("POST", "/v1/ledger/exports", {"company": "ACME", "brand": "BLUE", "report": "journal",
                                    "period": "2026-01", "format": "csv"}),
]  # fmt: skip


async def test_no_act_reaches_another_brands_books(seen: Seen, engine: AsyncEngine) -> None:
    count = "SELECT count(*) AS jobs FROM chot.jobs"
    (before,) = await fetch(engine, count)
    for method, path, body in WRITES:
        red = bearer(seen.keys["RED"])
        answer = await seen.http.request(method, path, headers=red, json=body)
        assert answer.status_code in {403, 404, 422}, (path, body, answer.text)
    (after,) = await fetch(engine, count)
    assert after.jobs == before.jobs


def test_every_route_of_documents_and_ledger_is_asked(settings: ApiSettings) -> None:
    """A new one must be tried here, too."""
    routes = {
        f"{method.upper()} {path}"
        for path, methods in create_app(settings).openapi()["paths"].items()
        if path.startswith(("/v1/documents", "/v1/ledger"))
        for method in methods
        if method != "head"
    }
    assert routes == {
        "GET /v1/documents",
        "GET /v1/documents/{document_id}",
        "POST /v1/documents/{document_id}/void",
        "POST /v1/documents:batch",  # test_documents.py
        "GET /v1/ledger/accounts",
        "GET /v1/ledger/control",
        "GET /v1/ledger/entries",
        "GET /v1/ledger/entries/{entry_id}",
        "GET /v1/ledger/entries/{entry_id}/chain",
        "GET /v1/ledger/general-ledger",
        "GET /v1/ledger/journal",
        "GET /v1/ledger/roles",
        "GET /v1/ledger/rules",
        "GET /v1/ledger/trial-balance",
        "POST /v1/ledger/chart",
        "POST /v1/ledger/exports",
        "POST /v1/ledger/rules",
        "PUT /v1/ledger/accounts",
        "PUT /v1/ledger/roles",
    }
