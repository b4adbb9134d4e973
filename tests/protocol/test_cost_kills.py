"""A posting of costs that dies at any moment, or is overtaken by a costing, ends with the same ledger."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import LeaseLost, PermanentError, RetryableError, Snooze
from shared.jobs.cancel import cancel_job
from shared.types import JobId
from tests.cost_books import (
    accounts,
    attempt_costs,
    bought,
    costs_posted,
    documents,
    stock,
    submit_costs,
    worth,
)
from tests.costing_books import Books
from tests.factories import TIMING, execute, expire_lease, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import close
from worker.cleanup import clean_up_one
from worker.context import JobContext
from worker.handlers import cost_documents
from worker.records import cost_posting
from worker.records.cost_posting import hold_documents, next_pending, post_pending

# Two sales in each of two stores, and the rest of the period: a chunk each.
CHUNKS = 5
STALE_ENTRIES = """
    SELECT count(*) FROM books.gl_entries e JOIN books.documents d ON d.id = e.document_id
     WHERE e.kind = 'normal' AND e.role = 'cost' AND (d.status = 'posted') = EXISTS (
           SELECT FROM books.gl_entries r WHERE r.reverses_entry_id = e.id)"""
GAPLESS = (
    "SELECT count(*) = max(entry_no) AND count(*) = count(DISTINCT entry_no) FROM books.gl_entries"
)
STAGED = (
    "SELECT (SELECT count(*) FROM books.cost_work) + (SELECT count(*) FROM books.cost_work_lines)"
)


class _KilledError(Exception):
    """The worker is gone: nothing that it holds is released."""


class _Killer:
    """Kills at the n-th time that a moment comes; counts how often it came."""

    def __init__(self, left: int) -> None:
        self.left, self.came = left, 0

    def comes(self) -> None:
        self.came += 1
        if self.came == self.left + 1:
            raise _KilledError


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Costs that are posted, and then are no longer right: each document has to be made anew."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await bought(opened, "P1", 10, 10_000)
    await bought(opened, "P2", 10, 13_000, store="R2")
    for n, (store, day) in enumerate((("R1", 8), ("R1", 9), ("R2", 8), ("R2", 9))):
        await opened.move("issue", 1, store=store, day=date(2026, 1, day), doc=f"S{n}")
    await opened.cost(brand=None)
    assert (await costs_posted(opened))["documents"]["posted"] == CHUNKS
    await bought(opened, "P3", 3, 7_001)
    await opened.cost(brand=None)
    return opened


async def _whole(books: Books) -> None:
    assert await stock(books) == await worth(books)
    assert sum((await accounts(books)).values()) == 0
    assert len(await documents(books)) == CHUNKS
    assert await scalar(books.app, STALE_ENTRIES) == 0, "posted, or reversed once"
    assert await scalar(books.app, GAPLESS), "no gap, no number twice"
    assert await scalar(books.app, STAGED) == 0, "nothing is left of the plan"


def _dying(step: Callable[..., Awaitable[Any]], killer: _Killer, *, before: bool) -> Any:
    async def dies(*arguments: Any, **named: Any) -> Any:
        if before:
            killer.comes()
        found = await step(*arguments, **named)
        if not before:
            killer.comes()
        return found

    return dies


MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "planned": (cost_documents, "make_plan", False),
    "documents held": (cost_documents, "hold_documents", False),
    "behind the gate": (cost_documents, "post_pending", True),
    "taken back": (cost_posting, "_make", True),
    "posted": (cost_documents, "post_pending", False),
    "completing": (cost_documents, "_result", True),
}


@pytest.mark.parametrize(
    ("moment", "after"),
    [
        ("planned", 0),
        *((moment, n) for moment in list(MOMENTS)[1:5] for n in (0, 2, CHUNKS - 1)),
        ("completing", 0),
    ],
)
async def test_a_kill_at_any_moment_is_made_good(
    books: Books, monkeypatch: pytest.MonkeyPatch, moment: str, after: int
) -> None:
    """What a chunk had written is not there, and is written once."""
    place, name, before = MOMENTS[moment]
    killer = _Killer(after)
    step = getattr(place, name)
    if name == "_result":
        monkeypatch.setattr(place, name, _comes_first(step, killer))
    else:
        monkeypatch.setattr(place, name, _dying(step, killer, before=before))
    job_id = await submit_costs(books, chunk_lines=1)
    with pytest.raises(_KilledError):
        await attempt_costs(books, job_id)
    await expire_lease(books.app, job_id)
    await attempt_costs(books, job_id)
    result = await books.result(job_id)
    assert result["documents"] == {
        "standing": CHUNKS,
        "posted": CHUNKS,
        "reversed": CHUNKS,
        "unchanged": 0,
    }
    await _whole(books)


def _comes_first(step: Callable[..., Any], killer: _Killer) -> Any:
    def dies(*arguments: Any) -> Any:
        killer.comes()
        return step(*arguments)

    return dies


@pytest.mark.parametrize("after", range(CHUNKS))
async def test_a_kill_between_two_chunks_does_nothing_twice(
    books: Books, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    killer, posted = _Killer(after), _Killer(-1)
    step = post_pending
    monkeypatch.setattr(cost_documents, "post_pending", _dying(step, posted, before=True))
    monkeypatch.setattr(JobContext, "yield_if_asked", lambda _: killer.comes())
    job_id = await submit_costs(books, chunk_lines=1)
    with suppress(_KilledError):
        await attempt_costs(books, job_id)
    await expire_lease(books.app, job_id)
    await attempt_costs(books, job_id)
    assert posted.came == CHUNKS, "no chunk twice"
    await _whole(books)


async def test_a_zombie_posts_nothing(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts meet: the one that lost its lease is refused by the fence."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    step = hold_documents
    first = True

    async def waits(*arguments: Any) -> None:
        nonlocal first
        if first:
            first = False
            reached.set()
            await go_on.wait()
        await step(*arguments)

    monkeypatch.setattr(cost_documents, "hold_documents", waits)
    job_id = await submit_costs(books)
    zombie = asyncio.create_task(attempt_costs(books, job_id))
    await reached.wait()
    await expire_lease(books.app, job_id)
    await attempt_costs(books, job_id)
    go_on.set()
    with pytest.raises((LeaseLost, RetryableError)):
        await zombie
    await _whole(books)


@pytest.mark.parametrize("chunk", range(CHUNKS + 1))
async def test_a_costing_that_becomes_active_meanwhile_is_followed(
    books: Books, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Before any chunk, or before the completion: what ends are the costs that speak then."""
    came = 0
    step = next_pending

    async def overtaken(*arguments: Any) -> Any:
        nonlocal came
        came += 1
        if came == chunk + 1:
            await bought(books, "P4", 2, 9_999, store="R2")
            await books.cost(brand=None)
        return await step(*arguments)

    monkeypatch.setattr(cost_documents, "next_pending", overtaken)
    job_id = await submit_costs(books, chunk_lines=1)
    await attempt_costs(books, job_id)
    assert came > CHUNKS
    await _whole(books)


async def test_costings_that_never_end_are_let_pass(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again later, uncharged."""
    step = next_pending

    async def overtaken(*arguments: Any) -> Any:
        await books.cost(brand=None)
        return await step(*arguments)

    monkeypatch.setattr(cost_documents, "next_pending", overtaken)
    job_id = await submit_costs(books)
    with pytest.raises(Snooze):
        await attempt_costs(books, job_id)
    monkeypatch.setattr(cost_documents, "next_pending", step)
    await expire_lease(books.app, job_id)
    await attempt_costs(books, job_id)
    await _whole(books)


async def test_an_activation_waits_for_the_chunk_that_is_open(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is behind the gate: the chunk's costs are those that speak until it has committed."""
    step = post_pending
    waiting = """
        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
           AND mode = 'ExclusiveLock' AND database = (
               SELECT oid FROM pg_database WHERE datname = current_database())"""
    costing: asyncio.Task[Any] | None = None

    async def posts(*arguments: Any) -> None:
        nonlocal costing
        if costing is None:
            costing = asyncio.create_task(books.cost(brand=None))
            while not await scalar(books.app, waiting):
                assert not costing.done(), "an activation passed the gate that a chunk holds"
                await asyncio.sleep(0.01)
        await step(*arguments)

    monkeypatch.setattr(cost_documents, "post_pending", posts)
    job_id = await submit_costs(books, chunk_lines=1)
    await attempt_costs(books, job_id)
    assert costing is not None
    await costing
    await _whole(books)


async def test_a_period_that_closes_between_two_chunks_takes_no_more(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was posted before stays, balanced; nothing is written to a closed period."""
    came = 0
    step = next_pending

    async def closed(*arguments: Any) -> Any:
        nonlocal came
        came += 1
        if came == 3:
            await close(books)
        return await step(*arguments)

    monkeypatch.setattr(cost_documents, "next_pending", closed)
    job_id = await submit_costs(books, chunk_lines=1)
    with pytest.raises(PermanentError, match="PERIOD_CLOSED"):
        await attempt_costs(books, job_id)
    assert await scalar(books.app, STALE_ENTRIES) == 0
    assert await scalar(books.app, GAPLESS)
    assert sum((await accounts(books)).values()) == 0


async def test_what_a_dead_job_has_staged_is_removed(books: Books) -> None:
    """Its cleanup leaves what is posted, and the next job goes on from there."""
    job_id = await submit_costs(books, chunk_lines=1)
    with pytest.MonkeyPatch.context() as patch:
        killer = _Killer(2)
        patch.setattr(
            cost_documents,
            "post_pending",
            _dying(post_pending, killer, before=False),
        )
        with pytest.raises(_KilledError):
            await attempt_costs(books, job_id)
    await _cancelled(books, job_id)
    assert await scalar(books.app, STAGED) == 0
    assert (await costs_posted(books))["documents"]["posted"] == CHUNKS - 2
    await _whole(books)


async def _cancelled(books: Books, job_id: JobId) -> None:
    await execute(
        books.app,
        """UPDATE chot.jobs SET state = 'pending', lease_token = NULL, lease_expires_at = NULL,
                  worker_id = NULL WHERE id = :id""",
        id=job_id,
    )
    async with books.app.begin() as conn:
        assert await cancel_job(conn, job_id)
    await clean_up_one(books.app, {each.kind: each for each in cost_documents.HANDLERS}, TIMING)
