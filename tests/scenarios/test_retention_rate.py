"""Retention at its default settings: how many jobs it can move, and what it leaves to others (F37)."""

from time import monotonic
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import autocommit, scalar
from tests.scenarios.many import load
from tests.services import Database
from worker.retention import BATCH, BATCHES, Retention
from worker.settings import WorkerSettings

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.scenario("F37")]

A_DAY = 100_000
OLD = 2 * BATCH * BATCHES
# Half of a walk's time is everybody else's; a busy machine may make that a little less.
MOST_OF_THE_TIME = 0.65


async def test_retention_moves_more_in_an_hour_than_comes_in_a_day(
    probes: AsyncEngine, database: Database, record_property: Any
) -> None:
    """One worker's, by its defaults: 10,000 a step, a step a minute and what it takes.

    With the shortest of a year's dead in front: they are walked over each time.
    """
    await load(database, finished=OLD, pending=0)
    auto, walked = autocommit(probes), Statements("archive_jobs")
    young = "SELECT count(*) FROM chot.jobs WHERE finished_at > now() - interval '30 days'"
    every = WorkerSettings.model_fields["retention_seconds"].default
    after = WorkerSettings.model_fields["archive_after_days"].default
    retention = Retention(archive_after_days=after, archive_keep_days=0)
    with walked:
        began = monotonic()
        await retention.step(auto)
        took = monotonic() - began
    moved = await scalar(probes, "SELECT count(*) FROM chot.archived_jobs")
    an_hour = 3600 / (every + took) * moved
    for name, value in (("step_seconds", took), ("busy", walked.seconds), ("an_hour", an_hour)):
        record_property(name, value)
        print(name, value)  # noqa: T201 - the run's report
    dead = await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE state = 'dead'")
    assert BATCH * BATCHES - dead <= moved <= BATCH * BATCHES, "a step ends, so that a drain may"
    assert an_hour >= A_DAY, "a day's jobs in an hour, and a backlog at twenty times what comes"
    assert walked.times == BATCHES
    assert walked.seconds <= MOST_OF_THE_TIME * took, "half of the time is everybody else's"
    # The next steps go on from there, and end at what is young.
    for _ in range(3):
        await retention.step(auto)
    left = await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE state <> 'dead'")
    assert left == await scalar(probes, f"{young} AND state <> 'dead'")


class Statements:
    """How often statements with this word were sent while the block ran, and what they took."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._began = self.seconds = 0.0
        self.times = 0

    def _before(self, *given: Any) -> None:
        if self._word in given[2]:
            self._began = monotonic()

    def _after(self, *given: Any) -> None:
        if self._word in given[2]:
            self.times += 1
            self.seconds += monotonic() - self._began

    def __enter__(self) -> None:
        event.listen(Engine, "before_cursor_execute", self._before)
        event.listen(Engine, "after_cursor_execute", self._after)

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._before)
        event.remove(Engine, "after_cursor_execute", self._after)
