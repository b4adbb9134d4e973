"""A posting that dies at any moment posts each document once, in numbers without a gap."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.errors import Yield
from shared.types import JobId
from tests.costing_books import Books
from tests.factories import job_row, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import again, attempt, items, numbers, sale, submit
from tests.services import Database
from tests.tcp_proxy import Proxy, open_proxy
from worker.context import JobContext
from worker.handlers import posting, posting_atomic

DOCUMENTS, CHUNK = 7, 2
CHUNKS = 4
COMMIT = b"COMMIT;"
MODES = ["per_document", "atomic"]


class _KilledError(Exception):
    """The worker is gone: nothing that it holds is released."""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _sales(books: Books, mode: str) -> list[int]:
    """Seven sales; where each is for itself the fourth cannot be posted."""
    spoilt = {3: {"total": 7}} if mode == "per_document" else {}
    return [await sale(books, f"S{n}", **(spoilt.get(n) or {})) for n in range(DOCUMENTS)]


def _dying(step: Callable[..., Awaitable[Any]], killer: "_Killer", *, before: bool) -> Any:
    async def dies(*arguments: Any, **named: Any) -> Any:
        if before:
            killer.comes()
        found = await step(*arguments, **named)
        if not before:
            killer.comes()
        return found

    return dies


class _Killer:
    """Kills at the n-th time that a moment comes; counts how often it came."""

    def __init__(self, left: int) -> None:
        self.left, self.came = left, 0

    def comes(self) -> None:
        self.came += 1
        if self.came == self.left + 1:
            raise _KilledError


# Moment → where it is: a module, a step of it, and whether it comes before that step.
MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "selecting": (posting, "list_documents", False),
    "documents locked": (posting, "post_documents", True),
    "documents posted": (posting, "post_documents", False),
    "outcomes noted": (posting, "note_outcomes", False),
    "completing": (posting, "summarize", True),
    "completed": (posting, "summarize", False),
}
ATOMIC_MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "selecting": (posting, "list_documents", False),
    "staging": (posting_atomic, "stage_documents", True),
    "staged": (posting_atomic, "stage_documents", False),
    "publishing": (posting_atomic, "publish", True),
    "published": (posting_atomic, "publish", False),
    "completed": (posting_atomic, "summarize", False),
}


async def _die_and_go_on(books: Books, job_id: JobId) -> None:
    with suppress(_KilledError):
        await attempt(books, job_id)
    if (await job_row(books.app, job_id)).state == "running":
        await again(books, job_id)


async def _whole(books: Books, job_id: JobId, mode: str) -> None:
    """Every document has its outcome, once; and the ledger what belongs to it."""
    good = DOCUMENTS - (mode == "per_document")
    result = await books.result(job_id)
    told = {"POSTED": good} | ({"UNBALANCED": 1} if good < DOCUMENTS else {})
    assert result["outcomes"] == told
    assert await numbers(books) == list(range(1, good + 1)), "no gap, no number twice"
    entries = {row.entry_id for row in await items(books, job_id)} - {None}
    kept = "SELECT array_agg(id) FROM books.gl_entries"
    assert entries == set(await scalar(books.app, kept))
    sums = "SELECT sum(debit) = sum(credit) AND count(*) = :lines FROM books.gl_lines"
    assert await scalar(books.app, sums, lines=3 * good)
    assert await scalar(books.app, "SELECT count(*) FROM books.posting_lines") == 0
    posted = "SELECT count(*) FROM books.documents WHERE status = 'posted'"
    assert await scalar(books.app, posted) == good


@pytest.mark.parametrize(
    ("mode", "moment", "after"),
    [
        *((MODES[0], moment, n) for moment in list(MOMENTS)[1:4] for n in range(CHUNKS)),
        *((MODES[0], moment, 0) for moment in ("selecting", "completing", "completed")),
        *((MODES[1], moment, n) for moment in ("staging", "staged") for n in range(CHUNKS)),
        *(
            (MODES[1], moment, 0)
            for moment in ("selecting", "publishing", "published", "completed")
        ),
    ],
)
async def test_a_kill_at_any_moment_is_made_good(
    books: Books, monkeypatch: pytest.MonkeyPatch, mode: str, moment: str, after: int
) -> None:
    """In the middle of a chunk: what it has written is not there, and is written again."""
    documents = await _sales(books, mode)
    place, name, before = (MOMENTS if mode == MODES[0] else ATOMIC_MOMENTS)[moment]
    killer = _Killer(after)
    step = getattr(place, name)
    monkeypatch.setattr(place, name, _dying(step, killer, before=before))
    job_id = await submit(books, documents=documents, mode=mode, chunk_documents=CHUNK)
    await _die_and_go_on(books, job_id)
    assert killer.came > after, "it was killed"
    await _whole(books, job_id, mode)
    if name in {"post_documents", "stage_documents"}:
        assert killer.came == CHUNKS + 1, "all the work, and one chunk of it twice"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", range(CHUNKS))
async def test_a_kill_between_two_chunks_loses_none(
    books: Books, monkeypatch: pytest.MonkeyPatch, mode: str, after: int
) -> None:
    documents = await _sales(books, mode)
    killer = _Killer(after)
    judged = _Killer(-1)
    for place, name in ((posting, "post_documents"), (posting_atomic, "stage_documents")):
        step = getattr(place, name)
        monkeypatch.setattr(place, name, _dying(step, judged, before=True))
    monkeypatch.setattr(JobContext, "yield_if_asked", lambda _: killer.comes())
    job_id = await submit(books, documents=documents, mode=mode, chunk_documents=CHUNK)
    await _die_and_go_on(books, job_id)
    assert judged.came == CHUNKS, "no chunk twice"
    await _whole(books, job_id, mode)


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    """A proxy in front of this test's database."""
    server = urlsplit(database.app_url)
    async with open_proxy(server.hostname or "127.0.0.1", server.port or 5432) as opened:
        yield opened


@asynccontextmanager
async def _behind(proxy: Proxy, database: Database, books: Books) -> AsyncIterator[Books]:
    """The same books, written to through the proxy."""
    server = urlsplit(database.app_url)
    url = server._replace(netloc=server.netloc.replace(f":{server.port}", f":{proxy.port}"))
    engine = open_engine(url.geturl(), pool_size=3, application_name="behind the proxy")
    yield replace(books, engines=replace(books.engines, app=engine))
    await engine.dispose()


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize(
    "moment",
    [
        *((MODES[0], posting, "note_outcomes", n) for n in (0, CHUNKS - 1)),
        (MODES[0], posting, "summarize", 0),
        (MODES[1], posting_atomic, "stage_documents", 1),
        (MODES[1], posting_atomic, "publish", 0),
    ],
)
async def test_a_commit_whose_answer_is_lost_posts_once(
    books: Books,
    database: Database,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    moment: tuple[str, Any, str, int],
    *,
    arrives: bool,
) -> None:
    """It was committed and goes on, or it was not and is done again: the database knows."""
    mode, place, step, nth = moment
    documents = await _sales(books, mode)
    inner = getattr(place, step)
    cuts: list[asyncio.Task[None]] = []
    came: list[bool] = []

    async def cut() -> None:
        await (proxy.until_held() if arrives else proxy.triggered.wait())
        proxy.reset()
        proxy.heal()

    async def last(*arguments: Any) -> Any:
        found = await inner(*arguments)
        if len(came) == nth:
            (proxy.lose_answer_to if arrives else proxy.lose)(COMMIT)
            cuts.append(asyncio.create_task(cut()))
        came.append(True)
        return found

    monkeypatch.setattr(place, step, last)
    job_id = await submit(books, documents=documents, mode=mode, chunk_documents=CHUNK)
    async with _behind(proxy, database, books) as afar:
        if arrives:
            await attempt(afar, job_id)
        else:
            with pytest.raises((DBAPIError, OSError)):
                await attempt(afar, job_id)
            await again(books, job_id)
    (cutting,) = cuts
    await cutting
    await _whole(books, job_id, mode)


async def test_a_worker_that_drains_hands_the_job_back_after_a_chunk(books: Books) -> None:
    documents = await _sales(books, MODES[0])
    job_id = await submit(books, documents=documents, chunk_documents=CHUNK)
    with pytest.raises(Yield):
        await attempt(books, job_id, draining=True)
    done = [row.done for row in await items(books, job_id)]
    assert done == [True] * CHUNK + [False] * (DOCUMENTS - CHUNK)
    await again(books, job_id)
    await _whole(books, job_id, MODES[0])
