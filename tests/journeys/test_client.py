"""The Python client against real processes: one job whatever the network does, typed answers."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import free_port
from shared.client import ChotClient, JobRequest, StillActive, Unreachable
from shared.client.errors import JobNotFound, KeyReused, NotDead, TooLate, Unauthorized, UnknownKind
from shared.types import JobState
from tests.factories import execute, fetch, scalar
from tests.fleet import Fleet
from tests.protocol.api.app import KIND_MODULE
from tests.tcp_proxy import Proxy, open_proxy

TOKEN = "client-journey"  # noqa: S105 - of this test only
JOBS = "SELECT count(*) FROM chot.jobs"


@pytest.fixture
async def url(fleet: Fleet) -> str:
    """An api process that asks for a token."""
    _, url = await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN))
    return url


@pytest.fixture
async def chot(url: str) -> AsyncIterator[ChotClient]:
    """A client of it."""
    async with ChotClient(url, TOKEN) as client:
        yield client


@pytest.fixture
async def wire(url: str) -> AsyncIterator[Proxy]:
    """A wire to the api that loses what it is told to lose."""
    at = urlsplit(url)
    assert at.hostname is not None
    assert at.port is not None
    async with open_proxy(at.hostname, at.port) as proxy:
        yield proxy


def request(number: int, **payload: object) -> JobRequest:
    """A submit of a probe."""
    return JobRequest(
        kind="probe.write", company="ACME", brand="RED", payload={"number": number} | payload
    )


async def submit(chot: ChotClient, number: int, **fields: object) -> object:
    """Submit a probe; answers its id."""
    done = await chot.submit(
        "probe.write", company="ACME", brand="RED", payload={"number": number} | fields
    )
    return done.id


async def test_submit_wait_and_list_tell_one_story(chot: ChotClient, fleet: Fleet) -> None:
    """Typed, to the end: state, result, attempts, progress, instants with their offset."""
    fleet.worker()
    before = datetime.now(UTC) - timedelta(minutes=1)
    submitted = await chot.submit(
        "probe.write", company="ACME", brand="RED", payload={"number": 1, "chunks": 3}, priority=7
    )
    assert (submitted.created, submitted.duplicate, submitted.state) == (True, None, "pending")
    job = await chot.wait(submitted.id, timeout=60)
    assert (job.state, job.priority, job.brand) == (JobState.SUCCEEDED, 7, "RED")
    assert job.result == {"chunks": 3, "resumed_at": 0}
    assert [attempt.outcome for attempt in job.attempts] == ["succeeded"]
    assert job.progress is not None
    assert (job.progress.done, job.progress.total) == (3, 3)
    assert job.created_at.tzinfo is not None
    listed = [each async for each in chot.list(states=["succeeded"], created_from=before)]
    assert [each.id for each in listed] == [job.id]
    assert [each.id async for each in chot.list(created_to=before)] == []


async def test_events_are_told_to_the_end(chot: ChotClient, fleet: Fleet) -> None:
    """States in order, the last event is the end; a job that has ended has one."""
    fleet.worker()
    job_id = str(await submit(chot, 2, chunks=4, seconds=0.2))
    events = [event async for event in chot.events(job_id)]
    assert events[-1].name == "end"
    assert events[-1].job.state == JobState.SUCCEEDED
    assert len({event.id for event in events}) == len(events)
    assert {event.name for event in events[:-1]} <= {"state", "progress"}
    again = [event async for event in chot.events(job_id)]
    assert [(event.name, event.job.state) for event in again] == [("end", JobState.SUCCEEDED)]


async def test_events_go_on_over_a_lost_connection(
    chot: ChotClient, wire: Proxy, engine: AsyncEngine
) -> None:
    """A stream that is cut is taken up again; nothing is told twice."""
    job_id = str(await submit(chot, 3))
    seen = []
    async with ChotClient(f"http://127.0.0.1:{wire.port}", TOKEN) as far:
        async for event in far.events(job_id):
            seen.append(event)
            if len(seen) == 1:
                wire.reset()
                await execute(
                    engine,
                    """UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp()
                        WHERE id = CAST(:job AS uuid)""",
                    job=job_id,
                )
    assert [(event.name, event.job.state) for event in seen] == [
        ("state", JobState.PENDING),
        ("end", JobState.CANCELLED),
    ]
    assert wire.accepted >= 2


async def test_an_answer_that_is_lost_after_the_commit_is_one_job(
    wire: Proxy, engine: AsyncEngine
) -> None:
    """The api has committed, the network drops its answer: the same key finds it."""
    async with ChotClient(f"http://127.0.0.1:{wire.port}", TOKEN) as far:
        wire.lose_answer_to(b"POST /v1/jobs ")
        asked = asyncio.create_task(submit(far, 4))
        await wire.until_held()
        assert await scalar(engine, JOBS) == 1, "committed, and nobody knows"
        wire.reset()
        wire.heal()
        job_id = await asked
    assert await scalar(engine, "SELECT id FROM chot.jobs") == job_id
    assert await scalar(engine, "SELECT count(*) FROM chot.audit") == 1


async def test_a_batch_whose_answer_is_lost_is_submitted_once(
    wire: Proxy, engine: AsyncEngine
) -> None:
    """Also where the caller gives up and calls again under its key."""
    jobs = [request(number) for number in range(10, 30)] + [request(10)]
    url = f"http://127.0.0.1:{wire.port}"
    async with ChotClient(url, TOKEN, deadline=1.0) as impatient:
        wire.lose_answer_to(b"POST /v1/jobs:batch ")
        with pytest.raises(Unreachable) as given_up:
            await impatient.batch(jobs, key="nightly")
    assert given_up.value.key == "nightly"
    assert await scalar(engine, JOBS) == 20
    wire.reset()
    wire.heal()
    async with ChotClient(url, TOKEN) as again:
        items = await again.batch(jobs, key=given_up.value.key)
    assert [item.outcome for item in items] == ["created"] * 20 + ["duplicate"]
    assert items[-1].job is not None
    assert items[0].job is not None
    assert items[-1].job.id == items[0].job.id
    assert await scalar(engine, JOBS) == 20


async def test_a_redrive_whose_answer_is_lost_is_no_error(
    chot: ChotClient, wire: Proxy, engine: AsyncEngine
) -> None:
    """The repeat meets a job that lives: that was it."""
    job_id = str(await submit(chot, 5))
    dead = """UPDATE chot.jobs SET state = 'dead', attempt = 1, fence = 1,
                     finished_at = clock_timestamp() WHERE id = CAST(:job AS uuid)"""
    await execute(engine, dead, job=job_id)
    async with ChotClient(f"http://127.0.0.1:{wire.port}", TOKEN) as far:
        wire.lose_answer_to(b"/redrive ")
        asked = asyncio.create_task(far.redrive(job_id))
        await wire.until_held()
        wire.reset()
        wire.heal()
        await asked
    assert (await chot.get(job_id)).state == JobState.PENDING
    with pytest.raises(NotDead):
        await chot.redrive(job_id)


async def test_the_client_waits_for_an_api_that_starts_late(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are refused meanwhile; one submit, one job."""
    port = free_port()
    async with ChotClient(f"http://127.0.0.1:{port}", TOKEN) as early:
        asked = asyncio.create_task(submit(early, 6))
        monkeypatch.setattr("tests.fleet.free_port", lambda: port)
        await asyncio.to_thread(lambda: fleet.api(CHOT_TOKEN=TOKEN))
        await asked
        assert len([job async for job in early.list()]) == 1


async def test_a_deadline_ends_the_tries(wire: Proxy, engine: AsyncEngine) -> None:
    """A black hole costs no more than the deadline; the error carries the key to ask again with."""
    wire.block()
    async with ChotClient(f"http://127.0.0.1:{wire.port}", TOKEN, deadline=0.5) as far:
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable) as caught:
            await submit(far, 7)
        assert asyncio.get_running_loop().time() - began < 2
    assert caught.value.key
    assert await scalar(engine, JOBS) == 0


async def test_a_decimal_goes_out_with_every_digit(fleet: Fleet, engine: AsyncEngine) -> None:
    """No number passes through a float, alone or in a batch."""
    amount = Decimal("12345678901234567.8901")
    payload = {"number": 8, "anything": {"amount": amount, "none": Decimal("1.10")}}
    changes = {"CHOT_KIND_MODULES": KIND_MODULE, "CHOT_TOKEN": TOKEN}
    _, url = await asyncio.to_thread(lambda: fleet.api(**changes))
    async with ChotClient(url, TOKEN) as chot:
        await chot.submit("api.note", company="ACME", payload=payload)
        more = JobRequest(kind="api.note", company="ACME", payload=payload | {"number": 9})
        await chot.batch([more])
    stored = await fetch(engine, "SELECT payload -> 'anything' AS a FROM chot.job_payloads")
    assert [str(row.a["amount"]) for row in stored] == [str(amount)] * 2
    assert [str(row.a["none"]) for row in stored] == ["1.10"] * 2


async def test_errors_are_typed_by_what_the_problem_is(chot: ChotClient, url: str) -> None:
    """A program reads the class and `type`, people read the sentence."""
    with pytest.raises(JobNotFound):
        await chot.get(uuid4())
    with pytest.raises(JobNotFound):
        await chot.get("no-such")
    with pytest.raises(UnknownKind) as unknown:
        await chot.submit("no.such", company="ACME", payload={})
    assert (unknown.value.type, unknown.value.status) == ("unknown-kind", 422)
    assert "no.such" in str(unknown.value.errors[0].value)
    await chot.submit("probe.write", company="ACME", payload={"number": 9}, key='k "quoted"')
    with pytest.raises(KeyReused):
        await chot.submit("probe.write", company="ACME", payload={"number": 10}, key='k "quoted"')
    async with ChotClient(url, "guess") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.get(uuid4())


async def test_cancel_and_what_comes_too_late(chot: ChotClient, engine: AsyncEngine) -> None:
    """Repeated it says the same; of a job that ended otherwise it says how."""
    job_id = str(await submit(chot, 11))
    assert (await chot.cancel(job_id)).state == JobState.CANCELLED
    assert (await chot.cancel(job_id)).state == JobState.CANCELLED
    other = str(await submit(chot, 12))
    await execute(
        engine,
        """UPDATE chot.jobs SET state = 'succeeded', attempt = 1, fence = 1,
                  finished_at = clock_timestamp() WHERE id = CAST(:job AS uuid)""",
        job=other,
    )
    with pytest.raises(TooLate) as late:
        await chot.cancel(other)
    assert late.value.more["state"] == "succeeded"


async def test_a_wait_that_takes_too_long_leaves_the_job_alone(chot: ChotClient) -> None:
    """It goes on."""
    job_id = str(await submit(chot, 13))
    with pytest.raises(StillActive):
        await chot.wait(job_id, timeout=0.3)
    assert (await chot.get(job_id)).state == JobState.PENDING


async def test_a_list_goes_over_all_pages(chot: ChotClient) -> None:
    """More than one page, each job once."""
    items = await chot.batch(request(number) for number in range(100, 550))
    ids = {item.job.id for item in items if item.job}
    listed = [job.id async for job in chot.list(kind="probe.write", states=["pending", "running"])]
    assert len(listed) == 450
    assert set(listed) == ids


async def test_what_keeps_a_job_and_how_much_waits_are_told(chot: ChotClient) -> None:
    """Without a worker: the reason, its sentence, and the queue in which it waits."""
    job_id = str(await submit(chot, 9))
    why = await chot.why(job_id)
    assert (str(why.id), why.state, why.reason) == (job_id, JobState.PENDING, "no-worker")
    assert "No live worker serves queue default" in why.sentence
    assert why.body["workers"]["live"] == 0
    assert why.as_of.tzinfo is not None
    (queue,) = [each for each in await chot.queues() if each.name == "default"]
    assert (queue.pending, queue.due, queue.running, queue.paused) == (1, 1, 0, False)
    assert queue.oldest_due is not None
    assert queue.oldest_due >= timedelta()
    with pytest.raises(JobNotFound):
        await chot.why(uuid4())
