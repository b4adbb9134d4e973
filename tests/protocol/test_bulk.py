"""Bulk submit: the rules of one submit, for many at once; no order of works deadlocks."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Accepted, Submit, enqueue, enqueue_each, enqueue_many, listed_jobs
from tests.factories import execute, fetch, prepare_probes, scalar, submitted
from tests.protocol.sessions import driver_session, until_waiting, waiting_for_nobody
from tests.protocol.test_duplicates import HOLD_STILL
from tests.services import Database, DatabaseServer, seed_company

ROUNDS = 25
ITEMS = 14
LATER = datetime.now(UTC) + timedelta(days=30)
KINDS = ("probe.write", "probe.merge", "probe.follow")
FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "no.such"},
    {"company": "NONE"},
    {"brand": "GREEN"},
    {"payload": {}},
    {"payload": {"number": 1.5}},
    {"payload": {"number": [1, [2]]}},
    {"priority": 10},
    {"max_attempts": 99},
    {"payload_version": 2},
    {"payload": {"number": 1, "x": "y" * 262_144}},
    {"run_at": datetime(1960, 1, 1, tzinfo=UTC)},
)
# All that a submit writes, without what is random or a moment.
WRITTEN = """
    SELECT j.kind, j.company, j.brand, j.queue, j.state, j.priority, j.max_attempts, j.principal,
           j.trace, j.payload_version, j.on_duplicate, encode(j.fingerprint, 'hex') AS print,
           p.payload::text AS payload, j.followup_payload::text AS followup,
           j.followup_principal, j.available_at > clock_timestamp() + interval '1 hour' AS later,
           (SELECT array_agg(ARRAY[o.queue, o.kind, o.brand, o.trace, o.priority::text]
                             ORDER BY o.priority)
              FROM chot.outbox o WHERE o.job_id = j.id) AS messages,
           (SELECT array_agg(concat_ws(' ', a.action, a.principal, a.company, a.brand, a.facts)
                             ORDER BY a.facts::text)
              FROM chot.audit a WHERE a.job_id = j.id) AS noted
      FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
     ORDER BY j.fingerprint"""
RUN = """
    UPDATE chot.jobs SET state = 'running', attempt = 1, fence = 1, worker_id = 'w',
           started_at = clock_timestamp(), lease_token = gen_random_uuid(),
           lease_expires_at = clock_timestamp() + interval '1 hour'
     WHERE state = 'pending' AND fingerprint IN (
           SELECT fingerprint FROM chot.jobs ORDER BY fingerprint LIMIT :most)"""


@pytest.fixture
def twin(postgres: DatabaseServer) -> Iterator[Database]:
    """A second database, where the same is done one by one."""
    mine = postgres.create()
    yield mine
    postgres.drop(mine)


@pytest.fixture
async def twin_engine(twin: Database) -> AsyncIterator[AsyncEngine]:
    """Role app on the second database, which knows what the first one knows."""
    await seed_company(twin)
    owner, app = open_engine(twin.owner_url, pool_size=2), open_engine(twin.app_url, pool_size=2)
    await prepare_probes(owner, app)
    yield app
    await owner.dispose()
    await app.dispose()


def some_job(rng: random.Random) -> Submit:
    """A submit of one of few works, now and then with a fault."""
    kind = rng.choice(KINDS)
    payload: dict[str, Any] = {"number": rng.randint(1, 5)}
    if kind == "probe.write":
        payload["chunks"] = rng.randint(1, 3)
    else:
        payload |= {"items": rng.sample("abcd", 2), "note": rng.choice("xyz")}
    fields: dict[str, Any] = {
        "kind": kind,
        "company": "ACME",
        "brand": rng.choice(["RED", "BLUE", None]),
        "payload": payload,
        "priority": rng.choice([None, 2, 5, 8]),
        "run_at": rng.choice([None, None, LATER]),
        "max_attempts": rng.choice([None, 3]),
        "principal": rng.choice([None, "an", "binh"]),
        "trace": rng.choice([None, "00-1"]),
    }
    if rng.random() < 0.2:
        fields |= rng.choice(FAULTS)
    return Submit(**fields)


async def one_by_one(engine: AsyncEngine, jobs: list[Submit]) -> list[Accepted | EnqueueRefused]:
    """Each in a transaction of its own."""
    answers: list[Accepted | EnqueueRefused] = []
    for job in jobs:
        try:
            async with engine.begin() as conn:
                answers.append(await enqueue(conn, job))
        except EnqueueRefused as refused:
            answers.append(refused)
    return answers


async def at_once(engine: AsyncEngine, jobs: list[Submit]) -> list[Accepted | EnqueueRefused]:
    """All in one transaction."""
    async with engine.begin() as conn:
        return await enqueue_each(conn, listed_jobs(jobs))


def told(answers: list[Accepted | EnqueueRefused], known: dict[Any, str]) -> list[Any]:
    """The answers without what differs between two databases: a job is named by who made it."""
    found: list[Any] = []
    for number, each in enumerate(answers):
        if isinstance(each, EnqueueRefused):
            found.append((each.code, each.field, str(each)))
            continue
        name = known.setdefault(each.job_id, f"{len(known)}" if each.created else "unknown")
        found.append((each.created, each.duplicate, each.state, each.input_as_of is None, name))
        assert each.created == (name == f"{len(known) - 1}") or not each.created, number
    return found


async def test_many_at_once_are_answered_as_one_by_one(
    probes: AsyncEngine, twin_engine: AsyncEngine
) -> None:
    """Random batches beside the same items alone, on a twin: same answers, same rows written.

    Works that are pending, works that run, equal items, faults of every kind, three ways to meet.
    """
    rng = random.Random(20260131)
    known: tuple[dict[Any, str], dict[Any, str]] = ({}, {})
    outcomes: set[Any] = set()
    for _ in range(ROUNDS):
        jobs = [some_job(rng) for _ in range(ITEMS)]
        many, single = await at_once(probes, jobs), await one_by_one(twin_engine, jobs)
        mine, theirs = told(many, known[0]), told(single, known[1])
        assert mine == theirs, [job for job, a, b in zip(jobs, mine, theirs, strict=True) if a != b]
        assert await fetch(probes, WRITTEN) == await fetch(twin_engine, WRITTEN)
        outcomes |= {each[:2] for each in mine}
        most = rng.randint(0, 12)
        for engine in (probes, twin_engine):
            await execute(engine, RUN, most=most)
    assert {(True, None), *((False, how) for how in ("joined", "merged", "follow_up"))} <= outcomes
    assert {("CH001", "kind"), ("CH002", "payload.number"), ("CH005", "brand")} <= outcomes


async def test_a_merge_that_grows_too_large_spoils_no_other_item(probes: AsyncEngine) -> None:
    """What the database's CHECK refuses is one item's answer, as it is of its own submit."""
    large = {"number": 1, "note": "x" * 200_000}
    first = await submitted(probes, "probe.merge", **large)
    grows = Submit(
        kind="probe.merge",
        company="ACME",
        brand="RED",
        payload={"number": 1, "more": "y" * 200_000},
    )
    good = Submit(kind="probe.write", company="ACME", payload={"number": 2})
    refused, accepted = await at_once(probes, [grows, good])
    assert isinstance(refused, EnqueueRefused)
    assert (refused.field, refused.code) == ("payload", "23514")
    with pytest.raises(EnqueueRefused) as alone:
        async with probes.begin() as conn:
            await enqueue(conn, grows)
    assert str(alone.value) == str(refused)
    assert isinstance(accepted, Accepted)
    assert accepted.created
    assert (
        await scalar(
            probes, "SELECT payload FROM chot.job_payloads WHERE job_id = :i", i=first.job_id
        )
        == large
    )


async def test_messages_leave_in_the_order_sent(probes: AsyncEngine) -> None:
    """Works are taken in the order of their fingerprints, messages are not."""
    jobs = [
        Submit(kind="probe.write", company="ACME", payload={"number": number})
        for number in range(30)
    ]
    async with probes.begin() as conn:
        answers = await enqueue_many(conn, jobs)
    staged = await fetch(probes, "SELECT job_id FROM chot.outbox ORDER BY next_send_at, id")
    assert [row.job_id for row in staged] == [each.job_id for each in answers]


async def test_nothing_to_submit_is_no_error(probes: AsyncEngine) -> None:
    """An empty list, and one in which nothing is in order."""
    assert await at_once(probes, []) == []
    (refused,) = await at_once(probes, [Submit(kind="no.such", company="ACME", payload={})])
    assert isinstance(refused, EnqueueRefused)


async def test_one_statement_inserts_what_is_new(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A thousand new jobs are one INSERT into the table of jobs, not a thousand."""
    await execute(owner_engine, "CREATE TABLE probe.inserts (n integer)")
    await execute(
        owner_engine,
        """CREATE FUNCTION probe.note_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
           AS $$ BEGIN INSERT INTO probe.inserts VALUES (1); RETURN NULL; END $$""",
    )
    await execute(
        owner_engine,
        """CREATE TRIGGER note_insert AFTER INSERT ON chot.jobs
           FOR EACH STATEMENT EXECUTE FUNCTION probe.note_insert()""",
    )
    jobs = [
        Submit(kind="probe.write", company="ACME", payload={"number": number})
        for number in range(1000)
    ]
    answers = await at_once(probes, jobs)
    assert sum(isinstance(each, Accepted) and each.created for each in answers) == 1000
    assert await scalar(owner_engine, "SELECT count(*) FROM probe.inserts") == 1


async def in_fingerprint_order(engine: AsyncEngine, kind: str, numbers: list[int]) -> list[int]:
    """The numbers by the fingerprints of their works."""
    rows = await fetch(
        engine,
        """SELECT n FROM unnest(CAST(:numbers AS integer[])) AS n ORDER BY chot.fingerprint(
                  CAST(:kind AS text), 'ACME', 'RED', jsonb_build_object('number', n), '{number}')""",
        numbers=numbers,
        kind=kind,
    )
    return [row.n for row in rows]


def merge(number: int) -> Submit:
    """A submit that writes on the active job of its work."""
    payload = {"number": number, "items": ["a"]}
    return Submit(kind="probe.merge", company="ACME", brand="RED", payload=payload)


async def test_a_batch_that_meets_a_job_it_did_not_know_of_begins_again(
    probes: AsyncEngine, owner_engine: AsyncEngine, database: Database
) -> None:
    """⚑ It holds a later work already and would go back to an earlier one: the deadlock.

    One has the first work under way; a batch of both waits for it. It commits; the batch, held
    still at the end of its INSERT, has the second work. A third caller writes on the first job and
    wants the second work, in order. The batch gives the second work up, then meets both jobs.
    """
    first, second = await in_fingerprint_order(probes, "probe.merge", [1, 2])
    for statement in HOLD_STILL:
        await execute(owner_engine, statement)
    still = open_engine(database.app_url, pool_size=1, application_name="held still")
    async with driver_session(database.app_url) as holder:
        await holder.execute("SELECT pg_advisory_lock(7)")
        async with probes.connect() as earlier:
            await enqueue(earlier, merge(first))
            batch = asyncio.create_task(at_once(still, [merge(second), merge(first)]))
            await until_waiting(probes)
            await earlier.commit()
        await until_held(probes)
        async with probes.connect() as third:
            met = await enqueue(third, merge(first))
            assert met.duplicate == "merged"
            wants = asyncio.create_task(enqueue(third, merge(second)))
            await until_waiting(probes, 2)
            await holder.execute("SELECT pg_advisory_unlock(7)")
            assert (await wants).created
            await third.commit()
    answers = await batch
    await still.dispose()
    assert [isinstance(each, Accepted) and each.duplicate for each in answers] == ["merged"] * 2
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 2


async def until_held(engine: AsyncEngine) -> None:
    """Return once a session waits for the advisory lock, and not for another's row."""
    async with asyncio.timeout(30):
        while not await fetch(  # noqa: ASYNC110 - the server's state
            engine, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ):
            await asyncio.sleep(0.01)


async def test_a_batch_holds_no_work_above_the_one_it_waits_for(probes: AsyncEngine) -> None:
    """⚑ Sent in the other order: it waits for the first work, and the second is anybody's."""
    first, second = [
        Submit(kind="probe.write", company="ACME", brand="RED", payload={"number": number})
        for number in await in_fingerprint_order(probes, "probe.write", [1, 2])
    ]
    async with probes.connect() as earlier:
        await enqueue(earlier, first)
        batch = asyncio.create_task(at_once(probes, [second, first]))
        await until_waiting(probes)
        async with waiting_for_nobody(), probes.begin() as conn:
            assert (await enqueue(conn, second)).created
        await earlier.commit()
    assert [isinstance(each, Accepted) and each.duplicate for each in await batch] == ["joined"] * 2


async def test_batches_and_callers_of_several_in_order_do_not_deadlock(
    probes: AsyncEngine, database: Database
) -> None:
    """Eight batches and SQL callers that go by fingerprint, over few works that merge."""
    engine = open_engine(database.app_url, pool_size=12)
    numbers = await in_fingerprint_order(probes, "probe.merge", list(range(24)))
    rng = random.Random(7)

    async def batch() -> None:
        await at_once(engine, [merge(number) for number in rng.sample(numbers, 16)])

    async def ordered() -> None:
        chosen = sorted(rng.sample(numbers, 8), key=numbers.index)
        async with engine.begin() as conn:
            await _each(conn, chosen)

    for _ in range(6):
        await asyncio.gather(*(batch() for _ in range(8)), *(ordered() for _ in range(4)))
    await engine.dispose()
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == len(numbers)


async def _each(conn: AsyncConnection, numbers: list[int]) -> None:
    for number in numbers:
        await enqueue(conn, merge(number))
