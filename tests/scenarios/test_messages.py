"""Messages that are none of ours, that name code, or that SQS has moved out of the way."""

import base64
import json
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import pytest
import yaml
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.jobs.enqueue import Submit, enqueue
from shared.types import JobId
from tests.factories import NUMBERS, eventually, execute, fetch, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    alerts,
    all_reached,
    effects,
    error_of,
    message_for,
    queue_is,
    queued,
    reached,
    said,
    working,
)
from tests.journeys.test_recovery import publish
from tests.scenarios.looking import api_of, post_job
from tests.sqs_proxy import SqsProxy

UNKNOWN = str(uuid4())
FOREIGN = (
    " ",
    "hello",
    "{",
    "[]",
    "null",
    '"x"',
    '{"job_id":"zz"}',
    json.dumps({"job_id": UNKNOWN}),
    '{"job_id":1e400}',
    "[" * 10_000 + "]" * 10_000,
    "x" * 250_000,
)


def processor_seconds(workers: Sequence[Child]) -> list[float]:
    """How much of a processor each process has used up so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    spent = []
    for worker in workers:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        spent.append((int(fields[11]) + int(fields[12])) / ticks)
    return spent


def receive_limit(sqs: Any, url: str, most: int) -> None:
    """Have SQS move what was received so often into the dead-letter queue."""
    names = ["RedrivePolicy"]
    held = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    policy = json.loads(held["RedrivePolicy"]) | {"maxReceiveCount": most}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


@pytest.mark.alone
@pytest.mark.scenario("F18", "F23")
async def test_foreign_messages_end_parked_and_hold_nobody_up(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F23: eleven bad bodies, an id of no job (F18), 50 good jobs between them; two workers.

    The receive limit of five is set while they run: they would not start with one so low. The five
    seconds between the receives of an unknown job are one.
    """
    sqs_proxy.longest_visibility = 1
    url = queue_urls["default"]
    workers = [fleet.worker(CHOT_CONCURRENCY="8") for _ in range(2)]
    await working(*workers)
    receive_limit(sqs, url, 5)
    good = [await make_job(probes)]
    unknown = json.dumps(json.loads(await message_for(probes, good[0])) | {"job_id": UNKNOWN})
    bad: dict[str, str] = {}
    for body in (*FOREIGN, unknown):
        bad[sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"]] = body
        good += [await make_job(probes) for _ in range(4)]
    good.append(await make_job(probes))
    began, spent = monotonic(), processor_seconds(workers)
    await all_reached(probes, good, "succeeded")
    late = await fetch(
        probes, "SELECT id FROM chot.jobs WHERE finished_at > created_at + interval '5 seconds'"
    )
    assert (len(good), late) == (50, [])

    async def parked() -> bool:
        return bool(await scalar(probes, "SELECT count(*) FROM chot.dead_messages") == len(bad))

    await eventually(parked)
    await queue_is(sqs, url, (0, 0))
    rows = await fetch(probes, "SELECT message_id, body, receive_count FROM chot.dead_messages")
    assert {row.message_id: row.body.decode() for row in rows} == bad
    assert max(row.receive_count for row in rows) < 5, "parked by us, within the receive limit"
    assert sorted(line["message_id"] for line in alerts(workers, "message.dead")) == sorted(bad)
    after, took = processor_seconds(workers), monotonic() - began
    busy = [(now - then) / took for then, now in zip(spent, after, strict=True)]
    assert max(busy) < 0.5, f"a hot loop: {busy} of a processor in {took:.1f} s"
    assert all(worker.alive for worker in workers)


class Bait:
    """What a careless reader would run: it touches a file, if anything is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def yaml_bait(path: Path) -> str:
    """The same for a careless reader of YAML."""
    return f"!!python/object/apply:os.system ['touch {path}']"


def baits(path: Path) -> dict[str, str]:
    """Bodies that would touch `path`."""
    pickled = pickle.dumps(Bait(path), protocol=0)
    return {
        "pickle": pickled.decode(),
        "base64 pickle": base64.b64encode(pickle.dumps(Bait(path))).decode(),
        "yaml": yaml_bait(path),
        "json": json.dumps({"__reduce__": ["os.system", [f"touch {path}"]]}),
        "os.system": json.dumps({"kind": "os.system", "args": [f"touch {path}"]}),
        "a module": json.dumps({"kind": "a.b:c"}),
    }


def assert_baits_work(path: Path) -> None:
    """Each of them does what it should not, where somebody is careless."""
    made = baits(path)
    careless: list[tuple[Callable[[str], Any], str]] = [
        (lambda text: pickle.loads(text.encode()), made["pickle"]),  # noqa: S301 - our own
        (lambda text: pickle.loads(base64.b64decode(text)), made["base64 pickle"]),  # noqa: S301
        (lambda text: yaml.load(text, yaml.UnsafeLoader), made["yaml"]),  # noqa: S506
    ]
    for read, text in careless:
        read(text)
        assert path.exists()
        path.unlink()


@pytest.mark.scenario("F24", excluded="messages are JSON that names a job, never code or a payload")
async def test_nothing_in_a_message_is_ever_run(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F24: pickle, YAML tags, names of code, attributes that ask for pickle; and kinds not ours.

    A message whose kind is a lie about a real job changes nothing: the job's own row decides.
    """
    assert_baits_work(fleet.logs / "canary")
    sqs_proxy.longest_visibility = 1  # the minute by which a running job's message is put off
    pwned, url = fleet.logs / "pwned", queue_urls["default"]
    worker = fleet.worker()
    await working(worker)
    asks = {"DataType": "String", "StringValue": "application/x-python-serialize"}
    raw = {"DataType": "Binary", "BinaryValue": pickle.dumps(Bait(pwned))}
    attributes = {"content-type": asks, "body": raw}
    for body in baits(pwned).values():
        sqs.send_message(QueueUrl=url, MessageBody=body)
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    job_id = await make_job(probes, chunks=2)
    liar = json.loads(await message_for(probes, job_id)) | {"kind": "os.system"}
    liar["trace"] = baits(pwned)["base64 pickle"]
    for kind in ("os.system", "a.b:c"):
        sqs.send_message(
            QueueUrl=url,
            MessageBody=json.dumps(liar | {"kind": kind}),
            MessageAttributes=attributes,
        )
    await reached(probes, job_id, "succeeded")
    await queue_is(sqs, url, (0, 0))
    assert await effects(probes, job_id) == [(0, 1), (1, 1)]
    parked = await fetch(probes, "SELECT body FROM chot.dead_messages")
    assert sorted(row.body.decode() for row in parked) == sorted([*baits(pwned).values()] * 2)
    assert not pwned.exists()
    assert worker.alive


async def enqueued(engine: AsyncEngine, extra: dict[str, str]) -> JobId:
    """A job put in by SQL with members that its kind does not have: no model has looked at it."""
    payload = {"number": next(NUMBERS)} | extra
    submit = Submit(kind="probe.write", company="ACME", brand="RED", payload=payload)
    async with engine.begin() as conn:
        return (await enqueue(conn, submit)).job_id


@pytest.mark.scenario("F24", excluded="what is stored is JSON; a kind is looked up among the known")
async def test_nothing_that_is_stored_is_ever_run(
    probes: AsyncEngine, fleet: Fleet, tmp_path: Path
) -> None:
    """F24: bait written by SQL into payload, checkpoint, result, kind and outbox."""
    pwned = tmp_path / "pwned"
    bait = baits(pwned)
    extras = [{name: text} for name, text in bait.items()]
    extras.append({"__reduce__": json.dumps(["os.system", [f"touch {pwned}"]])})
    by_payload = [await enqueued(probes, extra) for extra in extras]
    assert len(set(by_payload)) == len(extras)
    replaced = await make_job(probes)
    await execute(
        probes,
        "UPDATE chot.job_payloads SET payload = to_jsonb(CAST(:p AS text)) WHERE job_id = :i",
        i=replaced,
        p=bait["base64 pickle"],
    )
    by_kind = [await make_job(probes) for _ in range(2)]
    for job_id, kind in zip(by_kind, ("os.system", "a.b:c"), strict=True):
        await execute(probes, "UPDATE chot.jobs SET kind = :k WHERE id = :i", k=kind, i=job_id)
    good = await make_job(probes)
    await execute(
        probes,
        "UPDATE chot.outbox SET kind = 'os.system', trace = :bait WHERE job_id = :i",
        bait=bait["yaml"],
        i=good,
    )
    await execute(
        probes,
        "INSERT INTO chot.job_outputs (job_id, checkpoint) VALUES (:i, CAST(:bait AS jsonb))",
        i=good,
        bait=bait["json"],
    )
    worker = fleet.worker()
    async with api_of(fleet) as http:
        for job_id in (*by_payload, replaced):
            await reached(probes, job_id, "dead")
            assert (await error_of(probes, job_id))["code"] == "PAYLOAD_INVALID"
        await reached(probes, good, "succeeded")
        await execute(
            probes,
            "UPDATE chot.job_outputs SET result = CAST(:bait AS jsonb) WHERE job_id = :i",
            i=good,
            bait=bait["json"],
        )
        shown = (await http.get(f"/v1/jobs/{good}")).json()
        assert shown["result"] == json.loads(bait["json"]), "data, and nothing else"
    assert {(await job_row(probes, each)).attempt for each in by_kind} == {0}
    assert {str(each) for each in by_kind} <= {
        line["job_id"] for line in fleet.events(worker, "claim.missed")
    }
    rows = await fetch(
        probes,
        "SELECT DISTINCT j.kind FROM chot.attempts a JOIN chot.jobs j ON j.id = a.job_id",
    )
    assert [row.kind for row in rows] == ["probe.write"]
    assert not pwned.exists()
    assert worker.alive


async def moved_by_sqs(sqs: Any, url: str, dead: str, count: int) -> None:
    """Receive again and again without a delete, until SQS has moved so many messages."""

    async def moved() -> bool:
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return sum(queued(sqs, dead)) == count

    await eventually(moved)
    assert queued(sqs, url) == (0, 0)


@pytest.mark.alone
@pytest.mark.scenario("F25")
async def test_jobs_whose_messages_sqs_has_moved_run_within_a_sweep(
    probes: AsyncEngine, fleet: Fleet, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F25: workers are stopped, five messages are received too often, then workers start.

    One more there is of a job that has meanwhile succeeded, and one of no job at all: that one
    alerts, since the others' states are the database's to tell, and GET shows them.
    """
    url = queue_urls["default"]
    dead = sqs.get_queue_url(QueueName=f"{fleet.prefix}-default-dead")["QueueUrl"]
    async with api_of(fleet) as http:
        receive_limit(sqs, url, 3)
        ids: list[UUID] = [await post_job(http) for _ in range(5)]
        await publish(probes, fleet.prefix)
        await moved_by_sqs(sqs, url, dead, 5)
        receive_limit(sqs, url, 1000)
        done = await post_job(http)
        known = json.loads(await message_for(probes, done))
        worker = fleet.worker()
        await working(worker)
        began = monotonic()
        await all_reached(probes, [*ids, done], "succeeded")
        assert monotonic() - began <= fleet.lease + 5, "within one sweep"
        for job_id in ids:
            shown = (await http.get(f"/v1/jobs/{job_id}")).json()
            assert (shown["state"], shown["attempt"]) == ("succeeded", 1)
    for message in (known, known | {"job_id": str(uuid4())}):
        sqs.send_message(QueueUrl=dead, MessageBody=json.dumps(message))
    await queue_is(sqs, dead, (0, 0))
    imported = await said(worker, "dead_letters.imported")
    assert imported["messages"] >= 1
    assert imported["queue"] == "default"

    async def told() -> bool:
        return len(alerts([worker], "message.dead")) == 1

    await eventually(told)
    assert (await job_row(probes, done)).attempt == 1, "a finished job's message is only cleared"
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE state <> 'succeeded'") == 0
    assert await scalar(probes, "SELECT count(*) FROM probe.effects") == 6
