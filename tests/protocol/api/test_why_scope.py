"""What /why tells an account of less than all companies: no count of what it does not see."""

from typing import Any

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.why import WhyView
from api.settings import ApiSettings
from shared.access import Role
from shared.jobs import words
from tests.factories import execute
from tests.protocol.api.app import note, post, serving
from tests.protocol.api.keys import ACME, RED, bearer, make_key
from tests.protocol.api.test_read_and_act import run

WORKER = """
    INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
    VALUES ('w1', 'h', 1, 'v1', '{"api.note": 9}', 'working', clock_timestamp() + interval '1h')"""
SLOTS = """INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots)
           VALUES ('w1', 'default', 4, 3)"""
REFUSED = """
    WITH sent AS (DELETE FROM chot.outbox WHERE job_id = CAST(:job_id AS uuid))
    INSERT INTO chot.outbox (job_id, queue, kind, brand, priority, next_send_at, quarantined_at,
                             last_error)
    SELECT id, queue, kind, brand, priority, clock_timestamp(), clock_timestamp(),
           'AccessDenied: User: arn:aws:iam::123456789012:role/relay is not authorized'
      FROM chot.jobs WHERE id = CAST(:job_id AS uuid)"""
ONE_AT_ONCE = "UPDATE chot.kinds SET max_running = 1 WHERE name = 'api.note'"


async def why(client: httpx.AsyncClient, job_id: str, key: str) -> dict[str, Any]:
    """The answer, checked against its model."""
    answer = await client.get(f"/v1/jobs/{job_id}/why", headers=bearer(key))
    assert answer.status_code == 200, answer.text
    WhyView.model_validate_json(answer.content, extra="forbid")
    view: dict[str, Any] = answer.json()
    return view


async def test_how_many_run_of_others_is_for_accounts_of_all_companies(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The reason is the same for all; the counts, and the sentence made of them, are not."""
    admin = await make_key(owner_engine, Role.ADMIN)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        other = (await post(client, note() | {"brand": "BLUE"}, headers=bearer(admin))).json()["id"]
        await run(engine, other)
        for statement in (WORKER, SLOTS, ONE_AT_ONCE):
            await execute(owner_engine, statement)
        mine = (await post(client, note(), headers=bearer(admin))).json()["id"]
        whole = await why(client, mine, admin)
        parts = [
            await why(client, mine, await make_key(owner_engine, Role.READ, scope=scope))
            for scope in (RED, ACME)
        ]
    assert (whole["reason"], whole["running_of_kind"], whole["max_running"]) == (
        "kind-maximum",
        1,
        1,
    )
    assert "1 run, 1 may" in whole["sentence"]
    assert whole["turn"]["window_used"] is not None
    for part in parts:
        assert (part["reason"], part["running_of_kind"], part["max_running"]) == (
            "kind-maximum",
            None,
            1,
        )
        assert "(1 may run)" in part["sentence"]
        assert part["turn"]["window_used"] is None
        assert part["turn"]["ahead_higher"] is None


async def test_the_words_of_sqs_are_for_accounts_of_all_companies(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """They name an AWS account and its roles; everybody else is told the code."""
    admin = await make_key(owner_engine, Role.ADMIN)
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        for statement in (WORKER, SLOTS):
            await execute(owner_engine, statement)
        mine = (await post(client, note(), headers=bearer(admin))).json()["id"]
        await execute(engine, REFUSED, job_id=mine)
        whole = await why(client, mine, admin)
        part = await why(client, mine, await make_key(owner_engine, Role.READ, scope=RED))
    assert whole["reason"] == part["reason"] == "message-refused"
    assert "arn:aws:iam::123456789012:role/relay" in whole["sentence"]
    assert "for good (AccessDenied); correct" in part["sentence"]
    assert "123456789012" not in str(part)


def test_a_full_window_is_told_without_what_fills_it() -> None:
    """Its size follows from the slots, which everybody is shown."""
    row: dict[str, Any] = {"queue": "default", "window_size": 8, "slots": 4, "ahead": 2}
    row |= {"higher": None, "window_used": None}
    assert "is full (8 messages out for 4 slots)" in words.window_full(row)
    assert "is full (9 of 8 messages out" in words.window_full(row | {"window_used": 9})
