"""A migration whose worker is killed anywhere: each row is done once, by an increment that tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from tests.factories import autocommit, eventually, expire_lease, job_row, scalar
from tests.migrating import Killed, Migrating
from tests.protocol.frozen import frozen_commits
from tests.services import Database
from tests.tcp_proxy import open_proxy
from worker.attempt import run_attempt
from worker.context import Engines
from worker.handlers import migrating as handler
from worker.lease import HeldLease
from worker.migrations import running
from worker.migrations.task import Applied, Batch
from worker.outcome import Lost
from worker.records.migration_runs import advance

ROWS, BATCH = 600, 100
COMMIT = b"COMMIT;"


class Killer:
    """Kills at the n-th time that it is asked."""

    def __init__(self, after: int) -> None:
        self.left = after

    def comes(self) -> None:
        """Die, or let this one pass."""
        self.left -= 1
        if self.left == 0:
            raise Killed


def killing(moment: str, killer: Killer, patch: pytest.MonkeyPatch) -> None:
    """Die at that moment of a batch."""
    names = {
        "behind the cursor": "advance",
        "behind the tries": "add_batches",
    }
    if moment in names:
        step = getattr(running, names[moment])

        async def then_dies(*args: Any, **named: Any) -> Any:
            found = await step(*args, **named)
            killer.comes()
            return found

        patch.setattr(running, names[moment], then_dies)
    elif moment == "behind the rows":
        applied = running.Batches._applied

        async def dies(self: Any, conn: AsyncConnection, batch: Batch) -> Applied:
            found = await applied(self, conn, batch)
            killer.comes()
            return found

        patch.setattr(running.Batches, "_applied", dies)
    else:
        assert moment == "between two batches"

        def between(_: Any) -> None:
            killer.comes()

        patch.setattr(running.Batches, "between", between)


@pytest.mark.parametrize(
    "moment",
    [
        "behind the rows",
        "behind the cursor",
        "behind the tries",
        "between two batches",
    ],
)
async def test_a_kill_in_each_batch_does_every_row_once(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The first attempt dies in its first batch, the next one in its second, and so on."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    for after in (1, 2, 1, 2):
        with monkeypatch.context() as patch:
            killing(moment, Killer(after), patch)
            await migrating.killed_attempt(job_id)
        run = await migrating.run_row(job_id)
        done = await scalar(migrating.app, "SELECT sum(count) FROM probe.rows")
        assert run.rows_done == done, "the cursor and the data are of one commit"
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: ROWS}
    result = await migrating.result(job_id)
    assert (result["rows_done"], result["counts"]) == (ROWS, {"raised": ROWS})


@pytest.mark.parametrize("step", ["begin_run", "set_bounds", "end_phase", "end_run"])
async def test_a_kill_at_each_boundary_of_the_run_is_gone_on_behind(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before it has begun, before it has its bounds, before the check counts, before its end."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    before = getattr(handler, step)

    async def dies(*args: Any, **named: Any) -> Any:
        await before(*args, **named)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(handler, step, dies)
        await migrating.killed_attempt(job_id)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: ROWS}
    assert (await migrating.result(job_id))["check_before"]["facts"]["sum"] == 0


async def test_kills_while_lines_are_prepared_lose_none_and_double_none(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task's own state is of the same commit as what it has staged."""
    job_id = await migrating.submit("probe.prepared", max_reject_percent=20)
    for after in (1, 2):
        killer = Killer(after)

        async def between(_: Any, killer: Killer = killer) -> None:
            killer.comes()

        with monkeypatch.context() as patch:
            patch.setattr("worker.migrations.preparing.Preparing.between", between)
            (met,) = await asyncio.gather(migrating.killed_attempt(job_id), return_exceptions=True)
        assert met is None
    assert (await migrating.finish(job_id)).state == "succeeded"
    result = await migrating.result(job_id)
    assert (result["rows_done"], result["rows_failed"]) == (50, 10)


@asynccontextmanager
async def through_a_proxy(database: Database) -> AsyncIterator[tuple[Any, AsyncEngine]]:
    """Role app's engine through a proxy."""
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as proxy:
        url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
        engine = open_engine(url.geturl(), pool_size=3, application_name="behind the proxy")
        yield proxy, engine
        await engine.dispose()


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_believed(
    migrating: Migrating, database: Database, *, arrives: bool
) -> None:
    """The batch's COMMIT reaches the server, or does not; the attempt asks, and goes on rightly."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    async with through_a_proxy(database) as (proxy, engine):
        migrating.runner = _with_engine(migrating, engine)
        committed = advance
        watched: list[int] = []

        async def lose_the_third(*args: Any, **named: Any) -> None:
            await committed(*args, **named)
            watched.append(1)
            if len(watched) == 3:
                (proxy.lose_answer_to if arrives else proxy.lose)(COMMIT)

        async def heal() -> None:
            await (proxy.until_held() if arrives else proxy.triggered.wait())
            proxy.reset()
            proxy.heal()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "advance", lose_the_third)
            healing = asyncio.create_task(heal())
            await migrating.attempt(job_id)
            await healing
    migrating.runner = _with_engine(migrating, migrating.app)
    if (await job_row(migrating.app, job_id)).state != "succeeded":
        assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: ROWS}


def _with_engine(migrating: Migrating, engine: AsyncEngine) -> Any:
    engines = Engines(app=engine, auto=autocommit(migrating.app), read=migrating.read)
    return replace(migrating.runner, engines=engines)


async def test_a_worker_that_is_killed_during_commit_has_committed_or_not(
    migrating: Migrating, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The COMMIT is durable and unanswered when the worker dies; the next one goes on behind it."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    engine = open_engine(database.app_url, pool_size=2, application_name="dies")
    moved = advance
    async with AsyncExitStack() as stack:
        frozen: list[Any] = []

        async def freezes(*args: Any, **named: Any) -> None:
            await moved(*args, **named)
            if not frozen:
                frozen.append(await stack.enter_async_context(frozen_commits(database)))

        monkeypatch.setattr(running, "advance", freezes)
        engines = Engines(app=engine, auto=autocommit(migrating.app), read=migrating.read)
        dying = asyncio.create_task(migrating.killed_attempt(job_id, engines))
        await eventually(lambda: is_there(frozen))
        await frozen[0].until_stuck("dies")
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        await frozen[0].thaw()
    await engine.dispose()
    await expire_lease(migrating.owner, job_id)
    assert (await migrating.finish(job_id)).state == "succeeded"
    assert await migrating.counts() == {1: ROWS}


async def is_there(found: list[Any]) -> bool:
    """Whether something has come."""
    return bool(found)


async def test_a_zombie_commits_no_batch_beside_its_heir(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fence is dead: what it has done to the rows is rolled back."""
    await migrating.rows(ROWS)
    job_id = await migrating.submit(batch_size=BATCH)
    moved = advance
    heirs: list[HeldLease | None] = []

    async def taken_over(*args: Any, **named: Any) -> None:
        await moved(*args, **named)
        if not heirs:
            await expire_lease(migrating.owner, job_id)
            heirs.append(await migrating.claim(job_id, "heir"))

    monkeypatch.setattr(running, "advance", taken_over)
    assert isinstance(await migrating.attempt(job_id), Lost)
    assert await migrating.counts() == {0: ROWS}
    assert heirs[0] is not None
    await run_attempt(migrating.runner, heirs[0])
    assert await migrating.counts() == {1: ROWS}
