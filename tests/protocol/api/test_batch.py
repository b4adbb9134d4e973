"""POST /v1/jobs:batch: each item as its own POST, one key, one commit."""

import json
import threading
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.batch import read_batch
from api.settings import BODY_LIMIT_BYTES, ApiSettings
from shared.access import Role
from tests.factories import fetch, scalar
from tests.protocol.api.app import NUMBERS, note, post, problem_of, serving
from tests.protocol.api.keys import ACME, RED, bearer, make_key

JSON = {"Content-Type": "application/json"}
OUTCOME = {202: "created", 200: "duplicate"}


async def batch(
    client: httpx.AsyncClient,
    jobs: Any,
    *,
    key: str | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """POST these jobs, or the very text given."""
    content = jobs if isinstance(jobs, str) else json.dumps({"jobs": jobs})
    keyed = {} if key is None else {"Idempotency-Key": key}
    return await client.post(
        "/v1/jobs:batch", content=content, headers=JSON | keyed | (headers or {})
    )


async def outcomes(answer: httpx.Response) -> list[str]:
    """What became of each item."""
    assert answer.status_code == 200, answer.text
    return [each["outcome"] for each in answer.json()["jobs"]]


async def test_each_item_has_its_own_outcome_in_the_order_sent(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """New ones, one that is active, an equal one, two that are wrong: the good ones are there."""
    active = note()
    known = (await post(client, active)).json()
    twice = note()
    wrong = [note(number="seven"), note() | {"kind": "no.such"}]
    answer = await batch(client, [note(), active, wrong[0], twice, wrong[1], twice])
    assert await outcomes(answer) == [
        "created",
        "duplicate",
        "error",
        "created",
        "error",
        "duplicate",
    ]
    body = answer.json()
    assert (body["created"], body["duplicates"], body["errors"]) == (2, 2, 2)
    jobs = body["jobs"]
    assert jobs[1]["job"]["id"] == known["id"]
    assert jobs[5]["job"]["id"] == jobs[3]["job"]["id"]
    assert jobs[5]["job"]["duplicate"] == "joined"
    assert jobs[2]["error"]["errors"][0]["field"] == "jobs[2].payload.number"
    assert jobs[4]["error"]["type"] == "https://chot.example/problems/unknown-kind"
    made = {each["job"]["id"] for each in jobs if each["outcome"] != "error"}
    # A message is in the outbox until the relay has sent it, and then marked: never neither.
    staged = """chot.outbox UNION SELECT id FROM chot.jobs WHERE published_at IS NOT NULL"""
    for table, column in (("chot.jobs", "id"), ("chot.job_payloads", "job_id"), (staged, "job_id")):
        found = await fetch(engine, f"SELECT {column} AS id FROM {table}")
        assert {str(row.id) for row in found} == made
    for each in made:
        assert (await client.get(f"/v1/jobs/{each}")).json()["state"] == "pending"


CASES: dict[str, dict[str, Any]] = {
    "in order": {},
    "no brand": {"brand": None},
    "a kind nobody knows": {"kind": "no.such"},
    "a company nobody knows": {"company": "NONE"},
    "a brand nobody knows": {"brand": "GREEN"},
    "no payload": {"payload": None},
    "a strange member": {"strange": 1},
    "a payload of the wrong type": {"payload": {"number": "7"}},
    "a payload with two faults": {"payload": {"number": "7", "more": 1}},
    "a priority out of range": {"priority": 12},
    "more attempts than the kind allows": {"max_attempts": 8},
    "an instant without an offset": {"run_at": "2026-01-31T18:00:00"},
    "a fraction for a number": {"payload": {"number": 7.0}},
    "too deep": {"payload": {"number": 1, "anything": json.loads("[" * 31 + "]" * 31)}},
}


@pytest.mark.parametrize("case", CASES)
async def test_an_item_is_answered_as_its_own_post(client: httpx.AsyncClient, case: str) -> None:
    """Same outcome, same problem, same words; only the field says where the item stands."""

    def body() -> dict[str, Any]:
        changed = {k: v for k, v in (note() | CASES[case]).items() if v is not None}
        if case == "no brand":
            changed["payload"] = {"number": next(NUMBERS)}
        return changed

    single, many = await post(client, body()), await batch(client, [note(), body()])
    if case == "too deep":  # bytes of the whole body are judged as one
        assert {single.status_code, many.status_code} == {400}
        return
    item = many.json()["jobs"][1]
    assert item["outcome"] == OUTCOME.get(single.status_code, "error"), item
    if "job" in item:
        assert item["job"].keys() == single.json().keys()
        assert item["job"]["brand"] == single.json()["brand"]
        return
    expected, told = single.json(), item["error"]
    for error in told.get("errors", ()):
        assert error["field"].startswith("jobs[1].")
        error["field"] = error["field"].removeprefix("jobs[1].")
    del expected["instance"]
    assert told == expected


async def test_an_item_may_be_as_deep_as_its_own_body(client: httpx.AsyncClient) -> None:
    """The list and the object around it are not counted against it."""
    deepest = note(anything=json.loads("[" * 30 + "]" * 30))
    assert (await post(client, deepest)).status_code == 202
    again = deepest | {"payload": deepest["payload"] | {"number": next(NUMBERS)}}
    assert await outcomes(await batch(client, [again])) == ["created"]


async def test_a_batch_is_replayed_byte_for_byte_and_its_errors_with_it(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """One key, one commit; white space and members' order are no difference, an item is."""
    jobs = [note(), note(number="x"), note()]
    first = await batch(client, jobs, key="b1")
    spaced = json.dumps({"jobs": [dict(reversed(each.items())) for each in jobs]}, indent=1)
    again = await batch(client, spaced, key="b1")
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 2
    problem_of(await batch(client, jobs[:2], key="b1"), 422, "idempotency-key-reused")
    problem_of(await post(client, jobs[0], key="b1"), 422, "idempotency-key-reused")
    assert await scalar(engine, "SELECT count(*) FROM chot.audit") == 2, "a replay is no act"


async def test_a_key_of_a_batch_is_one_request_at_a_time(
    client: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """What was refused as a whole is not stored: the corrected request may use the key."""
    problem_of(await batch(client, [], key="b2"), 422, "invalid-request")
    assert await outcomes(await batch(client, [note()], key="b2")) == ["created"]
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.idempotency_keys") == 1


WHOLES: dict[str, tuple[str, int, str, str]] = {
    "no list": ('{"jobs": {}}', 422, "invalid-request", "jobs"),
    "no jobs": ("{}", 422, "invalid-request", "jobs"),
    "an empty list": ('{"jobs": []}', 422, "invalid-request", "jobs"),
    "a strange member": ('{"jobs": [{}], "more": 1}', 422, "invalid-request", "more"),
    "too many": ('{"jobs": [' + ",".join(["{}"] * 1001) + "]}", 422, "invalid-request", "jobs"),
    "no object": ("[]", 400, "malformed-json", ""),
    "a member twice": (
        '{"jobs": [{}, {"kind": "a", "kind": "b"}]}',
        400,
        "malformed-json",
        "jobs[1].kind",
    ),
    "NaN": ('{"jobs": [{"payload": {"number": NaN}}]}', 400, "malformed-json", ""),
    "NUL": (
        '{"jobs": [{}, {"payload": {"note": "\\u0000"}}]}',
        400,
        "malformed-json",
        "jobs[1].payload.note",
    ),
}


@pytest.mark.parametrize("case", WHOLES)
async def test_what_is_wrong_with_the_whole_refuses_the_whole(
    client: httpx.AsyncClient, engine: AsyncEngine, case: str
) -> None:
    """With and without a key; nothing is written."""
    content, status, slug, field = WHOLES[case]
    for key in (None, "whole"):
        problem = problem_of(await batch(client, content, key=key), status, slug)
        assert problem["errors"][0]["field"] == field
    assert await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys") == 0
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 0


async def test_an_item_that_is_no_object_is_that_items_error(client: httpx.AsyncClient) -> None:
    """Among others that are in order."""
    answer = await batch(client, [5, note(), None, []])
    assert await outcomes(answer) == ["error", "created", "error", "error"]
    assert answer.json()["jobs"][2]["error"]["errors"][0]["field"] == "jobs[2]"


async def test_a_batch_has_a_limit_of_its_own(settings: ApiSettings) -> None:
    """Larger than a submit may be, and no larger than is set; announced or not."""
    limit = 2 * BODY_LIMIT_BYTES
    async with serving(settings.model_copy(update={"batch_body_bytes": limit})) as client:
        large = [note(note="x" * 200_000), note(note="y" * 200_000)]
        assert len(json.dumps({"jobs": large})) > BODY_LIMIT_BYTES
        assert await outcomes(await batch(client, large)) == ["created", "created"]
        beyond = json.dumps({"jobs": [*large, note(note="z" * 300_000)]})
        problem_of(await batch(client, beyond), 413, "too-large")

        async def pieces() -> Any:
            yield beyond.encode()

        sent = await client.post("/v1/jobs:batch", content=pieces(), headers=JSON)
        problem_of(sent, 413, "too-large")
        problem_of(await post(client, beyond), 413, "too-large")


async def test_a_large_batch_is_judged_beside_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight megabytes take a third of a second, in which everybody else is served."""
    seen: list[str] = []

    def watched(*asked: Any) -> Any:
        seen.append(threading.current_thread().name)
        return read_batch(*asked)

    monkeypatch.setattr("api.routes.batch.read_batch", watched)
    await batch(client, [note()])
    await batch(client, [note(note="x" * 100_000)])
    assert seen[0] == threading.current_thread().name
    assert seen[1].startswith("large bodies")


async def test_rights_are_judged_item_by_item_in_the_words_of_one_submit(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """A foreign brand is that item's error; so is priority 9 without the role."""
    key = await make_key(owner_engine, Role.SUBMIT, scope=RED)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        foreign, urgent = note() | {"brand": "BLUE"}, note() | {"priority": 9}
        answer = await batch(client, [foreign, note(), urgent], headers=bearer(key))
        assert await outcomes(answer) == ["error", "created", "error"]
        for body, item in ((foreign, 0), (urgent, 2)):
            alone = (await post(client, body, headers=bearer(key))).json()
            told = answer.json()["jobs"][item]["error"]
            assert (told["type"], told["detail"]) == (alone["type"], alone["detail"])


async def test_what_was_refused_then_too_keeps_nobody_from_his_answer(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """An item outside the account's rights was an error in the stored answer already."""
    wide = bearer(await make_key(owner_engine, Role.SUBMIT, scope=ACME))
    narrow = bearer(await make_key(owner_engine, Role.SUBMIT, scope=RED))
    mixed = [note(), note() | {"brand": "GREEN"}]
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        first = await batch(client, mixed, key="m", headers=wide)
        assert (await batch(client, mixed, key="m", headers=narrow)).content == first.content


async def test_who_has_lost_a_right_is_shown_no_stored_answer(
    settings: ApiSettings, owner_engine: AsyncEngine
) -> None:
    """To the letter the same request, under the same account: only the rights have changed."""
    wide = bearer(await make_key(owner_engine, Role.SUBMIT, scope=ACME))
    narrow = bearer(await make_key(owner_engine, Role.SUBMIT, scope=RED))
    jobs = [note(), note() | {"brand": "BLUE"}]
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        assert await outcomes(await batch(client, jobs, key="k", headers=wide)) == ["created"] * 2
        refused = await batch(client, jobs, key="k", headers=narrow)
        problem = problem_of(refused, 422, "unknown-brand")
        assert problem["errors"][0]["field"] == "jobs[1].brand"
        assert (await batch(client, jobs, key="k", headers=wide)).status_code == 200
