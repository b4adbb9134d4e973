"""A costing that dies at any moment is costed once: at most the chunk that was open is done again."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books, open_books
from tests.factories import expire_lease, scalar
from worker.context import JobContext
from worker.handlers import costing, costing_chunks
from worker.records.cost_results import write_results

ITEMS = "ABCD"
ROWS = (
    "SELECT count(*) FROM books.movement_costs WHERE run_id = "
    "(SELECT max(id) FROM books.cost_runs WHERE status = 'active')"
)


class _KilledError(Exception):
    """The worker is gone: nothing that it holds is released."""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with movements of four items, a chunk each; the last cannot be costed."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    for item in ITEMS:
        await books.move("receipt", 7, item=item, value=1003)
        await books.move("issue", 3, item=item)
    await books.move("issue", 50, item="D")
    return books


class _Killer:
    """Kills at the n-th time that a moment comes; counts the chunks that were written."""

    def __init__(self) -> None:
        self.left = -1
        self.chunks = 0

    def arm(self, after: int) -> None:
        self.left, self.chunks = after, 0

    def comes(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise _KilledError


def _at(moment: str, killer: _Killer, patch: pytest.MonkeyPatch) -> None:

    async def written(*args: Any) -> None:
        await write_results(*args)
        killer.chunks += 1
        if moment == "in the middle of a chunk":
            killer.comes()

    def asked(_: JobContext) -> None:
        if moment == "between two chunks":
            killer.comes()

    async def last(*args: Any) -> Any:
        found = await step(*args)
        killer.comes()
        return found

    patch.setattr(costing_chunks, "write_results", written)
    patch.setattr(JobContext, "yield_if_asked", asked)
    for name in {"before it is sealed": ("seal_run",), "before it speaks": ("activate",)}.get(
        moment, ()
    ):
        step = getattr(costing, name)
        patch.setattr(costing, name, last)


@pytest.mark.scenario("F51")
@pytest.mark.parametrize(
    ("moment", "times"),
    [
        ("between two chunks", len(ITEMS)),
        ("in the middle of a chunk", len(ITEMS)),
        ("before it is sealed", 1),
        ("before it speaks", 1),
    ],
)
async def test_a_kill_at_any_moment_loses_one_chunk_at_most(
    books: Books, monkeypatch: pytest.MonkeyPatch, moment: str, times: int
) -> None:
    """ERPNext #53773: a repost that is interrupted begins again, and never fits its slot."""
    whole = await books.cost(chunk_movements=1)
    rows = await scalar(books.app, ROWS)
    killer = _Killer()
    _at(moment, killer, monkeypatch)
    for after in range(times):
        killer.arm(after)
        job = await books.submit(chunk_movements=1)
        with pytest.raises(_KilledError):
            await books.attempt(job)
        assert await books.costs(), "what spoke before still does"
        await expire_lease(books.app, job)
        await books.attempt(job)
        result = await books.result(job)
        assert (result["checksum"], result["values"]) == (whole["checksum"], whole["values"])
        assert killer.chunks <= len(ITEMS) + 1, "all the work, and one chunk of it twice"
        assert await scalar(books.app, ROWS) == rows


@pytest.mark.scenario("F51")
async def test_fifty_submits_at_once_are_one_job(books: Books) -> None:
    """ERPNext PR 34994: the same voucher was queued thousands of times."""
    jobs = await asyncio.gather(*(books.submit() for _ in range(50)))
    assert len(set(jobs)) == 1
    assert await scalar(books.app, "SELECT count(*) FROM chot.jobs") == 1
    await books.attempt(jobs[0])
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 1
