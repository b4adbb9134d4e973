"""GET /v1/jobs/{id}/why: the answer's form, whom it tells what, and its truth in a storm."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.routes.why import WhyView
from api.settings import ApiSettings
from shared.access import EVERYTHING, Role
from shared.jobs.reasons import RULES, Reason, explain
from shared.jobs.why import explain_job
from shared.types import JobId
from tests.factories import eventually, execute, make_job, scalar
from tests.fleet import Fleet, open_fleet
from tests.protocol.api.app import note, post, problem_of, serving
from tests.protocol.api.keys import RED, bearer, make_key
from tests.protocol.api.test_read_and_act import END, bury, made, run, succeed
from tests.services import Database

STATE_OF = {rule.reason: state for state, rules in RULES.items() for rule in rules}
STATE_OF[Reason.DEAD] = "dead"


async def why(client: httpx.AsyncClient, job_id: str, **asked: Any) -> dict[str, Any]:
    """The answer, checked against its model and against itself."""
    answer = await client.get(f"/v1/jobs/{job_id}/why", **asked)
    assert answer.status_code == 200, answer.text
    WhyView.model_validate_json(answer.content, extra="forbid")
    view: dict[str, Any] = answer.json()
    assert contradictions(view) == []
    return view


def contradictions(view: dict[str, Any]) -> list[str]:
    """What the reason and the facts of one answer say against each other."""
    found = []

    def must(what: str, *, hold: object) -> None:
        if not hold:
            found.append(f"{view['reason']}: {what}: {view}")

    reason, state = Reason(view["reason"]), view["state"]
    must("the state fits", hold=STATE_OF[reason] == state)
    must("an owner runs it", hold=(view["owner"] is not None) == (state == "running"))
    must("turn and workers", hold=(view["turn"] is not None) == (state == "pending"))
    must("a redrive is for the dead", hold=(view["redrive"] is not None) == (state == "dead"))
    must(
        "cleanup is for the ended",
        hold=not view["cleanup_pending"] or state in {"cancelled", "dead"},
    )
    if state != "pending":
        return found
    due = datetime.fromisoformat(view["available_at"]) <= datetime.fromisoformat(view["as_of"])
    workers, turn = view["workers"], view["turn"]
    not_due = reason in {Reason.SCHEDULED, Reason.BACKOFF, Reason.SNOOZED, Reason.HANDED_BACK}
    must("due or not", hold=due != not_due)
    if not_due:
        return found
    must("paused or not", hold=view["queue_paused"] == (reason == Reason.QUEUE_PAUSED))
    expected = {
        Reason.NO_WORKER: workers["live"] == 0,
        Reason.KIND_UNKNOWN: workers["live"] and not workers["know_kind"],
        Reason.VERSION_UNKNOWN: workers["know_kind"] and not workers["know_version"],
        Reason.KIND_MAXIMUM: (view["running_of_kind"] or 0) >= (view["max_running"] or 1),
        Reason.WINDOW_FULL: turn["message"] == "staged"
        and turn["window_used"] >= turn["window_size"],
        Reason.PUBLISHING: turn["message"] == "staged",
        Reason.PUBLISHING_FAILED: turn["message"] == "staged",
        Reason.MESSAGE_REFUSED: turn["message"] == "refused",
        Reason.SLOTS_BUSY: turn["message"] == "sent" and not workers["free_slots"],
        Reason.DELIVERY: turn["message"] == "sent" and workers["free_slots"],
    }
    must("the facts fit", hold=expected.get(reason, True))
    must("slots are bounded", hold=0 <= workers["free_slots"] <= workers["slots"])
    return found


async def test_a_job_is_explained_from_submit_to_its_end(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Nothing of it may be kept by a cache: it is of its moment."""
    job_id = await made(client)
    assert (await why(client, job_id))["reason"] == "no-worker"
    await run(engine, job_id)
    view = await why(client, job_id)
    assert (view["reason"], view["owner"]["worker_id"]) == ("running", "w1")
    await succeed(engine, job_id, "{}")
    view = await why(client, job_id)
    assert view["reason"] == "succeeded"
    assert f"GET /v1/jobs/{job_id}" in view["sentence"]
    answer = await client.get(f"/v1/jobs/{job_id}/why")
    assert answer.headers["cache-control"] == "no-store"
    later = await made(client, run_at="2199-01-01T00:00:00Z")
    assert (await why(client, later))["reason"] == "scheduled"
    cancelled = await client.post(f"/v1/jobs/{later}/cancel")
    assert cancelled.status_code == 200
    assert (await why(client, later))["reason"] == "cancelled"


async def test_a_dead_job_says_what_its_redrive_would_meet(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    """Which it then does meet: the same words, and nothing where it may be redriven."""
    free = await bury(client, engine)
    busy = await bury(client, engine)
    await execute(engine, "UPDATE chot.jobs SET cleanup_due = true WHERE id = :id", id=UUID(busy))
    outdated = await bury(client, engine)
    await execute(
        engine,
        """UPDATE chot.job_payloads SET payload = payload || '{"gone": 1}' WHERE job_id = :id""",
        id=UUID(outdated),
    )
    body = note()
    twin_of = (await post(client, body)).json()["id"]
    await run(engine, twin_of)
    binds = {"state": "dead", "outcome": "failed", "result": None, "error": None}
    await execute(engine, END, job_id=UUID(twin_of), **binds)
    twin = (await post(client, body)).json()["id"]
    for job_id, refused in (
        (busy, "cleanup-pending"),
        (outdated, "payload-outdated"),
        (twin_of, "twin-active"),
        (free, None),
    ):
        view = await why(client, job_id)
        assert view["redrive"]["refused"] == refused
        answer = await client.post(f"/v1/jobs/{job_id}/redrive")
        if refused is None:
            assert answer.status_code == 202
        else:
            problem_of(answer, 409, refused)
    assert (await why(client, twin_of))["redrive"]["twin"] == twin
    assert twin in (await why(client, twin_of))["sentence"]


async def test_an_archived_job_is_explained_as_before(
    client: httpx.AsyncClient, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    job_id = await made(client)
    await run(engine, job_id)
    await succeed(engine, job_id, "{}")
    before = await why(client, job_id)
    await execute(
        owner_engine,
        """UPDATE chot.jobs SET finished_at = finished_at - interval '9 days',
                  created_at = created_at - interval '9 days'""",
    )
    await execute(
        engine,
        "SELECT chot.archive_jobs('00000000-0000-0000-0000-000000000000', interval '1 day', 10)",
    )
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs") == 0
    after = await why(client, job_id)
    assert (after["reason"], after["attempt"]) == (before["reason"], before["attempt"])


async def test_where_a_worker_is_stays_with_accounts_of_all_companies(
    settings: ApiSettings, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A key of some brands learns the end of its id, in the fields and in the sentence."""
    admin = bearer(await make_key(owner_engine, Role.ADMIN))
    red = bearer(await make_key(owner_engine, Role.READ, scope=RED))
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        job_id = (await post(client, note(), headers=admin)).json()["id"]
        await run(engine, job_id)
        await execute(
            engine, "UPDATE chot.jobs SET worker_id = 'ip-10-0-3-17-1-9f2c' WHERE state = 'running'"
        )
        whole = await why(client, job_id, headers=admin)
        part = await why(client, job_id, headers=red)
    assert "ip-10-0-3-17-1-9f2c" in whole["sentence"]
    assert part["owner"]["worker_id"] == "9f2c"
    assert "ip-10" not in str(part)
    assert "Worker 9f2c" in part["sentence"]


@pytest.fixture
def fleet(
    probes: AsyncEngine,
    database: Database,
    queue_prefix: str,
    sqs_endpoint: str,
    tmp_path: Path,
) -> Iterator[Fleet]:
    """A worker and an api on this test's database."""
    assert probes is not None, "the probes' tables are there before any worker starts"
    with open_fleet(database, queue_prefix, sqs_endpoint, tmp_path) as opened:
        yield opened


@pytest.fixture
async def remote(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a real api process beside a real worker."""
    fleet.worker(CHOT_CONCURRENCY="4")
    _, url = await asyncio.to_thread(fleet.api)
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        yield client


STORM: list[dict[str, Any]] = [
    {"chunks": 3, "seconds": 0.02},
    {"chunks": 1, "fail_first": 2},
    {"chunks": 2, "hold_seconds": 0.05},
    {"chunks": 1, "complete": True},
]


@dataclass(slots=True)
class Storm:
    """Jobs that all change at once, and those who ask about them until all have ended."""

    client: httpx.AsyncClient
    engine: AsyncEngine
    jobs: list[JobId]
    reasons: set[str] = field(default_factory=set)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self) -> None:
        """Over HTTP: the reason fits the facts."""
        while not self.over.is_set():
            view = await why(self.client, str(random.choice(self.jobs)))
            self.reasons.add(view["reason"])

    async def compare(self) -> None:
        """In the database: the facts are what separate queries find."""
        while not self.over.is_set():
            await same_in_one_snapshot(self.engine, random.choice(self.jobs))

    async def cancel_some(self) -> None:
        """An operator who changes his mind."""
        for job_id in random.sample(self.jobs, 8):
            await self.client.post(f"/v1/jobs/{job_id}/cancel")
            await asyncio.sleep(0.1)  # the storm's own rhythm

    async def wait(self) -> None:
        """Until every job has ended."""

        async def ended() -> bool:
            left = "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
            return not await scalar(self.engine, left)

        await eventually(ended, seconds=60)
        self.over.set()


async def test_in_a_storm_no_answer_contradicts_itself(
    remote: httpx.AsyncClient, probes: AsyncEngine
) -> None:
    """Eighty jobs that succeed, fail, wait and are cancelled, asked about all the time.

    Over HTTP, the reason fits the facts; in the database, every fact that does not hang on a clock
    is the one that separate queries find in the same snapshot.
    """
    jobs = [await make_job(probes, **random.choice(STORM)) for _ in range(80)]
    storm = Storm(remote, probes, jobs)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(storm.ask())
        for _ in range(2):
            tasks.create_task(storm.compare())
        await storm.cancel_some()
        await storm.wait()
    storm.reasons |= {(await why(remote, str(job_id)))["reason"] for job_id in jobs}
    assert {"succeeded", "cancelled"} <= storm.reasons
    assert len(storm.reasons) >= 4, storm.reasons


async def same_in_one_snapshot(engine: AsyncEngine, job_id: UUID) -> None:
    """Explain the job, and look for the same facts one by one, in one REPEATABLE READ snapshot."""
    async with engine.connect() as opened:
        conn = await opened.execution_options(isolation_level="REPEATABLE READ")
        row = await explain_job(conn, job_id, EVERYTHING)
        assert row is not None
        said = explain(row)

        async def ask(statement: str) -> Any:
            return (await conn.execute(text(statement), {"id": job_id})).one()

        job = await ask("SELECT state, fence, attempt, worker_id FROM chot.jobs WHERE id = :id")
        staged = await ask("SELECT count(*) > 0 AS any FROM chot.outbox WHERE job_id = :id")
        last = await ask(
            """SELECT (SELECT outcome FROM chot.attempts WHERE job_id = :id
                        ORDER BY fence DESC LIMIT 1) AS outcome"""
        )
    assert STATE_OF[said.reason] == job.state == row["state"]
    assert (row["fence"], row["attempt"]) == (job.fence, job.attempt)
    assert row["worker_id"] == job.worker_id
    assert row["last_outcome"] == last.outcome
    if job.state == "pending":
        assert bool(row["staged"]) == staged.any
    if said.reason in {Reason.SLOTS_BUSY, Reason.DELIVERY}:
        assert not staged.any
    if said.reason == Reason.RUNNING:
        assert str(job.worker_id) in said.sentence
