"""Costing by real workers that are killed at random: shared by parts, and the same rows as ever."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sample_company import load_sample
from shared.kinds.registry import load_kinds, mirror_kinds
from tests.costing_books import Books
from tests.costing_crew import rows_of
from tests.factories import autocommit, eventually, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.test_groups import kill_workers
from tests.journeys.test_storm import nothing_active
from worker.context import Engines

OF_COSTING = {"CHOT_QUEUES": "costing", "CHOT_CONCURRENCY": "2"}


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """A database that knows our kinds, and an empty company beside the sample's."""
    assert company
    async with engine.begin() as conn:
        await mirror_kinds(conn, load_kinds(""), default_max_attempts=5)
    return Books(engines=Engines(app=engine, auto=autocommit(engine), read=read_engine))


async def costed(books: Books, **asked: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Submit a costing of the sample company; its result and rows, once nothing is active."""
    job_id = await books.submit(company="SAMPLE", brand=None, **asked)
    await eventually(nothing_active(books.app), seconds=240, every=0.2)
    row = await job_row(books.app, job_id)
    assert row.state == "succeeded"
    result = await books.result(job_id)
    return result, await rows_of(books, result["run_id"])


async def shared_by_killed_workers(
    books: Books, fleet: Fleet, *, movements: int, parts: int, kills: int
) -> None:
    """One job alone first; then parts, whose workers die all the while."""
    await load_sample(books.app, seed=5, movements=movements)
    worker = fleet.worker(**OF_COSTING)
    whole, rows = await costed(books, parts=1)
    worker.stop()
    asked = {"parts": parts, "chunk_movements": max(1, movements // 60)}
    killing = asyncio.create_task(kill_workers(fleet, OF_COSTING, kills=kills, seed=11))
    again, same = await costed(books, **asked)
    await killing
    assert again["checksum"] == whole["checksum"]
    assert same == rows
    ended = await fetch(
        books.app, "SELECT DISTINCT state FROM chot.jobs WHERE kind = 'costing.part'"
    )
    assert [row.state for row in ended] == ["succeeded"]
    groups = await scalar(books.app, "SELECT count(*) FROM chot.groups WHERE self_join")
    assert groups == 1


@pytest.mark.long
async def test_a_costing_by_parts_whose_workers_are_killed_has_the_same_rows(
    books: Books, fleet: Fleet
) -> None:
    """Forty thousand movements, seven parts, eight kills."""
    await shared_by_killed_workers(books, fleet, movements=40_000, parts=7, kills=8)


@pytest.mark.long
async def test_a_small_costing_by_parts_survives_a_killed_worker(
    books: Books, fleet: Fleet
) -> None:
    """The same in a size for every day."""
    await shared_by_killed_workers(books, fleet, movements=3_000, parts=3, kills=2)
