"""Poison: messages that are none of ours, jobs that kill their worker, handlers that never let go."""

import json
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.types import JobId
from tests.factories import eventually, fetch, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    alerts,
    all_reached,
    effects,
    error_of,
    exited,
    limited_job,
    message_for,
    outcomes,
    queue_is,
    queued,
    reached,
    result_of,
    said,
    stamped,
    working,
)
from tests.sqs_proxy import SqsProxy

# Scenario F23, and F24's attempts to have something unpickled or looked up by name.
MALFORMED = (
    " ",
    "hello",
    "{",
    "[]",
    "null",
    '"x"',
    '{"job_id":"zz"}',
    '{"job_id":1e400}',
    "[" * 10_000,
    "x" * 250_000,
    '{"job_id": "00000000-0000-0000-0000-000000000000", "kind": "os.system"}',
    '{"__reduce__": ["os.system", ["touch /tmp/pwned"]]}',
    "gASVKQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA50b3VjaCAvdG1wL3B3bpSFlFKULg==",
    "!!python/object/apply:os.system ['true']",
)


@pytest.mark.scenario("F23")
async def test_bodies_that_are_not_ours_are_kept_and_hurt_nobody(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """Each becomes a dead message with an alert; the good jobs between them run at once."""
    url = queue_urls["default"]
    good = [await make_job(probes) for _ in range(25)]
    sent = [sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"] for body in MALFORMED]
    good += [await make_job(probes) for _ in range(25)]
    workers = [fleet.worker() for _ in range(2)]
    await working(*workers)
    await all_reached(probes, good, "succeeded", seconds=10)
    await queue_is(sqs, url, (0, 0))
    rows = await fetch(probes, "SELECT message_id, body, reason FROM chot.dead_messages")
    assert {row.message_id: row.body.decode() for row in rows} == dict(
        zip(sent, MALFORMED, strict=True)
    )
    assert all(row.reason for row in rows)
    told = [line["message_id"] for line in alerts(workers, "message.dead")]
    assert sorted(told) == sorted(sent), "one alert each, naming the message"
    assert all(worker.alive for worker in workers)
    assert sqs_proxy.asked["ReceiveMessage"] < 150, "no hot loop"
    assert await scalar(probes, "SELECT count(*) FROM chot.attempts") == 50


@pytest.mark.scenario("F18", "F25")
async def test_messages_of_unknown_jobs_and_of_strangers_are_settled_apart(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """Unknown: parked after a few receives. A stranger's: left alone. SQS's own dead: imported."""
    sqs_proxy.longest_visibility = 1  # five seconds between the redeliveries, scaled
    url = queue_urls["default"]
    job_id = await make_job(probes)
    known = json.loads(await message_for(probes, job_id))
    unknown = json.dumps(known | {"job_id": str(uuid4())})
    foreign = json.dumps(known | {"deployment_id": str(uuid4())})
    for body in (unknown, foreign, foreign):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    dead = sqs.get_queue_url(QueueName=f"{fleet.prefix}-default-dead")["QueueUrl"]
    for body in ("not ours", json.dumps(known), unknown.replace(known["kind"], "x")):
        sqs.send_message(QueueUrl=dead, MessageBody=body)
    worker = fleet.worker()
    await reached(probes, job_id, "succeeded")

    async def three_parked() -> bool:
        return bool(await scalar(probes, "SELECT count(*) FROM chot.dead_messages") == 3)

    await eventually(three_parked)
    rows = await fetch(
        probes, "SELECT reason, receive_count FROM chot.dead_messages ORDER BY reason"
    )
    reasons = [row.reason for row in rows]
    assert [row.receive_count for row in rows if row.reason == "no job has this id"] == [4]
    assert sum("dead-letter queue" in reason for reason in reasons) == 2, "a known job says nothing"
    assert queued(sqs, dead) == (0, 0)

    async def only_strangers_left() -> bool:
        return sum(queued(sqs, url)) == 2

    await eventually(only_strangers_left)
    assert len(alerts([worker], "message.other_deployment")) == 1, "one alert, not one a receive"
    assert len(alerts([worker], "message.dead")) == 3
    assert worker.alive


class Supervisor:
    """Starts a new worker for each that has died, as an orchestrator would."""

    def __init__(self, fleet: Fleet, workers: int, **changes: str) -> None:
        self._fleet, self._changes = fleet, changes
        self._living: list[Child] = [fleet.worker(**changes) for _ in range(workers)]
        self.deaths: list[int] = []

    def revive(self) -> None:
        """Replace the dead."""
        for place, child in enumerate(self._living):
            if not child.alive:
                self.deaths.append(child.exit_code or 0)
                self._living[place] = self._fleet.worker(**self._changes)


@pytest.mark.scenario("F13")
async def test_a_job_that_kills_its_worker_ends_dead_and_alone(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """os._exit and a segfault: buried when their lost leases are used up; neighbours succeed."""
    fleet.lease = 2.0
    supervisor = Supervisor(fleet, 2)
    neighbours = [await make_job(probes, chunks=8, seconds=0.5) for _ in range(4)]
    killer = await limited_job(probes, "probe.misbehave", 2, how="exit")
    crasher = await limited_job(probes, "probe.misbehave", 1, how="segfault")

    async def buried() -> bool:
        supervisor.revive()
        states = {(await job_row(probes, each)).state for each in (killer, crasher)}
        return states == {"dead"}

    await eventually(buried, seconds=70, every=0.2)
    row = await job_row(probes, killer)
    assert (row.attempt, row.lost_leases) == (4, 4), "twice its attempts, no run more"
    assert (await error_of(probes, killer))["code"] == "WORKER_LOST"
    assert await outcomes(probes, killer) == ["lost_lease"] * 4
    assert (await job_row(probes, crasher)).lost_leases == 2
    supervisor.revive()
    await all_reached(probes, neighbours, "succeeded", seconds=30)
    for each in neighbours:
        written = [chunk for chunk, _ in await effects(probes, each)]
        assert written == list(range(8))
    dead = {line["job_id"] for line in alerts(fleet.workers, "job.dead")}
    assert dead == {str(killer), str(crasher)}
    assert {137} <= set(supervisor.deaths) <= {137, -11}, "nothing else has killed a worker"
    await _ran_alone_in_the_end(probes, fleet, killer)


async def _ran_alone_in_the_end(engine: AsyncEngine, fleet: Fleet, killer: JobId) -> None:
    """From its third run on, no attempt of another job ended with the killer's worker."""
    shared = await fetch(
        engine,
        """SELECT k.fence, n.job_id FROM chot.attempts k
             JOIN chot.attempts n ON n.worker_id = k.worker_id AND n.job_id <> k.job_id
            WHERE k.job_id = :killer AND k.fence >= 3 AND n.ended_at > k.started_at""",
        killer=killer,
    )
    assert shared == []
    assert any(fleet.events(worker, "worker.alone") for worker in fleet.workers)


@pytest.mark.scenario("F09", "F16")
async def test_a_handler_that_ignores_its_timeout_is_failed_and_its_worker_replaced(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Recorded as TIMEOUT, never as succeeded; exit 70 once the neighbours have ended."""
    worker = fleet.worker()
    await working(worker)
    neighbour = await make_job(probes, chunks=4, seconds=1.0, unyielding=True)
    swallowing = await make_job(probes, "probe.brief", how="swallow_cancel", seconds=60)
    await stamped(probes, swallowing)
    assert await exited(worker, seconds=15) == 70
    assert (await job_row(probes, swallowing)).state != "succeeded"
    assert await outcomes(probes, swallowing) == ["failed"]
    assert (await error_of(probes, swallowing))["code"] == "TIMEOUT"
    row = await job_row(probes, neighbour)
    assert (row.state, row.attempt) == ("succeeded", 1), "the others were drained"
    assert await said(worker, "slot.stuck")


@pytest.mark.scenario("F09", "F16")
async def test_a_result_that_comes_after_the_timeout_does_not_count(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """It catches its cancellation and returns within the grace: failed twice, then dead."""
    worker = fleet.worker()
    late = await make_job(probes, "probe.brief", how="catch_everything", seconds=1.5)
    await reached(probes, late, "dead")
    assert await outcomes(probes, late) == ["failed", "failed"]
    assert (await error_of(probes, late))["code"] == "TIMEOUT"
    assert worker.alive, "its slot came free in time"


@pytest.mark.scenario("F46")
async def test_odd_results_and_errors_end_in_one_step(probes: AsyncEngine, fleet: Fleet) -> None:
    """What cannot be stored is a permanent error with a clear text; what can be is exact."""
    worker = fleet.worker()
    refused = {
        how: await make_job(probes, "probe.misbehave", how=how)
        for how in ("return_nan", "return_large", "return_bytes", "return_set", "return_cycle")
    }
    odd = await limited_job(probes, "probe.misbehave", 1, how="raise_odd")
    gone = await limited_job(probes, "probe.misbehave", 1, how="raise_exit")
    told = await make_job(probes, "probe.misbehave", how="raise_permanent")
    exact = await make_job(probes, "probe.misbehave", how="return_values")
    for how, job_id in refused.items():
        row = await reached(probes, job_id, "dead")
        assert (row.attempt, await outcomes(probes, job_id)) == (1, ["failed"]), how
        error = await error_of(probes, job_id)
        assert error["code"] == "RESULT_NOT_STORABLE", how
        assert error["message"].startswith("result "), how
    await reached(probes, odd, "dead")
    assert (await error_of(probes, odd))["type"] == "OddError"
    await reached(probes, gone, "dead")
    assert "asked to end the process" in (await error_of(probes, gone))["message"]
    await reached(probes, told, "dead")
    error = await error_of(probes, told)
    assert (error["code"], error["details"]) == ("TOLD", {"why": "a test"})
    await reached(probes, exact, "succeeded")
    assert await result_of(probes, exact) == {
        "amount": "12345678901234567.8901",
        "day": "2026-01-31",
        "id": 9007199254740993,
    }
    assert worker.alive

    async def eight_alerts() -> bool:
        return len(alerts([worker], "job.dead")) == 8

    await eventually(eight_alerts)
