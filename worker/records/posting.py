"""Documents into the ledger, some hundreds in the caller's transaction.

Locks in one order for everybody who posts: the documents, the gates of their periods, the series
(which books.append_entries() takes last), and the job's row by the fence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.posting_list import Listed, Outcome
from worker.records.verdicts import POST

# A period that was open a moment ago: nothing has been written yet, look again.
GATE_REFUSALS = frozenset({"CH101", "CH102"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Poster:
    """Whose books are written, and by which claim. Without a brand: of the whole company.

    Only with `costs` documents of type cost are posted.
    """

    job_id: UUID
    fence: int
    company: str
    brand: str | None
    costs: bool = False

    def judging(self, listed: Sequence[Listed]) -> dict[str, Any]:
        """What the statements of worker.records.verdicts are bound to."""
        return {
            "ids": [each.document_id for each in listed],
            "versions": [each.version for each in listed],
            "company": self.company,
            "brand": self.brand,
            "costs": self.costs,
        }


# A session keeps the plans that it has made while tables were small; each chunk would read them
# whole, however large they are by then.
BY_KEYS = text("SELECT set_config('enable_seqscan', 'off', true)")


async def look_up_by_keys(conn: AsyncConnection) -> None:
    """For the rest of the transaction: what it names by its keys is read by them."""
    await conn.execute(BY_KEYS)


LOCK = text("""
    SELECT d.id FROM books.documents d WHERE d.id = ANY (CAST(:ids AS bigint[]))
     ORDER BY d.id FOR NO KEY UPDATE SKIP LOCKED""")


async def lock_documents(
    conn: AsyncConnection, listed: Sequence[Listed]
) -> tuple[list[Listed], list[Listed]]:
    """Hold documents until the transaction ends; those held (or not there), and those busy.

    Waits for nobody: what another transaction holds is busy.
    """
    ids = [each.document_id for each in listed if each.version is not None]
    held = set((await conn.scalars(LOCK, {"ids": ids})).all())
    free: list[Listed] = []
    busy: list[Listed] = []
    for each in listed:
        (free if each.version is None or each.document_id in held else busy).append(each)
    return free, busy


# Days of closed periods are no gates to pass: their documents are told so by their verdict. The
# company is none for an index: by statistics that do not know it yet it would have few documents.
PASS_GATES = text("""
    SELECT books.pass_gates(CAST(:company AS text), ARRAY(
        SELECT DISTINCT d.posting_date
          FROM unnest(CAST(:ids AS bigint[])) AS w (id)
         CROSS JOIN LATERAL (SELECT d.posting_date FROM books.documents d
                              WHERE d.id = w.id AND d.company || '' = :company
                                AND d.status = 'draft'
                             OFFSET 0) d
         CROSS JOIN LATERAL (SELECT FROM books.periods p
                              WHERE p.company = :company AND p.status = 'open'
                                AND d.posting_date BETWEEN p.starts_on AND p.ends_on
                              LIMIT 1) p))""")
APPEND = text("""
    SELECT a.entry_id, a.entry_no FROM books.append_entries(
        CAST(:company AS text), CAST(:job_id AS uuid), CAST(:fence AS bigint), ARRAY(
            SELECT CAST(ROW(e.entry_id, e.document_id, e.version, e.role, 'normal', NULL,
                            e.posting_date, e.brand, e.series, e.rule_version, e.memo)
                        AS books.new_entry)
              FROM unnest(CAST(:entries AS bigint[]), CAST(:documents AS bigint[]),
                          CAST(:versions AS integer[]), CAST(:roles AS text[]),
                          CAST(:days AS date[]), CAST(:brands AS text[]),
                          CAST(:series AS text[]), CAST(:rules AS integer[]),
                          CAST(:memos AS text[]))
                   AS e (entry_id, document_id, version, role, posting_date, brand, series,
                         rule_version, memo))) AS a""")
MARK_POSTED = text("""
    UPDATE books.documents d
       SET status = 'posted', posted_version = d.version, updated_at = clock_timestamp()
     WHERE d.id = ANY (CAST(:ids AS bigint[])) AND d.status = 'draft'""")


async def post_documents(
    conn: AsyncConnection, poster: Poster, listed: Sequence[Listed]
) -> list[Outcome]:
    """Post documents that the transaction has locked; what became of each, in their order.

    A driver's error CH101 or CH102 (GATE_REFUSALS) when a period was closed at this very moment:
    roll back and begin again.
    """
    if not listed:
        return []
    binds = poster.judging(listed)
    await conn.execute(PASS_GATES, {"company": poster.company, "ids": binds["ids"]})
    # A new statement: what waited at the gate would still see the documents as they were.
    verdicts = (await conn.execute(POST, binds)).all()
    good = [each for each in verdicts if not each.codes]
    # All else before the series, which everybody waits for.
    if good:
        marked = await conn.execute(MARK_POSTED, {"ids": [each.document_id for each in good]})
        assert marked.rowcount == len(good), "they are locked, and were drafts"
    entries = [each for each in good if each.entry_id is not None]
    if entries:
        appended = (await conn.execute(APPEND, _entries(poster, entries))).all()
        assert len(appended) == len(entries), "each entry has a number"
    return [
        Outcome(
            seq=listed[each.n - 1].seq,
            success="POSTED",
            codes=each.codes,
            detail=each.detail,
            entry_id=each.entry_id,
        )
        for each in verdicts
    ]


def _entries(poster: Poster, entries: Sequence[Any]) -> dict[str, Any]:
    return {
        "company": poster.company,
        "job_id": poster.job_id,
        "fence": poster.fence,
        "entries": [each.entry_id for each in entries],
        "documents": [each.document_id for each in entries],
        "versions": [each.version for each in entries],
        "roles": ["cost" if each.type == "cost" else "main" for each in entries],
        "days": [each.posting_date for each in entries],
        "brands": [each.brand for each in entries],
        "series": [each.series for each in entries],
        "rules": [each.rule_version for each in entries],
        "memos": [each.memo for each in entries],
    }
