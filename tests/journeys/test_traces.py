"""One trace from POST to attempt, what it spawns and what follows it; spans where they are wanted."""

import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import NUMBERS, eventually, fetch, job_row, scalar
from tests.fleet import Fleet, log_lines
from tests.journeys.collector import Collector, Seen, open_collector
from tests.journeys.looking import reached, working
from tests.scenarios.looking import api_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
HEADERS = {"traceparent": PARENT, "tracestate": "erp=batch-7"}
KEPT = f"{PARENT} erp=batch-7"
GROUPS = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.group_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.probes.group_handlers",
}


def body(kind: str = "probe.write", **payload: Any) -> dict[str, Any]:
    """A submit of new work."""
    payload = {"number": next(NUMBERS)} | payload
    return {"kind": kind, "company": "ACME", "brand": "RED", "payload": payload}


async def posted(http: httpx.AsyncClient, path: str = "/v1/jobs", **asked: Any) -> Any:
    """The answer to a POST under the trace."""
    answer = await http.post(path, **({"headers": HEADERS} | asked))
    assert answer.status_code in {200, 202}, answer.text
    return answer.json()


def lines_of(child: Child, event: str) -> list[dict[str, Any]]:
    """Its log's lines of this event."""
    return [line for line in log_lines(child) if line["event"] == event]


async def test_the_trace_goes_with_the_job_its_children_and_its_follow_up(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """In the row, the message, what the handler sees, and every line; without any extra."""
    async with api_of(fleet, **GROUPS) as http:
        api = fleet.children[-1]
        first = (await posted(http, json=body()))["id"]
        assert (await job_row(probes, first)).trace == KEPT
        many = await posted(
            http, "/v1/jobs:batch", json={"jobs": [body(), body()]}, headers=HEADERS
        )
        large = body("probe.merge", items=["x" * 100] * 400)  # read in a thread
        ids = [each["job"]["id"] for each in many["jobs"]]
        ids.append((await posted(http, json=large))["id"])
        for job_id in ids:
            assert (await job_row(probes, job_id)).trace == KEPT
        without = (await posted(http, json=body(), headers={}))["id"]
        assert (await job_row(probes, without)).trace is None
        parent = (await posted(http, json=body("probe.fan", children=2)))["id"]
        worker = fleet.worker(**GROUPS)
        await working(worker)
        await reached(probes, first, "succeeded")
        await reached(probes, parent, "succeeded")
        spawned = "SELECT trace FROM chot.jobs WHERE group_id IS NOT NULL OR joins IS NOT NULL"
        rows = await fetch(probes, spawned)
        assert len(rows) >= 2
        assert {row.trace for row in rows} == {KEPT}

        async def ended() -> dict[str, dict[str, Any]] | None:
            found = {line["job_id"]: line for line in lines_of(worker, "attempt.ended")}
            return found if {first, without} <= found.keys() else None

        found = await eventually(ended)
        assert found[first]["trace_id"] == TRACE
        assert "trace_id" not in found[without]
        request = next(
            line for line in lines_of(api, "http.request") if line.get("job_id") == first
        )
        assert request["trace_id"] == TRACE
        assert request["request_id"]


async def test_a_follow_up_is_of_the_trace_of_what_it_follows(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """It becomes a job when the one before it ends, in no request at all."""
    async with api_of(fleet) as http:
        work = body("probe.follow", items=["a"])
        first = (await posted(http, json=work))["id"]
        await _as_if_claimed(probes, first)
        again = work | {"payload": work["payload"] | {"items": ["b"]}}
        assert (await posted(http, json=again, headers={}))["duplicate"] == "follow_up"
        assert (await http.post(f"/v1/jobs/{first}/cancel")).status_code == 200
        after = "SELECT trace FROM chot.jobs WHERE id <> :i"
        assert await scalar(probes, after, i=first) == KEPT


async def _as_if_claimed(engine: AsyncEngine, job_id: str) -> None:
    from tests.factories import claimed_again  # noqa: PLC0415 - of this step alone

    held = await claimed_again(engine, job_id, worker="a")  # type: ignore[arg-type] # a uuid's text
    assert held.job.trace == KEPT


MALFORMED: tuple[Any, ...] = (
    {"traceparent": "nonsense"},
    {"traceparent": PARENT.upper()},
    {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
    {"tracestate": "a=1"},
    [("traceparent", PARENT), ("traceparent", PARENT)],
    [(b"traceparent", b"\xff\xfe")],
)


async def test_a_malformed_trace_is_no_error(probes: AsyncEngine, fleet: Fleet) -> None:
    """The job is made as if nothing had been sent."""
    async with api_of(fleet) as http:
        for headers in MALFORMED:
            job_id = (await posted(http, json=body(), headers=headers))["id"]
            assert (await job_row(probes, job_id)).trace is None, headers


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where processes that are told so send their spans."""
    with open_collector() as opened:
        yield opened


async def test_spans_from_post_to_attempt(
    probes: AsyncEngine, fleet: Fleet, collector: Collector
) -> None:
    """Server, producer, client, consumer, as the conventions for messaging have them.

    The attempts are linked to where the job was made, and in traces of their own.
    """
    environment = collector.environment
    async with api_of(fleet, **environment) as http:
        good = (await posted(http, json=body()))["id"]
        bad = (await posted(http, json=body("probe.misbehave", how="raise_permanent"), headers={}))[
            "id"
        ]
        worker = fleet.worker(**environment)
        await reached(probes, good, "succeeded")
        await reached(probes, bad, "dead")

        async def all_there() -> bool:
            done = {span.facts.get("chot.job_id") for span in collector.named("process default")}
            return {good, bad} <= done and len(collector.named("send default")) >= 1

        await eventually(all_there)
        assert worker.alive
    request, other = _of(collector, "POST /v1/jobs", good), _of(collector, "POST /v1/jobs", bad)
    assert (request.trace_id, request.parent_id) == (TRACE, SPAN)
    assert (request.service, request.kind) == ("chot-api", "server")
    assert request.facts["http.response.status_code"] == 202
    assert other.trace_id != TRACE, "whoever sends none begins one"
    (create,) = [each for each in collector.named("create default") if each.trace_id == TRACE]
    assert (create.parent_id, create.kind) == (request.span_id, "producer")
    sent = {link for each in collector.named("send default") for link in each.links}
    attempt = _of(collector, "process default", good)
    assert (attempt.service, attempt.kind, attempt.parent_id) == ("chot-worker", "consumer", "")
    assert attempt.links == ((TRACE, create.span_id),)
    assert attempt.links[0] in sent
    assert attempt.trace_id != TRACE
    assert attempt.facts["chot.outcome"] == "succeeded"
    assert attempt.facts["messaging.system"] == "aws_sqs"
    assert attempt.facts["messaging.operation.type"] == "process"
    assert attempt.facts["messaging.message.id"]
    assert not attempt.failed
    failed = _of(collector, "process default", bad)
    assert failed.failed
    assert failed.facts["error.type"] == "PermanentError"
    kept = await scalar(probes, "SELECT trace FROM chot.jobs WHERE id = :i", i=good)
    assert kept == f"00-{TRACE}-{create.span_id}-01 erp=batch-7"
    assert not [span for span in collector.spans if "told to be wrong" in span.raw]


def _of(collector: Collector, name: str, job_id: str) -> Seen:
    found = [each for each in collector.named(name) if each.facts.get("chot.job_id") == job_id]
    assert len(found) == 1, (name, [each.facts for each in collector.named(name)])
    return found[0]


async def test_a_collector_that_is_away_costs_no_job(probes: AsyncEngine, fleet: Fleet) -> None:
    """Spans are lost, jobs are not; and both processes end in time."""
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    async with api_of(fleet, **away) as http:
        worker = fleet.worker(**away)
        job_id = (await posted(http, json=body()))["id"]
        await reached(probes, job_id, "succeeded")
        worker.send(signal.SIGTERM)

        async def gone() -> bool:
            return not worker.alive

        await eventually(gone, seconds=20)
        assert worker.exit_code == 0
