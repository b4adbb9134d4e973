"""The ledger over HTTP: what an account may see of it, what its chain proves, how it pages."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.database import open_engine
from tests.costing_books import Books
from tests.factories import fetch
from tests.ledger_books import Entry, Line, cash_sale, entry, open_ledger, post, poster
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, bearer, make_key
from tests.services import Database

PATH = "/v1/ledger"


@dataclass(frozen=True, slots=True)
class Served:
    """A client of an api with keys, the books behind it, and what is posted there."""

    http: httpx.AsyncClient
    books: Books
    owner: AsyncEngine
    entries: dict[str, Entry]

    async def get(self, path: str, *, scope: Any = ACME, **query: Any) -> httpx.Response:
        """Ask as an account that reads that scope."""
        key = await make_key(self.owner, Role.READ, scope=scope)
        return await self.http.get(f"{PATH}{path}", params=query, headers=bearer(key))

    async def got(self, path: str, *, scope: Any = ACME, **query: Any) -> dict[str, Any]:
        """The answer's body, which is a success."""
        answer = await self.get(path, scope=scope, **query)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown


@pytest.fixture
async def served(
    settings: ApiSettings, engine: AsyncEngine, read_engine: AsyncEngine, owner_engine: AsyncEngine
) -> AsyncIterator[Served]:
    """ACME's ledger with two sales, a purchase on credit, and a sale that was taken back."""
    books = await open_ledger(engine, read_engine)
    held = await poster(books)
    made = {
        "red": await entry(books, cash_sale(500), day=date(2026, 1, 10)),
        "blue": await entry(books, cash_sale(40, store="B1", brand="BLUE"), brand="BLUE"),
        "bought": await entry(
            books,
            (
                Line(account="1561", debit=700, item="A"),
                Line(account="331", credit=700, party="NCC1", store=None),
            ),
            day=date(2026, 1, 12),
        ),
    }
    back = (
        Line(account="1111", credit=500, store="R1"),
        Line(account="5111", debit=500, store="R1"),
    )
    for each in made.values():
        await post(books, held, each)
    made["back"] = await entry(
        books,
        back,
        kind="reversal",
        document_id=made["red"].document_id,
        reverses=made["red"].entry_id,
        day=date(2026, 2, 2),
    )
    await post(books, held, made["back"])
    async with serving(settings.model_copy(update={"api_open": False})) as http:
        yield Served(http, books, owner_engine, made)


async def test_entries_come_newest_first_and_page(served: Served) -> None:
    """One by one as in one go, across a cursor each."""
    whole = (await served.got("/entries", company="ACME"))["entries"]
    order = [served.entries[name].entry_id for name in ("back", "bought", "red", "blue")]
    assert [each["id"] for each in whole] == order
    paged, cursor = [], None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = await served.got("/entries", company="ACME", limit=1, **more)
        paged += page["entries"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == whole


FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({"account": "331"}, ["bought"]),
    ({"store": "B1"}, ["blue"]),
    ({"party": "NCC1"}, ["bought"]),
    ({"date_from": "2026-02-01"}, ["back"]),
    ({"date_to": "2026-01-05"}, ["blue"]),
    ({"series": "NKC", "account": "1111"}, ["back", "red", "blue"]),
    ({"series": "NONE"}, []),
]


async def test_entries_are_filtered_by_their_lines(served: Served) -> None:
    """An entry is there when one line fits all that is asked of lines."""
    for query, names in FILTERED:
        found = await served.got("/entries", company="ACME", **query)
        ids = [served.entries[name].entry_id for name in names]
        assert [each["id"] for each in found["entries"]] == ids, query
    document = served.entries["red"].document_id
    found = await served.got("/entries", company="ACME", document=document)
    assert [each["kind"] for each in found["entries"]] == ["reversal", "normal"]


async def test_an_entry_names_what_took_it_back(served: Served) -> None:
    """The link back is a query; nothing of the entry itself has changed."""
    red, back = (served.entries[name].entry_id for name in ("red", "back"))
    shown = await served.got(f"/entries/{red}")
    assert (shown["reversed_by"], shown["reverses"]) == (back, None)
    assert (shown["amount"], shown["entry_no"]) == ("500", 1)
    assert [(line["account"], line["debit"]) for line in shown["entry_lines"]] == [
        ("1111", "500"),
        ("5111", "0"),
    ]
    reversal = await served.got(f"/entries/{back}")
    assert (reversal["reversed_by"], reversal["reverses"]) == (None, red)


async def test_a_brand_sees_its_lines_and_no_others(served: Served) -> None:
    """In lists, reports and by id; another company sees that there is nothing."""
    blue, red = (served.entries[name].entry_id for name in ("blue", "red"))
    found = await served.got("/entries", scope=BLUE, company="ACME")
    assert [each["id"] for each in found["entries"]] == [blue]
    problem_of(await served.get(f"/entries/{red}", scope=BLUE), 404, "entry-not-found")
    problem_of(await served.get(f"/entries/{red}/chain", scope=OTHER), 404, "entry-not-found")
    balance = await served.got("/trial-balance", scope=BLUE, company="ACME", period="2026-01")
    assert balance["totals"]["debit"] == "40"
    journal = await served.got("/journal", scope=RED, company="ACME", period="2026-01")
    assert {line["brand"] for line in journal["lines"]} == {"RED"}
    query = {"company": "ACME", "account": "1111", "period": "2026-01"}
    ledger = await served.got("/general-ledger", scope=BLUE, **query)
    assert (ledger["closing"], len(ledger["lines"])) == ("40", 1)
    for path in ("/entries", "/accounts", "/roles", "/rules"):
        answer = await served.get(path, scope=OTHER, company="ACME")
        problem_of(answer, 422, "unknown-company")


async def test_a_trial_balance_is_balanced(served: Served) -> None:
    """By period, or from one day to another; opening and closing meet."""
    january = await served.got("/trial-balance", company="ACME", period="2026-01")
    assert january["balanced"] is True
    assert january["totals"]["debit"] == january["totals"]["credit"] == "1240"
    days = {"date_from": "2026-02-01", "date_to": "2026-02-28"}
    february = await served.got("/trial-balance", company="ACME", **days)
    rows = {each["account"]: each for each in february["accounts"]}
    assert (rows["1111"]["opening_debit"], rows["1111"]["closing_debit"]) == ("540", "40")
    level = await served.got("/trial-balance", company="ACME", period="2026-01", level=1)
    assert [each["account"] for each in level["accounts"]] == ["111", "156", "331", "511"]


async def test_a_general_ledger_carries_its_balance_from_page_to_page(served: Served) -> None:
    """Each line with the balance after it; the last is the closing one."""
    days = {"date_from": "2026-01-01", "date_to": "2026-02-28"}
    query = {"company": "ACME", "account": "111", **days, "limit": 1}
    balances, cursor = [], None
    while True:
        page = await served.got(
            "/general-ledger", **query | ({} if cursor is None else {"cursor": cursor})
        )
        balances += [(line["balance"], line["contra"]) for line in page["lines"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert balances == [("40", ["5111"]), ("540", ["5111"]), ("40", ["5111"])]
    assert (page["opening"], page["closing"]) == ("0", "40")


UNCLEAR: list[dict[str, Any]] = [
    {},
    {"period": "2026-01", "date_from": "2026-01-01", "date_to": "2026-01-31"},
    {"date_from": "2026-01-01"},
    {"date_from": "2026-02-01", "date_to": "2026-01-31"},
    {"period": "2031-01"},
    {"period": "2026-01", "cursor": "abc"},
    {"period": "2026-01", "limit": 0},
]


async def test_days_are_one_thing_or_the_other(served: Served) -> None:
    """A period, or two days in their order; a cursor is one of ours."""
    for query in UNCLEAR:
        answer = await served.get("/journal", company="ACME", **query)
        problem_of(answer, 422, "invalid-request")
    unknown = {"company": "ACME", "account": "777", "period": "2026-01"}
    problem = problem_of(await served.get("/general-ledger", **unknown), 422, "invalid-request")
    assert problem["errors"][0]["field"] == "account"


async def test_a_chain_is_proven_page_by_page(served: Served) -> None:
    """All of it from number 1 on; the page says where the next one begins."""
    red = served.entries["red"].entry_id
    whole = await served.got(f"/entries/{red}/chain")
    assert (whole["ok"], whole["last_no"], whole["next_from"]) == (True, 4, None)
    assert [each["entry_no"] for each in whole["links_checked"]] == [1, 2, 3, 4]
    page = await served.got(f"/entries/{red}/chain", first=2, limit=2)
    assert (page["ok"], page["next_from"]) == (True, 4)


TAMPERED: list[tuple[str, set[tuple[int, str]]]] = [
    ("UPDATE books.gl_lines SET debit = 501 WHERE debit = 500", {(1, "CONTENT"), (4, "CONTENT")}),
    ("UPDATE books.gl_entries SET memo = 'other' WHERE entry_no = 2", {(2, "CONTENT")}),
    ("DELETE FROM books.gl_lines WHERE debit = 700", {(3, "CONTENT")}),
    ("DELETE FROM books.gl_entries WHERE entry_no = 2", {(2, "GAP"), (3, "LINK")}),
    ("UPDATE books.gl_series SET last_hash = sha256('x')", {(4, "HEAD")}),
]


@pytest.mark.parametrize(("change", "broken"), TAMPERED, ids=[each for each, _ in TAMPERED])
async def test_a_chain_shows_what_was_changed(
    served: Served, database: Database, change: str, broken: set[tuple[int, str]]
) -> None:
    """By a superuser who turned the triggers off: the rows are not what their hashes say."""
    superuser = open_engine(database.superuser_url, pool_size=1)
    async with superuser.begin() as conn:
        await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(text(change))
    await superuser.dispose()
    last = served.entries["bought"].entry_id
    found = await served.got(f"/entries/{last}/chain", first=1)
    assert found["ok"] is False
    links = {(each["entry_no"], each["broken"]) for each in found["links_checked"]}
    assert {each for each in links if each[1] is not None} == broken


async def test_an_export_is_asked_for_once_under_its_key(served: Served) -> None:
    """A job a request: books change, and so do reports. Its payload has the period's days."""
    key = await make_key(served.owner, Role.READ, scope=ACME)
    body = {"company": "ACME", "report": "journal", "format": "csv", "period": "2026-02"}
    url = f"{PATH}/exports"
    first = await served.http.post(url, json=body, headers=bearer(key))
    other = await served.http.post(url, json=body, headers=bearer(key))
    assert (first.status_code, other.status_code) == (202, 202)
    assert first.json()["id"] != other.json()["id"]
    named = bearer(key) | {"Idempotency-Key": "february"}
    once = await served.http.post(url, json=body, headers=named)
    again = await served.http.post(url, json=body, headers=named)
    assert (again.content, again.headers["idempotency-replayed"]) == (once.content, "true")
    rows = await fetch(served.owner, "SELECT payload FROM chot.job_payloads p")
    told = [row.payload for row in rows if row.payload.get("report") == "journal"]
    assert len(told) == 3
    assert (told[0]["date_from"], told[0]["date_to"]) == ("2026-02-01", "2026-02-28")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"report": "general_ledger"}, "invalid-request"),
    ({"report": "journal", "account": "1111"}, "invalid-request"),
    ({"report": "general_ledger", "account": "777"}, "invalid-request"),
    ({"report": "journal", "level": 1}, "invalid-request"),
    ({"report": "journal", "brand": "NONE"}, "unknown-brand"),
    ({"report": "journal", "date_from": "2026-01-01"}, "invalid-request"),
    ({"report": "balance_sheet"}, "invalid-request"),
]


async def test_an_export_that_fits_no_report_is_refused(served: Served) -> None:
    """With what is wrong, before there is any job."""
    key = await make_key(served.owner, Role.READ, scope=ACME)
    for more, slug in REFUSED:
        body = {"company": "ACME", "format": "csv", "period": "2026-01"} | more
        answer = await served.http.post(f"{PATH}/exports", json=body, headers=bearer(key))
        problem_of(answer, 422, slug)


async def test_an_export_is_of_the_accounts_own_brand(served: Served) -> None:
    """An account of one brand asks for its lines without saying so, of others for none."""
    key = await make_key(served.owner, Role.READ, scope=RED)
    body = {"company": "ACME", "report": "journal", "format": "csv", "period": "2026-01"}
    url = f"{PATH}/exports"
    mine = await served.http.post(url, json=body, headers=bearer(key))
    assert mine.json()["brand"] == "RED"
    theirs = await served.http.post(url, json=body | {"brand": "BLUE"}, headers=bearer(key))
    problem_of(theirs, 422, "unknown-brand")
