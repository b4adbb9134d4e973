"""POST /v1/jobs without a key: what is accepted, what is refused, and by which name."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import fetch, scalar
from tests.protocol.api.app import note, post, problem_of

COUNT_JOBS = "SELECT count(*) FROM chot.jobs"


async def test_a_submit_is_accepted_with_a_job_and_its_message(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """202, a place to poll, and exactly one row on each side."""
    answer = await post(client, note())
    assert answer.status_code == 202
    body = answer.json()
    assert answer.headers["location"] == body["status_url"] == f"/v1/jobs/{body['id']}"
    assert int(answer.headers["retry-after"]) >= 1
    assert "idempotency-replayed" not in answer.headers
    assert (body["state"], body["created"], body["duplicate"]) == ("pending", True, None)
    row = (await fetch(engine, "SELECT * FROM chot.jobs"))[0]
    assert (str(row.id), row.principal, row.payload_version) == (body["id"], "api", 1)
    assert row.max_attempts == 3
    shown = await client.get(answer.headers["location"])
    assert shown.status_code == 200


@pytest.mark.scenario("F47")
async def test_numbers_reach_the_database_digit_for_digit(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """No number of the payload passes through a float, nor through the model."""
    body = json.dumps(note()).replace(
        '"payload": {',
        '"payload": {"amount": 12345678901234567.8901, "counts": [9007199254740993],'
        ' "anything": [1.10, 1e5, 0.1e-7, -0.0, {"deep": 100000000000000000000.000000000001}],',
    )
    answer = await post(client, body)
    assert answer.status_code == 202, answer.text
    stored = await scalar(engine, "SELECT payload::text FROM chot.job_payloads")
    assert '"amount": 12345678901234567.8901' in stored
    assert '"counts": [9007199254740993]' in stored
    assert "[1.10, 100000, 0.00000001" in stored
    assert "100000000000000000000.000000000001" in stored


async def test_the_payload_is_stored_as_sent_without_defaults(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A default that the model gains tomorrow is in no job of today."""
    sent = note(note="Chốt sổ", day="2026-01-31")
    assert (await post(client, sent)).status_code == 202
    stored = await scalar(engine, "SELECT payload::text FROM chot.job_payloads")
    assert json.loads(stored) == sent["payload"]


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown kind", {"kind": "no.such"}, "unknown-kind", "kind"),
    ("unknown company", {"company": "NOPE"}, "unknown-company", "company"),
    ("unknown brand", {"brand": "GREEN"}, "unknown-brand", "brand"),
    ("kind of the wrong type", {"kind": 7}, "invalid-request", "kind"),
    ("missing member", {"company": ...}, "invalid-request", "company"),
    ("unknown member", {"colour": "red"}, "invalid-request", "colour"),
    ("payload no object", {"payload": []}, "invalid-request", "payload"),
    (
        "payload of the wrong type",
        {"payload": {"number": "7"}},
        "invalid-request",
        "payload.number",
    ),
    ("payload with 1.0", {"payload": {"number": 1.0}}, "invalid-request", "payload.number"),
    (
        "payload with an unknown member",
        {"payload": {"number": 1, "strange": 2}},
        "invalid-request",
        "payload.strange",
    ),
    (
        "payload with a bad list item",
        {"payload": {"number": 1, "counts": [1, "2"]}},
        "invalid-request",
        "payload.counts.1",
    ),
    ("run_at without an offset", {"run_at": "2026-01-01T00:00:00"}, "invalid-request", "run_at"),
    ("run_at as a number", {"run_at": 1_700_000_000}, "invalid-request", "run_at"),
    ("run_at as a number in text", {"run_at": "1700000000"}, "invalid-request", "run_at"),
    ("run_at beyond time", {"run_at": "9999-12-31T23:59:59-12:00"}, "invalid-request", "run_at"),
    ("run_at on no day", {"run_at": "2026-02-30T00:00:00Z"}, "invalid-request", "run_at"),
    ("priority 10", {"priority": 10}, "invalid-request", "priority"),
    ("priority as text", {"priority": "5"}, "invalid-request", "priority"),
    ("max_attempts 0", {"max_attempts": 0}, "invalid-request", "max_attempts"),
    ("max_attempts above the cap", {"max_attempts": 8}, "invalid-request", "max_attempts"),
    ("max_attempts beyond integer", {"max_attempts": 2**40}, "invalid-request", "max_attempts"),
]


async def test_a_refusal_names_the_field_and_writes_nothing(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """422 with field, rule and value, one case after the other on one api."""
    for case, changed, slug, field in REFUSED:
        body = {name: value for name, value in (note() | changed).items() if value is not ...}
        problem = problem_of(await post(client, body), 422, slug)
        assert problem["errors"][0]["field"] == field, case
        assert problem["errors"][0]["rule"], case
        assert case != "unknown kind" or "api.note" in problem["errors"][0]["rule"]
    assert await scalar(engine, COUNT_JOBS) == 0


MALFORMED = [
    b"",
    b"{",
    b"[]",
    b'"text"',
    b'{"a": 1, "a": 2}',
    b'{"a": {"b": 1, "b": 1}}',
    b'{"a": NaN}',
    b'{"a": -Infinity}',
    b'{"a": "\\u0000"}',
    b'{"\\u0000": 1}',
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b"\xef\xbb\xbf{}",
    b'{"a": 1' + b"0" * 400 + b"}",
    b'{"a": 1e400}',
    b'{"a": 1e99999999999999999999}',
    b"[" * 10_000,
    b'{"a":' * 33 + b"1" + b"}" * 33,
]


@pytest.mark.scenario("F46")
async def test_what_is_no_json_of_ours_is_a_problem_of_the_client(
    client: httpx.AsyncClient,
) -> None:
    """C14, C43: 400, never 500, whatever the bytes are."""
    for body in MALFORMED:
        problem = problem_of(await post(client, body, key="k"), 400, "malformed-json")
        assert problem["errors"][0]["rule"], body[:40]


async def test_a_number_that_grows_in_the_database_is_refused(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """A short body may be a long jsonb: the size that counts is the stored one."""
    numbers = ",".join(["1e308"] * 2000)
    body = json.dumps(note()).replace('"payload": {', f'"payload": {{"anything": [{numbers}],')
    problem = problem_of(await post(client, body), 422, "invalid-request")
    assert problem["errors"][0]["field"] == "payload"
    assert await scalar(engine, COUNT_JOBS) == 0


async def test_a_body_beyond_the_limit_or_of_another_type_is_refused(
    client: httpx.AsyncClient,
) -> None:
    """C38: 413 and 415, announced or not, and the key is not used up."""
    body = note(note="x" * 310_000)
    problem_of(await post(client, body, key="k"), 413, "too-large")

    async def unannounced() -> Any:
        for _ in range(40):
            yield b" " * 10_000

    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    answer = await client.post("/v1/jobs", content=unannounced(), headers=headers)
    problem_of(answer, 413, "too-large")
    for wrong in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Encoding": "gzip"},
    ):
        problem_of(
            await post(client, note(), key="k", headers=wrong), 415, "unsupported-media-type"
        )
    accepted = await post(
        client, note(), key="k", headers={"Content-Type": "application/json; charset=UTF-8"}
    )
    assert accepted.status_code == 202


async def test_a_body_that_does_not_come_is_not_waited_for(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, engine: AsyncEngine
) -> None:
    """408, and nothing is written; the connection is the client's to open again."""
    monkeypatch.setattr("api.gate.BODY_SECONDS_MAX", 0.05)

    async def stuck() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/jobs", content=stuck(), headers=headers)
    problem_of(answer, 408, "body-too-slow")
    assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "1")
    assert await scalar(engine, COUNT_JOBS) == 0


async def test_a_payload_of_256_kib_is_accepted(client: httpx.AsyncClient) -> None:
    """The limit of the body leaves room for the envelope."""
    assert (await post(client, note(note="x" * 262_000))).status_code == 202
    over = problem_of(await post(client, note(note="x" * 262_144)), 422, "invalid-request")
    assert over["errors"][0]["field"] == "payload"


async def test_a_duplicate_of_active_work_is_a_normal_answer(client: httpx.AsyncClient) -> None:
    """200 with the job that is there, not an error."""
    body = note()
    first, second = await post(client, body), await post(client, body)
    assert (first.status_code, second.status_code) == (202, 200)
    told = second.json()
    assert told["id"] == first.json()["id"]
    assert (told["created"], told["duplicate"], told["input_as_of"]) == (False, "joined", None)
    assert second.headers["location"] == first.headers["location"]


async def test_a_kind_that_merges_says_so(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    """The new payload is in the pending job."""
    body = note(counts=[1]) | {"kind": "api.merge"}
    first = await post(client, body)
    body["payload"] = body["payload"] | {"counts": [2], "amount": "1.10"}
    second = await post(client, body)
    assert (second.status_code, second.json()["duplicate"]) == (200, "merged")
    assert second.json()["id"] == first.json()["id"]
    stored = json.loads(await scalar(engine, "SELECT payload::text FROM chot.job_payloads"))
    assert (stored["counts"], stored["amount"]) == ([1, 2], "1.10")


async def test_options_are_kept_with_the_job(client: httpx.AsyncClient) -> None:
    """Priority, budget and the time it may start."""
    body = note() | {"priority": 9, "max_attempts": 7, "run_at": "2199-01-01T07:00:00+07:00"}
    answer = await post(client, body)
    job = (await client.get(answer.headers["location"])).json()
    assert (job["priority"], job["max_attempts"]) == (9, 7)
    assert job["available_at"] == "2199-01-01T00:00:00Z"
