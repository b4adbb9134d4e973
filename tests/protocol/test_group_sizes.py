"""Ten thousand members: no append, end, seal, cancel or page reads all of them to do its work."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.groups.fill import Member, append_jobs, seal_group
from shared.groups.group import GroupId, Policy, list_members, read_group
from shared.groups.redrive import Again, redrive_group
from shared.groups.stop import cancel_group, stop_groups
from shared.jobs.listing import JobFilter, list_jobs
from shared.types import JobId
from tests.factories import TIMING, autocommit, claimant, execute, fetch
from tests.protocol.groups import opened, probe, show
from worker.claim import claim_jobs
from worker.outcome import complete_job

MEMBERS = 10_000
PART = 1_000
A_FEW = 10
READ = text("""
    SELECT coalesce(sum(t.seq_tup_read), 0) AS scanned, coalesce(sum(t.idx_tup_fetch), 0) AS fetched
      FROM pg_stat_xact_user_tables t
     WHERE t.schemaname = 'chot' AND t.relname IN ('jobs', 'job_payloads', 'attempts', 'outbox')""")
# As if all but the newest of them had run to their end, by the owner: the counter with them.
RUN = """
    WITH ran AS (
        UPDATE chot.jobs SET state = 'succeeded', finished_at = clock_timestamp(), attempt = 1,
               fence = 1
         WHERE group_id = :g AND id <> :left AND state = 'pending' RETURNING 1)
    UPDATE chot.groups SET remaining = 1, succeeded = (SELECT count(*) FROM ran) WHERE id = :g"""


async def rows_read(engine: AsyncEngine, act: Callable[[AsyncConnection], Awaitable[Any]]) -> Any:
    """How many rows the act read, by scans and by indexes."""
    async with engine.begin() as conn:
        before = (await conn.execute(READ)).one()
        await act(conn)
        after = (await conn.execute(READ)).one()
    return after.scanned - before.scanned, after.fetched - before.fetched


async def filled(engine: AsyncEngine, policy: Policy = Policy.FINISH) -> tuple[GroupId, JobId]:
    """An open group of ten thousand, appended a thousand at a time; one of its members."""
    group_id = await opened(engine, policy=policy)
    one = None
    for _ in range(MEMBERS // PART):
        async with engine.begin() as conn:
            answers = await append_jobs(conn, group_id, [probe() for _ in range(PART)])
        one = answers[0]
    assert isinstance(one, Member)
    return group_id, one.job_id


@pytest.mark.long
@pytest.mark.parametrize("analyzed", [True, False])
async def test_what_a_large_group_costs(
    probes: AsyncEngine, owner_engine: AsyncEngine, *, analyzed: bool
) -> None:
    """Whatever the planner knows of the table; the numbers are printed."""
    told = {}
    began = perf_counter()
    group_id, last = await filled(probes)
    told["append of 10,000, s"] = perf_counter() - began
    if analyzed:
        await execute(owner_engine, "ANALYZE chot.jobs, chot.groups, chot.outbox, chot.attempts")
    jobs = [probe() for _ in range(PART)]
    scanned, fetched = await rows_read(probes, lambda conn: append_jobs(conn, group_id, jobs))
    assert scanned <= A_FEW
    assert fetched < 8 * PART
    scanned, fetched = await rows_read(probes, lambda conn: append_jobs(conn, group_id, jobs))
    assert (await show(probes, group_id)).total == MEMBERS + PART, "again, and nothing twice"
    assert scanned <= A_FEW
    await execute(owner_engine, RUN, g=group_id, left=last)
    if analyzed:
        await execute(owner_engine, "ANALYZE chot.jobs, chot.groups")
    scanned, fetched = await rows_read(probes, lambda conn: seal_group(conn, group_id))
    assert scanned <= A_FEW
    assert fetched <= 20
    held = await claim_jobs(autocommit(probes), claimant(), [last])
    began = perf_counter()
    scanned, fetched = await rows_read(probes, lambda conn: complete_job(conn, held[0], None))
    told["last end, ms"] = (perf_counter() - began) * 1000
    assert scanned <= A_FEW
    assert fetched < 50
    assert (await show(probes, group_id)).state == "ended"
    scanned, fetched = await rows_read(probes, lambda conn: read_group(conn, group_id))
    assert scanned <= A_FEW
    assert fetched <= 5

    async def page(conn: AsyncConnection) -> None:
        rows = await list_members(conn, group_id, after=last, limit=500)
        assert 0 < len(rows) <= 500

    scanned, fetched = await rows_read(probes, page)
    assert scanned <= A_FEW
    assert fetched <= 5 * 500

    async def listed(conn: AsyncConnection) -> None:
        assert len((await list_jobs(conn, JobFilter(group=group_id), limit=50)).rows) == 50

    scanned, fetched = await rows_read(probes, listed)
    assert scanned <= A_FEW
    assert fetched < 500
    print(analyzed, {name: round(value, 2) for name, value in told.items()})  # noqa: T201


@pytest.mark.long
async def test_what_a_cancel_and_a_redrive_of_a_large_group_cost(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Ended by two workers' maintenance in seconds, each member once; made again in one commit."""
    group_id, _ = await filled(probes)
    began = perf_counter()
    scanned, fetched = await rows_read(probes, lambda conn: cancel_group(conn, group_id))
    assert scanned <= A_FEW
    assert fetched <= 5
    ended = sum(await asyncio.gather(*(stop_groups(probes, TIMING) for _ in range(2))))
    while (await show(probes, group_id)).join_state != "cancelled":
        ended += await stop_groups(probes, TIMING)
    took = perf_counter() - began
    assert ended == MEMBERS + 1
    began = perf_counter()
    async with probes.begin() as conn:
        answer = await redrive_group(conn, group_id)
    assert isinstance(answer, Again)
    group = await show(probes, group_id)
    assert (group.total, group.remaining, group.cancelled) == (MEMBERS, MEMBERS, 0)
    print(f"cancelled in {took:.1f} s, redriven in {perf_counter() - began:.1f} s")  # noqa: T201
    rows = await fetch(owner_engine, "SELECT 1 FROM chot.jobs WHERE group_id = :g", g=group_id)
    assert len(rows) == MEMBERS
