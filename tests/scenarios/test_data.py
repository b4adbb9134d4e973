"""Numbers and results: exact at every hop, and stored in one step or refused in one."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import NUMBERS, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import error_of, outcomes, reached, result_of
from tests.scenarios.books import MODULES
from tests.scenarios.looking import api_of, post_job

BEYOND_DOUBLE = 9007199254740993  # 2^53 + 1
LARGEST = 9223372036854775807
AMOUNT = "12345678901234567.8901"
NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "[1, NaN]", '{"deep": -1e999}')
JSON = {"Content-Type": "application/json"}


def echo_body(anything: str = "0.1") -> str:
    """A submit whose bytes say each number exactly as written here."""
    return (
        '{"kind": "data.echo", "company": "ACME", "brand": "RED", "payload": {"number": '
        f'{next(NUMBERS)}, "ids": [{BEYOND_DOUBLE}, {LARGEST}], "amount": "{AMOUNT}", '
        f'"anything": {anything}}}}}'
    )


@pytest.mark.scenario("F47")
async def test_integers_and_money_are_exact_at_every_hop(data: AsyncEngine, fleet: Fleet) -> None:
    """F47, first step: the request, the stored payload, the handler, a column, the result, GET."""
    fleet.worker(**MODULES)
    async with api_of(fleet, **MODULES) as http:
        answer = await http.post("/v1/jobs", content=echo_body(), headers=JSON)
        assert answer.status_code == 202, answer.text
        job_id = answer.json()["id"]
        await reached(data, job_id, "succeeded")
        stored = await scalar(data, "SELECT payload::text FROM chot.job_payloads")
        assert f'"ids": [{BEYOND_DOUBLE}, {LARGEST}]' in stored
        assert f'"amount": "{AMOUNT}"' in stored
        assert '"anything": 0.1' in stored
        echoes = await fetch(data, "SELECT id, amount FROM probe.echoes ORDER BY id")
        assert echoes == [(BEYOND_DOUBLE, Decimal(AMOUNT)), (LARGEST, Decimal(AMOUNT))]
        result = await result_of(data, job_id)
        assert result["types"] == ["int", "Decimal"], "what the handler worked with"
        assert (result["ids"], result["amount"]) == ([BEYOND_DOUBLE, LARGEST], AMOUNT)
        assert result["raw"]["anything"] == "0.1", "a Decimal all the way, no float"
        shown = (await http.get(f"/v1/jobs/{job_id}")).text
    # As a browser reads it: every number a double.
    seen = json.loads(shown, parse_int=float, parse_float=float)["result"]
    assert seen["ids"] == [str(BEYOND_DOUBLE), str(LARGEST)], "strings above 2^53"
    assert seen["amount"] == AMOUNT


@pytest.mark.scenario("F47")
@pytest.mark.parametrize("lines", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_a_million_tenths_are_a_hundred_thousand(
    data: AsyncEngine, fleet: Fleet, lines: int
) -> None:
    """F47, second step: as doubles a million times 0.1 is 100000.00000133288."""
    fleet.worker(**MODULES)
    async with api_of(fleet, **MODULES) as http:
        job_id = await post_job(http, "data.tenths", lines=lines, chunk=20_000)
        await reached(data, job_id, "succeeded", seconds=60)
        shown = (await http.get(f"/v1/jobs/{job_id}")).json()
    exact = Decimal(lines) / 10
    assert shown["result"]["total"] == f"{exact:.1f}"
    total, kind = (
        await fetch(data, "SELECT sum(amount), pg_typeof(sum(amount))::text FROM probe.tenths")
    )[0]
    assert (total, kind) == (exact, "numeric")
    assert await scalar(data, "SELECT count(*) FROM probe.tenths") == lines
    assert (shown["progress"]["done"], shown["progress"]["total"]) == (lines, lines)


@pytest.mark.scenario("F46")
async def test_what_is_no_number_is_refused_at_the_door(data: AsyncEngine, fleet: Fleet) -> None:
    """F46, first step: NaN, Infinity, 1e999 never become a job.

    400 where the scenario says 422: the bytes are no JSON of ours (docs/http.md, malformed-json),
    which is found before anybody knows what kind of job they mean.
    """
    async with api_of(fleet, **MODULES) as http:
        for said in NO_NUMBERS:
            answer = await http.post("/v1/jobs", content=echo_body(said), headers=JSON)
            assert answer.status_code == 400, said
            problem = answer.json()
            assert problem["type"].endswith("malformed-json"), said
            assert problem["errors"][0]["rule"], said
        # A number for money that a model would turn into no number: the field is named.
        body = json.loads(echo_body()) | {"payload": {"number": 1, "ids": [1], "amount": "NaN"}}
        answer = await http.post("/v1/jobs", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "payload.amount")
    assert await scalar(data, "SELECT count(*) FROM chot.jobs") == 0


RETURNS: dict[str, tuple[str, Any]] = {
    # how: (state, what stands with the job: a result, or the beginning of the error's message)
    "return_values": (
        "succeeded",
        {"amount": AMOUNT, "day": "2026-01-31", "id": BEYOND_DOUBLE},
    ),
    "return_instant": ("succeeded", {"at": datetime(2026, 1, 31, 18, tzinfo=UTC).isoformat()}),
    "return_set": ("dead", "result cannot be stored"),
    "return_bytes": ("dead", "result cannot be stored"),
    "return_nan": ("dead", "result cannot be stored"),
    "return_cycle": ("dead", "result cannot be stored"),
    "complete_with_nan": ("dead", "result cannot be stored"),
    "raise_odd": ("dead", ""),
}


@pytest.mark.scenario("F46")
async def test_a_result_is_stored_or_refused_in_one_step(data: AsyncEngine, fleet: Fleet) -> None:
    """F46, third step, at once: one attempt each, no retry, and the worker lives to serve on.

    `complete_with_nan` writes an effect in the transaction that its result then spoils: both are
    gone, so that effects and state agree. `raise_odd` has an error with odd constructor arguments.
    """
    worker = fleet.worker(**MODULES)
    async with api_of(fleet, **MODULES) as http:
        await _end_as_told(data, http)
        after = await post_job(http)
        await reached(data, after, "succeeded")
    assert (await job_row(data, after)).attempt == 1
    assert worker.alive


async def _end_as_told(data: AsyncEngine, http: httpx.AsyncClient) -> None:
    ids = {how: await post_job(http, "data.give", max_attempts=1, how=how) for how in RETURNS}
    for how, (state, expected) in RETURNS.items():
        row = await reached(data, ids[how], state)
        assert (row.attempt, len(await outcomes(data, ids[how]))) == (1, 1), how
        shown = (await http.get(f"/v1/jobs/{ids[how]}")).json()
        assert shown["state"] == state, how
        if state == "succeeded":
            assert await result_of(data, ids[how]) == expected
            continue
        error = await error_of(data, ids[how])
        assert error["code"] == ("FAILED" if how == "raise_odd" else "RESULT_NOT_STORABLE"), how
        assert error["message"].startswith(expected), how
        assert shown["error"]["message"], how
        assert shown["result"] is None
    assert await scalar(data, "SELECT count(*) FROM probe.effects") == 0
