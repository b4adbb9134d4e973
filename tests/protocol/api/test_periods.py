"""Periods over HTTP: how they stand, close, reopen, four eyes, and whose they are."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role, Scope
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import execute, fetch, scalar
from tests.period_books import attempt, over
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key
from tests.protocol.api.test_approvals import EXPIRE

JSON = {"Content-Type": "application/json"}
ACTS = ("close", "reopen")
SHUT = "UPDATE books.periods SET status = 'closed' WHERE period = :period"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with two open periods, and goods of both brands in January."""
    assert company == "ACME"
    opened = await open_books(engine, read_engine)
    await opened.move("opening", 10, value=1000)
    await opened.move("opening", 10, store="B1", value=1000)
    return opened


@pytest.fixture
async def strict(
    settings: ApiSettings, books: Books, owner_engine: AsyncEngine
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api where close and reopen ask for an approval."""
    assert books.engines is not None, "its periods are there before the api is asked"
    await execute(owner_engine, SEED_OTHER)
    changed = {"api_open": False, "approvals": "period.close,period.reopen"}
    async with serving(settings.model_copy(update=changed)) as client:
        yield client


@pytest.fixture
async def clerk(owner_engine: AsyncEngine) -> str:
    """Who asks."""
    return await make_key(owner_engine, Role.OPERATE, Role.READ, scope=ACME, principal="clerk")


@pytest.fixture
async def chief(owner_engine: AsyncEngine) -> str:
    """Who approves."""
    return await make_key(owner_engine, Role.OPERATE, scope=ACME, principal="chief")


async def act(
    client: httpx.AsyncClient,
    verb: str,
    key: str | None = None,
    *,
    period: str = JANUARY,
    company: str = "ACME",
    **more: Any,
) -> httpx.Response:
    """The answer to a close or a reopening; both with a reason."""
    body = json.dumps({"company": company, "reason": "month end"} | more)
    headers = JSON | ({} if key is None else bearer(key))
    return await client.post(f"/v1/periods/{period}/{verb}", content=body, headers=headers)


async def approved(
    client: httpx.AsyncClient, key: str, verb: str, target: str = "ACME/2026-01"
) -> httpx.Response:
    """The answer to an approval of that act."""
    body = json.dumps({"action": f"period.{verb}", "target": target, "reason": "seen"})
    return await client.post("/v1/approvals", content=body, headers=bearer(key) | JSON)


async def shown(client: httpx.AsyncClient, period: str = JANUARY) -> dict[str, Any]:
    """The period's page."""
    answer = await client.get(f"/v1/periods/{period}", params={"company": "ACME"})
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


async def closed(client: httpx.AsyncClient, books: Books, period: str = JANUARY) -> str:
    """Cost the period and close it; the job's id."""
    await books.cost(period, brand=None)
    answer = await act(client, "close", period=period)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    await attempt(books, UUID(job_id))
    return job_id


async def test_a_close_is_a_job_and_the_period_tells_of_it(
    books: Books, client: httpx.AsyncClient
) -> None:
    """Asked twice there is one; then the page has the whole story, and both links change."""
    await books.cost(brand=None)
    before = await shown(client)
    assert before["links"] == {
        "self": "/v1/periods/2026-01?company=ACME",
        "close": "/v1/periods/2026-01/close",
    }
    assert (before["last_event"], before["events"], before["reopening"]) == (None, [], None)
    first, second = await act(client, "close"), await act(client, "close")
    assert (first.status_code, second.status_code) == (202, 200)
    job = first.json()
    assert (job["created"], second.json()["created"]) == (True, False)
    assert second.json()["duplicate"] == "joined"
    assert job["id"] == second.json()["id"]
    assert first.headers["location"] == job["status_url"] == f"/v1/jobs/{job['id']}"
    await attempt(books, UUID(job["id"]))
    view = await shown(client)
    assert (view["status"], view["version"]) == ("closed", 3)
    assert view["links"]["reopen"] == "/v1/periods/2026-01/reopen"
    assert [each["event"] for each in view["events"]] == ["closed", "closing", "close_asked"]
    assert {each["job_id"] for each in view["events"]} == {job["id"]}
    assert {each["requester"] for each in view["events"]} == {"api"}
    assert view["events"][0]["facts"]["results"] == 2
    assert view["last_event"]["reason"] == "month end"
    problem = problem_of(await act(client, "close"), 409, "period-state")
    assert (problem["state"], problem["job_id"]) == ("closed", job["id"])


async def test_closes_at_once_are_one_job(books: Books, client: httpx.AsyncClient) -> None:
    """Real concurrency: one new job, one row of the audit and one event, however many ask."""
    await books.cost(brand=None)
    answers = await asyncio.gather(*(act(client, "close") for _ in range(8)))
    assert sorted(each.status_code for each in answers) == [200] * 7 + [202]
    assert len({each.json()["id"] for each in answers}) == 1
    noted = "SELECT count(*) FROM chot.audit WHERE action = 'period.close'"
    assert await scalar(books.app, noted) == 1
    assert await scalar(books.app, "SELECT count(*) FROM books.period_events") == 1


async def test_a_refused_close_shows_its_findings(books: Books, client: httpx.AsyncClient) -> None:
    """On the job and on the period."""
    job = (await act(client, "close")).json()
    with pytest.raises(Exception, match="NOT_COSTED"):
        await attempt(books, UUID(job["id"]))
    (event, _) = (await shown(client))["events"]
    assert event["event"] == "refused"
    (finding,) = event["facts"]["findings"]
    assert (finding["code"], finding["count"]) == ("NOT_COSTED", 2)
    assert finding["first"] == ["BLUE/A", "RED/A"]


async def test_reopening_tells_what_was_built_on_it(
    books: Books, client: httpx.AsyncClient
) -> None:
    """Before, on the period's page, and in the answer; the results stay as they are."""
    await closed(client, books)
    february = await books.cost(FEBRUARY, brand=None)
    affects = [
        {
            "period": FEBRUARY,
            "status": "open",
            "results": 2,
            "stale": 0,
            "items_total": 1,
            "items": ["A"],
            "runs": [str(february["run_id"])],
        }
    ]
    assert (await shown(client))["reopening"] == {"later_closed": [], "affects": affects}
    answer = await act(client, "reopen", reason="a late invoice")
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert (view["status"], view["affects"]) == ("open", affects)
    last = view["last_event"]
    assert (last["event"], last["job_id"], last["reason"]) == ("reopened", None, "a late invoice")
    assert view["results"]["total"] == 2
    await books.move("receipt", 1, value=5)
    assert (await shown(client))["results"]["late"] == 1
    problem = problem_of(await act(client, "reopen"), 409, "period-state")
    assert problem["state"] == "open"


async def test_the_latest_closed_period_is_reopened_first(
    books: Books, client: httpx.AsyncClient
) -> None:
    """The refusal names the later ones, and changes nothing."""
    await closed(client, books)
    await closed(client, books, FEBRUARY)
    problem = problem_of(await act(client, "reopen"), 409, "later-period-closed")
    assert problem["periods"] == [FEBRUARY]
    assert (await shown(client))["reopening"]["later_closed"] == [FEBRUARY]
    assert (await act(client, "reopen", period=FEBRUARY)).status_code == 200
    assert (await act(client, "reopen")).status_code == 200


async def test_a_close_waits_for_another_accounts_word(
    strict: httpx.AsyncClient, books: Books, clerk: str, chief: str
) -> None:
    """403 without; then the job, the audit and the period's events name both accounts."""
    problem = problem_of(await act(strict, "close", clerk), 403, "approval-required")
    assert (problem["action"], problem["target"]) == ("period.close", "ACME/2026-01")
    assert await scalar(books.app, "SELECT count(*) FROM chot.jobs") == 0
    given = await approved(strict, chief, "close")
    assert given.status_code == 201, given.text
    approval = given.json()["id"]
    answer = await act(strict, "close", clerk, approval=approval)
    assert answer.status_code == 202, answer.text
    rows = await fetch(
        books.app,
        """SELECT action, principal, approver, approval_id::text AS approval, target, company,
                  job_id::text AS job, facts
             FROM chot.audit WHERE action LIKE '%l.give' OR action LIKE 'period.%' ORDER BY id""",
    )
    seen, reason, job = {"reason": "seen"}, {"reason": "month end"}, answer.json()["id"]
    target = "ACME/2026-01"
    assert [tuple(row) for row in rows] == [
        ("approval.give", "chief", None, approval, f"period.close {target}", "ACME", None, seen),
        ("period.close", "clerk", "chief", approval, target, "ACME", job, reason),
    ]
    (event,) = await fetch(books.app, "SELECT requester, approver FROM books.period_events")
    assert tuple(event) == ("clerk", "chief")


async def test_a_reopening_waits_for_another_accounts_word(
    strict: httpx.AsyncClient, books: Books, clerk: str, chief: str
) -> None:
    """Used once: for the next reopening another one is asked for."""
    await execute(books.app, SHUT, period=JANUARY)
    problem_of(await act(strict, "reopen", clerk), 403, "approval-required")
    approval = (await approved(strict, chief, "reopen")).json()["id"]
    view = (await act(strict, "reopen", clerk, approval=approval)).json()
    assert (view["last_event"]["requester"], view["last_event"]["approver"]) == ("clerk", "chief")
    (row,) = await fetch(
        books.app,
        """SELECT principal, approver, target, facts FROM chot.audit
            WHERE action = 'period.reopen'""",
    )
    assert tuple(row) == ("clerk", "chief", "ACME/2026-01", {"reason": "month end"})
    await execute(books.app, SHUT, period=JANUARY)
    again = await act(strict, "reopen", clerk, approval=approval)
    assert problem_of(again, 403, "approval-required")["reason"] == "used"


@pytest.mark.parametrize("verb", ACTS)
async def test_an_approval_that_does_not_count_says_why(  # noqa: PLR0917 - fixtures
    strict: httpx.AsyncClient,
    books: Books,
    owner_engine: AsyncEngine,
    clerk: str,
    chief: str,
    verb: str,
) -> None:
    """Unknown, of the other act, of another period, one's own, expired: nothing changes."""
    if verb == "reopen":
        await execute(books.app, SHUT, period=JANUARY)

    async def why(approval: str, key: str = clerk) -> str:
        answer = await act(strict, verb, key, approval=approval)
        reason: str = problem_of(answer, 403, "approval-required")["reason"]
        return reason

    async def given(key: str, what: str = verb, target: str = "ACME/2026-01") -> str:
        answer = await approved(strict, key, what, target)
        assert answer.status_code == 201, answer.text
        approval: str = answer.json()["id"]
        return approval

    assert await why(str(uuid4())) == "unknown"
    assert await why(await given(chief, ACTS[verb == "close"])) == "unknown"
    assert await why(await given(chief, target="ACME/2026-02")) == "unknown"
    own = await given(clerk)
    assert await why(own) == "own"
    second = await make_key(owner_engine, Role.OPERATE, scope=ACME, principal="clerk")
    assert await why(own, second) == "own"
    late = await given(chief)
    await execute(books.app, EXPIRE)
    assert await why(late) == "expired"
    assert await scalar(books.app, "SELECT count(*) FROM books.period_events") == 0
    assert await scalar(books.app, "SELECT count(*) FROM chot.jobs") == 0


async def test_of_two_reopenings_at_once_one_gets_the_approval(
    strict: httpx.AsyncClient, books: Books, owner_engine: AsyncEngine, clerk: str, chief: str
) -> None:
    """One act, one use, one row in the audit, round by round."""
    rival = await make_key(owner_engine, Role.OPERATE, scope=ACME, principal="rival")
    for _ in range(5):
        await execute(books.app, SHUT, period=JANUARY)
        approval = (await approved(strict, chief, "reopen")).json()["id"]
        got = await asyncio.gather(
            *(act(strict, "reopen", key, approval=approval) for key in (clerk, rival) * 2)
        )
        statuses = sorted(each.status_code for each in got)
        assert statuses.count(200) == 1
        assert set(statuses) <= {200, 403, 409}
    acts = "SELECT count(*) FROM chot.audit WHERE action = 'period.reopen'"
    assert await scalar(books.app, acts) == 5


async def test_what_is_refused_uses_no_approval(
    strict: httpx.AsyncClient, books: Books, clerk: str, chief: str
) -> None:
    """A reopening that comes too early, and a close that joins one under way."""
    reopening = (await approved(strict, chief, "reopen")).json()["id"]
    problem_of(await act(strict, "reopen", clerk, approval=reopening), 409, "period-state")
    first = (await approved(strict, chief, "close")).json()["id"]
    job = (await act(strict, "close", clerk, approval=first)).json()
    second = (await approved(strict, chief, "close")).json()["id"]
    joined = await act(strict, "close", clerk, approval=second)
    assert (joined.status_code, joined.json()["id"]) == (200, job["id"])
    await over(books, UUID(job["id"]))
    assert (await act(strict, "close", clerk, approval=second)).status_code == 202
    await execute(books.app, SHUT, period=JANUARY)
    assert (await act(strict, "reopen", clerk, approval=reopening)).status_code == 200


@pytest.mark.parametrize(
    ("scope", "status"), [(ACME, 201), (RED, 403), (OTHER, 404), (Scope(), 201)]
)
@pytest.mark.parametrize("verb", ACTS)
async def test_who_may_close_the_company_may_approve(
    strict: httpx.AsyncClient, owner_engine: AsyncEngine, verb: str, scope: Scope, status: int
) -> None:
    """An account of some brands has no company; another company's period is like none at all."""
    key = await make_key(owner_engine, Role.OPERATE, scope=scope, principal="approver")
    assert (await approved(strict, key, verb)).status_code == status
    unknown = await approved(strict, key, verb, "ACME/2031-12")
    problem_of(unknown, 404, "period-not-found")


async def test_an_approval_of_a_period_names_company_and_period(
    strict: httpx.AsyncClient, chief: str
) -> None:
    """And nothing else; a job's id is no period."""
    for target in ("ACME", "/2026-01", "ACME/", "2026-01"):
        problem = problem_of(await approved(strict, chief, "close", target), 422, "invalid-request")
        assert problem["errors"][0]["field"] == "target"
    problem_of(await approved(strict, chief, "close", str(uuid4())), 422, "invalid-request")


@pytest.mark.parametrize("verb", ACTS)
async def test_books_of_others_are_neither_closed_nor_reopened(
    strict: httpx.AsyncClient, owner_engine: AsyncEngine, verb: str
) -> None:
    """Some brands are no company (403); another company is none at all (422); a period may not be."""
    for scope, company, period, status, slug in (
        (RED, "ACME", JANUARY, 403, "forbidden"),
        (OTHER, "ACME", JANUARY, 422, "unknown-company"),
        (OTHER, "NONE", JANUARY, 422, "unknown-company"),
        (ACME, "ACME", "2031-12", 404, "period-not-found"),
        (Scope(), "NONE", JANUARY, 404, "period-not-found"),
    ):
        key = await make_key(owner_engine, Role.OPERATE, scope=scope)
        answer = await act(strict, verb, key, company=company, period=period)
        problem_of(answer, status, slug)


async def test_a_brand_sees_the_periods_and_the_costs_of_its_own(
    strict: httpx.AsyncClient, books: Books, owner_engine: AsyncEngine
) -> None:
    """Status and days are the company's; counts and runs are those of the key's brands."""
    await books.cost()
    await books.move("receipt", 1, value=5)
    counts = {}
    for name, scope in (("RED", RED), ("BLUE", BLUE), ("ACME", ACME), ("OTHER", OTHER)):
        key = bearer(await make_key(owner_engine, Role.READ, scope=scope))
        one = await strict.get("/v1/periods/2026-01", params={"company": "ACME"}, headers=key)
        assert one.status_code == (404 if name == "OTHER" else 200)
        listed = await strict.get("/v1/periods", params={"company": "ACME"}, headers=key)
        if name == "OTHER":
            problem_of(listed, 422, "unknown-company")
            continue
        counts[name] = [
            (each["period"], each["results"]["total"], each["results"]["late"])
            for each in listed.json()["periods"]
        ]
    assert counts == {
        "RED": [(FEBRUARY, 0, 0), (JANUARY, 1, 1)],
        "BLUE": [(FEBRUARY, 0, 0), (JANUARY, 0, 0)],
        "ACME": [(FEBRUARY, 0, 0), (JANUARY, 1, 1)],
    }


@pytest.mark.usefixtures("books")
async def test_periods_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    """Newest first; strange cursors and parameters are refused by name."""
    told: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        params = {"company": "ACME", "limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/periods", params=params)).json()
        told += [each["period"] for each in page["periods"]]
        cursor = page["next_cursor"]
    assert told == [FEBRUARY, JANUARY]
    for query, field in (
        ({}, "company"),
        ({"company": "ACME", "cursor": "x"}, "cursor"),
        ({"company": "ACME", "brand": "RED"}, "brand"),
        ({"company": "ACME", "limit": "0"}, "limit"),
    ):
        answer = await client.get("/v1/periods", params=query)
        assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == field
    unknown = await client.get("/v1/periods", params={"company": "NONE"})
    problem_of(unknown, 422, "unknown-company")


@pytest.mark.usefixtures("books")
async def test_what_is_no_period_or_no_reason_is_refused(client: httpx.AsyncClient) -> None:
    """A name that no period can have is like one that none has; a body is refused by its field."""
    for name in ("2026-13", "january", "2026-01%00", "2026-01%0A"):
        answer = await client.get(f"/v1/periods/{name}?company=ACME")
        problem_of(answer, 404, "period-not-found")
    for body, field in (
        ({"company": "ACME"}, "reason"),
        ({"company": "ACME", "reason": ""}, "reason"),
        ({"reason": "x"}, "company"),
        ({"company": "ACME", "reason": "x", "approval": "y"}, "approval"),
        ({"company": "ACME", "reason": "x", "brand": "RED"}, "brand"),
    ):
        answer = await client.post(
            "/v1/periods/2026-01/reopen", content=json.dumps(body), headers=JSON
        )
        assert problem_of(answer, 422, "invalid-request")["errors"][0]["field"] == field
