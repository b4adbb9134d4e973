"""What a chunk reads where statistics say that everything is empty: its own rows, by their keys."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import open_engine
from tests.factories import execute
from tests.ledger_books import open_ledger
from tests.posting_books import attempt, submit
from tests.services import Database
from worker.handlers import posting, posting_atomic

DOCUMENTS, CHUNK = 2_000, 50
TABLES = ("documents", "document_lines", "gl_entries", "gl_lines", "posting_items", "posting_lines")
MANY = """
    WITH made AS (
        INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, brand, store,
               party, total, vat_total, content_hash)
        SELECT 'ACME', 'sale', 'S' || n, '2026-01-05', '2026-01-05', 'RED', 'R1', 'C1', 110, 10, ''
          FROM generate_series(1, :many) n RETURNING id)
    INSERT INTO books.document_lines (document_id, line_no, item, net)
    SELECT id, 1, 'A', 100 FROM made"""
OTHERS = (
    "INSERT INTO books.companies (code, name) VALUES ('SISTER', 'Sister')",
    """INSERT INTO books.documents (company, type, doc_no, doc_date, posting_date, content_hash)
       SELECT 'SISTER', 'sale', 'S' || n, '2026-01-05', '2026-01-05', ''
         FROM generate_series(1, 2000) n""",
    """INSERT INTO books.posting_items (job_id, document_id, seq)
       SELECT gen_random_uuid(), n, 1 FROM generate_series(1, 2000) n""",
)
# Of this transaction alone, so far.
READ = text("""
    SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) AS read
      FROM pg_stat_xact_user_tables WHERE schemaname = 'books' AND relname = ANY (:tables)""")


async def _read(conn: AsyncConnection) -> dict[str, int]:
    return {row.relname: row.read for row in await conn.execute(READ, {"tables": list(TABLES)})}


@pytest.fixture
async def session(database: Database) -> AsyncIterator[AsyncEngine]:
    """One session as role app, which keeps its plans."""
    opened = open_engine(database.app_url, pool_size=1, application_name="one session")
    yield opened
    await opened.dispose()


@pytest.mark.usefixtures("company")
@pytest.mark.parametrize("others", [False, True], ids=["of nothing", "of others"])
@pytest.mark.parametrize("mode", ["per_document", "atomic"])
async def test_a_chunk_reads_what_is_its_own(
    *,
    session: AsyncEngine,
    read_engine: AsyncEngine,
    owner_engine: AsyncEngine,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    others: bool,
) -> None:
    """All plans are made by one session while the ledger is empty; then it grows fortyfold.

    Or by statistics of another company, and of lists of one document each.
    """
    for statement in OTHERS if others else ():
        await execute(owner_engine, statement)
    await execute(owner_engine, "ANALYZE " + ", ".join(f"books.{name}" for name in TABLES))
    books = await open_ledger(session, read_engine)
    await execute(session, MANY, many=DOCUMENTS)
    before: list[dict[str, int]] = []
    chunks: list[dict[str, int]] = []

    async def begun(step: Any, conn: AsyncConnection, *given: Any, **named: Any) -> Any:
        before.append(await _read(conn))
        return await step(conn, *given, **named)

    async def noted(step: Any, conn: AsyncConnection, *given: Any) -> None:
        await step(conn, *given)
        after = await _read(conn)
        chunks.append({name: read - before[-1].get(name, 0) for name, read in after.items()})

    for module, first, last in (
        (posting, "next_documents", "note_outcomes"),
        (posting_atomic, "next_unstaged", "stage_documents"),
    ):
        monkeypatch.setattr(module, first, partial(begun, getattr(module, first)))
        monkeypatch.setattr(module, last, partial(noted, getattr(module, last)))
    job_id = await submit(books, types=["sale"], mode=mode, chunk_documents=CHUNK)
    await attempt(books, job_id)
    assert len(chunks) == DOCUMENTS // CHUNK
    most = {name: max(chunk.get(name, 0) for chunk in chunks[1:]) for name in TABLES}
    assert {name: read for name, read in most.items() if read > 12 * CHUNK} == {}
