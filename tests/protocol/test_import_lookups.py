"""What a batch of an import reads where statistics know other companies, and nothing of this one."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.factories import execute
from tests.importing import HEAD, Importing
from worker.migrations.importing import MIGRATIONS
from worker.records import bringing, import_movements

LINES, BATCH = 3_000, 50
TABLES = ("stock_movements", "items", "stores", "periods")
OTHERS = (
    "INSERT INTO books.companies (code, name) VALUES ('SISTER', 'Sister')",
    "INSERT INTO books.brands (company, code, name) VALUES ('SISTER', 'RED', 'Red')",
    """INSERT INTO books.stores (company, code, brand, name)
       VALUES ('SISTER', 'R1', 'RED', 'A shop')""",
    """INSERT INTO books.items (company, code, name, base_uom)
       VALUES ('SISTER', 'A', 'a', 'cái')""",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ('SISTER', '2026-01', '2026-01-01', '2026-01-31')""",
    """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
              posting_date, qty_base, value)
       SELECT 'SISTER', 'RED', 'A', 'R1', 'receipt', 'S' || n, 1, '2026-01-05', 1, 1
         FROM generate_series(1, 5000) AS n""",
    "ANALYZE books.stock_movements, books.import_movements",
)
# Of this transaction alone, so far.
READ = text("""
    SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) AS read
      FROM pg_stat_xact_user_tables WHERE schemaname = 'books' AND relname = ANY (:tables)""")


async def test_a_batch_reads_what_is_its_own(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much at the end of the file as at its beginning."""
    for statement in OTHERS:
        await execute(importing.migrating.owner, statement)
    batches: list[dict[str, int]] = []
    end = bringing.end_bringing

    async def ended(conn: AsyncConnection, *given: Any) -> None:
        await end(conn, *given)
        found = await conn.execute(READ, {"tables": list(TABLES)})
        batches.append({row.relname: row.read for row in found})

    monkeypatch.setattr(import_movements, "end_bringing", ended)
    content = f"{HEAD}\n" + "".join(
        f"PN{n // 4},{n % 4 + 1},receipt,2026-01-05,R1,,A,1,5,,\n" for n in range(LINES)
    )
    monkeypatch.setattr(MIGRATIONS[0], "largest_batch", BATCH)
    result = await importing.take(content, batch_size=BATCH, target_ms=20_000)
    assert (result["counts"], len(batches)) == ({"created": LINES}, LINES // BATCH)
    most = {name: max(batch.get(name, 0) for batch in batches) for name in TABLES}
    assert {name: read for name, read in most.items() if read > 12 * BATCH} == {}
