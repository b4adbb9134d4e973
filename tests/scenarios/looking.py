"""What scenarios look at beside what journeys do: the audit, leases over time, jobs over HTTP."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import NUMBERS, fetch
from tests.fleet import Fleet
from tests.journeys.looking import queue_is, queued

SAMPLE_SECONDS = 0.05
TERMINAL = ("succeeded", "cancelled", "dead")


@dataclass(frozen=True, slots=True)
class Audit:
    """Every change of every job's row, in the order in which each job's were committed."""

    engine: AsyncEngine

    async def rows(self, job_id: UUID) -> list[Any]:
        """All that happened to the job's row, renewals included."""
        return await fetch(
            self.engine, "SELECT * FROM audit.transitions WHERE job_id = :id ORDER BY n", id=job_id
        )

    async def states(self, job_id: UUID) -> list[tuple[str | None, str]]:
        """(from, to) of each change of its state; (None, "pending") is its birth."""
        rows = await self.rows(job_id)
        return [(row.old_state, row.state) for row in rows if row.old_state != row.state]

    async def left_a_terminal_state(self) -> list[Any]:
        """Changes of rows that were final already, or no longer running under their fence."""
        return await fetch(
            self.engine,
            """SELECT * FROM audit.transitions WHERE old_state = ANY(:terminal)
                  AND NOT (old_state = 'dead' AND state = 'pending')""",
            terminal=list(TERMINAL),
        )


@dataclass(slots=True)
class Leases:
    """What was seen of running jobs: what was left of each lease, and each expiry it had."""

    left: dict[UUID, list[float]] = field(default_factory=lambda: defaultdict(list))
    expiries: dict[UUID, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def longest_gap(self, job_id: UUID) -> float:
        """Seconds between two renewals: an expiry is the renewal's own clock and a lease."""
        seen = [expiry for _, expiry in self.expiries[job_id]]
        return max((later - earlier for earlier, later in pairwise(seen)), default=float("inf"))

    def note(self, row: Any) -> None:
        """Take one sample in."""
        self.left[row.id].append(row.left_over)
        seen = (row.fence, row.expires)
        if not self.expiries[row.id] or self.expiries[row.id][-1] != seen:
            self.expiries[row.id].append(seen)


@dataclass(frozen=True, slots=True)
class Queue:
    """Queue `default` of this test and its dead-letter queue, as SQS itself sees them."""

    sqs: Any
    prefix: str

    @property
    def url(self) -> str:
        """The queue that workers receive from."""
        return self._url("default")

    @property
    def dead(self) -> tuple[int, int]:
        """Messages that SQS has moved away: (visible, in flight)."""
        return queued(self.sqs, self._url("default-dead"))

    @property
    def depth(self) -> tuple[int, int]:
        """Messages in the queue: (visible, in flight)."""
        return queued(self.sqs, self.url)

    async def holds(self, visible: int, in_flight: int = 0, *, seconds: float = 15) -> None:
        """Wait until the queue holds so many messages."""
        await queue_is(self.sqs, self.url, (visible, in_flight), seconds=seconds)

    def send(self, *bodies: str) -> None:
        """Send these bodies, ten a call."""
        for first in range(0, len(bodies), 10):
            entries = [
                {"Id": str(n), "MessageBody": body}
                for n, body in enumerate(bodies[first : first + 10])
            ]
            answer = self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)
            assert len(answer["Successful"]) == len(entries)

    def _url(self, name: str) -> str:
        url = self.sqs.get_queue_url(QueueName=f"{self.prefix}-{name}")["QueueUrl"]
        assert isinstance(url, str), "SQS answers with a URL"
        return url


@asynccontextmanager
async def watched_leases(
    engine: AsyncEngine, every: float = SAMPLE_SECONDS
) -> AsyncIterator[Leases]:
    """Sample the lease of every running job while the block runs."""
    leases = Leases()

    async def sample() -> None:
        while True:
            for row in await fetch(
                engine,
                """SELECT id, fence, extract(epoch FROM lease_expires_at)::float8 AS expires,
                          extract(epoch FROM lease_expires_at - clock_timestamp())::float8
                              AS left_over
                     FROM chot.jobs WHERE state = 'running'""",
            ):
                leases.note(row)
            await asyncio.sleep(every)

    sampling = asyncio.create_task(sample())
    try:
        yield leases
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
    assert sampling.cancelled(), "the sampling went on until the end"


@asynccontextmanager
async def api_of(fleet: Fleet, **changes: str) -> AsyncIterator[httpx.AsyncClient]:
    """Start an api process; a client that speaks to it."""
    _, url = await asyncio.to_thread(fleet.api, **changes)
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        yield client


async def post_job(
    http: httpx.AsyncClient,
    kind: str = "probe.write",
    *,
    max_attempts: int | None = None,
    **payload: Any,
) -> JobId:
    """POST one probe job, with a number of its own unless one is given; answers its id."""
    body: dict[str, Any] = {
        "kind": kind,
        "company": "ACME",
        "brand": "RED",
        "payload": {"number": next(NUMBERS)} | payload,
    }
    if max_attempts is not None:
        body["max_attempts"] = max_attempts
    answer = await http.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return JobId(UUID(answer.json()["id"]))


async def pids_of(engine: AsyncEngine, job_id: UUID) -> set[int]:
    """The processes that have written effects of the job."""
    rows = await fetch(
        engine, "SELECT DISTINCT pid FROM probe.effects WHERE job_id = :id", id=job_id
    )
    return {row.pid for row in rows}
