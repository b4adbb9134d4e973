"""What an operator stops, limits and weighs over HTTP: kinds, books, running limits, weights."""

import json
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import fetch
from tests.protocol.api.app import note, post, problem_of
from tests.protocol.api.test_read_and_act import run

JSON = {"Content-Type": "application/json"}


async def send(
    client: httpx.AsyncClient, method: str, url: str, body: dict[str, Any] | None = None
) -> httpx.Response:
    """A request with a JSON body, where there is one."""
    content = None if body is None else json.dumps(body)
    return await client.request(method, url, content=content, headers=JSON if body else {})


async def told(
    client: httpx.AsyncClient, method: str, url: str, body: dict[str, Any] | None = None
) -> Any:
    """The answer of a request that is in order."""
    answer = await send(client, method, url, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def made(client: httpx.AsyncClient, **more: Any) -> str:
    """A job of ACME's RED."""
    answer = await post(client, note() | more)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def why(client: httpx.AsyncClient, job_id: str) -> str:
    """The reason that is told."""
    return str((await told(client, "GET", f"/v1/jobs/{job_id}/why"))["reason"])


async def test_a_kind_is_paused_shown_and_resumed(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """What runs is counted, what waits is told why, and a resume gives it its message."""
    running, waiting = await made(client), await made(client)
    await run(engine, running)
    for _ in range(2):
        answer = await told(client, "POST", "/v1/kinds/api.note/pause")
        assert answer == {"name": "api.note", "paused": True, "running": 1, "staged": 0}
    kinds = {kind["name"]: kind for kind in (await told(client, "GET", "/v1/kinds"))["kinds"]}
    assert (kinds["api.note"]["paused"], kinds["api.note"]["running"]) == (True, 1)
    assert (kinds["api.merge"]["paused"], kinds["api.merge"]["running"]) == (False, 0)
    assert await why(client, waiting) == "kind-paused"
    answer = await told(client, "POST", "/v1/kinds/api.note/resume")
    assert answer["paused"] is False
    assert await why(client, waiting) != "kind-paused"
    for name in ("none", "a%00b", "x" * 101):
        problem_of(await client.post(f"/v1/kinds/{name}/pause"), 404, "kind-not-found")
        problem_of(await client.post(f"/v1/kinds/{name}/resume"), 404, "kind-not-found")


async def test_books_are_frozen_shown_and_thawed(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A brand's freeze stops the company's own jobs, too, and tells how many still run."""
    running = await made(client, brand=None)
    red, blue, whole = await made(client), await made(client, brand="BLUE"), await made(client)
    await run(engine, running)
    body = {"company": "ACME", "brand": "RED", "reason": "closing January"}
    answer = await told(client, "POST", "/v1/books/freeze", body)
    assert answer == {
        "company": "ACME",
        "brand": "RED",
        "frozen": True,
        "running": 1,
        "staged": 0,
    }
    (freeze,) = (await told(client, "GET", "/v1/freezes"))["freezes"]
    assert (freeze["company"], freeze["brand"], freeze["reason"]) == tuple(body.values())
    assert await why(client, red) == await why(client, whole) == "books-frozen"
    assert await why(client, blue) != "books-frozen"
    thawed = await told(client, "POST", "/v1/books/thaw", {"company": "ACME", "brand": "RED"})
    assert (thawed["frozen"], thawed["brand"]) == (False, "RED")
    assert (await told(client, "GET", "/v1/freezes"))["freezes"] == []
    assert await why(client, red) != "books-frozen"


async def test_a_running_limit_is_set_shown_told_and_removed(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """By what it names; `running` is how much of it is in use."""
    which = {"kind": "api.note", "company": "ACME", "brand": "RED"}
    for most in (3, 1, 1):
        answer = await told(client, "PUT", "/v1/limits", which | {"max_running": most})
        assert answer == which | {"max_running": most}
    running, waiting = await made(client), await made(client)
    await run(engine, running)
    (limit,) = (await told(client, "GET", "/v1/limits"))["limits"]
    assert {name: limit[name] for name in which} == which
    assert (limit["max_running"], limit["running"]) == (1, 1)
    await engine_worker(engine)
    view = await told(client, "GET", f"/v1/jobs/{waiting}/why")
    assert view["reason"] == "limit-reached"
    assert view["limit"] == which | {"max_running": 1, "running": 1}
    url = "/v1/limits?kind=api.note&company=ACME&brand=RED"
    for _ in range(2):
        assert await told(client, "DELETE", url) == which | {"max_running": None}
    assert (await told(client, "GET", "/v1/limits"))["limits"] == []
    assert await why(client, waiting) != "limit-reached"


async def engine_worker(engine: AsyncEngine) -> None:
    """A live worker that could run the job."""
    async with engine.begin() as conn:
        await conn.exec_driver_sql(
            """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state,
                                         live_until)
               VALUES ('w', 'h', 1, 'v', '{"api.note": 9}', 'working',
                       clock_timestamp() + interval '1 hour')"""
        )
        await conn.exec_driver_sql("INSERT INTO chot.worker_queues VALUES ('w', 'default', 4, 4)")


async def test_workers_that_died_hide_none_that_lives(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """One that dies as often as it is started leaves a row each time, for a day."""
    await engine_worker(engine)
    async with engine.begin() as conn:
        await conn.exec_driver_sql(
            """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state,
                                         live_until)
               SELECT 'died-' || n, 'h', n, 'v', '{}', 'working',
                      clock_timestamp() - make_interval(secs => n)
                 FROM generate_series(1, 1500) AS n"""
        )
    shown = (await told(client, "GET", "/v1/workers"))["workers"]
    assert [each["worker_id"] for each in shown if each["live"]] == ["w"]
    assert {f"died-{n}" for n in range(1, 1000)} == {each["worker_id"] for each in shown} - {"w"}


async def test_weights_are_set_and_shown(client: httpx.AsyncClient) -> None:
    """All at once: who is not named any more has 1 again."""
    red = {"company": "ACME", "brand": "RED", "weight": 2.5}
    whole = {"company": "ACME", "brand": None, "weight": 0.5}
    for weights in ([red, whole], [whole], []):
        answer = await told(client, "PUT", "/v1/queues/default/weights", {"weights": weights})
        assert answer == {"name": "default", "weights": weights}
        queues = (await told(client, "GET", "/v1/queues"))["queues"]
        (shown,) = [queue["weights"] for queue in queues if queue["name"] == "default"]
        assert sorted(shown, key=str) == sorted(weights, key=str)


@pytest.mark.parametrize(
    ("method", "url", "body", "slug"),
    [
        ("POST", "/v1/books/freeze", {"company": "NONE"}, "unknown-company"),
        ("POST", "/v1/books/thaw", {"company": "ACME", "brand": "NONE"}, "unknown-brand"),
        ("POST", "/v1/books/freeze", {"brand": "RED"}, "invalid-request"),
        ("POST", "/v1/books/thaw", {"company": "ACME", "reason": "x"}, "invalid-request"),
        ("PUT", "/v1/limits", {"max_running": 1}, "invalid-request"),
        ("PUT", "/v1/limits", {"kind": "api.note", "max_running": 0}, "invalid-request"),
        ("PUT", "/v1/limits", {"brand": "RED", "max_running": 1}, "invalid-request"),
        ("PUT", "/v1/limits", {"kind": "none", "max_running": 1}, "unknown-kind"),
        ("PUT", "/v1/limits", {"company": "NONE", "max_running": 1}, "unknown-company"),
        (
            "PUT",
            "/v1/limits",
            {"company": "ACME", "brand": "NONE", "max_running": 1},
            "unknown-brand",
        ),
        ("DELETE", "/v1/limits", None, "invalid-request"),
        ("DELETE", "/v1/limits?brand=RED", None, "invalid-request"),
        ("DELETE", "/v1/limits?kind=a&none=b", None, "invalid-request"),
        ("DELETE", "/v1/limits?kind=a%00b", None, "invalid-request"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_its_field(
    client: httpx.AsyncClient, method: str, url: str, body: dict[str, Any] | None, slug: str
) -> None:
    """422, and nothing is written."""
    problem = problem_of(await send(client, method, url, body), 422, slug)
    assert problem["errors"]


@pytest.mark.parametrize(
    ("weights", "slug", "field"),
    [
        ([{"company": "ACME", "brand": "RED", "weight": 0}], "invalid-request", "weights.0.weight"),
        ([{"company": "ACME", "weight": 101}], "invalid-request", "weights.0.weight"),
        ([{"company": "ACME", "weight": 1}] * 2, "invalid-request", "weights.1"),
        ([{"company": "NONE", "weight": 1}], "unknown-company", "weights.0.company"),
        ([{"company": "ACME", "brand": "X", "weight": 1}], "unknown-brand", "weights.0.brand"),
    ],
)
async def test_a_weight_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, weights: list[dict[str, Any]], slug: str, field: str
) -> None:
    """And the others of the list do not hold either."""
    url = "/v1/queues/default/weights"
    before = await told(client, "PUT", url, {"weights": [{"company": "ACME", "weight": 7}]})
    problem = problem_of(await send(client, "PUT", url, {"weights": weights}), 422, slug)
    assert [error["field"] for error in problem["errors"]] == [field]
    (queue,) = [q for q in (await told(client, "GET", "/v1/queues"))["queues"] if q["weights"]]
    assert [each["weight"] for each in queue["weights"]] == [before["weights"][0]["weight"]]
    nowhere = await send(client, "PUT", "/v1/queues/nowhere/weights", {"weights": []})
    problem_of(nowhere, 404, "queue-not-found")


async def test_every_act_is_in_the_audit_and_a_repeat_is_none(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Who, what, and of which books."""
    books = {"company": "ACME", "brand": "RED"}
    limit = books | {"max_running": 2}
    weights = {"weights": [books | {"weight": 3}]}
    for _ in range(2):
        await told(client, "POST", "/v1/kinds/api.note/pause")
    await told(client, "POST", "/v1/kinds/api.note/resume")
    for _ in range(2):
        await told(client, "POST", "/v1/books/freeze", books | {"reason": "why"})
    for url, body in (("/v1/limits", limit), ("/v1/queues/default/weights", weights)):
        for _ in range(2):
            await told(client, "PUT", url, body)
    for _ in range(2):
        await told(client, "POST", "/v1/books/thaw", books)
        await told(client, "DELETE", "/v1/limits?company=ACME&brand=RED")
    rows = await fetch(engine, "SELECT * FROM chot.audit ORDER BY id")
    acts = [(row.action, row.target, row.brand) for row in rows]
    assert acts == [
        ("kind.pause", "api.note", None),
        ("kind.resume", "api.note", None),
        ("books.freeze", None, "RED"),
        ("limit.set", None, "RED"),
        ("queue.weigh", "default", None),
        ("books.thaw", None, "RED"),
        ("limit.remove", None, "RED"),
    ]
    facts = {row.action: row.facts for row in rows}
    assert facts["books.freeze"] == {"reason": "why"}
    assert facts["limit.set"] == facts["limit.remove"] == {"max_running": 2}
    assert list(facts["queue.weigh"]["weights"].values()) == [3]
    assert all(isinstance(row.request_id, UUID) for row in rows)
