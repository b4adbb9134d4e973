"""Submits at a steady pace, while something happens to what they need."""

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import NUMBERS, scalar


@dataclass(slots=True)
class Traffic:
    """Submits at a steady pace, each a job of its own; what every one was answered, and when."""

    http: httpx.AsyncClient
    answers: list[tuple[float, float, int, UUID | None]] = field(default_factory=list)

    async def run(self, *, rate: float, seconds: float) -> None:
        """Submit `rate` times a second; returns when all are answered."""
        began, posts = monotonic(), []
        for n in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, began + n / rate - monotonic()))
            posts.append(asyncio.create_task(self.submit()))
        await asyncio.gather(*posts)

    async def submit(self) -> int:
        """Submit one job; the answer's status, 0 where the connection broke."""
        body = {"kind": "probe.write", "company": "ACME", "brand": "RED"}
        began, job_id, status = monotonic(), None, 0
        try:
            answer = await self.http.post(
                "/v1/jobs", json=body | {"payload": {"number": next(NUMBERS)}}
            )
        except httpx.TransportError:
            pass
        else:
            status = answer.status_code
            job_id = UUID(answer.json()["id"]) if status == 202 else None
        self.answers.append((began, monotonic() - began, status, job_id))
        return status

    @property
    def accepted(self) -> list[JobId]:
        """The jobs that were answered 202."""
        return [JobId(each[3]) for each in self.answers if each[3] is not None]

    def last(self, status: int) -> float:
        """When the last request was sent that got this status; 0 where none did."""
        return max((began for began, _, got, _ in self.answers if got == status), default=0.0)

    @property
    def longest(self) -> float:
        """Seconds that the slowest answer took."""
        return max(took for _, took, _, _ in self.answers)


async def written_once(engine: AsyncEngine, ids: list[JobId], *, chunks: int) -> None:
    """Each of these jobs has all its effects, and none of them twice."""
    whole: Any = await scalar(
        engine,
        """SELECT count(*) FROM (
               SELECT job_id FROM probe.effects WHERE job_id = ANY(:ids)
                GROUP BY job_id HAVING count(*) = :chunks AND count(DISTINCT chunk) = :chunks) AS o""",
        ids=ids,
        chunks=chunks,
    )
    assert whole == len(ids), "every job has each of its effects once"
