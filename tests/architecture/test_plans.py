"""Plans: with fifty thousand jobs, what runs all the time reads its index and no table."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Scope
from shared.database import open_engine
from shared.jobs.cancel import CANCEL_JOB
from shared.jobs.freeze import RUNNING_ON_BOOKS, THAW_BOOKS
from shared.jobs.limits import LOCK_LIMITS
from shared.jobs.listing import list_jobs
from shared.jobs.pause import RESUME_KIND, RESUME_QUEUE, RUNNING_OF_KIND
from shared.jobs.redrive import READ_REDRIVABLE, REDRIVE_JOB
from shared.jobs.watched import WATCHED_JOBS
from shared.jobs.why import EXPLAIN_JOB
from shared.outbox import DELETE_SENT, SECONDS_TO_NEXT
from shared.publishing import LEAVE_WINDOW, PER_SLOT, TAKE_DUE, take
from tests.factories import claimant
from tests.services import Database, DatabaseServer
from worker.claim import (
    CLAIM_JOBS,
    CLAIM_LIMITED,
    CLAIM_ONE,
    FIND_CLAIMS,
    READ_INPUT,
    READ_INPUTS,
)
from worker.cleanup import LOCK_ONE_DUE
from worker.completions import COMPLETE_MANY
from worker.lease import HOLD_FENCE, READ_ATTEMPT, READ_OWNERS, RENEW_LEASES
from worker.outcome import COMPLETE_JOB, FAIL_JOB, RELEASE_JOB
from worker.pulse import LOOK
from worker.reaper import REAP_EXPIRED
from worker.reconciler import RESTAGE_LOST
from worker.settle import READ_MISSED, STAGE_AGAIN

# 48,000 that are over, 1,500 waiting, 300 running, 200 dead: a month of a busy shop chain.
FILL = (
    "INSERT INTO chot.queues VALUES ('default') ON CONFLICT DO NOTHING",
    """INSERT INTO chot.jobs (id, kind, company, queue, state, attempt, fence, max_attempts,
              lease_token, lease_expires_at, worker_id, available_at, fingerprint, on_duplicate,
              payload_version, principal, deployment_id, finished_at, cleanup_due)
       SELECT chot.uuid7(), 'probe.write', 'ACME', 'default', s.state, 1, 1, 5,
              CASE WHEN s.state = 'running' THEN gen_random_uuid() END,
              CASE WHEN s.state = 'running' THEN clock_timestamp() + interval '1 hour' END,
              CASE WHEN s.state = 'running' THEN 'w' END,
              clock_timestamp() + make_interval(mins => n % 100 - 20),
              sha256(CAST(CAST(n AS text) AS bytea)), 'join', 1, 'test', gen_random_uuid(),
              CASE WHEN s.state IN ('succeeded', 'dead') THEN clock_timestamp() END,
              s.state = 'dead' AND n % 20 = 0
         FROM generate_series(1, 50000) AS n,
              LATERAL (SELECT CASE WHEN n > 49800 THEN 'dead' WHEN n > 49500 THEN 'running'
                                   WHEN n > 48000 THEN 'pending' ELSE 'succeeded' END) AS s (state)""",
    "INSERT INTO chot.job_payloads SELECT id, '{}' FROM chot.jobs",
    "INSERT INTO chot.job_outputs SELECT id FROM chot.jobs",
    """INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
              claimed_checkpoint_no, checkpoint_no)
       SELECT id, 1, 1, 'w', gen_random_uuid(), 'test', 0, 0 FROM chot.jobs""",
    """INSERT INTO chot.outbox (job_id, queue, kind, company, priority, next_send_at)
       SELECT id, queue, kind, company, 5, clock_timestamp() + make_interval(secs => n - 20)
         FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM chot.jobs) AS j""",
)
TABLES = ("jobs", "job_payloads", "job_outputs", "attempts", "outbox")
LARGE = {*TABLES}

ID = uuid4()
OURS = {"job_id": ID, "fence": 1, "token": ID}
PROGRESS = {"done": 1, "total": 2, "unit": "x", "message": "y"}
PROGRESS |= {"reached": 1, "rate": 0.5, "age": 1.0}
ENDS = {"result": None, "error": None}
CLAIM = claimant().binds() | {"ids": [uuid4() for _ in range(10)]}
CLAIM |= {"tokens": [uuid4() for _ in range(10)]}
BEAT = {
    "ids": [uuid4() for _ in range(100)],
    "fences": [1] * 100,
    "tokens": [uuid4() for _ in range(100)],
    "done": [1] * 100,
    "totals": [1] * 100,
    "units": ["x"] * 100,
    "messages": ["y"] * 100,
    "reached": [1] * 100,
    "rates": [0.5] * 100,
    "ages": [1.0] * 100,
    "lease": 30.0,
}
MANY = {name: BEAT[name] for name in ("ids", "fences", "tokens", "done", "reached")}
MANY |= {"total": BEAT["totals"], "unit": BEAT["units"], "message": BEAT["messages"]}
MANY |= {"rate": BEAT["rates"], "age": BEAT["ages"], "checkpoint_nos": [0] * 100}
MANY |= {"results": [None, "{}"] * 50}
STATEMENTS: dict[str, tuple[TextClause, dict[str, Any]]] = {
    "claim a batch": (CLAIM_JOBS, CLAIM),
    "claim one": (CLAIM_ONE, CLAIM | {"ids": [ID], "tokens": [ID]}),
    "claim one of a limit": (CLAIM_LIMITED, CLAIM | {"ids": [ID], "tokens": [ID]}),
    "lock a job's limits": (LOCK_LIMITS, {"ids": [ID]}),
    "resume a queue": (RESUME_QUEUE, {"queue": "default"}),
    "resume a kind": (RESUME_KIND, {"kind": "probe.write"}),
    "thaw books": (THAW_BOOKS, {"company": "ACME", "brand": "RED"}),
    "count what runs on books": (RUNNING_ON_BOOKS, {"company": "ACME", "brand": "RED"}),
    "count what runs of a kind": (RUNNING_OF_KIND, {"kind": "probe.write"}),
    "find claims in doubt": (FIND_CLAIMS, {"ids": [ID], "tokens": [ID]}),
    "read the input": (READ_INPUT, {"job_id": ID}),
    "read all inputs": (READ_INPUTS, {"ids": CLAIM["ids"]}),
    "renew leases": (RENEW_LEASES, BEAT),
    "read owners": (READ_OWNERS, {"ids": BEAT["ids"]}),
    "fence": (HOLD_FENCE, OURS | PROGRESS | {"checkpoint_no": 0, "checkpoint": "{}"}),
    "read the attempt": (READ_ATTEMPT, OURS),
    "complete": (COMPLETE_JOB, OURS | PROGRESS | ENDS | {"checkpoint_no": 0}),
    "complete many": (COMPLETE_MANY, MANY),
    "fail": (FAIL_JOB, OURS | ENDS | {"permanent": False, "delay": 1.0}),
    "release": (RELEASE_JOB, OURS | ENDS | {"delay": 1.0, "until": None}),
    "cancel": (CANCEL_JOB, ENDS | {"job_id": ID}),
    "reap": (REAP_EXPIRED, {"result": None}),
    "reconcile": (RESTAGE_LOST, {"seconds": 60.0}),
    "take from the outbox": (TAKE_DUE, {"token": ID, "most": 100, "ageing": 30.0}),
    "delete what was sent": (DELETE_SENT, {"ids": list(range(10)), "token": ID}),
    "leave the window": (LEAVE_WINDOW, {"queue": "default", "ids": CLAIM["ids"]}),
    "stage again": (STAGE_AGAIN, {"job_id": ID}),
    "wait for the next": (SECONDS_TO_NEXT, {}),
    "look for what is due": (LOOK, {"kinds": ["probe.write"]}),
    "settle misses": (READ_MISSED, {"ids": CLAIM["ids"], "worker_id": "w"}),
    "find a cleanup": (LOCK_ONE_DUE, {"kinds": ["probe.write"]}),
    "redrive": (REDRIVE_JOB, {"job_id": ID, "approver": None, "approval_id": None}),
    "look for a twin": (READ_REDRIVABLE, {"job_id": ID}),
    "look at watched jobs": (WATCHED_JOBS, {"ids": [uuid4() for _ in range(500)]}),
    "explain a job": (EXPLAIN_JOB, {"job_id": ID, **Scope(company="ACME").binds()}),
}
# Who stages a whole backlog reads what waits once, whichever way is shorter; and no job that is over.
MAY_SCAN = {name: {"outbox"} for name in ("resume a queue", "resume a kind", "thaw books")}
# Which index the sweepers must go by; the others go by primary keys.
BY_INDEX = {
    "reap": "jobs_running_idx",
    "reconcile": "jobs_pending_queue_idx",
    "take from the outbox": "outbox_order_idx",
    "find a cleanup": "jobs_cleanup_idx",
    "look for a twin": "jobs_active_fingerprint_key",
}


@pytest.fixture(scope="module")
def full(postgres: DatabaseServer) -> Iterator[Database]:
    """A database with fifty thousand jobs, its statistics fresh."""
    mine = postgres.create()
    yield mine
    postgres.drop(mine)


@pytest.fixture(scope="module")
def plans(full: Database) -> dict[str, Any]:
    """The plan of each statement, made once for the module."""
    return asyncio.run(_explain_all(full))


async def _explain_all(full: Database) -> dict[str, Any]:
    owner = open_engine(full.owner_url, pool_size=1)
    async with owner.begin() as conn:
        for statement in FILL:
            await conn.execute(
                text(statement.replace("n::text::bytea", "CAST(CAST(n AS text) AS bytea)"))
            )
        await conn.execute(text(f"ANALYZE {', '.join(f'chot.{name}' for name in TABLES)}"))
    await owner.dispose()
    app = open_engine(full.app_url, pool_size=1)
    found = {name: await _explain(app, *each) for name, each in STATEMENTS.items()}
    await app.dispose()
    return found


async def _explain(engine: AsyncEngine, statement: TextClause, binds: dict[str, Any]) -> Any:
    async with engine.connect() as conn:
        plan = await conn.scalar(text(f"EXPLAIN (FORMAT JSON) {statement.text}"), binds)
    return json.loads(plan)[0]["Plan"] if isinstance(plan, str) else plan[0]["Plan"]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


@pytest.mark.scenario("F37")
@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_of_the_protocol_reads_a_whole_table(plans: dict[str, Any], name: str) -> None:
    """What is fast with ten jobs stays fast with millions that are over."""
    scanned = {
        node["Relation Name"]
        for node in nodes(plans[name])
        if node["Node Type"] == "Seq Scan" and node.get("Relation Name") in LARGE
    }
    assert scanned <= MAY_SCAN.get(name, set()), json.dumps(plans[name], indent=1, default=str)


@pytest.mark.scenario("F37")
@pytest.mark.parametrize("name", BY_INDEX)
def test_a_sweeper_goes_by_its_own_index(plans: dict[str, Any], name: str) -> None:
    """A partial index, as small as the work that is left."""
    used = {node.get("Index Name") for node in nodes(plans[name])}
    assert BY_INDEX[name] in used, json.dumps(plans[name], indent=1, default=str)


# Ten thousand that are due, in eight lanes, and a worker that has room for a dozen.
BACKLOG = (
    "INSERT INTO chot.queues VALUES ('default') ON CONFLICT DO NOTHING",
    """INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts, available_at,
              fingerprint, on_duplicate, payload_version, principal, deployment_id)
       SELECT chot.uuid7(), 'probe.write', 'ACME', 'B' || n % 4, 'default', 5 + n % 2, 5,
              clock_timestamp(), sha256(CAST(CAST(n AS text) AS bytea)), 'join', 1, 'test',
              gen_random_uuid()
         FROM generate_series(1, 10000) AS n""",
    """INSERT INTO chot.outbox (job_id, queue, kind, company, brand, priority, next_send_at)
       SELECT id, queue, kind, company, brand, priority, available_at FROM chot.jobs""",
    """INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
       VALUES ('w', 'h', 1, 'test', '{}', 'working', clock_timestamp() + interval '1 hour')""",
    "INSERT INTO chot.worker_queues VALUES ('w', 'default', 4, 4)",
)
ROWS_READ = text("""
    SELECT sum(coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0))
      FROM pg_stat_xact_user_tables t
     WHERE t.schemaname = 'chot' AND t.relname IN ('outbox', 'jobs')""")


@pytest.mark.parametrize("analyzed", [True, False])
async def test_a_take_reads_the_heads_of_a_backlog_only(
    owner_engine: AsyncEngine, *, analyzed: bool
) -> None:
    """Whatever the planner knows of the table: some rows of each lane, not ten thousand."""
    async with owner_engine.begin() as conn:
        for statement in BACKLOG:
            await conn.execute(text(statement))
        if analyzed:
            await conn.execute(text("ANALYZE chot.jobs, chot.outbox"))
    for room, most in ((4 * PER_SLOT, 500), (0, 100)):
        async with owner_engine.begin() as conn:
            before = await conn.scalar(ROWS_READ)
            assert len((await take(conn, uuid4())).rows) == room
            assert await conn.scalar(ROWS_READ) - before < most


# A big brand, and two whose jobs are the oldest of their company.
OF_BRANDS = """
    INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts, available_at,
           fingerprint, on_duplicate, payload_version, principal, deployment_id)
    SELECT chot.uuid7(), 'probe.write', 'ACME',
           CASE WHEN n <= 20 THEN 'T' || n % 2 ELSE 'BIG' END, 'default', 5, 5,
           clock_timestamp(), sha256(CAST(CAST(n AS text) AS bytea)), 'join', 1, 'test',
           gen_random_uuid()
      FROM generate_series(1, 10000) AS n ORDER BY n"""


@pytest.mark.parametrize("brands", [("T0",), ("T0", "T1")])
async def test_the_list_of_a_small_brand_reads_its_jobs_only(
    owner_engine: AsyncEngine, brands: tuple[str, ...]
) -> None:
    """Not those of its whole company, page by page, to find the few that it may see."""
    async with owner_engine.begin() as conn:
        await conn.execute(text(OF_BRANDS))
        await conn.execute(text("ANALYZE chot.jobs"))
    async with owner_engine.begin() as conn:
        before = await conn.scalar(ROWS_READ)
        page = await list_jobs(conn, limit=50, scope=Scope(company="ACME", brands=brands))
        assert (len(page.rows), page.next_before) == (10 * len(brands), None)
        assert await conn.scalar(ROWS_READ) - before < 10 * len(brands) * 10
