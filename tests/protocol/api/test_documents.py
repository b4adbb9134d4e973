"""Documents over HTTP: put by the thousand, listed, shown, voided; of the brands one may see."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role, Scope
from tests.document_books import mark_posted, sale, stock_books
from tests.factories import fetch, scalar
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key

JSON = {"Content-Type": "application/json"}
BATCH = "/v1/documents:batch"


@pytest.fixture
async def books(settings: ApiSettings, engine: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an api whose ACME has goods."""
    await stock_books(engine)
    async with serving(settings) as client:
        yield client


@pytest.fixture
async def guarded(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api that asks everybody for one."""
    await stock_books(engine)
    async with owner_engine.begin() as conn:
        await conn.exec_driver_sql(SEED_OTHER)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        yield client


async def send(
    client: httpx.AsyncClient,
    *documents: Any,
    key: str | None = None,
    headers: dict[str, str] | None = None,
    company: str = "ACME",
) -> httpx.Response:
    """POST these documents."""
    keyed = {} if key is None else {"Idempotency-Key": key}
    body = json.dumps({"company": company, "documents": documents})
    return await client.post(BATCH, content=body, headers=JSON | keyed | (headers or {}))


async def made(client: httpx.AsyncClient, *documents: Any, **more: Any) -> list[dict[str, Any]]:
    """What became of each."""
    answer = await send(client, *documents, **more)
    assert answer.status_code == 200, answer.text
    outcomes: list[dict[str, Any]] = answer.json()["documents"]
    return outcomes


async def test_each_document_has_its_own_outcome(books: httpx.AsyncClient) -> None:
    """In the order sent, with its place before each field of a fault."""
    wrong = sale("HD-2", lines=[{"item": "NO", "net": "1.5"}])
    answer = await send(books, sale("HD-1"), wrong, 5)
    body = answer.json()
    counts = [body[name] for name in ("created", "updated", "unchanged", "errors")]
    assert (answer.status_code, counts) == (200, [1, 0, 0, 2])
    good, bad, other = body["documents"]
    assert (good["outcome"], good["status"], good["version"]) == ("created", "draft", 1)
    assert good["url"] == f"/v1/documents/{good['id']}"
    assert bad["faults_total"] == 2
    assert bad["faults"][0] == {
        "field": "documents[1].lines[0].item",
        "code": "ITEM_UNKNOWN",
        "rule": "is no item of this company",
        "value": "NO",
    }
    assert other["faults"][0]["field"] == "documents[2]"
    assert [each["outcome"] for each in await made(books, sale("HD-1"))] == ["unchanged"]
    changed = await made(books, sale("HD-1", memo="x"))
    assert (changed[0]["outcome"], changed[0]["version"]) == ("updated", 2)


async def test_a_document_is_shown_as_it_was_sent(books: httpx.AsyncClient) -> None:
    """With exact decimals, its lines, what it refers to, and no entries yet."""
    lines = [{"item": "SUA", "qty": "2.50", "uom": "thùng", "net": "150000", "vat": "15000"}]
    (sold,) = await made(books, sale("HD-1", lines=lines, memo="giao sớm"))
    back_line = {"item": "SUA", "qty": "1", "net": "5000", "ref_line": 1}
    back = sale("TL-1", type="sale_return", ref_doc_no="HD-1", lines=[back_line])
    (returned,) = await made(books, back | {"total": None, "vat_total": None})
    shown = (await books.get(sold["url"])).json()
    assert shown["lines"] == [
        {
            "line_no": 1,
            "item": "SUA",
            "qty": "2.5",
            "uom": "thùng",
            "qty_base": "30.000",
            "base_uom": "l",
            "net": "150000",
            "vat": "15000",
            **dict.fromkeys(("vat_rate", "fc_net", "fc_vat", "side", "account", "store", "party")),
            **dict.fromkeys(("lot_id", "ref_line", "memo")),
        }
    ]
    assert (shown["brand"], shown["total"], shown["vat_total"]) == ("RED", "165000", "15000")
    assert (shown["memo"], shown["principal"], shown["source"]) == ("giao sớm", "api", "api")
    assert (shown["entries"], shown["next_line"], shown["refers_to"]) == ([], None, None)
    assert shown["links"]["void"] == f"{sold['url']}/void"
    second = (await books.get(returned["url"])).json()
    assert second["refers_to"] == {"id": sold["id"], "type": "sale", "doc_no": "HD-1"}
    problem_of(await books.get("/v1/documents/999999"), 404, "document-not-found")


async def test_long_documents_are_shown_a_thousand_lines_at_a_time(
    books: httpx.AsyncClient,
) -> None:
    """`next_line` is where the next ones begin."""
    lines = [{"net": "1"} for _ in range(1001)]
    (long,) = await made(books, sale("HD-1", lines=lines, total=None, vat_total=None))
    first = (await books.get(long["url"])).json()
    assert (len(first["lines"]), first["next_line"]) == (1000, 1000)
    rest = (await books.get(long["url"], params={"after_line": 1000})).json()
    assert ([each["line_no"] for each in rest["lines"]], rest["next_line"]) == ([1001], None)


async def test_lists_are_filtered_and_paged(
    books: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """By every filter; the latest posting date first, each document on one page."""
    goods = [{"item": "LY", "qty": "1"}]
    transfer: dict[str, Any] = {"type": "transfer", "doc_no": "DC-1", "doc_date": "2026-01-07"}
    transfer |= {"store": "R1", "to_store": "B1", "lines": goods}
    others = [sale(f"HD-{n}", doc_date=f"2026-01-{n:02}") for n in range(1, 6)]
    answers = await made(books, *others, transfer, sale("HD-2", type="purchase", party="NCC"))
    await mark_posted(owner_engine, answers[0]["id"])

    async def listed(**filters: Any) -> list[str]:
        page = await books.get("/v1/documents", params={"company": "ACME"} | filters)
        assert page.status_code == 200, page.text
        return [f"{each['type']} {each['doc_no']}" for each in page.json()["documents"]]

    assert await listed(type="transfer") == ["transfer DC-1"]
    assert await listed(status="posted") == ["sale HD-1"]
    assert await listed(store="B1") == ["transfer DC-1"]
    assert await listed(party="NCC") == ["purchase HD-2"]
    assert await listed(doc_no="HD-2") == ["purchase HD-2", "sale HD-2"]
    assert await listed(date_from="2026-01-04", date_to="2026-01-05", type="sale") == [
        "sale HD-5",
        "sale HD-4",
    ]
    found: list[int] = []
    cursor: str | None = None
    while True:
        asked = {"company": "ACME", "limit": "3"}
        if cursor is not None:
            asked["cursor"] = cursor
        page = (await books.get("/v1/documents", params=asked)).json()
        found += [each["id"] for each in page["documents"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(found) == sorted(each["id"] for each in answers)
    assert len(found) == 7
    unknown = await books.get("/v1/documents", params={"company": "NONE"})
    problem_of(unknown, 422, "unknown-company")


async def test_a_request_under_a_key_is_answered_once(
    books: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Its repetition gets the same bytes, whatever has become of the documents since."""
    first = await send(books, sale("HD-1"), 5, key="k1")
    assert (await made(books, sale("HD-1", memo="later")))[0]["outcome"] == "updated"
    again = await send(books, sale("HD-1"), 5, key="k1")
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert await scalar(engine, "SELECT version FROM books.documents") == 2
    reused = await send(books, sale("HD-9"), key="k1")
    problem_of(reused, 422, "idempotency-key-reused")


async def test_what_is_no_batch_is_refused_whole(books: httpx.AsyncClient) -> None:
    """With the field: nothing of it is written."""
    for body, field in (
        ({"company": "ACME", "documents": []}, "documents"),
        ({"company": "ACME", "documents": [1] * 1001}, "documents"),
        ({"company": "ACME", "documents": {}}, "documents"),
        ({"company": "ACME"}, "documents"),
        ({"company": 5, "documents": [1]}, "company"),
        ({"company": "", "documents": [1]}, "company"),
        ({"documents": [1]}, "company"),
        ({"company": "ACME", "documents": [1], "mode": 1}, "mode"),
    ):
        answer = await books.post(BATCH, content=json.dumps(body), headers=JSON)
        assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == field
    problem_of(await send(books, sale("HD-1"), company="NONE"), 422, "unknown-company")
    nul = json.dumps({"company": "ACME", "documents": [sale("HD\u0000")]})
    problem_of(await books.post(BATCH, content=nul, headers=JSON), 400, "malformed-json")


async def test_the_limits_of_size_are_those_of_a_batch(settings: ApiSettings) -> None:
    """A body beyond it is refused by its announced length."""
    small = settings.model_copy(update={"batch_body_bytes": 300 * 1024})
    async with serving(small) as client:
        large = json.dumps({"company": "ACME", "documents": ["x" * 301 * 1024]})
        problem_of(await client.post(BATCH, content=large, headers=JSON), 413, "too-large")
        fits = json.dumps({"company": "ACME", "documents": ["x" * 280 * 1024]})
        answer = await client.post(BATCH, content=fits, headers=JSON)
        assert (answer.status_code, answer.json()["errors"]) == (200, 1)


async def test_a_thousand_documents_are_one_request(
    books: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """And two such requests in opposite order, at once, make each document once.

    One of them waits for the other; where that takes longer than a request waits for a row, it is
    told to come again, and does.
    """
    many = [sale(f"HD-{n:04}") for n in range(1000)]

    async def sent(documents: list[dict[str, Any]]) -> httpx.Response:
        answer = await send(books, *documents)
        for _ in range(20):
            if answer.status_code != 503:
                break
            problem_of(answer, 503, "busy")
            answer = await send(books, *documents)
        return answer

    forth, back = await asyncio.gather(sent(many), sent(many[::-1]))
    assert (forth.status_code, back.status_code) == (200, 200)
    assert forth.json()["created"] + back.json()["created"] == 1000
    assert forth.json()["unchanged"] + back.json()["unchanged"] == 1000
    assert await scalar(engine, "SELECT count(*) FROM books.documents") == 1000


async def test_a_draft_is_voided_once_and_for_ever(
    books: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """It is still there, voiding it again changes nothing, its number is never given again."""
    (draft,) = await made(books, sale("HD-1"))
    body = json.dumps({"reason": "entered twice"})
    voided = (await books.post(f"{draft['url']}/void", content=body, headers=JSON)).json()
    assert (voided["status"], voided["version"]) == ("void", 2)
    assert "void" not in voided["links"]
    again = (await books.post(f"{draft['url']}/void")).json()
    assert (again["status"], again["version"]) == ("void", 2)
    acts = await fetch(engine, "SELECT * FROM chot.audit WHERE action = 'document.void'")
    assert [(each.target, each.facts["reason"]) for each in acts] == [
        ("ACME/sale/HD-1", "entered twice")
    ]
    (refused,) = await made(books, sale("HD-1"))
    assert refused["faults"][0]["code"] == "NUMBER_VOIDED"
    strange = await books.post(f"{draft['url']}/void", content='{"why": "x"}', headers=JSON)
    problem_of(strange, 422, "invalid-request")


async def test_a_posted_document_is_not_voided(
    books: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """It is to be unposted first, and the answer says so."""
    (draft,) = await made(books, sale("HD-1"))
    await mark_posted(owner_engine, draft["id"])
    problem = problem_of(await books.post(f"{draft['url']}/void"), 409, "document-posted")
    assert "posting.unpost" in problem["detail"]
    assert (await books.get(draft["url"])).json()["status"] == "posted"


@pytest.mark.parametrize("scope", [BLUE, OTHER], ids=["brand", "company"])
async def test_another_brands_document_is_like_none_at_all(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine, scope: Scope
) -> None:
    """Shown, voided, listed, put: nothing of it is told, and nothing changes it."""
    theirs = bearer(await make_key(owner_engine, Role.ADMIN, scope=RED))
    mine = bearer(await make_key(owner_engine, Role.ADMIN, scope=scope))
    (draft,) = await made(guarded, sale("HD-1"), headers=theirs)
    problem_of(await guarded.get(draft["url"], headers=mine), 404, "document-not-found")
    voiding = await guarded.post(f"{draft['url']}/void", headers=mine)
    problem_of(voiding, 404, "document-not-found")
    listed = await guarded.get("/v1/documents", params={"company": "ACME"}, headers=mine)
    put = await send(guarded, sale("HD-1", memo="mine"), headers=mine)
    if scope is OTHER:
        problem_of(listed, 422, "unknown-company")
        problem_of(put, 422, "unknown-company")
    else:
        assert listed.json() == {"documents": [], "next_cursor": None}
        assert put.json()["documents"][0]["faults"][0]["code"] == "STORE_UNKNOWN"
        taken = await made(guarded, sale("HD-1", store="B1"), headers=mine)
        assert taken[0]["faults"][0]["code"] == "NUMBER_TAKEN"
    assert (await guarded.get(draft["url"], headers=theirs)).json()["version"] == 1


async def test_a_stored_answer_is_of_the_rights_of_today(
    guarded: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """An account that has lost a brand gets no document of it by repeating an old request."""
    wide = bearer(await make_key(owner_engine, Role.ADMIN, scope=ACME, principal="erp"))
    narrow = bearer(await make_key(owner_engine, Role.ADMIN, scope=BLUE, principal="erp"))
    assert (await send(guarded, sale("HD-1"), key="k1", headers=wide)).status_code == 200
    again = await send(guarded, sale("HD-1"), key="k1", headers=narrow)
    problem_of(again, 403, "forbidden")
