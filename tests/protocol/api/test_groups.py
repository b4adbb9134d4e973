"""Groups over HTTP: opened, appended to, sealed, cancelled and redriven; whose they are."""

import json
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.groups.stop import stop_groups
from tests.factories import TIMING, execute, fetch, scalar
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import ACME, RED, SEED_OTHER, bearer, make_key
from tests.protocol.groups import show

JSON = {"Content-Type": "application/json"}
# As an exit leaves it; the counter goes with it, as in every exit.
DIE = """
    WITH dead AS (
        UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp()
         WHERE id = :i AND state = 'pending' RETURNING group_id)
    UPDATE chot.groups g SET remaining = g.remaining - 1, dead = g.dead + 1
      FROM dead WHERE g.id = dead.group_id"""


async def send(
    client: httpx.AsyncClient,
    path: str,
    body: Any = None,
    *,
    key: str | None = None,
    token: str | None = None,
) -> httpx.Response:
    """POST to /v1/groups…, with JSON unless there is none to send."""
    headers = ({} if body is None else JSON) | ({} if key is None else {"Idempotency-Key": key})
    headers |= {} if token is None else bearer(token)
    content = None if body is None else json.dumps(body)
    return await client.post(f"/v1/groups{path}", content=content, headers=headers)


async def opened(client: httpx.AsyncClient, **more: Any) -> str:
    """An open group of ACME's brand RED."""
    answer = await send(client, "", {"company": "ACME", "brand": "RED"} | more)
    assert answer.status_code == 201, answer.text
    group_id: str = answer.json()["id"]
    return group_id


async def appended(client: httpx.AsyncClient, group_id: str, jobs: list[Any]) -> list[Any]:
    """What became of each item."""
    answer = await send(client, f"/{group_id}/jobs:batch", {"jobs": jobs})
    assert answer.status_code == 200, answer.text
    items: list[Any] = answer.json()["jobs"]
    return items


async def test_a_group_from_its_opening_to_its_end(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Each answer shows the whole as it is, and where to go on from there."""
    join = note()
    answer = await send(
        client,
        "",
        {
            "company": "ACME",
            "brand": "RED",
            "policy": "join",
            "join": {"kind": join["kind"], "payload": join["payload"]},
        },
    )
    view = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (201, view["links"]["self"])
    assert (view["state"], view["policy"], view["total"]) == ("open", "join", 0)
    assert view["join"]["state"] == "pending"
    items = await appended(client, view["id"], [note(), note()])
    assert [each["outcome"] for each in items] == ["created", "created"]
    sealed = (await send(client, f"/{view['id']}/seal")).json()
    assert (sealed["state"], sealed["total"], sealed["remaining"]) == ("sealed", 2, 2)
    assert "append" not in sealed["links"]
    again = await send(client, f"/{view['id']}/seal")
    assert again.json() == sealed
    job = (await client.get(items[0]["job"]["status_url"])).json()
    assert (job["group"], job["joins"]) == (view["id"], None)
    joining = (await client.get(view["join"]["status_url"])).json()
    assert (joining["group"], joining["joins"]) == (None, view["id"])
    shown = await client.get(view["links"]["self"])
    assert shown.json() == sealed
    assert (await show(engine, UUID(view["id"]))).total == 2


async def test_a_repeated_append_answers_the_stored_bytes_and_counts_nothing(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Under its key byte for byte, after the seal too; without one the members are duplicates."""
    group_id = await opened(client)
    body = {"jobs": [note(), note(), note(number="wrong")]}
    first = await send(client, f"/{group_id}/jobs:batch", body, key="k")
    assert [each["outcome"] for each in first.json()["jobs"]] == ["created", "created", "error"]
    without = await send(client, f"/{group_id}/jobs:batch", body)
    assert [each["outcome"] for each in without.json()["jobs"]] == [
        "duplicate",
        "duplicate",
        "error",
    ]
    assert without.json()["jobs"][0]["job"]["duplicate"] == "joined"
    await send(client, f"/{group_id}/seal")
    again = await send(client, f"/{group_id}/jobs:batch", body, key="k")
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    closed = await send(client, f"/{group_id}/jobs:batch", body)
    assert problem_of(closed, 409, "group-closed")["state"] == "sealed"
    other = await opened(client)
    reused = await send(client, f"/{other}/jobs:batch", body, key="k")
    problem_of(reused, 422, "idempotency-key-reused")
    assert (await show(engine, UUID(group_id))).total == 2


async def test_an_opening_under_a_key_opens_once(client: httpx.AsyncClient) -> None:
    """The same answer, the same group."""
    first = await send(client, "", {"company": "ACME"}, key="open")
    again = await send(client, "", {"company": "ACME"}, key="open")
    assert (again.status_code, again.content) == (201, first.content)
    assert first.json()["brand"] is None


async def test_items_outside_the_group_are_refused_each(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Of another company, of another brand; and work that a job outside does already."""
    await execute(owner_engine, SEED_OTHER)
    outside = note()
    active = (await post(client, outside)).json()["id"]
    group_id = await opened(client)
    items = await appended(
        client,
        group_id,
        [
            note() | {"company": "OTHER"},
            note() | {"brand": "BLUE"},
            note() | {"brand": None},
            outside,
            note(),
        ],
    )
    assert [each["outcome"] for each in items] == ["error"] * 4 + ["created"]
    fields = [each["error"].get("errors", [{}])[0].get("field") for each in items[:3]]
    assert fields == ["jobs[0].company", "jobs[1].brand", "jobs[2].brand"]
    assert items[3]["error"]["type"].endswith("/twin-active")
    assert items[3]["error"]["twin"]["id"] == active
    company_wide = (await send(client, "", {"company": "ACME"})).json()["id"]
    brands = [note() | {"brand": "BLUE"}, note() | {"brand": None}, note()]
    items = await appended(client, company_wide, brands)
    assert [each["outcome"] for each in items] == ["created"] * 3


@pytest.mark.parametrize(
    ("body", "slug", "field"),
    [
        ({}, "invalid-request", "company"),
        ({"company": "ACME", "policy": "hope"}, "invalid-request", "policy"),
        ({"company": "ACME", "jobs": []}, "invalid-request", "jobs"),
        ({"company": "NONE"}, "unknown-company", "company"),
        ({"company": "ACME", "brand": "NONE"}, "unknown-brand", "brand"),
        (
            {"company": "ACME", "join": {"kind": "no.such", "payload": {}}},
            "unknown-kind",
            "join.kind",
        ),
        (
            {"company": "ACME", "join": {"kind": "api.note", "payload": {"number": "x"}}},
            "invalid-request",
            "join.payload.number",
        ),
        (
            {"company": "ACME", "join": {"kind": "api.note", "payload": {}, "max_attempts": 999}},
            "invalid-request",
            "join.payload.number",
        ),
    ],
)
async def test_a_group_that_breaks_a_rule_is_not_opened(
    client: httpx.AsyncClient, engine: AsyncEngine, body: Any, slug: str, field: str
) -> None:
    """Named by its field, the join's with its place."""
    problem = problem_of(await send(client, "", body), 422, slug)
    assert problem["errors"][0]["field"] == field
    assert await scalar(engine, "SELECT count(*) FROM chot.groups") == 0


async def test_a_join_whose_work_is_active_is_refused(client: httpx.AsyncClient) -> None:
    """Named, so that it can be looked at."""
    body = note()
    active = (await post(client, body)).json()["id"]
    join = {"kind": body["kind"], "payload": body["payload"]}
    answer = await send(client, "", {"company": "ACME", "brand": "RED", "join": join})
    assert problem_of(answer, 409, "twin-active")["twin"]["id"] == active


async def test_a_cancel_marks_the_group_and_maintenance_ends_it(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """At once for whoever would claim; then member by member, and the join."""
    body = note()
    join = {"kind": body["kind"], "payload": body["payload"]}
    group_id = await opened(client, join=join)
    await appended(client, group_id, [note(), note()])
    view = (await send(client, f"/{group_id}/cancel")).json()
    assert (view["state"], view["outcome"], view["remaining"]) == ("cancelling", "cancelled", 2)
    again = await send(client, f"/{group_id}/cancel")
    assert (again.status_code, again.json()["state"]) == (200, "cancelling")
    active = await send(client, f"/{group_id}/redrive")
    assert problem_of(active, 409, "group-active")["state"] == "cancelling"
    await stop_groups(engine, TIMING)
    view = (await client.get(f"/v1/groups/{group_id}")).json()
    assert (view["state"], view["cancelled"], view["join"]["state"]) == ("ended", 2, "cancelled")
    problem_of(await send(client, f"/{group_id}/cancel"), 409, "group-ended")
    redriven = await send(client, f"/{group_id}/redrive")
    assert redriven.status_code == 202, redriven.text
    view = redriven.json()
    assert (view["state"], view["generation"], view["remaining"]) == ("sealed", 2, 2)


async def test_of_an_ended_group_a_cancel_reaches_the_join(client: httpx.AsyncClient) -> None:
    """It has not started: whoever cancels the group does not want it either."""
    body = note()
    join = {"kind": body["kind"], "payload": body["payload"]}
    group_id = await opened(client, join=join)
    view = (await send(client, f"/{group_id}/seal")).json()
    assert (view["state"], view["outcome"], view["join"]["state"]) == (
        "ended",
        "succeeded",
        "pending",
    )
    view = (await send(client, f"/{group_id}/cancel")).json()
    assert view["join"]["state"] == "cancelled"
    problem_of(await send(client, f"/{group_id}/cancel"), 409, "group-ended")


async def test_a_join_is_redriven_with_its_group(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """POST /v1/jobs/{join}/redrive gives back what the join waits for, too."""
    body = note()
    join = {"kind": body["kind"], "payload": body["payload"]}
    group_id = await opened(client, join=join)
    (item,) = await appended(client, group_id, [note()])
    await send(client, f"/{group_id}/seal")
    await execute(engine, "UPDATE chot.groups SET state = 'open', sealed_at = NULL")
    await execute(engine, DIE, i=UUID(item["job"]["id"]))
    await send(client, f"/{group_id}/seal")
    await stop_groups(engine, TIMING)
    view = (await client.get(f"/v1/groups/{group_id}")).json()
    assert (view["outcome"], view["join"]["state"]) == ("failed", "dead")
    answer = await client.post(f"{view['join']['status_url']}/redrive")
    assert answer.status_code == 202, answer.text
    view = (await client.get(f"/v1/groups/{group_id}")).json()
    assert (view["generation"], view["remaining"], view["join"]["state"]) == (2, 1, "pending")
    nothing = await opened(client)
    await send(client, f"/{nothing}/seal")
    problem_of(await send(client, f"/{nothing}/redrive"), 409, "nothing-to-redrive")


async def test_a_member_of_today_s_model_only_is_redriven(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A payload that no longer fits would die again, and the whole group with it."""
    group_id = await opened(client)
    (item,) = await appended(client, group_id, [note()])
    await execute(engine, DIE, i=UUID(item["job"]["id"]))
    await send(client, f"/{group_id}/seal")
    await execute(
        engine,
        """UPDATE chot.job_payloads SET payload = '{"number": "old"}' WHERE job_id = :i""",
        i=UUID(item["job"]["id"]),
    )
    problem = problem_of(await send(client, f"/{group_id}/redrive"), 409, "payload-outdated")
    assert item["job"]["id"] in problem["detail"]
    assert (await show(engine, UUID(group_id))).generation == 1


async def test_members_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    """By state too; a group of nobody is said to be none."""
    group_id = await opened(client)
    items = await appended(client, group_id, [note() for _ in range(5)])
    await post(client, note())
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = (await client.get(f"/v1/jobs?group={group_id}&limit=2{more}")).json()
        seen += [each["id"] for each in page["jobs"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted(each["job"]["id"] for each in items)
    dead = (await client.get(f"/v1/jobs?group={group_id}&state=dead")).json()
    assert dead["jobs"] == []
    problem_of(await client.get(f"/v1/jobs?group={uuid4()}"), 404, "group-not-found")
    problem_of(await client.get("/v1/jobs?group=none"), 422, "invalid-request")


@pytest.fixture
async def two(settings: ApiSettings, owner_engine: AsyncEngine) -> tuple[ApiSettings, str, str]:
    """An api that asks for keys; one of brand RED, one of ACME as a whole."""
    roles = (Role.SUBMIT, Role.READ, Role.OPERATE)
    red = await make_key(owner_engine, *roles, scope=RED, principal="red")
    whole = await make_key(owner_engine, *roles, scope=ACME, principal="whole")
    return settings.model_copy(update={"api_open": False}), red, whole


async def test_a_group_of_the_company_is_not_a_brands(two: tuple[ApiSettings, str, str]) -> None:
    """404 for every route, and no list of its members; nor may the brand open one."""
    settings, red, whole = two
    async with serving(settings) as client:
        made = await send(client, "", {"company": "ACME"}, token=whole)
        group_id = made.json()["id"]
        for path in ("/jobs:batch", "/seal", "/cancel", "/redrive"):
            body = {"jobs": [note()]} if path == "/jobs:batch" else None
            answer = await send(client, f"/{group_id}{path}", body, token=red)
            problem_of(answer, 404, "group-not-found")
        listed = await client.get(f"/v1/jobs?group={group_id}", headers=bearer(red))
        problem_of(listed, 404, "group-not-found")
        refused = await send(client, "", {"company": "ACME"}, token=red)
        problem_of(refused, 422, "invalid-request")
        own = await send(client, "", {"company": "ACME", "brand": "RED"}, token=red)
        assert own.status_code == 201
        items = await send(
            client,
            f"/{own.json()['id']}/jobs:batch",
            {"jobs": [note(), note() | {"brand": "BLUE"}]},
            token=whole,
        )
        assert [each["outcome"] for each in items.json()["jobs"]] == ["created", "error"]


@pytest.mark.parametrize("approvals", ["job.redrive", "group.redrive"])
async def test_a_redrive_of_many_asks_for_what_one_would_ask_for(
    settings: ApiSettings, owner_engine: AsyncEngine, engine: AsyncEngine, approvals: str
) -> None:
    """Four eyes on a job are four eyes on a group of them; the approval names the group."""
    clerk = await make_key(owner_engine, *(Role.SUBMIT, Role.OPERATE), principal="clerk")
    chief = await make_key(owner_engine, Role.OPERATE, principal="chief")
    changed = settings.model_copy(update={"api_open": False, "approvals": approvals})
    async with serving(changed) as client:
        made = await send(client, "", {"company": "ACME", "brand": "RED"}, token=clerk)
        group_id = made.json()["id"]
        await send(client, f"/{group_id}/jobs:batch", {"jobs": [note()]}, token=clerk)
        await send(client, f"/{group_id}/cancel", token=clerk)
        await stop_groups(engine, TIMING)
        refused = await send(client, f"/{group_id}/redrive", token=clerk)
        assert problem_of(refused, 403, "approval-required")["action"] == "group.redrive"
        given = await client.post(
            "/v1/approvals",
            content=json.dumps({"action": "group.redrive", "target": group_id}),
            headers=JSON | bearer(chief),
        )
        assert given.status_code == 201, given.text
        approval = {"approval": given.json()["id"]}
        done = await send(client, f"/{group_id}/redrive", approval, token=clerk)
        assert done.status_code == 202, done.text
        unknown = await client.post(
            "/v1/approvals",
            content=json.dumps({"action": "group.redrive", "target": str(uuid4())}),
            headers=JSON | bearer(chief),
        )
        problem_of(unknown, 404, "group-not-found")
    acts = await fetch(engine, "SELECT approver FROM chot.audit WHERE action = 'group.redrive'")
    assert [row.approver for row in acts] == ["chief"]


async def test_there_is_room_for_as_many_members_as_for_jobs(
    settings: ApiSettings, engine: AsyncEngine
) -> None:
    """The maximum of what may wait holds for an append as for a batch."""
    async with serving(settings.model_copy(update={"max_pending": 2})) as client:
        group_id = await opened(client)
        items = await appended(client, group_id, [note() for _ in range(3)])
        assert [each["outcome"] for each in items] == ["created", "created", "error"]
        full = await send(client, f"/{group_id}/jobs:batch", {"jobs": [note()]})
        problem_of(full, 429, "too-many-pending")
        assert (await show(engine, UUID(group_id))).total == 2
