"""Spawn: jobs that a running job asks for commit with its fence, or not at all."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PermanentError
from shared.groups.fill import append_jobs
from shared.groups.group import Policy, lock_group
from shared.groups.stop import cancel_group
from tests.factories import NUMBERS, claimed_job, expire_lease, fetch, job_row, make_job, scalar
from tests.protocol.groups import held_by, opened, probe, seal, sealed, show
from tests.protocol.test_attempt import outcome_of, runner
from tests.protocol.test_groups import end
from tests.services import Database
from worker.attempt import run_attempt
from worker.context import JobContext
from worker.outcome import Completed, Failed, Lost, Released, Succeeded
from worker.spawn import Child


def children(n: int, **payload: Any) -> list[Child]:
    """So many probe jobs, each a work of its own."""
    return [
        Child(kind="probe.write", payload={"number": next(NUMBERS)} | payload) for _ in range(n)
    ]


def spawning(
    asked: Sequence[Child], *, completes: bool, join: bool = True, told: list[UUID]
) -> Any:
    """A handler that spawns these in one fenced transaction."""

    async def spawn(context: JobContext, _: Any) -> None:
        async with context.completion() if completes else context.transaction() as tx:
            wanted = children(1)[0] if join else None
            told.append(await context.spawn(tx, asked, join=wanted, policy=Policy.JOIN))

    return spawn


@pytest.mark.parametrize("completes", [False, True])
async def test_what_a_job_spawns_is_a_sealed_group_with_its_join(
    probes: AsyncEngine, database: Database, *, completes: bool
) -> None:
    """Of the job's company, brand and account; its end starts the join."""
    told: list[UUID] = []
    woken: list[int] = []
    held = await claimed_job(probes)
    held.on_spawned = lambda: woken.append(len(told))
    spawn = spawning(children(3), completes=completes, told=told)
    outcome = await run_attempt(runner(probes, database, write=spawn), held)
    assert isinstance(outcome, Completed if completes else Succeeded)
    assert woken == [1], "the relay is told once they are committed, not at its next poll"
    group = await show(probes, told[0])
    assert (group.state, group.policy, group.total) == ("sealed", "join", 3)
    assert (group.company, group.brand, group.principal) == ("ACME", "RED", held.job.principal)
    ids = await fetch(probes, "SELECT id FROM chot.jobs WHERE group_id = :g", g=group.id)
    for row in ids:
        await end(probes, row.id)
    group = await show(probes, group.id)
    assert (group.state, group.join_state) == ("ended", "pending")
    acts = await fetch(probes, "SELECT principal FROM chot.audit WHERE action LIKE 'group.%'")
    assert {row.principal for row in acts} == {held.job.principal}


@pytest.mark.parametrize("completes", [False, True])
async def test_a_zombie_spawns_nothing(
    probes: AsyncEngine, database: Database, *, completes: bool
) -> None:
    """Its children go where its effects go: nowhere."""
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    await held_by(probes, held.lease.job_id, "b")
    woken: list[bool] = []
    held.on_spawned = lambda: woken.append(True)
    spawn = spawning(children(3), completes=completes, told=[])
    assert isinstance(await run_attempt(runner(probes, database, write=spawn), held), Lost)
    assert woken == []
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.groups") == 0


async def test_a_member_adds_members_to_its_own_group(
    probes: AsyncEngine, database: Database
) -> None:
    """A sealed one too: it has not ended as long as this member runs."""
    group_id, (one,) = await sealed(probes, 1)
    held = await held_by(probes, one)
    told: list[UUID] = []
    spawn = spawning(children(4), completes=True, join=False, told=told)
    assert isinstance(await run_attempt(runner(probes, database, write=spawn), held), Completed)
    assert told == [group_id]
    group = await show(probes, group_id)
    assert (group.state, group.total, group.remaining) == ("sealed", 5, 4)


async def test_a_member_of_a_group_that_is_cancelling_adds_none(
    probes: AsyncEngine, database: Database
) -> None:
    """Uncharged: it is about to be cancelled itself."""
    group_id, (one,) = await sealed(probes, 1)
    held = await held_by(probes, one)
    async with probes.begin() as conn:
        assert await cancel_group(conn, group_id)
    spawn = spawning(children(1), completes=True, join=False, told=[])
    assert isinstance(await run_attempt(runner(probes, database, write=spawn), held), Released)
    assert (await show(probes, group_id)).total == 1


async def test_a_spawn_without_a_join_outside_a_group_makes_one(
    probes: AsyncEngine, database: Database
) -> None:
    """Children that belong together, and nothing that follows."""
    told: list[UUID] = []
    held = await claimed_job(probes)
    spawn = spawning(children(2), completes=True, join=False, told=told)
    await run_attempt(runner(probes, database, write=spawn), held)
    group = await show(probes, told[0])
    assert (group.total, group.join_job_id) == (2, None)


@pytest.mark.parametrize(
    ("child", "code"),
    [
        (Child(kind="probe.none", payload={}), "CH001"),
        (Child(kind="probe.write", payload={}), "CH002"),
    ],
)
async def test_a_child_that_breaks_a_rule_buries_the_job(
    probes: AsyncEngine, database: Database, child: Child, code: str
) -> None:
    """It would be refused again; none of its siblings is made."""
    held = await claimed_job(probes)
    spawn = spawning([*children(1), child], completes=True, told=[])
    assert isinstance(await run_attempt(runner(probes, database, write=spawn), held), Failed)
    assert (await job_row(probes, held.lease.job_id)).state == "dead"
    error = (await outcome_of(probes, held))[1]
    assert (error["code"], error["details"]["code"]) == ("SPAWN_REFUSED", code)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1


async def test_work_that_is_active_elsewhere_is_tried_again(
    probes: AsyncEngine, database: Database
) -> None:
    """All or nothing: a spawn of some of its children would be believed whole."""
    active = await make_job(probes, number=10**7)
    held = await claimed_job(probes)
    asked = [*children(1), *children(1, number=10**7)]
    spawn = spawning(asked, completes=True, told=[])
    await run_attempt(runner(probes, database, write=spawn), held)
    assert (await job_row(probes, held.lease.job_id)).state == "pending"
    assert str(active) in (await outcome_of(probes, held))[1]["message"]
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 2


async def test_a_brand_spawns_for_itself_only(probes: AsyncEngine, database: Database) -> None:
    """What it may touch is what whoever submitted it may."""
    held = await claimed_job(probes)
    asked = [Child(kind="probe.write", payload={"number": 1}, brand="BLUE")]
    spawn = spawning(asked, completes=True, told=[])
    assert isinstance(await run_attempt(runner(probes, database, write=spawn), held), Failed)
    assert "brand" in (await outcome_of(probes, held))[1]["message"]
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs") == 1


async def test_the_groups_row_is_free_while_the_body_works(
    probes: AsyncEngine, database: Database
) -> None:
    """It is locked right before the fence: other members end while this one is at its work."""
    group_id, (one, two) = await sealed(probes, 2)
    held, other = await held_by(probes, one), await held_by(probes, two)
    working, go_on = asyncio.Event(), asyncio.Event()

    async def spawn(context: JobContext, _: Any) -> None:
        async with context.completion() as tx:
            await context.spawn(tx, children(1))
            await tx.connection.execute(text("SELECT 1"))
            working.set()
            await go_on.wait()

    running = asyncio.ensure_future(run_attempt(runner(probes, database, write=spawn), held))
    await working.wait()
    await run_attempt(runner(probes, database, write=_nothing), other)
    async with probes.begin() as conn:
        assert await lock_group(conn, group_id) is not None
    go_on.set()
    assert isinstance(await running, Completed)
    group = await show(probes, group_id)
    assert (group.total, group.remaining) == (3, 1)


async def _nothing(_: JobContext, __: Any) -> None:
    return None


async def test_a_join_reads_what_became_of_each_member(
    probes: AsyncEngine, database: Database
) -> None:
    """Counts at once, members by pages, each with its payload, result or error."""
    group_id = await opened(probes, policy=Policy.JOIN)
    async with probes.begin() as conn:
        await append_jobs(conn, group_id, [probe(number=n) for n in range(5)])
    await seal(probes, group_id)
    ids = await fetch(
        probes, "SELECT id FROM chot.jobs WHERE group_id = :g ORDER BY id", g=group_id
    )
    for row in ids[:-1]:
        await end(probes, row.id)
    await end(probes, ids[-1].id, "fail_permanently")
    seen: list[Any] = []

    async def gather(context: JobContext, _: Any) -> dict[str, Any]:
        group = await context.group()
        assert group is not None
        seen.extend([member async for member in context.members(page=2)])
        return {"succeeded": group.succeeded, "dead": group.dead}

    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    held = await held_by(probes, join)
    assert isinstance(await run_attempt(runner(probes, database, write=gather), held), Succeeded)
    result = await scalar(probes, "SELECT result FROM chot.job_outputs WHERE job_id = :i", i=join)
    assert result == {"succeeded": 4, "dead": 1}
    assert [each.id for each in seen] == [row.id for row in ids]
    assert sorted(each.payload["number"] for each in seen) == list(range(5))
    assert seen[0].result == {"ok": True}
    assert (seen[-1].state, seen[-1].error["code"]) == ("dead", "TOLD")


async def test_a_job_of_no_group_has_none(probes: AsyncEngine, database: Database) -> None:
    """And no members either."""

    async def look(context: JobContext, _: Any) -> None:
        assert await context.group() is None
        assert [member async for member in context.members()] == []
        with pytest.raises(ValueError, match="at most"):
            async with context.transaction() as tx:
                await context.spawn(tx, children(1) * 10_001)
        raise PermanentError("as far as it should come")

    held = await claimed_job(probes)
    await run_attempt(runner(probes, database, write=look), held)
    assert "as far as" in (await outcome_of(probes, held))[1]["message"]
