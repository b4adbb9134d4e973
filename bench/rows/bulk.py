"""A thousand jobs by one POST, beside one INSERT … SELECT unnest of the same rows.

Ours is the whole request under a key: JSON, checks, judging against what is active, rows, answer
with a thousand outcomes. The limit is one statement with its commit: job, payload, outbox row and
audit row of each, all arrays bound beforehand.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from time import perf_counter

from bench.figures import Figure, ratio
from bench.http import Client, job, written
from bench.kinds import NOOP
from bench.place import BRAND, COMPANY, Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed

LEAST = 0.5
NUMBERS = count(1)
ROWS = """
    SELECT (SELECT count(*) FROM chot.jobs), (SELECT count(*) FROM chot.job_payloads),
           (SELECT count(*) FROM chot.audit WHERE action = 'job.submit')"""
INSERT = f"""
    WITH given AS MATERIALIZED (
        SELECT uuidv7() AS id, g.payload, g.print
          FROM unnest($1::text[], $2::bytea[]) AS g (payload, print)),
    made AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id)
        SELECT g.id, '{NOOP}', '{COMPANY}', '{BRAND}', 'default', 5, 5, clock_timestamp(), g.print,
               'join', 1, 'bench', d.deployment_id FROM given g, chot.deployment d),
    paid AS (
        INSERT INTO chot.job_payloads (job_id, payload) SELECT id, payload::jsonb FROM given),
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, priority, next_send_at)
        SELECT id, 'default', '{NOOP}', '{COMPANY}', '{BRAND}', 5, clock_timestamp() FROM given)
    INSERT INTO chot.audit (action, principal, job_id, company, brand, facts)
    SELECT 'job.submit', 'bench', id, '{COMPANY}', '{BRAND}',
           jsonb_build_object('kind', '{NOOP}', 'created', true, 'duplicate', NULL) FROM given"""


@dataclass(slots=True)
class Submitting:
    """An api with a client, and a database for the statement alone."""

    ours: Platform
    client: Client
    beside: Platform
    sizes: Sizes
    made: int = 0
    inserted: int = 0


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Submitting]:
    """Both sides once, unmeasured: plans and pages are there afterwards."""
    async with place.platform() as platform, place.platform() as beside:
        _, port = platform.api()
        client = Client(port, platform.key)
        try:
            submitting = Submitting(platform, client, beside, sizes)
            await limit(submitting)
            await ours(submitting)
            yield submitting
        finally:
            client.close()


async def limit(submitting: Submitting) -> Measured:
    """The statement, and its commit."""
    jobs = submitting.sizes["jobs"]
    payloads = [f'{{"number": {next(NUMBERS)}}}' for _ in range(jobs)]
    prints = [hashlib.sha256(payload.encode()).digest() for payload in payloads]
    began = perf_counter()
    await submitting.beside.superuser.execute(INSERT, payloads, prints)
    seconds = perf_counter() - began
    submitting.inserted += jobs
    await _check(submitting.beside, submitting.inserted)
    return {"rate": jobs / seconds}


async def ours(submitting: Submitting) -> Measured:
    """The request, and its answer."""
    jobs = submitting.sizes["jobs"]
    body = written({"jobs": [job(NOOP, number=next(NUMBERS)) for _ in range(jobs)]})
    key = f"bulk-{next(NUMBERS)}"

    def post() -> float:
        began = perf_counter()
        submitting.client.require(200, "POST", "/v1/jobs:batch", body, key)
        return perf_counter() - began

    seconds = await asyncio.to_thread(post)
    submitting.made += jobs
    await _check(submitting.ours, submitting.made)
    return {"rate": jobs / seconds}


async def _check(platform: Platform, jobs: int) -> None:
    rows = tuple(await platform.superuser.fetchrow(ROWS))
    if rows != (jobs,) * len(rows):
        raise BenchFailed(f"{jobs} jobs submitted; jobs, payloads, audit: {rows}")


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Jobs a second of one request against rows a second of one statement."""
    return [
        ratio(
            "jobs a second",
            each(ours, "rate"),
            each(limits, "rate"),
            unit="/s",
            at_least=LEAST,
        )
    ]


ROW = Row(
    name="bulk",
    title="bulk submit of 1,000",
    against="one `INSERT … SELECT unnest` of the same rows",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 50},
        Scale.QUICK: {"rounds": 5, "jobs": 1_000},
        Scale.USUAL: {"rounds": 21, "jobs": 1_000},
        Scale.LONG: {"rounds": 41, "jobs": 1_000},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
)
