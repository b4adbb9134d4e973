"""GET /v1/alerts and silence: what an evaluator has found is shown, and held back for a while."""

from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.alerts import load_rules
from shared.alerts.evaluator import Alerting
from shared.alerts.readings import METRICS
from tests.factories import execute, fetch
from tests.protocol.api.app import problem_of

DEAD = """INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason,
                                         receive_count)
          VALUES ('default', 'm', 'x', '{}', 'not ours', 1)"""


@pytest.fixture
def alerting(engine: AsyncEngine) -> Alerting:
    """An evaluator beside the api's own, which looks every 15 s."""
    return Alerting(engine=engine, rules=load_rules(), deployment="here", seconds=0.01)


async def test_what_fires_is_shown_with_what_to_do(
    client: httpx.AsyncClient, alerting: Alerting, engine: AsyncEngine
) -> None:
    assert (await client.get("/v1/alerts")).json()["alerts"] == []
    await execute(engine, DEAD)
    assert await alerting.look()
    found = (await client.get("/v1/alerts")).json()
    (alert,) = found["alerts"]
    assert (alert["rule"], alert["value"], alert["threshold"]) == ("dead_messages", 1.0, 0.0)
    assert alert["runbook"] == "docs/runbook.md#dead_messages"
    assert alert["fired_at"].endswith("Z")
    assert found["looked_seconds"] < 60
    assert found["channels"] == []


async def test_silence_is_shown_with_who_and_why(
    client: httpx.AsyncClient, alerting: Alerting, engine: AsyncEngine
) -> None:
    await execute(engine, DEAD)
    await alerting.look()
    asked = {"rule": "dead_messages", "hours": 2, "reason": "known"}
    answer = await client.post("/v1/alerts/silence", json=asked)
    assert answer.status_code == 200, answer.text
    (alert,) = (await client.get("/v1/alerts")).json()["alerts"]
    assert alert["silenced_until"] == answer.json()["until"]
    assert (alert["silenced_by"], alert["silenced_because"]) == ("api", "known")
    rows = await fetch(engine, "SELECT principal FROM chot.audit WHERE action = 'alert.silence'")
    assert [row.principal for row in rows] == ["api"]


@pytest.mark.parametrize(
    "body",
    [
        {"rule": "dead_jobs", "hours": 169},
        {"rule": "dead_jobs", "hours": -1},
        {"rule": "dead_jobs"},
        {"rule": "dead_jobs", "hours": 1, "whose": "mine"},
        {"rule": "dead_jobs", "hours": 1, "reason": "x" * 501},
    ],
)
async def test_a_silence_that_is_none_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    problem_of(await client.post("/v1/alerts/silence", json=body), 422, "invalid-request")


async def test_a_rule_that_there_is_not(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/alerts/silence", json={"rule": "nothing", "hours": 1})
    problem_of(answer, 404, "alert-rule-not-found")


async def test_every_metric_of_a_rule_is_in_metrics(client: httpx.AsyncClient) -> None:
    """What Prometheus judges is what the evaluator does."""
    text = (await client.get("/metrics")).text
    for name in METRICS:
        assert f"# TYPE {name} gauge" in text, name
