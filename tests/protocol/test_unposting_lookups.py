"""What a chunk of an unposting reads where statistics say that everything is empty: its own rows."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from tests.factories import execute
from tests.ledger_books import open_ledger
from tests.posting_books import post
from tests.protocol.test_posting_lookups import MANY, READ
from tests.services import Database
from tests.unposting_books import attempt, submit
from worker.handlers import posting

DOCUMENTS, CHUNK = 2_000, 50
TABLES = ("documents", "gl_entries", "gl_lines", "posting_items", "stock_movements")
# Each sale has moved goods, and nothing has been costed.
MOVED = """
    INSERT INTO books.stock_movements (company, brand, store, item, kind, posting_date, qty_base, doc_id,
                                       doc_line)
    SELECT 'ACME', 'RED', 'R1', 'A', 'issue', '2026-01-05', 1, 'S' || n, 1
      FROM generate_series(1, :many) n"""


async def _read(conn: AsyncConnection) -> dict[str, int]:
    return {row.relname: row.read for row in await conn.execute(READ, {"tables": list(TABLES)})}


@pytest.fixture
async def session(database: Database) -> AsyncIterator[AsyncEngine]:
    """One session as role app, which keeps its plans."""
    opened = open_engine(database.app_url, pool_size=1, application_name="one session")
    yield opened
    await opened.dispose()


@pytest.mark.usefixtures("company")
async def test_a_chunk_reads_what_is_its_own(
    session: AsyncEngine,
    read_engine: AsyncEngine,
    owner_engine: AsyncEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All plans are made by one session while the ledger is empty; then it is forty chunks."""
    await execute(owner_engine, "ANALYZE " + ", ".join(f"books.{name}" for name in TABLES))
    books = await open_ledger(session, read_engine)
    await attempt(books, await submit(books, types=["sale"], reason="nothing there"))
    await execute(session, MANY, many=DOCUMENTS)
    await execute(session, MOVED, many=DOCUMENTS)
    assert (await post(books, types=["sale"]))["outcomes"] == {"POSTED": DOCUMENTS}
    before: list[dict[str, int]] = []
    chunks: list[dict[str, int]] = []

    async def begun(step: Any, conn: AsyncConnection, *given: Any, **named: Any) -> Any:
        before.append(await _read(conn))
        return await step(conn, *given, **named)

    async def noted(step: Any, conn: AsyncConnection, *given: Any) -> None:
        await step(conn, *given)
        after = await _read(conn)
        chunks.append({name: read - before[-1].get(name, 0) for name, read in after.items()})

    for name, wrap in (("next_documents", begun), ("note_outcomes", noted)):
        monkeypatch.setattr(posting, name, partial(wrap, getattr(posting, name)))
    await attempt(books, await submit(books, types=["sale"], chunk_documents=CHUNK))
    assert len(chunks) == DOCUMENTS // CHUNK
    most = {name: max(chunk.get(name, 0) for chunk in chunks[1:]) for name in TABLES}
    assert {name: read for name, read in most.items() if read > 30 * CHUNK} == {}
