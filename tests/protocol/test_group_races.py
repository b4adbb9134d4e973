"""Races over one group, by sessions that really meet: the counter stays true, the join runs once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from shared.groups.fill import append_jobs, seal_group
from shared.groups.group import GroupId, GroupRefused, Policy, lock_group
from shared.groups.stop import cancel_group, stop_groups, stop_members
from shared.jobs.cancel import cancel_job
from shared.jobs.redrive import JoinRuns, Redriven, redrive_job
from tests.factories import TIMING, eventually, execute, expire_lease, fetch, job_row
from tests.protocol.groups import (
    append,
    claim,
    held_by,
    members,
    messages,
    opened,
    probe,
    seal,
    sealed,
    show,
)
from tests.protocol.sessions import WAITING, lock_job, until_waiting, waiting_for_nobody, waits
from tests.protocol.test_attempt import runner
from tests.protocol.test_group_redrive import cleaned
from tests.protocol.test_groups import end, leave
from tests.services import Database
from tests.tcp_proxy import Proxy, open_proxy
from worker.attempt import run_attempt
from worker.context import JobContext
from worker.lease import HeldLease
from worker.outcome import Completed, Failed, Succeeded, complete_job, fail_job
from worker.reaper import reap_guarded

Act = Callable[[AsyncConnection], Awaitable[Any]]
QUICK = replace(TIMING, lock_timeout=0.3)


async def in_turn(engine: AsyncEngine, first: Act, second: Awaitable[Any]) -> tuple[Any, Any]:
    """The first act, uncommitted until the second one waits for it; what both of them said."""
    async with engine.begin() as conn:
        said = await first(conn)
        other = asyncio.ensure_future(second)
        await until_waiting(engine)
    return said, await other


async def committed(engine: AsyncEngine, act: Act) -> Any:
    """The act in a transaction of its own."""
    async with engine.begin() as conn:
        return await act(conn)


def completing(held: HeldLease) -> Act:
    """A member that succeeds."""
    return lambda conn: complete_job(conn, held, None)


def dying(held: HeldLease) -> Act:
    """A member that dies."""
    failed = Failed(error="told to", code="TOLD", permanent=True)
    return lambda conn: fail_job(conn, held, failed)


async def ended_once(engine: AsyncEngine, group_id: GroupId) -> None:
    """The group has ended well, and its join has exactly one message."""
    group = await show(engine, group_id)
    assert (group.state, group.outcome) == ("ended", "succeeded")
    assert await messages(engine, group.join_job_id) == 1


async def test_the_last_two_members_end_at_the_same_moment(probes: AsyncEngine) -> None:
    """⚑ Each would see the other one still running: the later one waits, and then sees."""
    group_id, ids = await sealed(probes, 2)
    one, two = [await held_by(probes, job_id) for job_id in ids]
    said = await in_turn(probes, completing(one), committed(probes, completing(two)))
    assert said == (True, True)
    await ended_once(probes, group_id)


async def test_an_end_waits_for_the_groups_row_and_holds_no_job_meanwhile(
    probes: AsyncEngine,
) -> None:
    """⚑ The group before the job, for all: whoever held the job and waited would deadlock."""
    group_id, (one, _) = await sealed(probes, 2)
    held = await held_by(probes, one)
    async with probes.begin() as conn:
        await lock_group(conn, group_id)
        ending = asyncio.ensure_future(committed(probes, completing(held)))
        await until_waiting(probes)
        async with waiting_for_nobody():
            await lock_job(conn, one)
    async with waiting_for_nobody():
        assert await ending


async def test_many_members_end_at_once(probes: AsyncEngine) -> None:
    """However they come in: one end, one message."""
    group_id, ids = await sealed(probes, 24)
    held = [await held_by(probes, job_id) for job_id in ids]
    said = await asyncio.gather(*(committed(probes, completing(each)) for each in held))
    assert all(said)
    await ended_once(probes, group_id)


@pytest.mark.parametrize("sealed_first", [False, True])
async def test_a_seal_meets_the_last_end(probes: AsyncEngine, *, sealed_first: bool) -> None:
    """Whichever comes second ends the group."""
    group_id = await opened(probes)
    (one,) = await members(probes, group_id, 1)
    held = await held_by(probes, one)

    def sealing(conn: AsyncConnection) -> Awaitable[bool]:
        return seal_group(conn, group_id)

    acts = (sealing, completing(held)) if sealed_first else (completing(held), sealing)
    assert await in_turn(probes, acts[0], committed(probes, acts[1])) == (True, True)
    await ended_once(probes, group_id)


async def test_a_cancel_meets_an_append(probes: AsyncEngine) -> None:
    """What was appended before is cancelled with the others; what comes after is refused."""
    group_id = await opened(probes)

    def appending(conn: AsyncConnection) -> Awaitable[Any]:
        return append_jobs(conn, group_id, [probe(), probe()])

    def cancelling(conn: AsyncConnection) -> Awaitable[bool]:
        return cancel_group(conn, group_id)

    _, marked = await in_turn(probes, appending, committed(probes, cancelling))
    assert marked
    assert (await show(probes, group_id)).remaining == 2
    with pytest.raises(GroupRefused):
        await append(probes, group_id, [probe()])
    await stop_groups(probes, TIMING)
    group = await show(probes, group_id)
    assert (group.state, group.cancelled) == ("ended", 2)


async def test_an_append_that_waited_for_a_cancel_is_refused(probes: AsyncEngine) -> None:
    """It judges the group anew once it has its row."""
    group_id = await opened(probes)
    await members(probes, group_id, 1)

    async def late() -> str:
        try:
            await append(probes, group_id, [probe()])
        except GroupRefused as refused:
            return refused.state
        return "appended"

    said = await in_turn(probes, lambda conn: cancel_group(conn, group_id), late())
    assert said == (True, "cancelling")
    assert (await show(probes, group_id)).total == 1


async def test_a_cancel_of_a_member_meets_its_completion(probes: AsyncEngine) -> None:
    """One of them ends it; it is counted as that, once."""
    group_id, (one, _) = await sealed(probes, 2, policy=Policy.JOIN)
    held = await held_by(probes, one)
    cancelling = committed(probes, lambda conn: cancel_job(conn, one))
    assert await in_turn(probes, completing(held), cancelling) == (True, False)
    group = await show(probes, group_id)
    assert (group.remaining, group.succeeded, group.cancelled) == (1, 1, 0)


async def test_the_reaper_meets_a_completion(probes: AsyncEngine) -> None:
    """The lease ran out while the completion was on its way: one end, not two."""
    group_id, (one, two) = await sealed(probes, 2)
    await end(probes, two)
    held = await held_by(probes, one)
    await expire_lease(probes, one)
    said = await in_turn(probes, completing(held), reap_guarded(probes, TIMING))
    assert said == (True, 0)
    await ended_once(probes, group_id)


async def test_a_redrive_meets_the_last_end(probes: AsyncEngine) -> None:
    """The group does not end over the head of what was just given back to it."""
    group_id, (one, two) = await sealed(probes, 2, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await cleaned(probes)
    held = await held_by(probes, two)
    said = await in_turn(
        probes, lambda conn: redrive_job(conn, one), committed(probes, completing(held))
    )
    assert said == (Redriven(), True)
    group = await show(probes, group_id)
    assert (group.state, group.remaining, await messages(probes, group.join_job_id)) == (
        "sealed",
        1,
        0,
    )
    await end(probes, one)
    await ended_once(probes, group_id)


async def test_a_redrive_that_comes_after_the_last_end_opens_the_group_again(
    probes: AsyncEngine,
) -> None:
    """The join waits once more, in the next generation."""
    group_id, (one, two) = await sealed(probes, 2, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await cleaned(probes)
    held = await held_by(probes, two)
    redriving = committed(probes, lambda conn: redrive_job(conn, one))
    assert await in_turn(probes, completing(held), redriving) == (True, Redriven())
    group = await show(probes, group_id)
    assert (group.state, group.generation) == ("sealed", 2)
    assert group.join_job_id is not None
    assert await claim(probes, group.join_job_id) is None


async def test_a_join_is_not_claimed_while_a_member_is_given_back(probes: AsyncEngine) -> None:
    """⚑ One statement that claims would see the group as it was; the claim locks it first."""
    group_id, (one,) = await sealed(probes, 1, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await cleaned(probes)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    said = await in_turn(probes, lambda conn: redrive_job(conn, one), claim(probes, join))
    assert said == (Redriven(), None)
    assert (await job_row(probes, join)).state == "pending"
    await end(probes, one)
    held = await held_by(probes, join)
    assert await committed(probes, lambda conn: redrive_job(conn, one)) != Redriven()
    assert await committed(probes, completing(held))
    assert (await show(probes, group_id)).state == "ended"


async def test_a_member_that_is_given_back_under_a_claimed_join_is_refused(
    probes: AsyncEngine,
) -> None:
    """The other order: the join has started, on what became of the members."""
    group_id, (one,) = await sealed(probes, 1, policy=Policy.JOIN)
    await end(probes, one, "fail_permanently")
    await cleaned(probes)
    join = (await show(probes, group_id)).join_job_id
    assert join is not None
    async with probes.begin() as conn:
        await lock_group(conn, group_id)
        claiming = asyncio.ensure_future(claim(probes, join))
        assert await waits(probes, claiming), "a claim of the join waits for the group's row"
        redriving = asyncio.ensure_future(committed(probes, lambda c: redrive_job(c, one)))
        await until_waiting(probes, 2)
    assert await claiming is not None
    assert await redriving == JoinRuns(join)


async def test_two_cancels_of_the_members_at_once(probes: AsyncEngine) -> None:
    """Any number of workers may end a group."""
    group_id, _ = await sealed(probes, 250)
    async with probes.begin() as conn:
        assert await cancel_group(conn, group_id)
    said = await asyncio.gather(*(stop_groups(probes, TIMING) for _ in range(4)))
    await eventually(lambda: _ended(probes, group_id))
    assert sum(said) == 251, "each member and the join once"
    assert (await show(probes, group_id)).cancelled == 250


async def _ended(engine: AsyncEngine, group_id: GroupId) -> bool:
    await stop_groups(engine, TIMING)
    return (await show(engine, group_id)).join_state == "cancelled"


async def test_a_worker_that_saw_it_cancelling_does_not_cancel_what_was_redriven(
    probes: AsyncEngine,
) -> None:
    """It found the group, slept, and the group ended and was redriven meanwhile."""
    group_id, ids = await sealed(probes, 2)
    assert await stop_members(probes, TIMING, group_id) == 0, "it is not cancelling"
    assert (await show(probes, group_id)).remaining == len(ids)


async def _succeed(_: JobContext, __: Any) -> None:
    return None


async def _complete(context: JobContext, _: Any) -> None:
    async with context.completion() as tx:
        tx.result = {"done": True}


async def _fail(_: JobContext, __: Any) -> None:
    raise ZeroDivisionError


ENDS = {
    # handler, outcome, state, counted as (succeeded, dead)
    "succeed": (_succeed, Succeeded, (1, 0)),
    "complete": (_complete, Completed, (1, 0)),
    "fail": (_fail, Failed, (0, 1)),
}


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A proxy in front of this test's database."""
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as found:
        yield found


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("arrives", [True, False])
async def test_an_end_whose_commit_is_in_doubt_counts_once(
    probes: AsyncEngine, database: Database, proxy: Proxy, how: str, *, arrives: bool
) -> None:
    """The answer is lost, or the COMMIT itself: the database is asked, and the end is counted."""
    handler, outcome, counted = ENDS[how]
    group_id, (one, _) = await sealed(probes, 2, policy=Policy.JOIN)
    await execute(probes, "UPDATE chot.jobs SET max_attempts = 1 WHERE group_id IS NOT NULL")
    held = await held_by(probes, one)
    server = urlsplit(database.app_url)
    url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
    engine = open_engine(url.geturl(), pool_size=4)
    watched = proxy.lose_answer_to if arrives else proxy.lose
    watched(b"COMMIT;")
    running = asyncio.create_task(run_attempt(runner(engine, database, write=handler), held))
    await (proxy.until_held() if arrives else proxy.triggered.wait())
    proxy.reset()
    proxy.heal()
    said = await running
    await engine.dispose()
    group = await show(probes, group_id)
    if how == "complete" and not arrives:
        # Nothing was committed: the attempt is repeated, and the member has not ended.
        assert (group.remaining, group.succeeded) == (2, 0)
        return
    assert isinstance(said, outcome)
    assert (group.remaining, group.succeeded, group.dead) == (1, *counted)


@pytest.mark.parametrize("how", ["succeed", "complete"])
async def test_an_end_waits_out_whoever_holds_the_groups_row(
    probes: AsyncEngine, database: Database, how: str
) -> None:
    """A long append: the end is repeated, or the attempt is, and nothing is charged."""
    group_id, (one, _) = await sealed(probes, 2)
    held = await held_by(probes, one)
    mine = replace(runner(probes, database, write=ENDS[how][0]), timing=QUICK)
    async with probes.begin() as conn:
        await lock_group(conn, group_id)
        running = asyncio.ensure_future(run_attempt(mine, held))
        for _ in range(2):
            await until_waiting(probes)
            await eventually(lambda: _nobody_waits(probes))
    said = await running
    row = await job_row(probes, one)
    assert row.attempt - row.interruptions == (1 if how == "succeed" else 0)
    assert isinstance(said, Succeeded) == (how == "succeed")
    assert (await show(probes, group_id)).remaining == (1 if how == "succeed" else 2)


async def _nobody_waits(engine: AsyncEngine) -> bool:
    return not await fetch(engine, WAITING)


async def test_members_of_a_thousand_are_appended_while_others_end(probes: AsyncEngine) -> None:
    """Ends wait for the append's commit, and lose nothing by it."""
    group_id = await opened(probes)
    first = await members(probes, group_id, 6)
    held = [await held_by(probes, job_id) for job_id in first]
    jobs = [probe() for _ in range(1000)]
    appended, *said = await asyncio.gather(
        append(probes, group_id, jobs),
        *(committed(probes, completing(each)) for each in held),
    )
    assert len(appended) == 1000
    assert all(said)
    assert await seal(probes, group_id)
    group = await show(probes, group_id)
    assert (group.total, group.remaining, group.succeeded) == (1006, 1000, 6)


async def test_ends_by_every_way_at_once(probes: AsyncEngine) -> None:
    """Whatever meets whatever: in the end the counters are the truth."""
    group_id, ids = await sealed(probes, 24, policy=Policy.JOIN)
    ways = ("complete", "fail_permanently", "cancel", "retry", "release", "reap")
    held = [await held_by(probes, job_id) for job_id in ids]
    await asyncio.gather(
        *(
            leave(probes, each, ways[n % len(ways)])
            for n, each in enumerate(held)
            if ways[n % len(ways)] != "reap"
        )
    )
    for each in held[5::6]:
        await expire_lease(probes, each.lease.job_id)
    await asyncio.gather(*(reap_guarded(probes, TIMING) for _ in range(3)))
    group = await show(probes, group_id)
    assert (group.succeeded, group.dead, group.cancelled, group.remaining) == (4, 4, 4, 12)
