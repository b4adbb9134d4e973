"""Entries taken back (bút toán đảo): what was debited is credited, in one that names the first.

For whoever has locked the documents. An entry that is taken back stays as it is; its document is a
draft again, as the next version. A cost document has no further use: it is void, and another one
may stand for what it held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An entry of a posted document that nothing has taken back."""

    entry_id: int
    document_id: int
    posting_date: date
    brands: Sequence[str | None]


# By the key of the document, and each line by that of its entry: never the whole ledger.
STANDING = text("""
    SELECT e.id AS entry_id, e.document_id, e.posting_date,
           ARRAY(SELECT DISTINCT l.brand FROM books.gl_lines l
                  WHERE l.entry_id = e.id ORDER BY 1) AS brands
      FROM unnest(CAST(:ids AS bigint[])) AS w (id)
     CROSS JOIN LATERAL (SELECT e.id, e.document_id, e.posting_date FROM books.gl_entries e
                          WHERE e.document_id = w.id AND e.kind = 'normal' OFFSET 0) e
     WHERE (SELECT true FROM books.gl_entries r WHERE r.reverses_entry_id = e.id) IS NULL
     ORDER BY e.id""")


async def standing_entries(
    conn: AsyncConnection, document_ids: Sequence[int]
) -> Sequence[Standing]:
    """What these documents have in the ledger now, in the order that it was written."""
    rows = (await conn.execute(STANDING, {"ids": list(document_ids)})).mappings()
    return [Standing(**row) for row in rows]


MIRROR = text("""
    WITH taken AS MATERIALIZED (
        SELECT m.entry_id, m.day, nextval('books.gl_entries_id_seq') AS reversal_id
          FROM unnest(CAST(:entries AS bigint[]), CAST(:days AS date[]))
               WITH ORDINALITY AS m (entry_id, day, n) ORDER BY m.n),
    written AS (
        INSERT INTO books.gl_lines (entry_id, line_no, posting_date, company, brand, account,
                                    debit, credit, qty_base, party, store, item, currency,
                                    fc_amount, memo)
        SELECT t.reversal_id, l.line_no, t.day, l.company, l.brand, l.account, l.credit, l.debit,
               l.qty_base, l.party, l.store, l.item, l.currency, l.fc_amount, l.memo
          FROM taken t
         CROSS JOIN LATERAL (SELECT l.* FROM books.gl_lines l
                              WHERE l.entry_id = t.entry_id OFFSET 0) l)
    SELECT t.entry_id, t.reversal_id, t.day FROM taken t""")
TAKE_BACK = text("""
    SELECT a.entry_id FROM books.append_entries(
        CAST(:company AS text), CAST(:job_id AS uuid), CAST(:fence AS bigint), ARRAY(
            SELECT CAST(ROW(m.reversal_id, e.document_id, e.document_version, e.role, 'reversal',
                            e.id, m.day, e.brand, e.series, e.rule_version,
                            CAST(:memo AS text)) AS books.new_entry)
              FROM unnest(CAST(:entries AS bigint[]), CAST(:reversals AS bigint[]),
                          CAST(:days AS date[])) AS m (entry_id, reversal_id, day)
             CROSS JOIN LATERAL (SELECT e.* FROM books.gl_entries e
                                  WHERE e.id = m.entry_id OFFSET 0) e)) AS a""")
# What was posted is a draft again, as whatever is unposted; a cost document has no further use.
UNPOST = text("""
    UPDATE books.documents d
       SET status = 'draft', version = d.version + 1, updated_at = clock_timestamp()
     WHERE d.id = ANY (CAST(:ids AS bigint[])) AND d.status = 'posted'""")
VOID = text("""
    UPDATE books.documents d SET status = 'void', updated_at = clock_timestamp()
     WHERE d.id = ANY (CAST(:ids AS bigint[])) AND d.status = 'draft' AND d.type = 'cost'""")
RETIRE = text("""
    UPDATE books.cost_documents c SET standing = false
     WHERE c.document_id = ANY (CAST(:ids AS bigint[]))""")


async def take_back(
    conn: AsyncConnection,
    document_ids: Sequence[int],
    entries: Mapping[int, date],
    *,
    company: str,
    job_id: UUID,
    fence: int,
    memo: str,
) -> dict[int, int]:
    """Reverse these entries, each on its day, and take back their documents; the reversals' ids.

    The transaction has locked the documents, `document_ids` are posted or already drafts, and
    `entries` are all that they have in the ledger. Numbers come last, as in every posting.
    """
    ids = list(document_ids)
    if not ids:
        return {}
    for statement in (UNPOST, VOID, RETIRE):
        await conn.execute(statement, {"ids": ids})
    if not entries:
        return {}
    asked = {"entries": list(entries), "days": list(entries.values())}
    rows = (await conn.execute(MIRROR, asked)).all()
    binds: dict[str, Any] = {
        "company": company,
        "job_id": job_id,
        "fence": fence,
        "memo": memo,
        "entries": [row.entry_id for row in rows],
        "reversals": [row.reversal_id for row in rows],
        "days": [row.day for row in rows],
    }
    numbered = (await conn.execute(TAKE_BACK, binds)).all()
    assert len(numbered) == len(entries), "each reversal has a number"
    return {row.entry_id: row.reversal_id for row in rows}
