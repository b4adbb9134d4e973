"""Groups for the tests: made, filled, sealed, and recounted from their members."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import transaction
from shared.groups.fill import Appended, Member, append_jobs, open_group, seal_group
from shared.groups.group import Group, GroupId, Policy, read_group
from shared.groups.stop import cancel_group, stop_groups
from shared.jobs.enqueue import Submit
from shared.types import JobId
from tests.factories import NUMBERS, TIMING, autocommit, claimant, fetch
from worker.claim import claim_jobs
from worker.lease import HeldLease


def probe(kind: str = "probe.write", **payload: Any) -> Submit:
    """A probe job, with a number of its own unless one is given."""
    payload = {"number": next(NUMBERS)} | payload
    return Submit(kind=kind, company="ACME", brand="RED", payload=payload, principal="alice")


async def opened(
    engine: AsyncEngine, *, policy: Policy = Policy.FINISH, join: bool = True
) -> GroupId:
    """An open group of brand RED, with a join unless none is wanted."""
    async with engine.begin() as conn:
        return await open_group(
            conn,
            company="ACME",
            brand="RED",
            policy=policy,
            principal="alice",
            join=probe() if join else None,
        )


async def append(engine: AsyncEngine, group_id: UUID, jobs: Sequence[Submit]) -> list[Appended]:
    """Append in a transaction of its own."""
    async with engine.begin() as conn:
        return await append_jobs(conn, group_id, jobs)


async def members(engine: AsyncEngine, group_id: UUID, n: int, **payload: Any) -> list[JobId]:
    """Append so many new members; their ids in order."""
    answers = await append(engine, group_id, [probe(**payload) for _ in range(n)])
    ids = [each.job_id for each in answers if isinstance(each, Member) and each.created]
    assert len(ids) == n
    return ids


async def sealed(
    engine: AsyncEngine, n: int, *, policy: Policy = Policy.FINISH, join: bool = True
) -> tuple[GroupId, list[JobId]]:
    """A sealed group of so many members."""
    group_id = await opened(engine, policy=policy, join=join)
    ids = await members(engine, group_id, n) if n else []
    assert await seal(engine, group_id)
    return group_id, ids


async def seal(engine: AsyncEngine, group_id: UUID) -> bool:
    """Seal in a transaction of its own."""
    async with engine.begin() as conn:
        return await seal_group(conn, group_id)


async def stop(engine: AsyncEngine, group_id: UUID) -> bool:
    """An operator's cancel, and one round of maintenance."""
    async with engine.begin() as conn:
        marked = await cancel_group(conn, group_id)
    await stop_groups(engine, TIMING)
    return marked


async def claim(engine: AsyncEngine, job_id: JobId, worker: str = "a") -> HeldLease | None:
    """Claim one job alone, as a worker does that has missed it in a batch."""
    held = await claim_jobs(autocommit(engine), claimant(worker), [job_id], wait=True)
    return held[0] if held else None


async def held_by(engine: AsyncEngine, job_id: JobId, worker: str = "a") -> HeldLease:
    """Claim a job that may be claimed."""
    held = await claim(engine, job_id, worker)
    assert held is not None, "the job could not be claimed"
    return held


async def show(engine: AsyncEngine, group_id: UUID) -> Group:
    """The group as it is now, its counters recounted."""
    async with transaction(engine) as conn:
        group = await read_group(conn, group_id)
    assert group is not None
    counted = {
        row.state: row.n
        for row in await fetch(
            engine,
            """SELECT state, count(*) AS n FROM (
                   SELECT state FROM chot.jobs WHERE group_id = :g
                   UNION ALL
                   SELECT job ->> 'state' FROM chot.archived_jobs
                    WHERE (job ->> 'group_id')::uuid = :g) AS m GROUP BY state""",
            g=group_id,
        )
    }
    active = counted.get("pending", 0) + counted.get("running", 0)
    told = (group.remaining, group.succeeded, group.dead, group.cancelled)
    truth = (active, *(counted.get(state, 0) for state in ("succeeded", "dead", "cancelled")))
    assert told == truth, "the counters are the truth"
    assert group.total == sum(truth)
    return group


async def messages(engine: AsyncEngine, job_id: UUID | None) -> int:
    """How many messages of the job wait in the outbox."""
    rows = await fetch(engine, "SELECT id FROM chot.outbox WHERE job_id = :i", i=job_id)
    return len(rows)
